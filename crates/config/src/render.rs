//! From values to the files of the configuration packages.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Value};
use package::bundle::late_placeholder;
use package::diagnostic::{Diagnostic, Place, Severity};
use package::id::UserName;
use package::path::PackagePath;
use serde_json::Value as Json;

use crate::definition::{Definition, Scope, Template};
use crate::expression::{Engine, message_of};
use crate::resolve::{Resolution, State};

/// A file of a configuration package.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Its text.
    pub content: String,
    /// Its permission bits.
    pub mode: u32,
    /// Who may see it.
    pub audience: Audience,
}

/// Who may see a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// Everybody.
    Everybody,
    /// The user of a service, or root: it has a secret in it.
    Owner(Option<UserName>),
    /// Everybody, once a host has put its own values in.
    Late,
}

impl std::fmt::Debug for Rendered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The content may be a secret.
        f.debug_struct("Rendered").field("audience", &self.audience).finish_non_exhaustive()
    }
}

/// The language of templates: that of expressions, with tags that leave no blank lines.
pub(crate) fn template_engine(engine: &Engine) -> Environment<'static> {
    let mut environment = engine.environment.clone();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    environment.set_syntax(syntax.expect("the delimiters are those of the language"));
    environment
}

impl Definition {
    /// Makes every file, or says what is wrong with the templates. Only for a resolution that is
    /// complete.
    pub fn render(
        &self,
        resolution: &Resolution,
    ) -> Result<BTreeMap<PackagePath, Rendered>, Vec<Diagnostic>> {
        let environment = template_engine(&resolution.engine);
        let mut files = BTreeMap::new();
        let mut diagnostics = Vec::new();
        for (path, template) in &self.templates {
            match file(&environment, resolution, path.as_str(), template) {
                Ok(Some(rendered)) => {
                    files.insert(path.clone(), rendered);
                }
                Ok(None) => {}
                Err(found) => diagnostics.push(*found),
            }
        }
        if diagnostics.is_empty() { Ok(files) } else { Err(diagnostics) }
    }
}

/// One file; `None` if it is not made, as things are.
pub(crate) fn file(
    environment: &Environment<'_>,
    resolution: &Resolution,
    path: &str,
    template: &Template,
) -> Result<Option<Rendered>, Box<Diagnostic>> {
    let failed = |message: String, place: Option<Place>| {
        let file = template.declared.file.clone();
        let help = Some("this is a mistake in the distribution, not in your file".to_owned());
        let severity = Severity::Error;
        Box::new(Diagnostic { severity, file, place, keys: Vec::new(), message, help })
    };
    let none = BTreeSet::new();
    let asked = template.when.as_ref().map_or(&none, |when| &when.names);
    let mut values: BTreeMap<&str, Value> = BTreeMap::new();
    let (mut secret, mut touches_secret, mut late) = (false, false, Vec::new());
    for name in template.names.union(asked) {
        if let Some(fact) = resolution.facts.get(name.as_str()) {
            values.insert(name, Value::from(Serde(fact)));
            continue;
        }
        match resolution.states.get(name) {
            Some(State::Known(known)) => {
                touches_secret |= known.secret;
                secret |= known.secret && template.names.contains(name);
                values.insert(name, Value::from(Serde(&known.value)));
            }
            Some(State::Late) => {
                if asked.contains(name) || looks_at(environment, &template.source, name) {
                    let message = format!(
                        "`{name}` is late: this file can hold it as `{{{{ {name} }}}}` only"
                    );
                    return Err(failed(message, None));
                }
                values.insert(name, Value::from(late_placeholder(name)));
                late.push(name);
            }
            _ => {}
        }
    }
    let known: BTreeSet<&str> = values.keys().copied().collect();
    let context = Value::from(values);
    match is_made(resolution, template, &known, &context) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(_) if touches_secret => return Err(failed(hidden(path), None)),
        Err(message) => return Err(failed(message, None)),
    }
    let rendered = environment
        .template_from_named_str(path, &template.source)
        .and_then(|compiled| compiled.render(context));
    let text = rendered.map_err(|error| {
        let range = error.range();
        let place = range.map(|range| Place::of(&template.source, range.start, range.end));
        let message = if touches_secret {
            hidden(path)
        } else {
            format!("cannot make `{path}`: {}", message_of(&error))
        };
        failed(message, place)
    })?;
    late.retain(|name| text.contains(&late_placeholder(name)));
    let audience = match (secret, late.is_empty()) {
        (false, true) => Audience::Everybody,
        (true, true) => Audience::Owner(template.user.clone()),
        (false, false) => Audience::Late,
        (true, false) => {
            return Err(failed("this file has a secret and a late value in it".to_owned(), None));
        }
    };
    let mode = if secret { template.mode & 0o500 | 0o400 } else { template.mode };
    Ok(Some(Rendered { content: text, mode, audience }))
}

/// What is said where the reason may quote a secret.
fn hidden(path: &str) -> String {
    format!("cannot make `{path}`: its template fails with a secret")
}

/// Whether a file is made, as things are; of what does not exist nothing can be said.
fn is_made(
    resolution: &Resolution,
    template: &Template,
    known: &BTreeSet<&str>,
    context: &Value,
) -> Result<bool, String> {
    let Some(when) = &template.when else { return Ok(true) };
    match when.evaluate(&resolution.engine, context) {
        Ok(value) => Ok(value.is_true()),
        Err(_) if when.names.iter().any(|name| !known.contains(name.as_str())) => Ok(false),
        Err(error) => Err(format!("`{}`: {}", when.text, message_of(&error))),
    }
}

/// Whether a template does anything else with a value than to write it down.
fn looks_at(environment: &Environment<'_>, source: &str, name: &str) -> bool {
    let written = format!(r"\{{\{{[-+]?\s*{name}\s*[-+]?\}}\}}");
    let written = regex::Regex::new(&written).expect("a name has only letters, digits and `_`");
    let rest = written.replace_all(source, "");
    match environment.template_from_str(&rest) {
        Ok(template) => template.undeclared_variables(false).contains(name),
        Err(_) => true,
    }
}

impl Resolution {
    /// The values that hosts get, without secrets.
    pub fn cluster_values(&self) -> BTreeMap<&str, &Json> {
        self.values(false)
    }

    /// The secret values that hosts get.
    pub fn secret_values(&self) -> BTreeMap<&str, &Json> {
        self.values(true)
    }

    fn values(&self, secret: bool) -> BTreeMap<&str, &Json> {
        let known = self.states.iter().filter_map(|(name, state)| match state {
            State::Known(known) => Some((name.as_str(), known)),
            _ => None,
        });
        known
            .filter(|(_, known)| known.secret == secret && known.scope == Scope::Cluster)
            .map(|(name, known)| (name, &known.value))
            .collect()
    }

    /// The names of the values that only hosts know.
    pub fn late_values(&self) -> impl Iterator<Item = &str> {
        let late = self.states.iter().filter(|(_, state)| matches!(state, State::Late));
        late.map(|(name, _)| name.as_str())
    }
}
