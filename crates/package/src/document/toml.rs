//! TOML with the place of every value.

use super::{Key, Node, Reader, Value};

impl Reader<'_> {
    /// The file as TOML.
    pub fn toml(&mut self) -> Option<Node> {
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
