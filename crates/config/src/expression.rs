//! Small expressions, in the language of the templates: conditions, computed values, rules.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};
use package::diagnostic::Place;
use serde_json::Value as Json;

use crate::detect::Detector;
use crate::kind::{bytes_of, seconds_of};

/// Steps that an expression or template may take: more are a loop that somebody forgot to end.
const FUEL: u64 = 20_000_000;
/// Files that values come from are not larger than this.
const FILE_MAX_BYTES: u64 = 1 << 20;
/// Names that belong to the language or to this program.
const FUNCTIONS: [&str; 10] = [
    "range",
    "dict",
    "namespace",
    "debug",
    "file",
    "exists",
    "is_private",
    "detector",
    "loop",
    "self",
];

/// The function that tells what somebody wrote for a key, before that is a value.
const GIVEN: &str = "given";

/// An expression, and where it was written.
#[derive(Debug, Clone)]
pub struct Expression {
    /// Its text.
    pub text: String,
    /// The values that it uses.
    pub names: BTreeSet<String>,
    /// Where it stands.
    pub declared: Declared,
}

/// Where something was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The file.
    pub file: Utf8PathBuf,
    /// The place in it.
    pub place: Option<Place>,
}

impl Expression {
    /// Reads an expression.
    pub(crate) fn parse(text: &str, declared: Declared) -> Result<Self, String> {
        let environment = environment(Utf8Path::new("."));
        let compiled = environment.compile_expression(text).map_err(|error| message_of(&error))?;
        let mut names = free_names(compiled.undeclared_variables(false));
        // Files are made of values, so this is no function for templates.
        names.remove(GIVEN);
        Ok(Self { text: text.to_owned(), names, declared })
    }

    /// Its value, where `values` has those that it uses.
    pub(crate) fn evaluate(&self, engine: &Engine, values: &Value) -> Result<Value, Error> {
        engine.environment.compile_expression(&self.text)?.eval(values.clone())
    }
}

/// The names in a template or expression that are values.
pub(crate) fn free_names(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    names.into_iter().filter(|name| !FUNCTIONS.contains(&name.as_str())).collect()
}

/// What evaluates expressions and renders templates.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) environment: Environment<'static>,
}

impl Engine {
    /// Paths that values name start at `folder`.
    pub(crate) fn new(folder: &Utf8Path) -> Self {
        Self { environment: environment(folder) }
    }

    /// The same; `given` has the words that somebody wrote for keys that are no secrets.
    pub(crate) fn with_given(folder: &Utf8Path, given: BTreeMap<String, String>) -> Self {
        let mut engine = Self::new(folder);
        let function = move |name: String| given.get(&name).cloned();
        engine.environment.add_function(GIVEN, function);
        engine
    }
}

/// Why an expression or template has no result, in one line.
pub(crate) fn message_of(error: &Error) -> String {
    match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    }
}

fn environment(folder: &Utf8Path) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.add_filter("seconds", |text: String| {
        let seconds =
            seconds_of(&text).ok_or_else(|| failed(format!("`{text}` is not a time span")))?;
        // Most programs want whole numbers, and take no `30.0` for one.
        let is_whole = seconds.fract() == 0.0;
        #[expect(clippy::cast_possible_truncation, reason = "no time span has that many seconds")]
        let value = if is_whole { Value::from(seconds as i64) } else { Value::from(seconds) };
        Ok::<_, Error>(value)
    });
    environment.add_filter("bytes", |text: String| {
        bytes_of(&text).ok_or_else(|| failed(format!("`{text}` is not a size")))
    });
    environment.add_filter("without_port", |text: String| split_port(&text).0.to_owned());
    environment.add_filter("port", |text: String| split_port(&text).1);
    environment.add_filter("intersect", |one: Serde<Vec<Json>>, other: Serde<Vec<Json>>| {
        let other: HashSet<Json> = other.0.into_iter().collect();
        let both: Vec<Json> = one.0.into_iter().filter(|item| other.contains(item)).collect();
        Value::from(Serde(both))
    });
    environment.add_filter("merge", |one: Serde<Json>, other: Serde<Json>| {
        Value::from(Serde(merge(one.0, other.0)))
    });
    let folder: Arc<Utf8Path> = folder.into();
    let at = folder.clone();
    environment.add_function("file", move |path: String| read(&at, &path));
    let at = folder.clone();
    environment.add_function("exists", move |path: String| at.join(path).is_file());
    environment.add_function("is_private", move |path: String| is_private(&folder.join(path)));
    environment.add_function("detector", |kind: String, spec: String| {
        let script = || spec.parse::<Detector>()?.script(kind.parse()?);
        script().map_err(|error| failed(format!("{error}: {}", error.hint())))
    });
    environment
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// An address, and the port behind it. One with colons of its own has brackets if there is a port.
fn split_port(text: &str) -> (&str, Option<u16>) {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    (host, port.and_then(|port| port.parse().ok()))
}

/// Both together: keys of maps and items of lists; otherwise the first counts.
fn merge(one: Json, other: Json) -> Json {
    match (one, other) {
        (Json::Object(mut one), Json::Object(other)) => {
            for (key, value) in other {
                let merged = match one.remove(&key) {
                    Some(first) => merge(first, value),
                    None => value,
                };
                one.insert(key, merged);
            }
            Json::Object(one)
        }
        (Json::Array(mut one), Json::Array(other)) => {
            one.extend(other);
            Json::Array(one)
        }
        (one, _) => one,
    }
}

fn read(folder: &Utf8Path, path: &str) -> Result<String, Error> {
    let problem = |what: String| failed(format!("cannot read the file `{path}`: {what}"));
    let path = &folder.join(path);
    let metadata = fs_err::metadata(path).map_err(|error| problem(reason(&error)))?;
    if !metadata.is_file() {
        return Err(problem("it is no file".to_owned()));
    }
    if metadata.len() > FILE_MAX_BYTES {
        return Err(problem(format!("it is larger than {FILE_MAX_BYTES} bytes")));
    }
    let bytes = fs_err::read(path).map_err(|error| problem(reason(&error)))?;
    String::from_utf8(bytes).map_err(|_| problem("it is not UTF-8".to_owned()))
}

/// What went wrong, without the path, which the message has already.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        kind => kind.to_string(),
    }
}

fn is_private(path: &Utf8Path) -> bool {
    crate::platform::is_private(path)
}

/// A result as plain JSON; `None` if it is none, such as a function.
pub(crate) fn to_json(value: &Value) -> Option<Json> {
    if value.is_undefined() {
        return None;
    }
    serde_json::to_value(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_told_from_every_kind_of_address() {
        let environment = environment(Utf8Path::new("."));
        let text = "{{ host | without_port }} {{ host | port or 53 }}";
        for (host, expected) in [
            ("192.0.2.1", "192.0.2.1 53"),
            ("192.0.2.1:5353", "192.0.2.1 5353"),
            ("2001:db8::1", "2001:db8::1 53"),
            ("[2001:db8::1]", "2001:db8::1 53"),
            ("[2001:db8::1]:5353", "2001:db8::1 5353"),
            ("dns.example:5353", "dns.example 5353"),
        ] {
            let context = minijinja::context! { host };
            assert_eq!(environment.render_str(text, context).unwrap(), expected);
        }
    }

    #[test]
    fn a_built_in_detection_is_a_script_or_a_mistake_with_advice() {
        let environment = environment(Utf8Path::new("."));
        let render = |text: &str| environment.render_str(text, ());
        let script = render("{{ detector('ip', 'interface eth0') }}").unwrap();
        assert!(script.starts_with("#!/bin/sh\n"), "{script}");
        let error = render("{{ detector('ip4', 'interface eth0') }}").unwrap_err();
        assert_eq!(
            message_of(&error),
            "`ip4` is nothing that a host detects: there are `ip`, `public-ip`, `ip6` and `fault-domain`"
        );
    }
}
