//! One check as a distribution writes it: an object, or only its main value.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use camino::Utf8PathBuf;

use super::{SEVERITIES, Severity, Version};
use crate::diagnostic::nearest;
use crate::document::{Fields, Node, Reader, Value};
use crate::id::RoleName;
use crate::quantity;

/// What stands for one check.
pub(super) struct Entry<'r, 'a, 'n> {
    pub(super) reader: &'r mut Reader<'a>,
    /// What it is called in messages.
    pub(super) what: String,
    pub(super) span: Range<usize>,
    /// The key whose value can stand alone, and the value.
    pub(super) main: Option<(&'static str, &'n Node)>,
    pub(super) fields: Option<Fields<'n>>,
}

impl<'n> Entry<'_, '_, 'n> {
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        match self.main {
            Some((main, node)) if main == key => Some(node),
            _ => self.fields.and_then(|fields| fields.get(key)),
        }
    }

    pub(super) fn required(&mut self, key: &str) -> Option<&'n Node> {
        let found = self.get(key);
        if found.is_none() {
            let message = format!("{} lacks the key `{key}`", self.what);
            self.reader.error(&self.span, message, None);
        }
        found
    }

    fn named(&self, key: &str) -> String {
        format!("`{key}` of {}", self.what)
    }

    /// One or several values.
    pub(super) fn several<T: Ord>(
        &mut self,
        key: &str,
        mut read: impl FnMut(&mut Self, &'n Node) -> Option<T>,
    ) -> Vec<T> {
        match self.get(key) {
            None => Vec::new(),
            Some(Node { value: Value::List(items), .. }) => {
                items.iter().filter_map(|item| read(self, item)).collect()
            }
            Some(node) => read(self, node).into_iter().collect(),
        }
    }

    pub(super) fn texts(&mut self, key: &str) -> Vec<String> {
        let what = self.named(key);
        self.several(key, |entry, node| {
            let text = entry.reader.string(node, &what)?;
            if text.is_empty() || text.contains(char::is_control) {
                entry.reader.error(
                    &node.span,
                    format!("{what} has a text that says nothing"),
                    None,
                );
                return None;
            }
            Some(text.to_owned())
        })
    }

    pub(super) fn paths(&mut self, key: &str) -> Vec<Utf8PathBuf> {
        let what = self.named(key);
        self.several(key, |entry, node| entry.absolute(node, &what))
    }

    pub(super) fn path(&mut self, key: &str) -> Option<Utf8PathBuf> {
        let what = self.named(key);
        self.get(key).and_then(|node| self.absolute(node, &what))
    }

    fn absolute(&mut self, node: &Node, what: &str) -> Option<Utf8PathBuf> {
        let path = Utf8PathBuf::from(self.reader.string(node, what)?);
        if !path.is_absolute() {
            let message = format!("{what} is `{path}`, expected an absolute path");
            self.reader.error(&node.span, message, None);
            return None;
        }
        Some(path)
    }

    pub(super) fn parsed<T: FromStr<Err: Display> + Ord>(&mut self, key: &str) -> BTreeSet<T> {
        let what = self.named(key);
        self.several(key, |entry, node| entry.reader.parse(node, &what)).into_iter().collect()
    }

    pub(super) fn addresses(&mut self, key: &str) -> BTreeSet<IpAddr> {
        self.parsed(key)
    }

    pub(super) fn ports(&mut self, key: &str) -> BTreeSet<u16> {
        let what = self.named(key);
        let port = |entry: &mut Self, node: &Node| {
            let port = match node.value {
                Value::Integer(number) => u16::try_from(number).ok().filter(|port| *port > 0),
                _ => None,
            };
            if port.is_none() {
                let help = Some("expected a number from 1 to 65535".to_owned());
                entry.reader.error(&node.span, format!("{what} is no port"), help);
            }
            port
        };
        self.several(key, port).into_iter().collect()
    }

    pub(super) fn number(&mut self, key: &str) -> Option<u32> {
        let what = self.named(key);
        self.get(key).and_then(|node| self.reader.number(node, &what, 1))
    }

    /// A version; one of a number alone needs no quotes.
    pub(super) fn version(&mut self, key: &str) -> Option<Version> {
        let what = self.named(key);
        let node = self.get(key)?;
        match &node.value {
            Value::Integer(number) => number.to_string().parse().ok(),
            // `1.10` and `1.1` are one number.
            Value::OtherNumber => {
                let help = Some("put the version into quotes".to_owned());
                self.reader.error(&node.span, format!("{what} is a number"), help);
                None
            }
            _ => self.reader.parse(node, &what),
        }
    }

    /// Bytes.
    pub(super) fn size(&mut self, key: &str) -> Option<u64> {
        self.quantity(key, "a size such as `4 GiB`", quantity::bytes_of)
    }

    /// Milliseconds.
    pub(super) fn duration(&mut self, key: &str) -> Option<u64> {
        let milliseconds = |text: &str| {
            let seconds = quantity::seconds_of(text)?;
            u64::try_from(std::time::Duration::try_from_secs_f64(seconds).ok()?.as_millis()).ok()
        };
        self.quantity(key, "a time span such as `500ms` or `10s`", milliseconds)
    }

    fn quantity(
        &mut self,
        key: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<u64>,
    ) -> Option<u64> {
        let what = self.named(key);
        let node = self.get(key)?;
        let found = match &node.value {
            Value::Integer(number) => parse(&number.to_string()),
            Value::String(text) => parse(text),
            _ => None,
        };
        if found.is_none() {
            self.reader.error(&node.span, format!("{what}: expected {expected}"), None);
        }
        found
    }

    pub(super) fn severity(&mut self) -> Option<Severity> {
        let node = self.get("severity")?;
        let what = self.named("severity");
        let word = self.reader.string(node, &what)?;
        let found = SEVERITIES.iter().find(|(known, _)| *known == word);
        if found.is_none() {
            let help = suggestion(word, SEVERITIES.iter().map(|(known, _)| *known));
            let message = format!("{what} is `{}`", word.escape_debug());
            self.reader.error(&node.span, message, Some(help));
        }
        found.map(|(_, severity)| *severity)
    }

    /// Roles that the distribution has.
    pub(super) fn roles(&mut self, key: &str, known: &BTreeSet<RoleName>) -> BTreeSet<RoleName> {
        let what = self.named(key);
        let role = |entry: &mut Self, node: &Node| {
            let role: RoleName = entry.reader.parse(node, &what)?;
            if !known.contains(&role) {
                let help = suggestion(role.as_str(), known.iter().map(RoleName::as_str));
                let message = format!("the distribution has no role `{role}`");
                entry.reader.error(&node.span, message, Some(help));
                return None;
            }
            Some(role)
        };
        self.several(key, role).into_iter().collect()
    }
}

/// What was likely meant, or all that could be.
pub(super) fn suggestion<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("expected one of: {}", known.collect::<Vec<_>>().join(", ")),
    }
}
