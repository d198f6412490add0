//! From what somebody wrote to a value for every name: conditions decide which names exist, defaults
//! fill in, rules check. Whatever depends on a wrong value stays silent: one mistake, one message.

mod given;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use indexmap::IndexMap;
use minijinja::value::Serde;
use minijinja::{ErrorKind, Value};
use package::Sha256;
use package::diagnostic::{Diagnostic, Place, Severity};
use package::distribution::Distribution;
use serde_json::{Value as Json, json};

use crate::definition::{Computed, Default, Definition, How, Parameter, Scope, Setter};
use crate::expression::{Declared, Engine, Expression, message_of, to_json};
use crate::kind::Kind;
use given::GivenFile;
pub(crate) use given::LATE;

/// Values that are known without anybody setting them.
pub(crate) const FACTS: [&str; 2] = ["distribution", "roles"];

/// What somebody wrote.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// What the file is called in messages.
    pub file: &'a Utf8Path,
    /// Its text.
    pub text: &'a str,
    /// Where paths in it start.
    pub folder: &'a Utf8Path,
}

/// Every name with its value, or what is wrong.
#[derive(Debug)]
pub struct Resolution {
    /// Every name, in the order of declaration.
    pub states: IndexMap<String, State>,
    /// Everything that is wrong or worth a look.
    pub diagnostics: Vec<Diagnostic>,
    /// Names that must be set and are not.
    pub unset: BTreeSet<String>,
    /// The digest of what somebody wrote.
    pub file: Sha256,
    pub(crate) engine: Engine,
    pub(crate) facts: BTreeMap<&'static str, Json>,
}

/// What is known of a name.
#[derive(Debug, Clone)]
pub enum State {
    /// It has a value.
    Known(Resolved),
    /// Each host gets a value of its own.
    Late,
    /// Nothing uses it, as things are.
    Absent,
    /// It must be set.
    Unset,
    /// Its value, or one that it depends on, is wrong.
    Wrong,
}

/// A value and where it came from.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The value.
    pub value: Json,
    /// Where it came from.
    pub origin: Origin,
    /// Whether nobody may see it.
    pub secret: bool,
    /// Who needs it.
    pub scope: Scope,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Somebody set it here.
    File {
        /// The file.
        file: Utf8PathBuf,
        /// The place in it.
        place: Place,
    },
    /// It is what it is if nobody sets it.
    Default,
    /// It follows from others, and nobody set it.
    DefaultFrom {
        /// How.
        expression: String,
        /// From which.
        names: BTreeSet<String>,
    },
    /// It always follows from others.
    Computed {
        /// How.
        expression: String,
        /// From which.
        names: BTreeSet<String>,
    },
}

impl Definition {
    /// Finds the value of every name.
    pub fn resolve(&self, input: &Input<'_>, distribution: &Distribution) -> Resolution {
        let mut diagnostics = Vec::new();
        let given = GivenFile::read(self, input, &mut diagnostics);
        let engine = Engine::with_given(input.folder, given.words());
        let facts =
            BTreeMap::from([("distribution", json!(distribution)), ("roles", json!(self.roles))]);
        let mut resolver = Resolver {
            definition: self,
            given,
            states: BTreeMap::new(),
            stack: Vec::new(),
            resolution: Resolution {
                states: IndexMap::new(),
                diagnostics,
                unset: BTreeSet::new(),
                file: Sha256::of(input.text.as_bytes()),
                engine,
                facts,
            },
        };
        if !resolver.given.is_broken {
            for name in self.setters.keys() {
                resolver.state(name);
            }
            resolver.report_given();
            resolver.check_rules();
        }
        resolver.finish()
    }
}

impl Resolution {
    /// Whether there is a value for everything.
    pub fn is_ok(&self) -> bool {
        !self.diagnostics.iter().any(|found| found.severity == Severity::Error)
    }

    /// The value of a name, if it has one.
    pub fn known(&self, name: &str) -> Option<&Resolved> {
        match self.states.get(name) {
            Some(State::Known(resolved)) => Some(resolved),
            _ => None,
        }
    }

    /// The messages by key, as the reference gave them; a rule's is there for each of its keys.
    pub fn errors(&self) -> BTreeMap<&str, &str> {
        let mut errors = BTreeMap::new();
        for found in self.diagnostics.iter().filter(|found| found.severity == Severity::Error) {
            for key in found.keys.iter().filter(|key| !self.unset.contains(*key)) {
                errors.entry(key.as_str()).or_insert(found.message.as_str());
            }
        }
        errors
    }
}

/// Whether an expression has no meaning, whatever the values.
fn is_nonsense(kind: ErrorKind) -> bool {
    use ErrorKind::{OutOfFuel, SyntaxError, UnknownFilter, UnknownFunction, UnknownTest};
    matches!(kind, OutOfFuel | SyntaxError | UnknownFilter | UnknownFunction | UnknownTest)
}

/// What a name is while everything is resolved.
enum Progress {
    Begun,
    Done(State),
}

struct Resolver<'d> {
    definition: &'d Definition,
    given: GivenFile<'d>,
    states: BTreeMap<&'d str, Progress>,
    stack: Vec<&'d str>,
    resolution: Resolution,
}

/// Why an expression has no value.
enum Blocked {
    /// Something that it needs is wrong or missing, which was said already.
    Silent,
    /// Something that it needs does not exist, as things are.
    Absent,
    /// Something that it needs becomes known on the hosts.
    Late(String),
    /// The expression itself.
    Failed(String),
}

impl<'d> Resolver<'d> {
    fn finish(mut self) -> Resolution {
        for name in self.definition.setters.keys() {
            if let Some(Progress::Done(mut state)) = self.states.remove(name.as_str()) {
                if let State::Known(Resolved { origin: Origin::File { place, .. }, .. }) =
                    &mut state
                    && self.given.has_secret(place)
                {
                    self.given.mask_place(place);
                }
                self.resolution.states.insert(name.clone(), state);
            }
        }
        for found in &mut self.resolution.diagnostics {
            self.given.mask(found);
        }
        // In the order of the file; what is missing in it comes last.
        self.resolution.diagnostics.sort_by_key(|found| {
            let place = found.place.as_ref().filter(|_| found.file == self.given.file);
            place.map_or((usize::MAX, 0), |place| (place.line, place.column))
        });
        self.resolution
    }

    fn state(&mut self, name: &'d str) -> State {
        match self.states.get(name) {
            Some(Progress::Done(state)) => return state.clone(),
            Some(Progress::Begun) => {
                self.report_cycle(name);
                return State::Wrong;
            }
            None => {}
        }
        self.states.insert(name, Progress::Begun);
        self.stack.push(name);
        let mut state = self.find(name);
        self.stack.pop();
        if matches!(state, State::Known(_)) {
            state = self.check_alone(name, state);
        }
        self.states.insert(name, Progress::Done(state.clone()));
        state
    }

    fn report_cycle(&mut self, name: &str) {
        let from = self.stack.iter().position(|one| *one == name).unwrap_or_default();
        let mut names = self.stack[from..].to_vec();
        names.push(name);
        let declared = self.definition.setters[name][0].declared.clone();
        let message = format!("these values depend on each other: {}", names.join(" → "));
        self.declared_error(&declared, message);
    }

    /// Reports a mistake of who declared the parameters.
    fn declared_error(&mut self, declared: &Declared, message: String) {
        let diagnostic = Diagnostic {
            severity: Severity::Error,
            file: declared.file.clone(),
            place: declared.place.clone(),
            keys: Vec::new(),
            message,
            help: Some("this is a mistake in the distribution, not in your file".to_owned()),
        };
        if !self.resolution.diagnostics.contains(&diagnostic) {
            self.resolution.diagnostics.push(diagnostic);
        }
    }

    fn find(&mut self, name: &'d str) -> State {
        let setters = &self.definition.setters[name];
        let mut active: Vec<&'d Setter> = Vec::new();
        for setter in setters {
            match self.condition(setter.when.as_ref()) {
                Ok(true) => active.push(setter),
                Ok(false) => {}
                Err(()) => return State::Wrong,
            }
        }
        match active[..] {
            [] => State::Absent,
            [setter] => match &setter.how {
                How::Parameter(parameter) => self.parameter(name, setter, parameter),
                How::Computed(computed) => self.computed(name, computed),
            },
            [setter, ..] => {
                let message = format!("there are {} ways to set `{name}` at once", active.len());
                self.declared_error(&setter.declared, message);
                State::Wrong
            }
        }
    }

    /// Whether a condition holds; an error was said already.
    fn condition(&mut self, when: Option<&'d Expression>) -> Result<bool, ()> {
        let Some(when) = when else { return Ok(true) };
        match self.evaluate(when) {
            Ok(value) => Ok(value.is_true()),
            Err(Blocked::Absent) => Ok(false),
            Err(Blocked::Silent) => Err(()),
            Err(Blocked::Late(late)) => {
                let message = format!("`{late}` decides what else must be set: it cannot be late");
                self.key_error(&late, &message, None);
                Err(())
            }
            Err(Blocked::Failed(message)) => {
                self.declared_error(&when.declared, format!("`{}`: {message}", when.text));
                Err(())
            }
        }
    }

    /// The value of an expression.
    fn evaluate(&mut self, expression: &'d Expression) -> Result<Value, Blocked> {
        let mut absent = false;
        let secret =
            expression.names.iter().any(|name| self.definition.reach.secret.contains(name));
        let mut values: BTreeMap<&str, Json> = BTreeMap::new();
        for name in &expression.names {
            if let Some(fact) = self.resolution.facts.get(name.as_str()) {
                values.insert(name, fact.clone());
                continue;
            }
            match self.state(name) {
                State::Known(resolved) => {
                    values.insert(name, resolved.value);
                }
                State::Late => return Err(Blocked::Late(name.clone())),
                State::Absent => absent = true,
                State::Unset | State::Wrong => return Err(Blocked::Silent),
            }
        }
        let values = Value::from(Serde(&values));
        match expression.evaluate(&self.resolution.engine, &values) {
            Ok(value) => Ok(value),
            Err(error) if is_nonsense(error.kind()) => {
                let message = format!("`{}`: {}", expression.text, message_of(&error));
                self.declared_error(&expression.declared, message);
                Err(Blocked::Silent)
            }
            Err(_) if absent => Err(Blocked::Absent),
            // The reason may quote what it is made of.
            Err(_) if secret => Err(Blocked::Failed("cannot be calculated".to_owned())),
            Err(error) => Err(Blocked::Failed(message_of(&error))),
        }
    }

    fn parameter(&mut self, name: &'d str, setter: &'d Setter, parameter: &'d Parameter) -> State {
        if self.given.late.contains_key(name) {
            return State::Late;
        }
        if self.given.values.contains_key(name) {
            return self.given_value(name, parameter);
        }
        let known = |value, origin| {
            let (secret, scope) = (parameter.secret, parameter.scope);
            State::Known(Resolved { value, origin, secret, scope })
        };
        match &parameter.default {
            Default::Required => self.unset(name, setter, parameter),
            Default::Value(value) => known(value.clone(), Origin::Default),
            Default::From(expression) => {
                let Some(value) = self.value_of(name, expression) else {
                    return self.blocked_or_absent(expression);
                };
                if value.is_null() {
                    return self.unset(name, setter, parameter);
                }
                match parameter.kind.parse_computed(&value) {
                    Ok(value) => {
                        let (expression, names) =
                            (expression.text.clone(), expression.names.clone());
                        known(value, Origin::DefaultFrom { expression, names })
                    }
                    Err(message) => {
                        let message =
                            if parameter.secret { hidden(&parameter.kind) } else { message };
                        self.key_error(name, &message, None);
                        State::Wrong
                    }
                }
            }
        }
    }

    fn unset(&mut self, name: &str, setter: &Setter, parameter: &Parameter) -> State {
        self.resolution.unset.insert(name.to_owned());
        self.report_unset(name, setter, parameter);
        State::Unset
    }

    fn computed(&mut self, name: &'d str, computed: &'d Computed) -> State {
        if self.given.values.contains_key(name) || self.given.late.contains_key(name) {
            let message = "must be calculated, but was explicitly set";
            let names: Vec<&str> = computed.value.names.iter().map(String::as_str).collect();
            let help = match names[..] {
                [] => format!("remove `{name}`: it is always the same"),
                _ => format!("remove `{name}`: it follows from `{}`", names.join("`, `")),
            };
            self.key_error(name, message, Some(help));
            return State::Wrong;
        }
        let Some(value) = self.value_of(name, &computed.value) else {
            return self.blocked_or_absent(&computed.value);
        };
        let reach = &self.definition.reach;
        let secret = reach.secret.contains(name);
        let is_controller = reach.controller.contains(name);
        let scope = if is_controller { Scope::Controller } else { Scope::Cluster };
        let value = match &computed.kind {
            Some(kind) => match kind.parse_computed(&value) {
                Ok(value) => value,
                Err(message) => {
                    let names = computed.value.names.iter().cloned().collect::<Vec<_>>();
                    let help = format!("it is calculated from `{}`", names.join("`, `"));
                    let message = if secret { hidden(kind) } else { message };
                    self.key_error_from(name, &computed.value.names, &message, Some(help));
                    return State::Wrong;
                }
            },
            None => value,
        };
        let (expression, names) = (computed.value.text.clone(), computed.value.names.clone());
        State::Known(Resolved {
            value,
            origin: Origin::Computed { expression, names },
            secret,
            scope,
        })
    }

    /// The value of an expression for `name`; what went wrong was said.
    fn value_of(&mut self, name: &'d str, expression: &'d Expression) -> Option<Json> {
        match self.evaluate(expression) {
            Ok(value) => {
                if let Some(value) = to_json(&value) {
                    return Some(value);
                }
                let message = format!("`{}` has no value", expression.text);
                self.declared_error(&expression.declared, message);
                None
            }
            Err(Blocked::Silent | Blocked::Absent) => None,
            Err(Blocked::Late(late)) => {
                let message = format!("`{name}` is calculated from `{late}`, which cannot be late");
                self.key_error(&late, &message, None);
                None
            }
            Err(Blocked::Failed(message)) => {
                self.key_error_from(name, &expression.names, &message, None);
                None
            }
        }
    }

    fn blocked_or_absent(&mut self, expression: &'d Expression) -> State {
        let needed: Vec<State> = expression
            .names
            .iter()
            .filter(|name| !FACTS.contains(&name.as_str()))
            .map(|name| self.state(name))
            .collect();
        let blocked = needed.iter().any(|state| matches!(state, State::Unset | State::Wrong));
        let absent = needed.iter().any(|state| matches!(state, State::Absent));
        if absent && !blocked { State::Absent } else { State::Wrong }
    }
}

/// What is said where the reason may quote a secret.
fn hidden(kind: &Kind) -> String {
    format!("expected {}", kind.describe())
}
