//! The reference's way to name content: SHA-1 over a text of digests. Only for ids that its hosts read;
//! nothing is trusted by it.

use std::fmt::Write as _;

use serde_json::Value;
use sha1::{Digest as _, Sha1};

/// The digest of a value, as 40 hex digits.
pub fn reference_hash(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => "None".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(items) => {
            let mut items: Vec<&Value> = items.iter().collect();
            items.sort_by_key(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            let hashes: Vec<String> = items.into_iter().map(reference_hash).collect();
            hashes.join(",")
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            let pairs: Vec<String> = fields
                .into_iter()
                .map(|(key, value)| format!("{key}={}", reference_hash(value)))
                .collect();
            pairs.join(",")
        }
    };
    Sha1::digest(text).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_those_that_the_reference_gives() {
        for (value, expected) in [
            (json!(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (json!("a"), "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
            (json!({"a": "b"}), "b9a56f5fe137206360c62f6e5c12892a0b27b6d0"),
            (json!({"b": "c", "a": "b"}), "86b0f7017b8bf7abc5d606cea95441d0ceec570c"),
            (json!(["b", "a"]), "0421aff1ede93c890870a448b6fcfe3b0079f5ec"),
            (json!(1), "356a192b7913b04c54574d18c28d46e6395428ab"),
            (json!({"k": ["x", "y"], "n": {"z": "1"}}), "6dd8dd55edc75220e6eea1e2d51479d2a2373daf"),
            (json!(["mesos--abc", "marathon--def"]), "363d2a5d875df6277f0664e0cc16a102d99ebe3d"),
        ] {
            assert_eq!(reference_hash(&value), expected, "{value}");
        }
    }
}
