//! Lists and maps. The reference wanted them as JSON in quotes, so that form is read, too.

use std::collections::HashMap;
use std::ops::Range;

use package::diagnostic::nearest;
use package::document::{Node, Value};
use serde_json::{Map, Value as Json};

use super::{Kind, Problem, Type, from_json, show};

impl Kind {
    pub(super) fn list(
        &self,
        node: &Node,
        source: &str,
        at: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<Json> {
        let unquoted = unquote(node);
        let node = unquoted.as_ref().unwrap_or(node);
        let Value::List(items) = &node.value else {
            problems.push(self.not_a_collection(node, source, at));
            return None;
        };
        let mut values = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            let at = format!("{at}[{index}]");
            let value = match &self.items {
                Some(kind) => kind.parse_at(item, source, &at, problems),
                None => any(item, source, &at, problems),
            };
            let Some(value) = value else { continue };
            if self.unique
                && let Some(first) = places.insert(value.to_string(), index)
            {
                problems.push(Problem {
                    span: item.span.clone(),
                    at,
                    message: format!("{} stands twice, first at `[{first}]`", show(&value)),
                    help: Some("remove one of them".to_owned()),
                });
            }
            values.push(value);
        }
        Some(Json::Array(values))
    }

    pub(super) fn map(
        &self,
        node: &Node,
        source: &str,
        at: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<Json> {
        let unquoted = unquote(node);
        let node = unquoted.as_ref().unwrap_or(node);
        let Value::Object(fields) = &node.value else {
            problems.push(self.not_a_collection(node, source, at));
            return None;
        };
        let mut values = Map::new();
        for (key, item) in fields {
            let at = if at.is_empty() { key.name.clone() } else { format!("{at}.{}", key.name) };
            let mut report = |message: String, help: Option<String>| {
                problems.push(Problem { span: key.span.clone(), at: at.clone(), message, help });
            };
            if values.contains_key(&key.name) {
                report("this key stands twice".to_owned(), Some("remove one of them".to_owned()));
                continue;
            }
            let kind = if self.fields.is_empty() {
                let name = Node { span: key.span.clone(), value: Value::String(key.name.clone()) };
                if let Some(Err(wrong)) = self.keys.as_ref().map(|keys| keys.parse(&name, source)) {
                    problems
                        .extend(wrong.into_iter().map(|wrong| Problem { at: at.clone(), ..wrong }));
                }
                self.items.as_deref()
            } else if let Some(field) = self.fields.get(&key.name) {
                Some(&field.kind)
            } else {
                let known = self.fields.keys().map(String::as_str);
                let help = match nearest(&key.name, known.clone()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known keys: {}", known.collect::<Vec<_>>().join(", ")),
                };
                report(format!("unknown key `{}`", key.name.escape_debug()), Some(help));
                continue;
            };
            let value = match kind {
                Some(kind) => kind.parse_at(item, source, &at, problems),
                None => any(item, source, &at, problems),
            };
            // A key that has a mistake is there nevertheless.
            values.insert(key.name.clone(), value.unwrap_or(Json::Null));
        }
        for (name, field) in &self.fields {
            if field.required && !values.contains_key(name) {
                problems.push(Problem {
                    span: node.span.clone(),
                    at: at.to_owned(),
                    message: format!("the key `{name}` is missing: {}", field.kind.describe()),
                    help: None,
                });
            }
        }
        Some(Json::Object(values))
    }

    fn not_a_collection(&self, node: &Node, source: &str, at: &str) -> Problem {
        let found = match &node.value {
            Value::Null => "nothing".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Object(_) => "keys with values".to_owned(),
            Value::String(text) => show(&Json::from(text.as_str())),
            _ => show(&Json::from(source.get(node.span.clone()).unwrap_or_default())),
        };
        let help = match (&node.value, self.base) {
            (Value::Null, Type::List) => "an empty list is `[]`".to_owned(),
            (Value::Null, _) => "an empty map is `{}`".to_owned(),
            (Value::String(text), _) if text.trim_start().starts_with(['[', '{']) => {
                "what is in the quotes is not valid JSON; remove the quotes, or correct it"
                    .to_owned()
            }
            (_, Type::List) => {
                "write `[one, two]`, or each item on a line of its own after `- `".to_owned()
            }
            _ => "write each key on a line of its own, indented".to_owned(),
        };
        Problem {
            span: node.span.clone(),
            at: at.to_owned(),
            message: format!("expected {}, found {found}", self.describe()),
            help: Some(help),
        }
    }
}

/// The value of a text that is JSON, at the place of that text.
fn unquote(node: &Node) -> Option<Node> {
    let Value::String(text) = &node.value else { return None };
    if !text.trim_start().starts_with(['[', '{']) {
        return None;
    }
    let value: Json = serde_json::from_str(text).ok()?;
    let mut value = from_json(&value);
    place(&mut value, &node.span);
    Some(value)
}

fn place(node: &mut Node, span: &Range<usize>) {
    node.span = span.clone();
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| place(item, span)),
        Value::Object(fields) => {
            for (key, item) in fields {
                key.span = span.clone();
                place(item, span);
            }
        }
        _ => {}
    }
}

/// A value of which nothing was declared.
fn any(node: &Node, source: &str, at: &str, problems: &mut Vec<Problem>) -> Option<Json> {
    let value = match &node.value {
        Value::Bool(value) => Some(Json::from(*value)),
        Value::Integer(number) => Some(Json::from(*number)),
        Value::String(text) => Some(Json::from(text.as_str())),
        Value::OtherNumber => {
            let raw = source.get(node.span.clone()).unwrap_or_default();
            raw.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Json::Number)
        }
        Value::List(_) => return Kind::of(Type::List).parse_at(node, source, at, problems),
        Value::Object(_) => return Kind::of(Type::Map).parse_at(node, source, at, problems),
        Value::Null | Value::Date => None,
    };
    if value.is_none() {
        problems.push(Problem {
            span: node.span.clone(),
            at: at.to_owned(),
            message: format!("expected a text, number, list or keys, found {}", node.kind()),
            help: Some("put a text into quotes".to_owned()),
        });
    }
    value
}
