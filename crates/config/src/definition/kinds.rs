//! What a declaration says of a value's type.

use indexmap::IndexMap;
use package::diagnostic::nearest;
use package::document::{Fields, Node, Reader, Value};
use serde_json::Value as Json;

use crate::kind::{Family, Field, Kind, PortRule, Type};

/// The keys that say what a value may be.
pub(super) const KIND_KEYS: [&str; 17] = [
    "type",
    "expected",
    "allowed",
    "min",
    "max",
    "min_length",
    "max_length",
    "pattern",
    "multiline",
    "unique",
    "items",
    "keys",
    "fields",
    "port",
    "family",
    "schemes",
    "relative",
];

/// Reads what a declaration with these keys says of the type.
pub(super) fn kind(
    reader: &mut Reader<'_>,
    source: &str,
    fields: Fields<'_>,
    node: &Node,
    what: &str,
) -> Option<Kind> {
    let base = base(reader, fields, node, what)?;
    let mut kind = Kind::of(base);
    for (key, node) in fields.iter() {
        let what = format!("`{}` of {what}", key.name);
        match key.name.as_str() {
            "expected" => kind.expected = reader.string(node, &what).map(str::to_owned),
            "min" => kind.min = number(reader, source, node, &what),
            "max" => kind.max = number(reader, source, node, &what),
            "min_length" => kind.min_length = length(reader, node, &what),
            "max_length" => kind.max_length = length(reader, node, &what),
            "pattern" => kind.pattern = pattern(reader, node, &what),
            "multiline" => kind.multiline = reader.boolean(node, &what).unwrap_or_default(),
            "unique" => kind.unique = reader.boolean(node, &what).unwrap_or_default(),
            "relative" => kind.relative = reader.boolean(node, &what).unwrap_or_default(),
            "items" => kind.items = nested(reader, source, node, &what).map(Box::new),
            "keys" => kind.keys = nested(reader, source, node, &what).map(Box::new),
            "fields" => kind.fields = map_fields(reader, source, node, &what),
            "port" => {
                let rules = [("optional", PortRule::Optional), ("required", PortRule::Required)];
                kind.port = one_of(reader, node, &what, &rules).unwrap_or_default();
            }
            "family" => {
                let families = [("v4", Family::V4), ("v6", Family::V6)];
                kind.family = one_of(reader, node, &what, &families).unwrap_or_default();
            }
            "schemes" => {
                let items = reader.list(node, &what);
                let schemes = items.iter().filter_map(|item| reader.string(item, &what));
                kind.schemes = schemes.map(str::to_owned).collect();
            }
            _ => {}
        }
    }
    if let Some(node) = fields.get("allowed") {
        let what = format!("`allowed` of {what}");
        for item in reader.list(node, &what) {
            let open = Kind { allowed: Vec::new(), ..kind.clone() };
            kind.allowed.extend(value(reader, source, &open, item, &what));
        }
    }
    if base == Type::Enum && kind.allowed.is_empty() {
        reader.error(&node.span, format!("{what} is an enum without `allowed`"), None);
        return None;
    }
    Some(kind)
}

/// Reads a value of this kind that stands in a declaration.
pub(super) fn value(
    reader: &mut Reader<'_>,
    source: &str,
    kind: &Kind,
    node: &Node,
    what: &str,
) -> Option<Json> {
    match kind.parse(node, source) {
        Ok(value) => Some(value),
        Err(problems) => {
            for problem in problems {
                reader.error(&problem.span, format!("{what}: {}", problem.message), problem.help);
            }
            None
        }
    }
}

fn base(reader: &mut Reader<'_>, fields: Fields<'_>, node: &Node, what: &str) -> Option<Type> {
    let named = reader.required(fields, &node.span, "type", what)?;
    one_of(reader, named, &format!("`type` of {what}"), &Type::NAMES)
}

/// One of these words, as what it means.
pub(super) fn one_of<T: Copy>(
    reader: &mut Reader<'_>,
    node: &Node,
    what: &str,
    words: &[(&str, T)],
) -> Option<T> {
    let word = reader.string(node, what)?;
    let found = words.iter().find(|(known, _)| *known == word);
    if found.is_none() {
        let names = || words.iter().map(|(name, _)| *name);
        let help = match nearest(word, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected one of: {}", names().collect::<Vec<_>>().join(", ")),
        };
        reader.error(&node.span, format!("{what} is `{}`", word.escape_debug()), Some(help));
    }
    found.map(|(_, meaning)| *meaning)
}

fn number(reader: &mut Reader<'_>, source: &str, node: &Node, what: &str) -> Option<f64> {
    let number = match node.value {
        Value::Integer(_) | Value::OtherNumber => source.get(node.span.clone()),
        _ => None,
    };
    let number = number.and_then(|text| text.parse().ok());
    if number.is_none() {
        reader.wrong_type(node, what, "a number");
    }
    number
}

fn length(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<usize> {
    reader.number(node, what, 0).and_then(|number| usize::try_from(number).ok())
}

fn pattern(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<regex::Regex> {
    let text = reader.string(node, what)?;
    match regex::Regex::new(&format!("^(?:{text})$")) {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            reader.error(&node.span, format!("{what} is no regular expression: {reason}"), None);
            None
        }
    }
}

fn nested(reader: &mut Reader<'_>, source: &str, node: &Node, what: &str) -> Option<Kind> {
    let fields = reader.object(node, what, &KIND_KEYS)?;
    kind(reader, source, fields, node, what)
}

fn map_fields(
    reader: &mut Reader<'_>,
    source: &str,
    node: &Node,
    what: &str,
) -> IndexMap<String, Field> {
    let mut known = KIND_KEYS.to_vec();
    known.extend(["required", "description"]);
    let mut fields = IndexMap::new();
    let Some(declared) = reader.map(node, what) else { return fields };
    for (key, node) in declared.iter() {
        let what = format!("`{}` in {what}", key.name);
        let Some(keys) = reader.object(node, &what, &known) else { continue };
        let Some(kind) = kind(reader, source, keys, node, &what) else { continue };
        let required = keys.get("required");
        let required = required.and_then(|node| reader.boolean(node, &what)).unwrap_or_default();
        let description = keys.get("description").and_then(|node| reader.string(node, &what));
        let description = description.unwrap_or_default().to_owned();
        fields.insert(key.name.clone(), Field { kind, required, description });
    }
    fields
}
