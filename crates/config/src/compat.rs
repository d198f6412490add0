//! How the reference names content. Its names change with every effective change, and tools that know
//! them compare them; nothing here is protected by it.

use std::fmt::Write as _;

use serde_json::Value;
use sha1::{Digest as _, Sha1};

/// The name of a value: lists are sets, keys have no order.
pub fn reference_hash(value: &Value) -> String {
    match value {
        Value::String(text) => hash(text),
        Value::Bool(true) => hash("True"),
        Value::Bool(false) => hash("False"),
        Value::Null => hash("None"),
        Value::Number(number) => hash(&number.to_string()),
        Value::Array(items) => {
            // The reference sorts the items, which are texts; others get an order by their names.
            let mut items: Vec<(String, String)> = items
                .iter()
                .map(|item| {
                    let hash = reference_hash(item);
                    (item.as_str().map_or_else(|| hash.clone(), str::to_owned), hash)
                })
                .collect();
            items.sort();
            let hashes: Vec<String> = items.into_iter().map(|(_, hash)| hash).collect();
            hash(&hashes.join(","))
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            let fields =
                fields.iter().map(|(key, value)| format!("{key}={}", reference_hash(value)));
            hash(&fields.collect::<Vec<_>>().join(","))
        }
    }
}

fn hash(text: &str) -> String {
    let mut name = String::new();
    for byte in Sha1::digest(text.as_bytes()) {
        let _ = write!(name, "{byte:02x}");
    }
    name
}
