//! The file that somebody wrote: its keys, what is wrong with them, and what nobody may see of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use camino::Utf8PathBuf;
use package::diagnostic::{Diagnostic, Place, Severity, nearest};
use package::document::{Node, Reader, Value};

use super::{Input, Origin, Resolved, Resolver, State};
use crate::definition::{Definition, Parameter, Setter};
use crate::kind::{MASK, Type};

/// The key that lists which values become known only on the hosts.
pub(crate) const LATE: &str = "late_values";

/// So many mistakes in one value are enough to see what is wrong with it.
const PROBLEMS_MAX: usize = 20;

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
    /// Whether nothing can be said of its keys.
    pub(super) is_broken: bool,
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
            is_broken: true,
            secret_lines: Vec::new(),
        };
        let mut reader = Reader::new(input.file, input.text);
        let root = reader.yaml();
        if let Some(node) = root.as_ref()
            && !matches!(node.value, Value::Object(_))
        {
            let message = format!("expected keys with values, found {}", words(node));
            let help = "write each key on a line of its own, such as `cluster_name: Reef`";
            reader.error(&node.span, message, Some(help.to_owned()));
        } else if let Some(node) = &root
            && let Some(fields) = reader.map(node, "the configuration")
        {
            given.is_broken = false;
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
                if !definition.is_secret(&key.name) && given.names_secret(key.span.start, node) {
                    let message = format!("`{}` names the value of a secret", key.name);
                    let help = "write it out, or leave it out: others can read this one".to_owned();
                    reader.error(&key.span, message, Some(help));
                    continue;
                }
                let value = GivenValue { key: key.span.clone(), node: node.clone() };
                given.values.entry(key.name.clone()).or_insert(value);
            }
        }
        if given.is_broken {
            given.find_secret_lines();
        }
        diagnostics.append(&mut reader.diagnostics);
        given
    }

    /// The lines of a file without keys which may have a secret in them: those that name one, and
    /// what follows up to the next key.
    fn find_secret_lines(&mut self) {
        let names: Vec<&str> =
            self.definition.settable().filter(|name| self.definition.is_secret(name)).collect();
        let mut inside = false;
        for (index, line) in self.text.lines().enumerate() {
            let is_key = line.contains(':') && !line.starts_with([' ', '\t', '#']);
            let is_secret = names.iter().any(|name| line.contains(name));
            inside = is_secret || (inside && !is_key);
            if inside {
                self.secret_lines.push(index + 1..=index + 1);
            }
        }
    }

    /// Whether a value that belongs to the key at `start` is another name for one of a secret before it.
    fn names_secret(&self, start: usize, node: &Node) -> bool {
        let is_alias = node.span.start < start && node.span.end > node.span.start;
        let is_secret = || {
            let line = self.place(&node.span).line;
            self.secret_lines.iter().any(|lines| lines.contains(&line))
        };
        (is_alias && is_secret())
            || match &node.value {
                Value::List(items) => items.iter().any(|item| self.names_secret(start, item)),
                Value::Object(fields) => {
                    fields.iter().any(|(_, item)| self.names_secret(start, item))
                }
                _ => false,
            }
    }

    /// What stands in the file, as words; without what fewer may have.
    pub(super) fn words(&self) -> BTreeMap<String, String> {
        let reach = &self.definition.reach;
        let is_open =
            |name: &String| !reach.secret.contains(name) && !reach.controller.contains(name);
        let open = self.values.iter().filter(|(name, _)| is_open(name));
        open.filter_map(|(name, value)| match &value.node.value {
            Value::String(text) => Some((name.clone(), text.clone())),
            _ => None,
        })
        .collect()
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
            let message = if exists {
                format!("`{name}` cannot be late")
            } else {
                format!("no parameter is called `{}`", name.escape_debug())
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
        let split = place.text.split_once([':', '=']);
        let key = split.map_or("", |(key, _)| key).trim();
        let key = key.trim_matches(['"', '\'']);
        let names: BTreeSet<&str> = self.definition.settable().collect();
        let near = || nearest(key, names.iter().copied());
        let names_secret = self.definition.is_secret(key)
            || (!names.contains(key) && near().is_some_and(|near| self.definition.is_secret(near)));
        // A key that nobody knows may be the misspelt name of a secret.
        let is_unknown = split.is_some()
            && !names.contains(key)
            && (self.is_broken || (place.column == 1 && !place.text.starts_with(' ')));
        if !(names_secret || is_unknown || self.has_secret(place)) {
            return;
        }
        let (key, mask) = match split {
            Some((key, _)) if names_secret => (format!("{key}: "), MASK),
            Some((key, _)) if is_unknown => (format!("{key}: "), "…"),
            _ => (String::new(), MASK),
        };
        // The length of a secret is a part of it.
        let start = key.chars().count();
        if place.column > start {
            (place.column, place.length) = (start + 1, mask.chars().count());
        }
        place.length = place.length.min(start + mask.chars().count() + 1 - place.column);
        place.text = key + mask;
    }
}

/// What a value is, in words for who writes a configuration.
fn words(node: &Node) -> &'static str {
    match node.value {
        Value::String(_) => "a text",
        _ => node.kind(),
    }
}

/// A sentence as a part of another.
fn lower_first(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    first + rest.as_str()
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
                let more = problems.len().saturating_sub(PROBLEMS_MAX);
                for problem in problems.into_iter().take(PROBLEMS_MAX) {
                    let at = match problem.at.as_str() {
                        "" => String::new(),
                        at if at.starts_with('[') => at.to_owned(),
                        at => format!(".{at}"),
                    };
                    let message = if parameter.secret {
                        format!("expected {}", parameter.kind.describe())
                    } else {
                        problem.message
                    };
                    let empty = matches!(given.node.value, Value::Null);
                    let span = if empty { &given.key } else { &problem.span };
                    let diagnostic = Diagnostic {
                        severity: Severity::Error,
                        file: self.given.file.clone(),
                        place: Some(self.given.place(span)),
                        keys: vec![name.to_owned()],
                        message: format!("`{name}{at}`: {message}"),
                        // Only what is said of every secret quotes nothing of it.
                        help: problem
                            .help
                            .filter(|_| !parameter.secret || parameter.kind.base == Type::Secret),
                    };
                    self.resolution.diagnostics.push(diagnostic);
                }
                if more > 0 {
                    self.key_error(name, &format!("{more} more mistakes like these"), None);
                }
                State::Wrong
            }
        }
    }

    /// Reports a mistake at the value of `name`, or of the file if that is not in it.
    pub(super) fn key_error(&mut self, name: &str, message: &str, help: Option<String>) {
        self.key_error_from(name, &BTreeSet::new(), message, help);
    }

    /// The same; the place may be that of a value which it was made from.
    pub(super) fn key_error_from(
        &mut self,
        name: &str,
        names: &BTreeSet<String>,
        message: &str,
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

    pub(super) fn report_unset(&mut self, name: &str, setter: &Setter, parameter: &Parameter) {
        let what = parameter.description.split_terminator(". ").next().unwrap_or_default();
        let what = what.lines().collect::<Vec<_>>().join(" ");
        let what = what.trim_end_matches('.');
        let what = if what.is_empty() { parameter.kind.describe() } else { lower_first(what) };
        let when = setter.when.as_ref().map(|when| format!(" when `{}`", when.text));
        let when = when.unwrap_or_default();
        let help = parameter
            .example
            .as_ref()
            .map(|example| format!("for example `{name}: {}`", crate::yaml::inline(example)));
        self.resolution.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: self.given.file.clone(),
            place: None,
            keys: vec![name.to_owned()],
            message: format!("`{name}` must be set{when}: {what}"),
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
                    let help = self.meant(name, &value.node);
                    let name = name.escape_debug();
                    (Severity::Error, format!("unknown key `{name}`"), Some(help))
                }
                Some(_) => match self.without_effect(name) {
                    Some((message, help)) => (Severity::Warning, message, Some(help)),
                    None => continue,
                },
            };
            found.push(Diagnostic { severity, file, place, keys, message, help });
        }
        for (name, span) in &self.given.late {
            let (severity, message, help) = if self.given.values.contains_key(name) {
                let help = format!("remove `{name}`, or its name from `{LATE}`");
                (Severity::Error, format!("`{name}` is late and has a value"), help)
            } else if let Some((message, help)) = self.without_effect(name) {
                (Severity::Warning, message, help)
            } else {
                continue;
            };
            let place = Some(self.given.place(span));
            let (file, keys, help) = (self.given.file.clone(), vec![name.clone()], Some(help));
            found.push(Diagnostic { severity, file, place, keys, message, help });
        }
        self.resolution.diagnostics.append(&mut found);
    }

    /// What somebody may have meant with a key that nobody knows.
    fn meant(&self, name: &str, node: &Node) -> String {
        let known: BTreeSet<&str> = self.definition.settable().collect();
        let alike = name.to_lowercase().replace(['-', ' ', '.'], "_");
        if let Value::Object(fields) = &node.value {
            let inner = fields.iter().map(|(key, _)| format!("{alike}_{}", key.name));
            let inner: Vec<String> = inner.filter(|name| known.contains(name.as_str())).collect();
            if !inner.is_empty() {
                return format!("these are keys of their own: `{}`", inner.join("`, `"));
            }
        }
        match nearest(&alike, known.into_iter()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`config schema` lists all keys".to_owned(),
        }
    }

    /// What to say of a name that somebody mentioned and nothing uses, as things are.
    fn without_effect(&self, name: &str) -> Option<(String, String)> {
        let state = self.states.get(name);
        if !matches!(state, Some(super::Progress::Done(State::Absent))) {
            return None;
        }
        let setters = self.definition.setters.get(name)?.iter();
        let when = setters.filter_map(|setter| setter.when.as_ref());
        let when: Vec<String> = when.map(|when| format!("`{}`", when.text)).collect();
        let help = format!("it is used only when {}", when.join(" or when "));
        Some((format!("`{name}` has no effect here"), help))
    }
}
