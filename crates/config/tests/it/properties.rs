//! What holds for any input.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::world::{BASE, World};

static WORLD: LazyLock<World> = LazyLock::new(World::new);

/// Keys with another value than their default, and whether hosts get it.
const CHANGES: [(&str, &str, bool); 16] = [
    ("platform", "lab", true),
    ("resolvers", "[192.0.2.53]", true),
    ("enable_ipv6", "false", true),
    ("telemetry_enabled", "true", true),
    ("dns_search", "example.com", true),
    ("check_time", "false", true),
    ("master_dns_bindall", "false", true),
    ("bootstrap_tmp_dir", "var/tmp", true),
    ("dns_bind_ip_blacklist", "[192.0.2.1]", true),
    ("agent_list", "[192.0.2.21]", false),
    ("public_agent_list", "[192.0.2.31]", false),
    ("ssh_user", "admin", false),
    ("ssh_port", "2222", false),
    ("ssh_parallelism", "5", false),
    ("process_timeout", "30s", false),
    ("extra_ssh_options", "-v", false),
];

fn values(text: &str) -> Value {
    let resolution = WORLD.good(text);
    json!([resolution.cluster_values(), resolution.secret_values()])
}

fn with(changes: &[(&str, &str, bool)]) -> String {
    let lines: Vec<String> =
        changes.iter().map(|(key, value, _)| format!("{key}: {value}\n")).collect();
    format!("{BASE}{}", lines.concat())
}

/// Values of every shape that YAML has.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        select(vec![
            "static",
            "192.0.2.1",
            "::1",
            "10.0.0.0/8",
            "5s",
            "a:1",
            "[::1]:53",
            "[",
            "{}"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,9}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn try_all(text: &str) {
    let resolution = WORLD.resolve(text);
    let _ = crate::world::show(&resolution.diagnostics);
    if resolution.is_ok() {
        WORLD.definition.render(&resolution).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_text_breaks_anything(text in "\\PC{0,200}|[-a-z_:\\[\\]{}&*!|>'\"%@`#,?~ \\n\\t]{0,200}") {
        try_all(&text);
        try_all(&format!("{BASE}{text}"));
    }

    #[test]
    fn no_values_break_anything(values in prop::collection::vec(any_value(), 1..6), seed in any::<prop::sample::Index>()) {
        let names: Vec<&str> = WORLD.definition.settable().collect();
        let mut fields = serde_json::Map::new();
        for (at, value) in values.into_iter().enumerate() {
            let name = names[(seed.index(names.len()) + at * 7) % names.len()];
            fields.insert(name.to_owned(), value);
        }
        try_all(&Value::Object(fields.clone()).to_string());
        let lines = fields.iter().map(|(name, value)| format!("{name}: {value}\n"));
        try_all(&format!("{BASE}{}", lines.collect::<String>()));
    }

    #[test]
    fn what_hosts_get_changes_with_their_values_and_with_no_others(
        changes in subsequence(&CHANGES[..], 0..8), more in select(&CHANGES[..]),
    ) {
        prop_assume!(!changes.contains(&more));
        let before = values(&with(&changes));
        let after = values(&with(&[&changes[..], &[more]].concat()));
        prop_assert_eq!(before != after, more.2, "{}", more.0);
    }

    #[test]
    fn the_order_of_keys_does_not_matter(changes in Just(CHANGES.to_vec()).prop_shuffle()) {
        prop_assert_eq!(values(&with(&changes)), values(&with(&CHANGES)));
    }
}
