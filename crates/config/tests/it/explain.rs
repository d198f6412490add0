//! Why a value is what it is.

use config::explain::{Cause, Source, Status};
use insta::assert_snapshot;
use serde_json::json;

use crate::declared::{SHOP, define, resolve};

/// A tree of causes as text.
fn show(cause: &Cause) -> String {
    let mut lines = Vec::new();
    add(cause, 0, &mut lines);
    lines.join("\n")
}

fn add(cause: &Cause, depth: usize, lines: &mut Vec<String>) {
    let value = cause.value.as_ref().map(|value| format!(" = {value}")).unwrap_or_default();
    let source = match &cause.source {
        None => String::new(),
        Some(Source::File { file, place }) => {
            format!(", {file}:{}:{} `{}`", place.line, place.column, place.text)
        }
        Some(Source::Default) => ", default".to_owned(),
        Some(Source::DefaultFrom { expression }) => format!(", default from `{expression}`"),
        Some(Source::Computed { expression }) => format!(", computed `{expression}`"),
        Some(Source::Distribution) => ", of the distribution".to_owned(),
    };
    let repeated = if cause.repeated { ", see above" } else { "" };
    let blanks = "  ".repeat(depth);
    lines.push(format!("{blanks}{} {:?}{value}{source}{repeated}", cause.name, cause.status));
    for used in &cause.uses {
        add(used, depth + 1, lines);
    }
}

fn cause_of(text: &str, name: &str) -> String {
    let definition = define(SHOP);
    show(&definition.explain(&resolve(&definition, text), name).unwrap().cause)
}

#[test]
fn a_value_that_somebody_set_names_the_line() {
    assert_snapshot!(cause_of("cluster_name: A\nworkers: 8\n", "workers"), @"workers Known = 8, config.yaml:2:10 `workers: 8`");
}

#[test]
fn a_computed_value_is_followed_to_what_somebody_set() {
    assert_snapshot!(cause_of("cluster_name: A\nworkers: 8\n", "pool"), @"
    pool Known = 17, computed `threads + 1`
      threads Known = 16, computed `workers * 2`
        workers Known = 8, config.yaml:2:10 `workers: 8`
    ");
}

#[test]
fn a_default_that_follows_from_others_names_them() {
    assert_snapshot!(cause_of("cluster_name: A\n", "zone"), @r#"
    zone Known = "a", default from `cluster_name | lower`
      cluster_name Known = "A", config.yaml:1:15 `cluster_name: A`
    "#);
}

#[test]
fn what_is_made_of_the_same_twice_is_followed_once() {
    let definition = define(
        "include: []\nparameters:\n  a: {type: int, default: 1}\n\
         computed:\n  b: a + 1\n  c: b + 1\n  d: b + c\n",
    );
    let explained = definition.explain(&resolve(&definition, "{}"), "d").unwrap();
    assert_snapshot!(show(&explained.cause), @"
    d Known = 5, computed `b + c`
      b Known = 2, computed `a + 1`
        a Known = 1, default
      c Known = 3, computed `b + 1`
        b Known = 2, computed `a + 1`, see above
    ");
}

#[test]
fn neither_a_secret_nor_what_is_made_of_it_is_shown() {
    let definition = define(SHOP);
    for text in [
        "cluster_name: A\npassword: hunter2\n",
        "cluster_name: A\npassword:\n  hunter2\n",
        "{cluster_name: A, password: hunter2}\n",
    ] {
        let resolution = resolve(&definition, text);
        assert_eq!(resolution.known("password").unwrap().value, json!("hunter2"));
        for name in definition.setters.keys() {
            let explained = definition.explain(&resolution, name).unwrap();
            let shown = serde_json::to_string(&explained).unwrap();
            assert!(!shown.contains("hunter2"), "{name}: {shown}");
        }
    }
    assert_snapshot!(cause_of("cluster_name: A\npassword: hunter2\n", "login"), @r#"
    login Known = "**HIDDEN**", computed `'front:' ~ password`
      password Known = "**HIDDEN**", config.yaml:2:11 `password: **HIDDEN**`
    "#);
}

#[test]
fn how_long_a_secret_is_cannot_be_seen() {
    let definition = define(SHOP);
    let explained = |secret: &str| {
        let resolution = resolve(&definition, &format!("cluster_name: A\npassword: {secret}\n"));
        let explained = definition.explain(&resolution, "password").unwrap();
        serde_json::to_string(&explained).unwrap()
    };
    assert_eq!(explained("one"), explained("a longer one"));
}

#[test]
fn what_does_not_exist_says_which_condition_does_not_hold() {
    let definition = define(SHOP);
    let explained =
        definition.explain(&resolve(&definition, "cluster_name: A"), "servers").unwrap();
    assert_eq!(explained.cause.status, Status::Absent);
    let condition = explained.ways[0].condition.as_ref().unwrap();
    assert_eq!(
        (condition.expression.as_str(), condition.holds),
        ("storage == \"shared\"", Some(false))
    );
    assert_snapshot!(show(&condition.uses[0]), @r#"storage Known = "local", default"#);
}

#[test]
fn a_wrong_value_comes_with_its_mistake_and_only_that() {
    let definition = define(SHOP);
    let resolution = resolve(&definition, "cluster_name: A\nworkers: 99\nssh_port: x\n");
    let messages = |name: &str| -> Vec<String> {
        let explained = definition.explain(&resolution, name).unwrap();
        explained.diagnostics.iter().map(ToString::to_string).collect()
    };
    assert_snapshot!(messages("workers").join("\n"), @"config.yaml:2:10: `workers`: expected a whole number from 1 to 64, found `99`");
    // What is made of it says so, too.
    assert_eq!(messages("pool"), messages("workers"));
    assert_eq!(messages("zone"), Vec::<String>::new());
    let explained = definition.explain(&resolution, "pool").unwrap();
    assert_snapshot!(show(&explained.cause), @"
    pool Wrong, computed `threads + 1`
      threads Wrong, computed `workers * 2`
        workers Wrong
    ");
}

#[test]
fn a_file_that_cannot_be_read_as_yaml_is_said_with_every_name() {
    let definition = define(SHOP);
    let resolution = resolve(&definition, "cluster_name: [\n");
    let explained = definition.explain(&resolution, "log_level").unwrap();
    assert_eq!(explained.diagnostics.len(), 1, "{:?}", explained.diagnostics);
}

#[test]
fn an_unknown_name_comes_with_the_nearest() {
    let definition = define(SHOP);
    let resolution = resolve(&definition, "cluster_name: A\n");
    let error = definition.explain(&resolution, "clustername").unwrap_err();
    assert_eq!(error.to_string(), "no parameter is called `clustername`");
    assert_eq!(error.nearest.as_deref(), Some("cluster_name"));
    assert_eq!(definition.explain(&resolution, "zzz").unwrap_err().nearest, None);
}

#[test]
fn facts_of_the_distribution_can_be_explained() {
    let roles = cause_of("cluster_name: A\n", "roles");
    assert_snapshot!(roles, @r#"roles Known = ["back","front"], of the distribution"#);
}

#[test]
fn what_is_declared_is_all_there() {
    let definition = define(SHOP);
    let resolution = resolve(&definition, "cluster_name: A\n");
    let explained = definition.explain(&resolution, "log_level").unwrap();
    assert_snapshot!(serde_json::to_string_pretty(&explained).unwrap(), @r#"
    {
      "name": "log_level",
      "status": "known",
      "value": "info",
      "source": {
        "from": "default"
      },
      "ways": [
        {
          "condition": null,
          "expected": "`info` or `debug`",
          "description": "How much is written to the log.",
          "declared": "config/shop.yaml:18:5",
          "required": false,
          "default": "info",
          "default_from": null,
          "example": null,
          "since": "1.2",
          "secret": false,
          "immutable": false,
          "restart": false,
          "late": false,
          "for_hosts": true
        }
      ],
      "diagnostics": []
    }
    "#);
}

#[test]
fn every_name_can_be_explained_whatever_is_wrong_with_the_file() {
    let definition = define(SHOP);
    for text in
        ["", "[]", "cluster_name:", "storage: shared", "storage: [1]\nlate_values: [region]"]
    {
        let resolution = resolve(&definition, text);
        for name in definition.setters.keys() {
            definition.explain(&resolution, name).unwrap();
        }
    }
}
