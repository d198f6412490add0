//! JSON with the place of every value.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;

use super::{Key, Node, Reader, Value};

impl Reader<'_> {
    /// The file as JSON; a blank one counts as `{}`.
    pub fn json(&mut self) -> Option<Node> {
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
