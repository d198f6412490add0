//! Files that people write, in JSON, TOML or YAML: every value with its place, and a reader that
//! collects all mistakes.

mod json;
mod toml;
mod yaml;

use std::collections::HashSet;
use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::str::FromStr;

use camino::{Utf8Path, Utf8PathBuf};

use crate::diagnostic::{Diagnostic, Place, Severity, nearest};
use crate::pkginfo::Scalar;

/// Nobody writes files larger than this.
const SIZE_MAX_BYTES: u64 = 32 << 20;

/// The content of a file that somebody wrote: what is no file, or endless, is refused.
pub fn read(path: &Utf8Path) -> io::Result<Vec<u8>> {
    let found = fs_err::metadata(path)?;
    let refused = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    if found.is_dir() {
        return refused("it is a folder");
    }
    if !found.is_file() {
        return refused("it is no file");
    }
    if found.len() > SIZE_MAX_BYTES {
        return refused("it is too large for a file that somebody wrote");
    }
    fs_err::read(path)
}

/// A value and where it stands, in bytes.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it stands.
    pub span: Range<usize>,
    /// What it is.
    pub value: Value,
}

/// What a value is.
#[derive(Debug, Clone)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number that is no whole one, or too large.
    OtherNumber,
    /// A text.
    String(String),
    /// Values in their order.
    List(Vec<Node>),
    /// Values by name, in their order.
    Object(Vec<(Key, Node)>),
    /// What JSON does not have.
    Date,
}

/// The name of a value in an object.
#[derive(Debug, Clone)]
pub struct Key {
    /// Where it stands.
    pub span: Range<usize>,
    /// The name.
    pub name: String,
}

impl Node {
    /// What it is, in words.
    pub fn kind(&self) -> &'static str {
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
pub struct Fields<'n>(&'n [(Key, Node)]);

impl<'n> Fields<'n> {
    /// The value of this name.
    pub fn get(self, name: &str) -> Option<&'n Node> {
        self.0.iter().find(|(key, _)| key.name == name).map(|(_, node)| node)
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = &'n (Key, Node)> {
        self.0.iter()
    }
}

/// Reads one file and collects everything that is wrong with it.
#[derive(Debug)]
pub struct Reader<'a> {
    /// What the file is called in messages.
    pub file: Utf8PathBuf,
    source: &'a str,
    /// What was found so far.
    pub diagnostics: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    /// A reader of the text of `file`.
    pub fn new(file: &Utf8Path, source: &'a str) -> Self {
        Self { file: file.to_owned(), source, diagnostics: Vec::new() }
    }

    /// The place of these bytes.
    pub fn place(&self, span: &Range<usize>) -> Place {
        Place::of(self.source, span.start, span.end)
    }

    /// Reports a mistake.
    pub fn error(&mut self, span: &Range<usize>, message: impl Into<String>, help: Option<String>) {
        self.report(Severity::Error, span, message.into(), help);
    }

    /// Reports what somebody should look at.
    pub fn warn(&mut self, span: &Range<usize>, message: impl Into<String>, help: Option<String>) {
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
            keys: Vec::new(),
            message,
            help,
        });
    }

    /// Reports a value of the wrong kind.
    pub fn wrong_type(&mut self, node: &Node, what: &str, expected: &str) {
        let message = format!("{what} is {}, expected {expected}", node.kind());
        self.error(&node.span, message, None);
    }

    /// An object with only `known` keys, each once.
    pub fn object<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> Option<Fields<'n>> {
        let fields = self.map(node, what)?;
        self.unknown_keys(fields, what, known, &[]);
        Some(fields)
    }

    /// Reports every key that is neither `known` nor `handled` elsewhere.
    pub fn unknown_keys(
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
    pub fn map<'n>(&mut self, node: &'n Node, what: &str) -> Option<Fields<'n>> {
        let Value::Object(fields) = &node.value else {
            self.wrong_type(node, what, "an object");
            return None;
        };
        let mut names = HashSet::new();
        for (key, _) in fields {
            if !names.insert(&key.name) {
                let message = format!("key `{}` stands twice in {what}", key.name);
                self.error(&key.span, message, Some("remove one of them".to_owned()));
            }
        }
        Some(Fields(fields))
    }

    /// A string.
    pub fn string<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        if let Value::String(text) = &node.value {
            return Some(text);
        }
        self.wrong_type(node, what, "a string");
        None
    }

    /// A boolean; trees of the reference may say 1 and 0.
    pub fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
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
    pub fn number(&mut self, node: &Node, what: &str, min: u32) -> Option<u32> {
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

    /// A list; nothing of what is none.
    pub fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        if let Value::List(items) = &node.value {
            return items;
        }
        self.wrong_type(node, what, "a list");
        &[]
    }

    /// A string or a whole number.
    pub fn scalar(&mut self, node: &Node, what: &str) -> Option<Scalar> {
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
    pub fn parse<T: FromStr<Err: Display>>(&mut self, node: &Node, what: &str) -> Option<T> {
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
    pub fn required<'n>(
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
