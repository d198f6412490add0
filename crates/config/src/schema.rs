//! The JSON Schema of `config.yaml`, for editors. It never marks a file that this crate takes: where
//! the two could differ, it says less.

use serde_json::{Map, Value as Json, json};

use crate::definition::{Default, Definition, How, Parameter, Setter};
use crate::kind::{DURATIONS, Family, Kind, PortRule, SIZES, Type, shown_pattern};
use crate::resolve::LATE;

/// The dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// A whole number in quotes.
const INTEGER: &str = r"^\s*[-+]?[0-9]+\s*$";
/// A number in quotes.
const NUMBER: &str = r"^\s*[-+]?[0-9.]+([eE][-+]?[0-9]+)?\s*$";

impl Definition {
    /// The JSON Schema of what somebody can write, called `title`.
    pub fn schema(&self, title: &str) -> Json {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (name, setters) in &self.setters {
            let parameters: Vec<(&Setter, &Parameter)> = setters
                .iter()
                .filter_map(|setter| match &setter.how {
                    How::Parameter(parameter) => Some((setter, &**parameter)),
                    How::Computed(_) => None,
                })
                .collect();
            let schema = match parameters[..] {
                [] => continue,
                [(setter, parameter)] => {
                    let must = matches!(parameter.default, Default::Required) && !parameter.late;
                    if must && setter.when.is_none() {
                        required.push(name.clone());
                    }
                    property(setter, parameter)
                }
                _ => {
                    let ways = parameters.iter().map(|(setter, one)| property(setter, one));
                    json!({ "anyOf": ways.collect::<Vec<_>>() })
                }
            };
            properties.insert(name.clone(), schema);
        }
        let late = self.settable().filter(|name| self.parameters(name).any(|one| one.late));
        let late: Vec<&str> = late.collect();
        if !late.is_empty() {
            let description = "Keys whose values become known only on the hosts.";
            let schema =
                json!({ "description": description, "type": "array", "items": { "enum": late } });
            properties.insert(LATE.to_owned(), schema);
        }
        json!({
            "$schema": DIALECT,
            "title": title,
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }
}

fn property(setter: &Setter, parameter: &Parameter) -> Json {
    let mut words = Vec::new();
    if !parameter.description.is_empty() {
        words.push(parameter.description.clone());
    }
    words.push(format!("Expected: {}.", parameter.kind.describe()));
    if let Default::From(from) = &parameter.default {
        words.push(format!("Without it: `{}`.", from.text));
    }
    if let Some(when) = &setter.when {
        words.push(format!("Only when `{}`.", when.text));
    }
    let mut schema = Map::new();
    schema.insert("description".to_owned(), json!(words.join("\n\n")));
    schema.extend(of_kind(&parameter.kind));
    if let Default::Value(value) = &parameter.default {
        schema.insert("default".to_owned(), value.clone());
    }
    if let Some(example) = &parameter.example {
        schema.insert("examples".to_owned(), json!([example]));
    }
    if parameter.secret {
        schema.insert("writeOnly".to_owned(), json!(true));
    }
    Json::Object(schema)
}

/// The keywords of what a value may be, also in the form that the reference wanted.
fn of_kind(kind: &Kind) -> Map<String, Json> {
    if !kind.allowed.is_empty() && kind.base != Type::List && kind.base != Type::Map {
        return object(json!({ "enum": kind.allowed.iter().flat_map(forms).collect::<Vec<_>>() }));
    }
    let in_quotes = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    let either = |plain: Json, quoted: Json| object(json!({ "anyOf": [plain, quoted] }));
    let number = |base: &str| {
        let mut number = object(json!({ "type": base }));
        insert(&mut number, "minimum", kind.min.map(whole));
        insert(&mut number, "maximum", kind.max.map(whole));
        Json::Object(number)
    };
    match kind.base {
        Type::Bool => {
            let words = ["true", "false", "yes", "no", "on", "off"].map(any_case).join("|");
            either(json!({ "type": "boolean" }), in_quotes(&format!("^({words})$")))
        }
        Type::Int => either(number("integer"), in_quotes(INTEGER)),
        Type::Float => either(number("number"), in_quotes(NUMBER)),
        Type::Port => {
            let port = json!({ "type": "integer", "minimum": 1, "maximum": 65535 });
            either(port, in_quotes(INTEGER))
        }
        Type::Duration => {
            let units = DURATIONS.iter().flat_map(|(names, _)| names.iter().copied());
            either(number("number"), in_quotes(&quantity(units)))
        }
        Type::Size => {
            let units = SIZES.iter().flat_map(|(names, _)| names.iter().copied());
            either(number("integer"), in_quotes(&quantity(units)))
        }
        Type::List => either(list(kind), in_quotes(r"^\s*\[")),
        Type::Map => either(map(kind), in_quotes(r"^\s*\{")),
        _ => text(kind),
    }
}

fn text(kind: &Kind) -> Map<String, Json> {
    // Digits need no quotes to be a text.
    let base = match kind.base {
        Type::String | Type::Enum | Type::Secret => json!(["string", "integer"]),
        _ => json!("string"),
    };
    let mut text = object(json!({ "type": base }));
    let schemes = kind.schemes.iter().map(|scheme| any_case(scheme)).collect::<Vec<_>>().join("|");
    let pattern = match kind.base {
        Type::Path if !kind.relative => Some("^/".to_owned()),
        Type::Url if !schemes.is_empty() => Some(format!("^({schemes}):")),
        Type::Script => Some("^(#!|$)".to_owned()),
        _ => None,
    };
    let pattern = kind.pattern.as_ref().map(shown_pattern).filter(is_portable).map_or(
        pattern,
        // What the type wants beside it is for who reads the file.
        |pattern| Some(format!("^(?:{pattern})$")),
    );
    let format = match (kind.base, kind.family, kind.port) {
        (Type::Ip, Family::V4, PortRule::None) => Some("ipv4"),
        (Type::Email, ..) => Some("email"),
        (Type::Url, ..) => Some("uri"),
        _ => None,
    };
    insert(&mut text, "pattern", pattern);
    insert(&mut text, "format", format);
    insert(&mut text, "minLength", kind.min_length);
    insert(&mut text, "maxLength", kind.max_length);
    text
}

fn list(kind: &Kind) -> Json {
    let mut list = object(json!({ "type": "array" }));
    insert(&mut list, "items", kind.items.as_deref().map(of_kind));
    insert(&mut list, "uniqueItems", kind.unique.then_some(true));
    insert(&mut list, "minItems", kind.min_length);
    insert(&mut list, "maxItems", kind.max_length);
    Json::Object(list)
}

fn map(kind: &Kind) -> Json {
    let mut map = object(json!({ "type": "object" }));
    if kind.fields.is_empty() {
        insert(&mut map, "additionalProperties", kind.items.as_deref().map(of_kind));
        insert(&mut map, "propertyNames", kind.keys.as_deref().map(of_kind));
    } else {
        let mut properties = Map::new();
        for (name, field) in &kind.fields {
            let mut schema = of_kind(&field.kind);
            let described = Some(&field.description).filter(|words| !words.is_empty());
            insert(&mut schema, "description", described);
            properties.insert(name.clone(), Json::Object(schema));
        }
        let required = kind.fields.iter().filter(|(_, field)| field.required);
        let required: Vec<&String> = required.map(|(name, _)| name).collect();
        insert(&mut map, "properties", Some(properties));
        insert(&mut map, "required", Some(required));
        insert(&mut map, "additionalProperties", Some(false));
    }
    insert(&mut map, "minProperties", kind.min_length);
    insert(&mut map, "maxProperties", kind.max_length);
    Json::Object(map)
}

/// A value that is allowed, as it can stand in a file: with and without quotes.
fn forms(value: &Json) -> Vec<Json> {
    match value {
        Json::String(text) => match text.parse::<i64>() {
            Ok(number) => vec![value.clone(), json!(number)],
            Err(_) => vec![value.clone()],
        },
        other => vec![value.clone(), json!(other.to_string())],
    }
}

/// Whether a pattern means the same in JavaScript, whose language schemas speak.
fn is_portable(pattern: &&str) -> bool {
    let groups = pattern.matches("(?").count();
    let foreign = ["[[:", r"\A", r"\z", r"\p", r"\P", r"\x{", r"\d", r"\w", r"\s", "&&", "~~"];
    groups == pattern.matches("(?:").count() && !foreign.iter().any(|one| pattern.contains(one))
}

/// A pattern for a number with one of these units.
fn quantity<'u>(units: impl Iterator<Item = &'u str>) -> String {
    let units = units.collect::<Vec<_>>().join("|");
    format!(r"^\s*[0-9]+(\.[0-9]+)?\s*({units})?\s*$")
}

/// A pattern for a word in small or capital letters.
fn any_case(word: &str) -> String {
    let letters = word.chars().map(|char| match char.is_ascii_alphabetic() {
        true => format!("[{}{}]", char.to_ascii_lowercase(), char.to_ascii_uppercase()),
        false if char.is_ascii_alphanumeric() => char.to_string(),
        false => format!("[{char}]"),
    });
    letters.collect()
}

/// `5` rather than `5.0` where that is the same.
fn whole(number: f64) -> Json {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
        let whole = number as i64;
        json!(whole)
    } else {
        json!(number)
    }
}

fn insert(schema: &mut Map<String, Json>, key: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        schema.insert(key.to_owned(), json!(value));
    }
}

fn object(value: Json) -> Map<String, Json> {
    match value {
        Json::Object(fields) => fields,
        _ => Map::new(),
    }
}
