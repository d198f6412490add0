//! Why a value is what it is: where it came from, what it was made of, how else it could be set, and
//! what is wrong with it. Secrets are masked here already.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8PathBuf;
use minijinja::Value;
use minijinja::value::Serde;
use package::diagnostic::{Diagnostic, Place, nearest};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::definition::{Default, Definition, How, Parameter, Scope, Setter};
use crate::expression::{Declared, Expression};
use crate::kind::MASK;
use crate::resolve::{FACTS, Origin, Resolution, State};

/// Everything about one name.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// Its value and where that came from.
    #[serde(flatten)]
    pub cause: Cause,
    /// What is declared of it; several have conditions of which one holds.
    pub ways: Vec<Way>,
    /// What is wrong with it, with what it is made of, or with the file as a whole.
    pub diagnostics: Vec<Diagnostic>,
}

/// A value, where it came from, and what it was made of.
#[derive(Debug, Clone, Serialize)]
pub struct Cause {
    /// The name.
    pub name: String,
    /// Whether it has a value, and if not, why.
    pub status: Status,
    /// The value; of a secret, that there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
    /// Where it came from, where that can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// What it was made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<Cause>,
    /// Whether what it was made of stands elsewhere in the same tree.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// Whether a name has a value, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It has.
    Known,
    /// Each host gets a value of its own.
    Late,
    /// Nothing uses it, as things are.
    Absent,
    /// It must be set, and is not.
    Unset,
    /// It, or something that it is made of, is wrong.
    Wrong,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum Source {
    /// Somebody set it here.
    File {
        /// The file.
        file: Utf8PathBuf,
        /// The place in it.
        #[serde(flatten)]
        place: Place,
    },
    /// It is what it is if nobody sets it.
    Default,
    /// It follows from others, and nobody set it.
    DefaultFrom {
        /// How.
        expression: String,
    },
    /// It always follows from others.
    Computed {
        /// How.
        expression: String,
    },
    /// The distribution is like that.
    Distribution,
}

/// One way for a name to get its value, as it is declared.
#[derive(Debug, Clone, Serialize)]
pub struct Way {
    /// When this is the way; `None`: always.
    pub condition: Option<Condition>,
    /// What the value may be, in words, where that is declared.
    pub expected: Option<String>,
    /// What it is for.
    pub description: String,
    /// Where it is declared, as `FILE:LINE:COLUMN`.
    pub declared: String,
    /// How it is calculated, if nobody can set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed: Option<String>,
    /// What else is declared, if somebody can set it.
    #[serde(flatten)]
    pub settable: Option<Settable>,
}

/// What is declared of a value that somebody can set.
#[derive(Debug, Clone, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is declared for itself")]
pub struct Settable {
    /// Whether it must be set.
    pub required: bool,
    /// What it is if nobody sets it.
    pub default: Option<Json>,
    /// What its default is calculated from.
    pub default_from: Option<String>,
    /// A value that somebody could set.
    pub example: Option<Json>,
    /// The version of the distribution that it came with.
    pub since: Option<String>,
    /// Whether nobody may see it.
    pub secret: bool,
    /// Whether it can never change once a cluster is installed.
    pub immutable: bool,
    /// Whether services restart when it changes.
    pub restart: bool,
    /// Whether it may become known only on a host.
    pub late: bool,
    /// Whether hosts get it; if not, only who installs needs it.
    pub for_hosts: bool,
}

/// When something exists.
#[derive(Debug, Clone, Serialize)]
pub struct Condition {
    /// What must hold.
    pub expression: String,
    /// Whether it does; `None` where that cannot be said.
    pub holds: Option<bool>,
    /// What it looks at.
    pub uses: Vec<Cause>,
}

/// Nobody knows a value of this name.
#[derive(Debug, thiserror::Error)]
#[error("no parameter is called `{}`", name.escape_debug())]
pub struct UnknownName {
    name: String,
    /// The name that was most likely meant.
    pub nearest: Option<String>,
}

impl Cause {
    /// The name with its value, as it can stand in a file; empty without a value.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        if let Some(value) = &self.value {
            crate::yaml::entry(&self.name, value, 0, &mut text);
        }
        text
    }
}

impl Definition {
    /// Every name that has a value, or gets one on each host, without what it is made of.
    pub fn values(&self, resolution: &Resolution) -> Vec<Cause> {
        let all = self.setters.keys().map(|name| self.leaf(resolution, name).0);
        all.filter(|cause| matches!(cause.status, Status::Known | Status::Late)).collect()
    }

    /// Says why `name` has the value that it has in `resolution`, which may have mistakes.
    pub fn explain(&self, resolution: &Resolution, name: &str) -> Result<Explanation, UnknownName> {
        let known = || self.setters.keys().map(String::as_str).chain(FACTS);
        if !known().any(|one| one == name) {
            let nearest = nearest(name, known()).map(str::to_owned);
            return Err(UnknownName { name: name.to_owned(), nearest });
        }
        let mut seen = BTreeSet::new();
        let cause = self.cause(resolution, name, &mut seen);
        let setters = self.setters.get(name).into_iter().flatten();
        let ways = setters.map(|setter| self.way(resolution, setter)).collect();
        let is_wrong = cause.status == Status::Wrong;
        let diagnostics = resolution.diagnostics.iter().filter(|found| {
            let about = |key: &String| key == name || (is_wrong && seen.contains(key));
            found.keys.is_empty() || found.keys.iter().any(about)
        });
        Ok(Explanation { cause, ways, diagnostics: diagnostics.cloned().collect() })
    }

    /// Follows a value to what somebody set.
    fn cause(&self, resolution: &Resolution, name: &str, seen: &mut BTreeSet<String>) -> Cause {
        let repeated = !seen.insert(name.to_owned());
        let (mut cause, names) = self.leaf(resolution, name);
        if repeated {
            cause.repeated = !names.is_empty();
        } else {
            cause.uses = names.iter().map(|name| self.cause(resolution, name, seen)).collect();
        }
        cause
    }

    /// A value, where it came from, and the names of what it was made of.
    fn leaf(&self, resolution: &Resolution, name: &str) -> (Cause, BTreeSet<String>) {
        let status = |status| Cause {
            name: name.to_owned(),
            status,
            value: None,
            source: None,
            uses: Vec::new(),
            repeated: false,
        };
        let known = |value, source| {
            let (value, source) = (Some(value), Some(source));
            Cause { value, source, ..status(Status::Known) }
        };
        if let Some(fact) = resolution.facts.get(name) {
            return (known(fact.clone(), Source::Distribution), BTreeSet::new());
        }
        let cause = match resolution.states.get(name) {
            Some(State::Known(resolved)) => {
                let value = if resolved.secret { json!(MASK) } else { resolved.value.clone() };
                let (source, names) = source(&resolved.origin);
                return (known(value, source), names);
            }
            Some(State::Wrong) => return self.wrong(resolution, name, status(Status::Wrong)),
            Some(State::Late) => status(Status::Late),
            Some(State::Unset) => status(Status::Unset),
            Some(State::Absent) | None => status(Status::Absent),
        };
        (cause, BTreeSet::new())
    }

    /// A value that is wrong itself is made of nothing; otherwise, it would be made of these.
    fn wrong(
        &self,
        resolution: &Resolution,
        name: &str,
        cause: Cause,
    ) -> (Cause, BTreeSet<String>) {
        let is_own = |found: &Diagnostic| found.keys.iter().any(|key| key == name);
        let is_own = resolution.diagnostics.iter().any(is_own);
        let expression = match self.active(resolution, name).map(|setter| &setter.how) {
            Some(How::Computed(computed)) => {
                let expression = computed.value.text.clone();
                Some((Source::Computed { expression }, &computed.value.names))
            }
            Some(How::Parameter(parameter)) => match &parameter.default {
                Default::From(from) if !is_own => {
                    let expression = from.text.clone();
                    Some((Source::DefaultFrom { expression }, &from.names))
                }
                _ => None,
            },
            None => None,
        };
        match expression {
            Some((source, names)) => (Cause { source: Some(source), ..cause }, names.clone()),
            None => (cause, BTreeSet::new()),
        }
    }

    fn way(&self, resolution: &Resolution, setter: &Setter) -> Way {
        let condition = setter.when.as_ref().map(|when| Condition {
            expression: when.text.clone(),
            holds: resolution.holds(when),
            uses: when.names.iter().map(|name| self.leaf(resolution, name).0).collect(),
        });
        let declared = place_of(&setter.declared);
        match &setter.how {
            How::Computed(computed) => Way {
                condition,
                expected: computed.kind.as_ref().map(crate::kind::Kind::describe),
                description: computed.description.clone(),
                declared,
                computed: Some(computed.value.text.clone()),
                settable: None,
            },
            How::Parameter(parameter) => Way {
                condition,
                expected: Some(parameter.kind.describe()),
                description: parameter.description.clone(),
                declared,
                computed: None,
                settable: Some(settable(parameter)),
            },
        }
    }

    /// The one way of a name whose condition holds.
    pub(crate) fn active(&self, resolution: &Resolution, name: &str) -> Option<&Setter> {
        let setters = self.setters.get(name)?;
        let holds = |setter: &&Setter| match &setter.when {
            None => true,
            Some(when) => resolution.holds(when) == Some(true),
        };
        setters.iter().find(holds)
    }
}

impl Resolution {
    /// Whether a condition holds, where that can be said.
    pub(crate) fn holds(&self, when: &Expression) -> Option<bool> {
        let mut values: BTreeMap<&str, &Json> = BTreeMap::new();
        for name in &when.names {
            match (self.facts.get(name.as_str()), self.states.get(name)) {
                (Some(fact), _) => values.insert(name, fact),
                (None, Some(State::Known(known))) => values.insert(name, &known.value),
                (None, Some(State::Absent)) => None,
                _ => return None,
            };
        }
        match when.evaluate(&self.engine, &Value::from(Serde(&values))) {
            Ok(value) => Some(value.is_true()),
            // What does not exist cannot be as the condition wants it.
            Err(_) => Some(false),
        }
    }
}

fn source(origin: &Origin) -> (Source, BTreeSet<String>) {
    match origin.clone() {
        Origin::File { file, place } => (Source::File { file, place }, BTreeSet::new()),
        Origin::Default => (Source::Default, BTreeSet::new()),
        Origin::DefaultFrom { expression, names } => (Source::DefaultFrom { expression }, names),
        Origin::Computed { expression, names } => (Source::Computed { expression }, names),
    }
}

fn settable(parameter: &Parameter) -> Settable {
    let (required, default, default_from) = match &parameter.default {
        Default::Required => (true, None, None),
        Default::Value(value) => (false, Some(value.clone()), None),
        Default::From(from) => (false, None, Some(from.text.clone())),
    };
    Settable {
        required,
        default,
        default_from,
        example: parameter.example.clone(),
        since: parameter.since.clone(),
        secret: parameter.secret,
        immutable: parameter.immutable,
        restart: parameter.restart,
        late: parameter.late,
        for_hosts: parameter.scope == Scope::Cluster,
    }
}

fn place_of(declared: &Declared) -> String {
    match &declared.place {
        Some(place) => format!("{}:{}:{}", declared.file, place.line, place.column),
        None => declared.file.to_string(),
    }
}
