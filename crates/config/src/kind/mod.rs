//! What a value may be: its type, and what narrows it down. A value is parsed once, at the border,
//! into plain JSON of one form: lists are lists, numbers are numbers, addresses are canonical.

mod collection;
mod scalar;

use std::ops::Range;

use indexmap::IndexMap;
use package::document::{Node, Value};
use serde_json::Value as Json;

pub(crate) use package::quantity::{DURATIONS, SIZES, bytes_of, seconds_of};

/// What is shown instead of a secret.
pub const MASK: &str = "**HIDDEN**";

/// The types of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A text of one line, unless it may have several.
    String,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// A time span, such as `5s`.
    Duration,
    /// A number of bytes, such as `64MiB`.
    Size,
    /// A path.
    Path,
    /// A URL.
    Url,
    /// An IP address or host name.
    Host,
    /// An IP address.
    Ip,
    /// A network, such as `10.0.0.0/8`.
    Cidr,
    /// A port.
    Port,
    /// An e-mail address.
    Email,
    /// Several values of one kind.
    List,
    /// Values by name.
    Map,
    /// One of some words.
    Enum,
    /// A program's text.
    Script,
    /// A text that nobody may see.
    Secret,
}

impl Type {
    /// Every type by the name that declarations use.
    pub const NAMES: [(&'static str, Self); 18] = [
        ("string", Self::String),
        ("bool", Self::Bool),
        ("int", Self::Int),
        ("float", Self::Float),
        ("duration", Self::Duration),
        ("size", Self::Size),
        ("path", Self::Path),
        ("url", Self::Url),
        ("host", Self::Host),
        ("ip", Self::Ip),
        ("cidr", Self::Cidr),
        ("port", Self::Port),
        ("email", Self::Email),
        ("list", Self::List),
        ("map", Self::Map),
        ("enum", Self::Enum),
        ("script", Self::Script),
        ("secret", Self::Secret),
    ];
}

/// Whether a port may or must stand behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PortRule {
    /// It must not.
    #[default]
    None,
    /// It may.
    Optional,
    /// It must.
    Required,
}

/// Which addresses are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Both.
    #[default]
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// What a value may be.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each says something else of a type")]
pub struct Kind {
    /// Its type.
    pub base: Type,
    /// What is expected, in the words of who declared it.
    pub expected: Option<String>,
    /// The only values, if they are listed.
    pub allowed: Vec<Json>,
    /// The smallest number.
    pub min: Option<f64>,
    /// The largest number.
    pub max: Option<f64>,
    /// The fewest characters or items.
    pub min_length: Option<usize>,
    /// The most characters or items.
    pub max_length: Option<usize>,
    /// What the whole text must match.
    pub pattern: Option<regex::Regex>,
    /// Whether a text may have several lines.
    pub multiline: bool,
    /// Whether items must differ.
    pub unique: bool,
    /// What the items of a list or the values of a map are.
    pub items: Option<Box<Kind>>,
    /// What the keys of a map are.
    pub keys: Option<Box<Kind>>,
    /// The keys of a map with fixed ones.
    pub fields: IndexMap<String, Field>,
    /// Whether a port stands behind an address.
    pub port: PortRule,
    /// Which addresses are meant.
    pub family: Family,
    /// The schemes that a URL may have; empty: any.
    pub schemes: Vec<String>,
    /// Whether a path need not start at the root.
    pub relative: bool,
    /// Whether a URL may have a password in it: only if nobody sees it.
    pub credentials: bool,
}

/// A key of a map with fixed keys.
#[derive(Debug, Clone)]
pub struct Field {
    /// What its value may be.
    pub kind: Kind,
    /// Whether it must be there.
    pub required: bool,
    /// What it is for.
    pub description: String,
}

/// What is wrong with a value, and where in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The place, in bytes.
    pub span: Range<usize>,
    /// The path to the value inside the parameter, such as `[1].port`; empty for the whole.
    pub at: String,
    /// What was expected and what was found.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl Kind {
    /// Any value of this type.
    pub fn of(base: Type) -> Self {
        Self {
            base,
            expected: None,
            allowed: Vec::new(),
            min: None,
            max: None,
            min_length: None,
            max_length: None,
            pattern: None,
            multiline: false,
            unique: false,
            items: None,
            keys: None,
            fields: IndexMap::new(),
            port: PortRule::None,
            family: Family::Any,
            schemes: Vec::new(),
            relative: false,
            credentials: false,
        }
    }

    /// Whether it, or something in it, is for nobody to see.
    pub(crate) fn holds_secret(&self) -> bool {
        let mut inner = self.items.as_deref().into_iter();
        self.base == Type::Secret
            || inner.any(Self::holds_secret)
            || self.fields.values().any(|field| field.kind.holds_secret())
    }

    /// Parses the value that `node` is in `source`, or says all that is wrong with it.
    pub fn parse(&self, node: &Node, source: &str) -> Result<Json, Vec<Problem>> {
        let mut problems = Vec::new();
        let parsed = self.parse_at(node, source, "", &mut problems);
        match parsed {
            Some(value) if problems.is_empty() => Ok(value),
            _ => Err(problems),
        }
    }

    /// Parses a value that was computed, or says what is wrong with it.
    pub fn parse_computed(&self, value: &Json) -> Result<Json, String> {
        let node = from_json(value);
        self.parse(&node, "").map_err(|problems| {
            let messages = problems.into_iter().map(|problem| match problem.at.as_str() {
                "" => problem.message,
                at => format!("`{at}`: {}", problem.message),
            });
            messages.collect::<Vec<_>>().join("; ")
        })
    }

    fn parse_at(
        &self,
        node: &Node,
        source: &str,
        at: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<Json> {
        let before = problems.len();
        let value = match self.base {
            Type::List => self.list(node, source, at, problems),
            Type::Map => self.map(node, source, at, problems),
            _ => {
                let parsed = self.scalar(&Given { node, source });
                parsed.map_err(|wrong| problems.push(wrong.at(node, at))).ok()
            }
        }?;
        if problems.len() > before {
            return None;
        }
        match self.narrow(&value) {
            Ok(()) => Some(value),
            Err(wrong) => {
                problems.push(wrong.at(node, at));
                None
            }
        }
    }

    /// Checks what narrows the type down.
    fn narrow(&self, value: &Json) -> Result<(), Wrong> {
        let found = || show(value);
        if !self.allowed.is_empty() && !self.allowed.contains(value) {
            let near = value.as_str().and_then(|text| {
                let words = self.allowed.iter().filter_map(Json::as_str);
                package::diagnostic::nearest(text, words)
            });
            let help = near.map(|near| format!("did you mean `{near}`?"));
            return Err(Wrong { help, ..self.wrong(&found()) });
        }
        if let Some(number) = value.as_f64() {
            let below = self.min.is_some_and(|min| number < min);
            let above = self.max.is_some_and(|max| number > max);
            if below || above {
                return Err(self.wrong(&found()));
            }
        }
        let length = match value {
            Json::String(text) => Some((text.chars().count(), "characters")),
            Json::Array(items) => Some((items.len(), "items")),
            Json::Object(fields) => Some((fields.len(), "keys")),
            _ => None,
        };
        if let Some((length, unit)) = length {
            if self.min_length.is_some_and(|min| length < min) {
                let min = self.min_length.unwrap_or_default();
                let message = match (length, min) {
                    (0, 1) if unit == "characters" => {
                        format!("expected {}, found an empty text", self.describe())
                    }
                    (0, 1) => "expected at least one, found none".to_owned(),
                    _ => format!("expected at least {min} {unit}, found {length}"),
                };
                return Err(Wrong { message, help: None });
            }
            if self.max_length.is_some_and(|max| length > max) {
                let max = self.max_length.unwrap_or_default();
                let message = format!("expected at most {max} {unit}, found {length}");
                return Err(Wrong { message, help: None });
            }
        }
        if let (Some(pattern), Some(text)) = (&self.pattern, value.as_str())
            && !pattern.is_match(text)
        {
            return Err(self.wrong(&found()));
        }
        Ok(())
    }

    fn wrong(&self, found: &str) -> Wrong {
        let found = if self.base == Type::Secret { "something else" } else { found };
        Wrong { message: format!("expected {}, found {found}", self.describe()), help: None }
    }

    /// What is expected, in words.
    pub fn describe(&self) -> String {
        if let Some(expected) = &self.expected {
            return expected.clone();
        }
        if !self.allowed.is_empty() {
            return any_of(&self.allowed.iter().map(show).collect::<Vec<_>>());
        }
        let with_port = match self.port {
            PortRule::None => "",
            PortRule::Optional => ", optionally with `:PORT`",
            PortRule::Required => " with `:PORT`",
        };
        match self.base {
            Type::String => match &self.pattern {
                Some(pattern) => format!("a text that matches `{}`", shown_pattern(pattern)),
                None => "a text".to_owned(),
            },
            Type::Bool => "`true` or `false`".to_owned(),
            Type::Int => format!("a whole number{}", self.range()),
            Type::Float => format!("a number{}", self.range()),
            Type::Duration => "a time span such as `90s`, `5m` or `2h`".to_owned(),
            Type::Size => "a size such as `512MiB` or `4GB`".to_owned(),
            Type::Path if self.relative => "a path".to_owned(),
            Type::Path => "an absolute path".to_owned(),
            Type::Url if self.schemes.is_empty() => "a URL".to_owned(),
            Type::Url => {
                let schemes: Vec<String> =
                    self.schemes.iter().map(|scheme| format!("`{scheme}:`")).collect();
                format!("a URL that starts with {}", any_of(&schemes))
            }
            Type::Host => format!("an IP address or host name{with_port}"),
            Type::Ip => format!("an {}address{with_port}", self.family_words()),
            Type::Cidr => format!("an {}network such as `10.0.0.0/8`", self.family_words()),
            Type::Port => "a port from 1 to 65535".to_owned(),
            Type::Email => "an e-mail address".to_owned(),
            Type::List => match &self.items {
                Some(items) => format!("a list, each item {}", items.describe()),
                None => "a list".to_owned(),
            },
            Type::Map => "keys with values".to_owned(),
            Type::Enum => "a word".to_owned(),
            Type::Script => "the text of a program, starting with `#!`".to_owned(),
            Type::Secret => "a text".to_owned(),
        }
    }

    fn family_words(&self) -> &'static str {
        match self.family {
            Family::Any => "IP ",
            Family::V4 => "IPv4 ",
            Family::V6 => "IPv6 ",
        }
    }

    fn range(&self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!(" from {min} to {max}"),
            (Some(min), None) => format!(" of at least {min}"),
            (None, Some(max)) => format!(" of at most {max}"),
            (None, None) => String::new(),
        }
    }
}

/// A value as it stands in a file.
struct Given<'a> {
    node: &'a Node,
    source: &'a str,
}

impl Given<'_> {
    /// The characters of a value without quotes.
    fn raw(&self) -> String {
        match &self.node.value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            _ => self.source.get(self.node.span.clone()).unwrap_or_default().to_owned(),
        }
    }
}

/// What is wrong with a value whose place is known elsewhere.
struct Wrong {
    message: String,
    help: Option<String>,
}

impl Wrong {
    fn at(self, node: &Node, at: &str) -> Problem {
        let Self { message, help } = self;
        Problem { span: node.span.clone(), at: at.to_owned(), message, help }
    }
}

/// A value as messages quote it, cut where it is long.
pub(crate) fn show(value: &Json) -> String {
    let text = match value {
        Json::String(text) => text.escape_debug().to_string(),
        other => other.to_string(),
    };
    let cut: String = text.chars().take(80).collect();
    if cut.len() < text.len() { format!("`{cut}…`") } else { format!("`{cut}`") }
}

/// `a, b or c`.
pub(crate) fn any_of(words: &[String]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [word] => word.clone(),
        [words @ .., last] => format!("{} or {last}", words.join(", ")),
    }
}

pub(crate) fn shown_pattern(pattern: &regex::Regex) -> &str {
    let text = pattern.as_str();
    text.strip_prefix("^(?:").and_then(|text| text.strip_suffix(")$")).unwrap_or(text)
}

fn from_json(value: &Json) -> Node {
    let value = match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Integer(number),
            None => Value::String(number.to_string()),
        },
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::List(items.iter().map(from_json).collect()),
        Json::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, value)| {
                    let key = package::document::Key { span: 0..0, name: name.clone() };
                    (key, from_json(value))
                })
                .collect(),
        ),
    };
    Node { span: 0..0, value }
}

#[cfg(test)]
mod tests;
