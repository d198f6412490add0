//! Writing YAML that every reader takes for the same.

use std::fmt::Write as _;

use serde_json::Value as Json;

/// A value on one line.
pub(crate) fn inline(value: &Json) -> String {
    match value {
        Json::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A key with its value, over as many lines as it takes, indented by `indent` blanks.
pub(crate) fn entry(key: &str, value: &Json, indent: usize, out: &mut String) {
    let blanks = " ".repeat(indent);
    let key = if is_plain(key) { key.to_owned() } else { Json::from(key).to_string() };
    match value {
        Json::Array(items) if !items.is_empty() => {
            let _ = writeln!(out, "{blanks}{key}:");
            list(items, indent, out);
        }
        Json::Object(fields) if !fields.is_empty() => {
            let _ = writeln!(out, "{blanks}{key}:");
            for (key, value) in fields {
                entry(key, value, indent + 2, out);
            }
        }
        Json::String(text) if is_block(text) => {
            let _ = writeln!(out, "{blanks}{key}: |");
            for line in text.trim_end_matches('\n').split('\n') {
                let space = if line.is_empty() { "" } else { &" ".repeat(indent + 2) };
                let _ = writeln!(out, "{space}{line}");
            }
        }
        value => {
            let _ = writeln!(out, "{blanks}{key}: {}", inline(value));
        }
    }
}

fn list(items: &[Json], indent: usize, out: &mut String) {
    let blanks = " ".repeat(indent);
    for item in items {
        // JSON is YAML, and the items that matter are words.
        let _ = writeln!(out, "{blanks}- {}", inline(item));
    }
}

/// Whether a text can be written as lines under a `|`.
fn is_block(text: &str) -> bool {
    text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n'])
        && text.chars().all(|char| char == '\n' || (!char.is_control() && char != '\u{feff}'))
}

/// Whether a text means itself without quotes.
fn is_plain(text: &str) -> bool {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./@".contains(&byte);
    let starts_well =
        text.starts_with(|first: char| first.is_ascii_alphabetic() || "/_".contains(first));
    starts_well && text.bytes().all(is_word) && !words.contains(&text.to_lowercase().as_str())
}
