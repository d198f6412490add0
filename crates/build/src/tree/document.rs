//! JSON and TOML files with the place of every value, and a reader that collects all mistakes.

use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use camino::{Utf8Path, Utf8PathBuf};
use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use package::diagnostic::{Diagnostic, Place, Severity};
use package::pkginfo::Scalar;

/// A value and where it stands, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) value: Value,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number that is no whole one, or too large.
    OtherNumber,
    String(String),
    List(Vec<Node>),
    Object(Vec<(Key, Node)>),
    /// What only TOML has.
    Date,
}

/// The name of a value in an object.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) span: Range<usize>,
    pub(crate) name: String,
}

impl Node {
    fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) => "a whole number",
            Value::OtherNumber => "a number",
            Value::String(_) => "a string",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
            Value::Date => "a date",
        }
    }
}

/// The values of an object by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'n>(&'n [(Key, Node)]);

impl<'n> Fields<'n> {
    pub(crate) fn get(self, name: &str) -> Option<&'n Node> {
        self.0.iter().find(|(key, _)| key.name == name).map(|(_, node)| node)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'n (Key, Node)> {
        self.0.iter()
    }
}

/// Reads one file and collects everything that is wrong with it.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) file: Utf8PathBuf,
    source: &'a str,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &Utf8Path, source: &'a str) -> Self {
        Self { file: file.to_owned(), source, diagnostics: Vec::new() }
    }

    /// The file as JSON; a blank one counts as `{}`.
    pub(crate) fn json(&mut self) -> Option<Node> {
        if self.source.trim().is_empty() {
            return Some(Node { span: 0..0, value: Value::Object(Vec::new()) });
        }
        // Strict, and with a limit on nesting; the second parser is lax but knows the places.
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(self.source) {
            let at = offset(self.source, error.line(), error.column());
            let text = error.to_string();
            let message = text.split(" at line ").next().unwrap_or_default();
            self.error(&(at..at + 1), format!("not valid JSON: {message}"), None);
            return None;
        }
        let options = jsonc_parser::ParseOptions::default();
        let parsed = jsonc_parser::parse_to_ast(
            self.source,
            &jsonc_parser::CollectOptions::default(),
            &options,
        );
        match parsed.map(|result| result.value) {
            Ok(Some(value)) => Some(from_json(value)),
            Ok(None) => None,
            Err(error) => {
                let at = error.range().start;
                self.error(&(at..at + 1), format!("not valid JSON: {}", error.kind()), None);
                None
            }
        }
    }

    /// The file as TOML.
    pub(crate) fn toml(&mut self) -> Option<Node> {
        match toml::de::DeTable::parse(self.source) {
            Ok(table) => {
                let span = table.span();
                Some(Node { span, value: from_toml_table(table.get_ref()) })
            }
            Err(error) => {
                let span = error.span().unwrap_or_default();
                self.error(&span, format!("not valid TOML: {}", error.message()), None);
                None
            }
        }
    }

    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        Place::of(self.source, span.start, span.end)
    }

    pub(crate) fn error(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.report(Severity::Error, span, message.into(), help);
    }

    pub(crate) fn warn(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.report(Severity::Warning, span, message.into(), help);
    }

    fn report(
        &mut self,
        severity: Severity,
        span: &Range<usize>,
        message: String,
        help: Option<String>,
    ) {
        let place = Some(self.place(span));
        self.diagnostics.push(Diagnostic {
            severity,
            file: self.file.clone(),
            place,
            message,
            help,
        });
    }

    fn wrong_type(&mut self, node: &Node, what: &str, expected: &str) {
        let message = format!("{what} is {}, expected {expected}", node.kind());
        self.error(&node.span, message, None);
    }

    /// An object with only `known` keys, each once.
    pub(crate) fn object<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        known: &[&str],
    ) -> Option<Fields<'n>> {
        let fields = self.map(node, what)?;
        self.unknown_keys(fields, what, known, &[]);
        Some(fields)
    }

    /// Reports every key that is neither `known` nor `handled` elsewhere.
    pub(crate) fn unknown_keys(
        &mut self,
        fields: Fields<'_>,
        what: &str,
        known: &[&str],
        handled: &[&str],
    ) {
        for (key, _) in fields.iter() {
            if known.contains(&key.name.as_str()) || handled.contains(&key.name.as_str()) {
                continue;
            }
            let help = nearest(&key.name, known.iter().copied()).map_or_else(
                || format!("known keys: {}", known.join(", ")),
                |known| format!("did you mean `{known}`?"),
            );
            self.error(&key.span, format!("unknown key `{}` in {what}", key.name), Some(help));
        }
    }

    /// An object with any keys, each once.
    pub(crate) fn map<'n>(&mut self, node: &'n Node, what: &str) -> Option<Fields<'n>> {
        let Value::Object(fields) = &node.value else {
            self.wrong_type(node, what, "an object");
            return None;
        };
        for (index, (key, _)) in fields.iter().enumerate() {
            if fields[..index].iter().any(|(earlier, _)| earlier.name == key.name) {
                self.error(&key.span, format!("key `{}` stands twice in {what}", key.name), None);
            }
        }
        Some(Fields(fields))
    }

    pub(crate) fn string<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        if let Value::String(text) = &node.value {
            return Some(text);
        }
        self.wrong_type(node, what, "a string");
        None
    }

    /// A boolean; trees of the reference may say 1 and 0.
    pub(crate) fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
        match node.value {
            Value::Bool(value) => Some(value),
            Value::Integer(value @ (0 | 1)) => Some(value == 1),
            _ => {
                self.wrong_type(node, what, "true or false");
                None
            }
        }
    }

    /// A whole number of at least `min`.
    pub(crate) fn number(&mut self, node: &Node, what: &str, min: u32) -> Option<u32> {
        let Value::Integer(number) = node.value else {
            self.wrong_type(node, what, "a whole number");
            return None;
        };
        let fitting = u32::try_from(number).ok().filter(|number| *number >= min);
        if fitting.is_none() {
            let message = format!("{what} is {number}, expected {min} to {}", u32::MAX);
            self.error(&node.span, message, None);
        }
        fitting
    }

    pub(crate) fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        if let Value::List(items) = &node.value {
            return items;
        }
        self.wrong_type(node, what, "a list");
        &[]
    }

    pub(crate) fn scalar(&mut self, node: &Node, what: &str) -> Option<Scalar> {
        match &node.value {
            Value::String(text) => Some(Scalar::Text(text.clone())),
            Value::Integer(number) => Some(Scalar::Number(*number)),
            _ => {
                self.wrong_type(node, what, "a string or a whole number");
                None
            }
        }
    }

    /// A string that is a `T`.
    pub(crate) fn parse<T: FromStr<Err: Display>>(&mut self, node: &Node, what: &str) -> Option<T> {
        let text = self.string(node, what)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.error(&node.span, format!("{what}: {error}"), None);
                None
            }
        }
    }

    /// The value of a key that must be there.
    pub(crate) fn required<'n>(
        &mut self,
        fields: Fields<'n>,
        span: &Range<usize>,
        name: &str,
        what: &str,
    ) -> Option<&'n Node> {
        let node = fields.get(name);
        if node.is_none() {
            self.error(span, format!("{what} lacks the key `{name}`"), None);
        }
        node
    }
}

/// The known name that was most likely meant.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|known| {
        // One slip of the finger is always close, however short the name.
        let is_slip = strsim::osa_distance(name, known) == 1 && name.len() > 1;
        (if is_slip { 1.0 } else { strsim::jaro_winkler(name, known) }, known)
    });
    let best = scored.max_by(|left, right| left.0.total_cmp(&right.0))?;
    (best.0 > 0.75).then_some(best.1)
}

fn offset(source: &str, line: usize, column: usize) -> usize {
    let start: usize =
        source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    start + column.saturating_sub(1)
}

fn from_json(value: ast::Value<'_>) -> Node {
    let range = value.range();
    let value = match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::NumberLit(literal) => {
            literal.value.parse().map_or(Value::OtherNumber, Value::Integer)
        }
        ast::Value::StringLit(literal) => Value::String(literal.value.into_owned()),
        ast::Value::Array(array) => {
            Value::List(array.elements.into_iter().map(from_json).collect())
        }
        ast::Value::Object(object) => Value::Object(
            object
                .properties
                .into_iter()
                .map(|property| {
                    let range = property.name.range();
                    let name = property.name.as_str().to_owned();
                    (Key { span: range.start..range.end, name }, from_json(property.value))
                })
                .collect(),
        ),
    };
    Node { span: range.start..range.end, value }
}

fn from_toml_table(table: &toml::de::DeTable<'_>) -> Value {
    let pairs = table.iter().map(|(key, value)| {
        let name = key.get_ref().to_string();
        (Key { span: key.span(), name }, from_toml(value))
    });
    Value::Object(pairs.collect())
}

fn from_toml(value: &toml::Spanned<toml::de::DeValue<'_>>) -> Node {
    use toml::de::DeValue;
    let node = match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            number.to_string().parse().map_or(Value::OtherNumber, Value::Integer)
        }
        DeValue::Float(_) => Value::OtherNumber,
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => Value::List(items.iter().map(from_toml).collect()),
        DeValue::Table(table) => from_toml_table(table),
    };
    Node { span: value.span(), value: node }
}
