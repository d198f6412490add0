//! A `config.yaml` to begin with: what must be set, then what may be, each with what it is for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use indexmap::IndexMap;
use serde_json::Value as Json;

use crate::definition::{Default, Definition, How, Parameter};
use crate::kind::Type;
use crate::resolve::{Resolution, State};
use crate::yaml;

/// Something that must be set, and is not.
#[derive(Debug, Clone, Copy)]
pub struct Question<'d> {
    /// The name.
    pub name: &'d str,
    /// What is declared of it.
    pub parameter: &'d Parameter,
}

impl Parameter {
    /// What somebody typed as one line, as a value: items of a list with commas or blanks between them,
    /// or as JSON. An error says all that is wrong.
    pub fn answer(&self, text: &str) -> Result<Json, String> {
        let text = text.trim();
        let is_json = text.starts_with(['[', '{']);
        let value = if self.kind.base == Type::List && !is_json {
            let items: Vec<&str> = if text.contains(',') {
                text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
            } else {
                text.split_whitespace().collect()
            };
            Json::from(items)
        } else {
            Json::from(text)
        };
        self.kind.parse_computed(&value)
    }
}

impl Definition {
    /// The first value, in the order of declaration, that must be set as things are.
    pub fn question<'d>(&'d self, resolution: &Resolution) -> Option<Question<'d>> {
        let is_unset = |name: &&String| matches!(resolution.states.get(*name), Some(State::Unset));
        self.setters.keys().filter(is_unset).find_map(|name| {
            match &self.active(resolution, name)?.how {
                How::Parameter(parameter) => Some(Question { name, parameter }),
                How::Computed(_) => None,
            }
        })
    }

    /// A file with these answers in it. What must be set and has none stands there with its example;
    /// the rest is commented out, under the condition that it needs.
    pub fn starter(&self, answers: &BTreeMap<String, String>) -> String {
        let mut sections: IndexMap<Option<&str>, [Section<'_>; 2]> = IndexMap::new();
        sections.entry(None).or_default();
        for (name, setters) in &self.setters {
            for setter in setters {
                let How::Parameter(parameter) = &setter.how else { continue };
                let when = setter.when.as_ref().map(|when| when.text.as_str());
                let optional = !matches!(parameter.default, Default::Required);
                sections.entry(when).or_default()[usize::from(optional)].push((name, parameter));
            }
        }
        let mut writer = Writer { answers, written: BTreeSet::new(), text: String::new() };
        for (when, [required, optional]) in &sections {
            match when {
                None => {
                    writer.section("Must be set", required, true);
                    writer.section("May be set; the values are the defaults", optional, false);
                }
                Some(when) => {
                    let both: Vec<_> = required.iter().chain(optional).copied().collect();
                    writer.section(&format!("Only when {}", one_line(when)), &both, false);
                }
            }
        }
        let Writer { written, mut text, .. } = writer;
        for (name, answer) in answers.iter().filter(|(name, _)| !written.contains(name.as_str())) {
            // Whoever reads the file says what is wrong with it.
            yaml::entry(name, &Json::from(answer.as_str()), 0, &mut text);
        }
        text
    }
}

/// Parameters that stand together.
type Section<'d> = Vec<(&'d str, &'d Parameter)>;

struct Writer<'a> {
    answers: &'a BTreeMap<String, String>,
    /// The keys that are there already, other than as a comment.
    written: BTreeSet<&'a str>,
    text: String,
}

impl<'a> Writer<'a> {
    fn section(&mut self, title: &str, parameters: &[(&'a str, &Parameter)], needed: bool) {
        if parameters.is_empty() {
            return;
        }
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}# ==== {title}");
        for (name, parameter) in parameters {
            self.parameter(name, parameter, needed);
        }
    }

    fn parameter(&mut self, name: &'a str, parameter: &Parameter, needed: bool) {
        if self.written.contains(name) {
            return;
        }
        self.text.push('\n');
        for line in parameter.description.lines() {
            let _ = writeln!(self.text, "{}", format!("# {line}").trim_end());
        }
        let _ = writeln!(
            self.text,
            "# Expected: {}.{}",
            one_line(&parameter.kind.describe()),
            flags(parameter)
        );
        let default = match &parameter.default {
            Default::Value(value) => Some(value),
            Default::From(from) => {
                let _ = writeln!(self.text, "# Without it: {}", one_line(&from.text));
                None
            }
            Default::Required => None,
        };
        let shown = default.or(parameter.example.as_ref());
        let mut entry = String::new();
        match (self.answers.get(name), shown) {
            (Some(answer), _) => {
                let value =
                    parameter.answer(answer).unwrap_or_else(|_| Json::from(answer.as_str()));
                yaml::entry(name, &value, 0, &mut entry);
            }
            (None, Some(value)) => yaml::entry(name, value, 0, &mut entry),
            (None, None) => {
                let _ = writeln!(entry, "{name}:");
            }
        }
        if needed || self.answers.contains_key(name) {
            self.written.insert(name);
            self.text.push_str(&entry);
        } else {
            for line in entry.lines() {
                let _ = writeln!(self.text, "#{line}");
            }
        }
    }
}

/// What was declared over several lines, in one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What else is worth knowing before somebody sets it.
fn flags(parameter: &Parameter) -> String {
    let flags = [
        (matches!(parameter.default, Default::Required), "Must be set."),
        (parameter.secret, "Secret."),
        (parameter.immutable, "Cannot change once a cluster is installed."),
        (parameter.late, "Can be late: known only on the hosts."),
    ];
    let flags = flags.iter().filter(|(holds, _)| *holds);
    flags.flat_map(|(_, words)| [" ", words]).collect()
}
