//! What must hold between values.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::Value;
use minijinja::value::Serde;
use package::diagnostic::{Diagnostic, Severity};
use serde_json::{Value as Json, json};

use super::{Blocked, FACTS, Progress, Resolver, State};
use crate::definition::Rule;
use crate::expression::message_of;
use crate::kind::MASK;

impl<'d> Resolver<'d> {
    /// Checks the rules that are about `name` alone, so that who depends on it knows.
    pub(super) fn check_alone(&mut self, name: &'d str, state: State) -> State {
        let rules = self.definition.rules.iter().filter(|rule| alone(rule) == Some(name));
        self.states.insert(name, Progress::Done(state.clone()));
        let mut holds = true;
        for rule in rules {
            holds &= self.check(rule);
        }
        if holds { state } else { State::Wrong }
    }

    /// Checks the rules between several values.
    pub(super) fn check_rules(&mut self) {
        for rule in &self.definition.rules {
            if alone(rule).is_none() {
                self.check(rule);
            }
        }
    }

    /// Whether a rule holds, or cannot be judged; says so if it does not.
    fn check(&mut self, rule: &'d Rule) -> bool {
        if self.condition(rule.when.as_ref()) != Ok(true) {
            return true;
        }
        // Of what does not exist, or is not known yet, nothing can be said.
        let all_known = rule.check.names.iter().all(|name| {
            FACTS.contains(&name.as_str()) || matches!(self.state(name), State::Known(_))
        });
        if !all_known {
            return true;
        }
        match self.evaluate(&rule.check) {
            Ok(value) if value.is_true() => true,
            Ok(_) => {
                self.report_rule(rule);
                false
            }
            Err(Blocked::Failed(message)) => {
                let message = format!("`{}`: {message}", rule.check.text);
                self.declared_error(&rule.check.declared, message);
                false
            }
            Err(_) => true,
        }
    }

    fn report_rule(&mut self, rule: &Rule) {
        let mut shown: BTreeMap<&str, Json> = BTreeMap::new();
        for (name, progress) in &self.states {
            if let Progress::Done(State::Known(known)) = progress {
                let value = if known.secret { json!(MASK) } else { known.value.clone() };
                shown.insert(name, value);
            }
        }
        let values = Value::from(Serde(&shown));
        let engine = &self.resolution.engine.environment;
        let render = |text: &str| match engine.render_str(text, values.clone()) {
            Ok(message) => message,
            Err(error) => format!("{text} ({})", message_of(&error)),
        };
        let (message, help) = (render(&rule.message), rule.help.as_deref().map(render));
        let place = rule.keys.iter().find_map(|key| self.given.place_of(key));
        self.resolution.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: self.given.file.clone(),
            place,
            keys: rule.keys.clone(),
            message: format!("`{}`: {message}", rule.keys.join("`, `")),
            help,
        });
    }
}

/// The value that a rule is about, if it is one alone, and no other decides whether it matters.
fn alone(rule: &Rule) -> Option<&str> {
    let when = rule.when.iter().flat_map(|when| &when.names);
    let names = rule.check.names.iter().chain(when).map(String::as_str);
    let names: BTreeSet<&str> = names.filter(|name| !FACTS.contains(name)).collect();
    let mut names = names.into_iter();
    names.next().filter(|_| names.next().is_none())
}
