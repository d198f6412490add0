//! The file that somebody wrote: its keys, what is wrong with them, and what nobody may see of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use camino::Utf8PathBuf;
use package::diagnostic::{Diagnostic, Place, Severity, nearest};
use package::document::{Node, Reader, Value};

use super::{Input, Origin, Resolved, Resolver, State};
use crate::definition::{Definition, Parameter};
use crate::kind::MASK;

/// The key that lists which values become known only on the hosts.
pub(crate) const LATE: &str = "late_values";

/// A value as somebody set it.
pub(super) struct GivenValue {
    key: Range<usize>,
    node: Node,
}

/// The file that somebody wrote.
pub(super) struct GivenFile<'d> {
    definition: &'d Definition,
    pub(super) file: Utf8PathBuf,
    text: String,
    pub(super) values: BTreeMap<String, GivenValue>,
    pub(super) late: BTreeMap<String, Range<usize>>,
    /// The lines that have a secret in them.
    secret_lines: Vec<RangeInclusive<usize>>,
}

impl<'d> GivenFile<'d> {
    pub(super) fn read(
        definition: &'d Definition,
        input: &Input<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut given = Self {
            definition,
            file: input.file.to_owned(),
            text: input.text.to_owned(),
            values: BTreeMap::new(),
            late: BTreeMap::new(),
            secret_lines: Vec::new(),
        };
        let mut reader = Reader::new(input.file, input.text);
        if let Some(node) = reader.yaml()
            && let Some(fields) = reader.map(&node, "the configuration")
        {
            for (key, node) in fields.iter() {
                if key.name == LATE {
                    given.read_late(&mut reader, node);
                    continue;
                }
                if definition.is_secret(&key.name) {
                    let end = node.span.end.max(key.span.end);
                    let (first, last) = (given.place(&key.span), given.place(&(end..end)));
                    given.secret_lines.push(first.line..=last.line);
                }
                let value = GivenValue { key: key.span.clone(), node: node.clone() };
                given.values.entry(key.name.clone()).or_insert(value);
            }
        }
        diagnostics.append(&mut reader.diagnostics);
        given
    }

    fn read_late(&mut self, reader: &mut Reader<'_>, node: &Node) {
        let what = format!("`{LATE}`");
        for item in reader.list(node, &what) {
            let Some(name) = reader.string(item, "an item of `late_values`") else { continue };
            let mut parameters = self.definition.parameters(name).peekable();
            let exists = parameters.peek().is_some();
            if exists && parameters.any(|parameter| parameter.late) {
                self.late.insert(name.to_owned(), item.span.clone());
                continue;
            }
            let late = || {
                let names = self.definition.settable();
                names.filter(|name| self.definition.parameters(name).any(|one| one.late))
            };
            let message = match exists {
                true => format!("`{name}` cannot be late"),
                false => format!("no parameter is called `{}`", name.escape_debug()),
            };
            let help = match nearest(name, late()) {
                Some(near) if !exists => format!("did you mean `{near}`?"),
                _ => format!("these can: {}", late().collect::<Vec<_>>().join(", ")),
            };
            reader.error(&item.span, message, Some(help));
        }
    }

    fn place(&self, span: &Range<usize>) -> Place {
        Place::of(&self.text, span.start, span.end)
    }

    pub(super) fn place_of(&self, key: &str) -> Option<Place> {
        let value = self.values.get(key).map(|value| match value.node.value {
            // Nothing can be underlined but the key.
            Value::Null => &value.key,
            _ => &value.node.span,
        });
        value.or_else(|| self.late.get(key)).map(|span| self.place(span))
    }

    /// Takes out of a message's line what nobody may see.
    pub(super) fn mask(&self, found: &mut Diagnostic) {
        if let Some(place) = &mut found.place
            && found.file == self.file
        {
            self.mask_place(place);
        }
    }

    /// Whether the line of a place has a secret in it.
    pub(super) fn has_secret(&self, place: &Place) -> bool {
        self.secret_lines.iter().any(|lines| lines.contains(&place.line))
    }

    /// Takes out of a line of the file what nobody may see.
    pub(super) fn mask_place(&self, place: &mut Place) {
        let key = place.text.split(':').next().unwrap_or_default().trim();
        let key = key.trim_matches(['"', '\'']);
        let names: BTreeSet<&str> = self.definition.settable().collect();
        let names_secret = self.definition.is_secret(key);
        // A key that nobody knows may be the misspelt name of a secret.
        let is_unknown = place.column == 1 + indent(&place.text)
            && !names.contains(key)
            && place.text.contains(':');
        if !(names_secret || is_unknown || self.has_secret(place)) {
            return;
        }
        let shown = match place.text.split_once(':') {
            Some((key, _)) if names_secret => format!("{key}: {MASK}"),
            Some((key, _)) if !self.has_secret(place) => format!("{key}: …"),
            _ => MASK.to_owned(),
        };
        let length = shown.chars().count();
        place.text = shown;
        place.column = place.column.min(length);
        let rest = length + 1 - place.column;
        // How long a secret is, nobody may see either.
        let hides = names_secret || self.has_secret(place);
        place.length = if hides { rest } else { place.length.min(rest) };
    }
}

fn indent(text: &str) -> usize {
    text.chars().take_while(|char| *char == ' ').count()
}

impl Resolver<'_> {
    pub(super) fn given_value(&mut self, name: &str, parameter: &Parameter) -> State {
        let given = &self.given.values[name];
        match parameter.kind.parse(&given.node, &self.given.text) {
            Ok(value) => {
                let place = self.given.place(&given.node.span);
                State::Known(Resolved {
                    value,
                    origin: Origin::File { file: self.given.file.clone(), place },
                    secret: parameter.secret,
                    scope: parameter.scope,
                })
            }
            Err(problems) => {
                for problem in problems {
                    let at = match problem.at.as_str() {
                        "" => String::new(),
                        at if at.starts_with('[') => at.to_owned(),
                        at => format!(".{at}"),
                    };
                    let message = match parameter.secret {
                        true => format!("expected {}", parameter.kind.describe()),
                        false => problem.message,
                    };
                    let empty = matches!(given.node.value, Value::Null);
                    let span = if empty { &given.key } else { &problem.span };
                    let diagnostic = Diagnostic {
                        severity: Severity::Error,
                        file: self.given.file.clone(),
                        place: Some(self.given.place(span)),
                        keys: vec![name.to_owned()],
                        message: format!("`{name}{at}`: {message}"),
                        help: problem.help,
                    };
                    self.resolution.diagnostics.push(diagnostic);
                }
                State::Wrong
            }
        }
    }

    /// Reports a mistake at the value of `name`, or of the file if that is not in it.
    pub(super) fn key_error(&mut self, name: &str, message: String, help: Option<String>) {
        self.key_error_from(name, &BTreeSet::new(), message, help);
    }

    /// The same; the place may be that of a value which it was made from.
    pub(super) fn key_error_from(
        &mut self,
        name: &str,
        names: &BTreeSet<String>,
        message: String,
        help: Option<String>,
    ) {
        let from = names.iter().map(String::as_str);
        let place = std::iter::once(name).chain(from).find_map(|name| self.given.place_of(name));
        self.resolution.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: self.given.file.clone(),
            place,
            keys: vec![name.to_owned()],
            message: format!("`{name}`: {message}"),
            help,
        });
    }

    pub(super) fn report_unset(&mut self, name: &str, parameter: &Parameter) {
        let what = parameter.description.split_terminator(". ").next().unwrap_or_default();
        let what = what.lines().collect::<Vec<_>>().join(" ");
        let what = what.trim_end_matches('.');
        let what = if what.is_empty() { parameter.kind.describe() } else { what.to_owned() };
        let help = parameter
            .example
            .as_ref()
            .map(|example| format!("for example `{name}: {}`", crate::yaml::inline(example)));
        self.resolution.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: self.given.file.clone(),
            place: None,
            keys: vec![name.to_owned()],
            message: format!("`{name}` must be set: {what}"),
            help,
        });
    }

    /// Reports keys that nobody knows, and those that have no effect.
    pub(super) fn report_given(&mut self) {
        let mut found = Vec::new();
        for (name, value) in &self.given.values {
            let place = Some(self.given.place(&value.key));
            let (file, keys) = (self.given.file.clone(), vec![name.clone()]);
            let known = self.definition.setters.get(name);
            let (severity, message, help) = match known {
                None if super::FACTS.contains(&name.as_str()) => {
                    let message = format!("`{name}`: must be calculated, but was explicitly set");
                    (Severity::Error, message, Some(format!("remove `{name}`")))
                }
                None => {
                    let near = nearest(name, self.definition.settable());
                    let help = match near {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "`config schema` lists all keys".to_owned(),
                    };
                    let name = name.escape_debug();
                    (Severity::Error, format!("unknown key `{name}`"), Some(help))
                }
                Some(setters) => {
                    let absent = self.states.get(name.as_str());
                    if !matches!(absent, Some(super::Progress::Done(State::Absent))) {
                        continue;
                    }
                    let when: Vec<String> = setters
                        .iter()
                        .filter_map(|setter| setter.when.as_ref())
                        .map(|when| format!("`{}`", when.text))
                        .collect();
                    let message = format!("`{name}` has no effect here");
                    let help = format!("it is used only when {}", when.join(" or when "));
                    (Severity::Warning, message, Some(help))
                }
            };
            found.push(Diagnostic { severity, file, place, keys, message, help });
        }
        for (name, span) in &self.given.late {
            if self.given.values.contains_key(name) {
                found.push(Diagnostic {
                    severity: Severity::Error,
                    file: self.given.file.clone(),
                    place: Some(self.given.place(span)),
                    keys: vec![name.clone()],
                    message: format!("`{name}` is late and has a value"),
                    help: Some("remove one of them".to_owned()),
                });
            }
        }
        self.resolution.diagnostics.append(&mut found);
    }
}
