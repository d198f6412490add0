//! The JSON Schema of `config.yaml` agrees with the reader of it.

use insta::assert_snapshot;
use jsonschema::Validator;
use package::document::{Node, Reader, Value};
use serde_json::{Map, Value as Json, json};

use crate::declared::{SHOP, define, resolve};

/// One parameter of each type.
const TYPES: &str = r##"
include: []
parameters:
  string: {type: string, default: "", max_length: 8}
  version: {type: string, default: "1", pattern: "[0-9]+(?:[.][0-9]+)*"}
  bool: {type: bool, default: true}
  int: {type: int, default: 3, min: -2, max: 9}
  float: {type: float, default: 0.5, min: 0}
  duration: {type: duration, default: 5s, max: 3600}
  size: {type: size, default: 1MiB}
  path: {type: path, default: /srv}
  relative: {type: path, default: here, relative: true}
  url: {type: url, default: "http://a", schemes: [http, https]}
  host: {type: host, default: a, port: optional}
  ip: {type: ip, default: 10.0.0.1, family: v4}
  cidr: {type: cidr, default: 10.0.0.0/8}
  port: {type: port, default: 22}
  email: {type: email, default: a@b.cd}
  list: {type: list, default: [], items: {type: int}, unique: true, max_length: 3}
  map: {type: map, default: {}, keys: {type: string, pattern: "[a-z]+"}, items: {type: bool}}
  fixed:
    type: map
    default: {name: x}
    fields:
      name: {type: string, required: true, description: What it is called.}
      size: {type: int}
  enum: {type: enum, default: a, allowed: [a, b, "5"]}
  level: {type: int, default: 1, allowed: [1, 2]}
  script: {type: script, default: "#!/bin/sh\n", late: true}
  secret: {type: secret, default: ""}
"##;

fn validator(declarations: &str) -> (config::Definition, Validator) {
    let definition = define(declarations);
    let schema = definition.schema("a test");
    jsonschema::meta::validate(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    (definition, validator)
}

/// The file as an editor sees it.
fn document(text: &str) -> Json {
    let mut reader = Reader::new("config.yaml".into(), text);
    let node = reader.yaml().unwrap();
    plain(&node, text)
}

fn plain(node: &Node, text: &str) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Integer(number) => json!(number),
        Value::String(text) => json!(text),
        Value::OtherNumber | Value::Date => {
            let raw = &text[node.span.clone()];
            raw.parse::<f64>().map_or(json!(raw), |number| json!(number))
        }
        Value::List(items) => items.iter().map(|item| plain(item, text)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, item)| (key.name.clone(), plain(item, text)));
            Json::Object(fields.collect::<Map<_, _>>())
        }
    }
}

#[test]
fn every_file_that_is_read_without_mistakes_fits_the_schema() {
    let (definition, validator) = validator(TYPES);
    for text in [
        "string: abc",
        "string: 123",
        "string: \"true\"",
        "version: 1",
        "version: \"1.2\"",
        "bool: true",
        "bool: \"true\"",
        "bool: yes",
        "bool: \"No\"",
        "bool: OFF",
        "int: 9",
        "int: -2",
        "int: \"7\"",
        "float: 1",
        "float: 1.5",
        "float: \"1.5\"",
        "float: 1e3",
        "duration: 5",
        "duration: 1.5",
        "duration: 90secs",
        "duration: 5 mins",
        "duration: \"7\"",
        "size: 1024",
        "size: 64MiB",
        "size: \"5 GB\"",
        "path: /a b",
        "relative: genconf/x",
        "url: http://a/b",
        "url: HTTPS://a",
        "host: a:80",
        "host: \"[::1]:80\"",
        "host: 10.0.0.1",
        "ip: 10.0.0.1",
        "cidr: 10.0.0.0/8",
        "port: 65535",
        "port: \"1\"",
        "email: a@b.cd",
        "list: [1, 2]",
        "list: ['1', 2]",
        "list: '[1, 2]'",
        "list: '[\"1\"]'",
        "list: []",
        "map: {a: true}",
        "map: {a: \"yes\"}",
        "map: '{\"a\": true}'",
        "fixed: {name: x}",
        "fixed: {name: 5, size: \"5\"}",
        "fixed: '{\"name\": \"x\"}'",
        "enum: b",
        "enum: 5",
        "enum: \"5\"",
        "level: 2",
        "level: \"2\"",
        "script: \"#!/bin/sh\\necho\"",
        "secret: abc",
        "secret: 123",
        "late_values: [script]",
    ] {
        let resolution = resolve(&definition, text);
        assert!(resolution.is_ok(), "{text}: {:?}", resolution.diagnostics);
        let wrong: Vec<String> =
            validator.iter_errors(&document(text)).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{text}: {wrong:?}");
    }
}

#[test]
fn what_an_editor_marks_is_a_mistake() {
    let (definition, validator) = validator(TYPES);
    for text in [
        "unknown: 1",
        "string: 123456789abc",
        "string: [a]",
        "string:",
        "string: true",
        "version: \"1.\"",
        "bool: maybe",
        "bool: 1",
        "int: 10",
        "int: -3",
        "int: 1.5",
        "int: x",
        "float: -1",
        "float: x",
        "duration: 5 lightyears",
        "duration: 7200",
        "size: 5X",
        "path: srv",
        "url: \"ftp://a\"",
        "port: 0",
        "port: 65536",
        "port: ssh",
        "list: [a]",
        "list: [1, 1]",
        "list: [1, 2, 3, 4]",
        "list: 5",
        "list: a",
        "map: {A: true}",
        "map: {a: 5}",
        "map: [1]",
        "fixed: {}",
        "fixed: {name: x, other: 1}",
        "enum: c",
        "enum: 6",
        "level: 3",
        "script: echo",
        "secret: [a]",
        "late_values: [int]",
    ] {
        assert!(!validator.is_valid(&document(text)), "{text} fits the schema");
        assert!(!resolve(&definition, text).is_ok(), "{text} is read without mistakes");
    }
}

#[test]
fn only_what_must_always_be_set_is_required() {
    let (_, validator) = validator(SHOP);
    assert!(validator.is_valid(&json!({ "cluster_name": "A" })));
    assert!(validator.is_valid(&json!({ "cluster_name": "A", "storage": "shared" })));
    assert!(!validator.is_valid(&json!({})));
}

#[test]
fn a_value_that_can_be_late_need_not_be_there() {
    let (definition, validator) =
        validator("include: []\nparameters:\n  a: {type: int, required: true, late: true}\n");
    assert!(resolve(&definition, "late_values: [a]").is_ok());
    assert!(validator.is_valid(&json!({ "late_values": ["a"] })));
}

#[test]
fn a_name_with_several_declarations_takes_what_any_of_them_takes() {
    let (_, validator) = validator(
        "include: []\nparameters:\n  x: {type: bool, default: true}\ngroups:\n  \
         - when: x\n    parameters: {a: {type: int, default: 1}}\n  \
         - when: not x\n    parameters: {a: {type: enum, allowed: [b], default: b}}\n",
    );
    assert!(validator.is_valid(&json!({ "a": 1 })));
    assert!(validator.is_valid(&json!({ "a": "b" })));
    assert!(!validator.is_valid(&json!({ "a": "c" })));
}

#[test]
fn a_pattern_that_javascript_reads_otherwise_is_left_out() {
    let (definition, validator) = validator(
        "include: []\nparameters:\n  a: {type: string, default: b, pattern: '(?i)b|[[:digit:]]+'}\n",
    );
    assert!(resolve(&definition, "a: B").is_ok());
    assert!(validator.is_valid(&json!({ "a": "B" })));
}

#[test]
fn the_schema_says_what_is_declared() {
    let schema = define(SHOP).schema("The shop");
    assert_eq!(schema["title"], "The shop");
    let property = |name: &str| schema["properties"][name].to_string();
    assert_snapshot!(property("cluster_name"), @r#"{"description":"The name of the cluster. People read it.\n\nExpected: a text.","type":["string","integer"],"minLength":1,"examples":["Main Street"]}"#);
    assert_snapshot!(property("workers"), @r#"{"description":"Expected: a whole number from 1 to 64.","anyOf":[{"type":"integer","minimum":1,"maximum":64},{"type":"string","pattern":"^\\s*[-+]?[0-9]+\\s*$"}],"default":4}"#);
    assert_snapshot!(property("zone"), @r#"{"description":"The DNS zone.\n\nExpected: a text.\n\nWithout it: `cluster_name | lower`.","type":["string","integer"]}"#);
    assert_snapshot!(property("password"), @r#"{"description":"What the front sends to the back.\n\nExpected: a text.","type":["string","integer"],"default":"","writeOnly":true}"#);
    assert_snapshot!(property("servers"), @r#"{"description":"The servers that keep the orders.\n\nExpected: a list, each item an IPv4 address.\n\nOnly when `storage == \"shared\"`.","anyOf":[{"type":"array","items":{"type":"string","format":"ipv4"},"uniqueItems":true,"minItems":1},{"type":"string","pattern":"^\\s*\\["}],"examples":[["10.0.0.1","10.0.0.2"]]}"#);
    assert_snapshot!(property("late_values"), @r#"{"description":"Keys whose values become known only on the hosts.","type":"array","items":{"enum":["region"]}}"#);
}
