//! What a new configuration changes.

use config::diff::{Change, Effect, Shown};
use insta::assert_snapshot;

use crate::declared::{SHOP, define, resolve};

fn diff(old: &str, new: &str) -> Vec<Change> {
    let definition = define(SHOP);
    let [old, new] = [old, new].map(|text| {
        let resolution = resolve(&definition, text);
        assert!(resolution.is_ok(), "{:?}", resolution.diagnostics);
        resolution
    });
    definition.diff(&old, &new)
}

fn show(changes: &[Change]) -> String {
    let mut lines = Vec::new();
    add(changes, 0, &mut lines);
    lines.join("\n")
}

fn add(changes: &[Change], depth: usize, lines: &mut Vec<String>) {
    for change in changes {
        let value = |value: &Option<Shown>| match value {
            None => "-".to_owned(),
            Some(Shown::Late) => "late".to_owned(),
            Some(Shown::Value(value)) => value.to_string(),
        };
        let because = change.because.join(", ");
        let because = if because.is_empty() { because } else { format!(" because of {because}") };
        let hosts = if change.for_hosts { "" } else { ", hosts unaffected" };
        lines.push(format!(
            "{}{:?} {} {} → {}: {:?}{hosts}{because}",
            "  ".repeat(depth),
            change.kind,
            change.name,
            value(&change.old),
            value(&change.new),
            change.effect
        ));
        add(&change.consequences, depth + 1, lines);
    }
}

#[test]
fn equal_files_differ_in_nothing_however_they_are_written() {
    assert!(
        diff("cluster_name: A\nworkers: 4", "# hello\nworkers: \"4\"\ncluster_name: 'A'")
            .is_empty()
    );
}

#[test]
fn each_change_says_what_it_means() {
    let changes = diff(
        "cluster_name: A\n",
        "cluster_name: A\nzone: b\nlog_level: debug\nssh_port: 2222\nworkers: 5\n",
    );
    assert_snapshot!(show(&changes), @r#"
    Changed log_level "info" → "debug": Harmless
    Changed workers 4 → 5: Restart
      Changed threads 8 → 10: Restart because of workers
      Changed pool 9 → 11: Restart because of threads
    Changed zone "a" → "b": Immutable
    Changed ssh_port 22 → 2222: Harmless, hosts unaffected
    "#);
}

#[test]
fn what_follows_from_a_change_stands_under_it_and_counts_for_it() {
    let changes =
        diff("cluster_name: A\nlog_level: debug\n", "cluster_name: B\nlog_level: debug\n");
    assert_snapshot!(show(&changes), @r#"
    Changed cluster_name "A" → "B": Immutable
      Changed zone "a" → "b": Immutable because of cluster_name
    "#);
    let definition = define(
        "include: []\nparameters:\n  a: {type: int, default: 1, restart: false}\n  \
         b: {type: int, default_from: a, immutable: true}\ncomputed:\n  c: a * 2\n",
    );
    let changes = definition.diff(&resolve(&definition, "{}"), &resolve(&definition, "a: 2"));
    assert_snapshot!(show(&changes), @"
    Changed a 1 → 2: Harmless
      Changed b 1 → 2: Immutable because of a
      Changed c 2 → 4: Harmless because of a
    ");
    assert_eq!(changes[0].effect, Effect::Harmless);
    assert_eq!(changes[0].total_effect(), Effect::Immutable);
}

#[test]
fn what_a_condition_brings_and_takes_stands_under_it() {
    let plain = "cluster_name: A\n";
    let shared = "cluster_name: A\nstorage: shared\nservers: [10.0.0.1]\n";
    assert_snapshot!(show(&diff(plain, shared)), @r#"
    Changed storage "local" → "shared": Restart
      Added servers - → ["10.0.0.1"]: Restart because of storage
      Added mount_options - → "rw": Restart because of storage
      Added server_count - → 1: Restart because of storage, servers
    "#);
    assert_snapshot!(show(&diff(shared, plain)), @r#"
    Changed storage "shared" → "local": Restart
      Removed servers ["10.0.0.1"] → -: Restart because of storage
      Removed mount_options "rw" → -: Restart because of storage
      Removed server_count 1 → -: Restart because of storage, servers
    "#);
}

#[test]
fn of_a_secret_only_that_it_changed_is_shown() {
    let changes = diff("cluster_name: A\npassword: one", "cluster_name: A\npassword: two");
    assert_snapshot!(show(&changes), @r#"
    Changed password "**HIDDEN**" → "**HIDDEN**": Restart
      Changed login "**HIDDEN**" → "**HIDDEN**": Restart because of password
    "#);
}

#[test]
fn a_value_that_becomes_late_is_a_change() {
    let changes = diff("cluster_name: A\n", "cluster_name: A\nlate_values: [region]\n");
    assert_snapshot!(show(&changes), @r#"Changed region "here" → late: Restart"#);
}

#[test]
fn values_that_trade_places_are_not_lost() {
    let definition = define(
        "include: []\nparameters:\n  x: {type: int, default: 1}\ncomputed: {}\ngroups:\n  \
         - when: x == 1\n    computed: {a: '10', b: a + 1}\n  \
         - when: x == 2\n    computed: {b: '20', a: b + 1}\n",
    );
    let changes = definition.diff(&resolve(&definition, "{}"), &resolve(&definition, "x: 2"));
    assert_snapshot!(show(&changes), @"
    Changed x 1 → 2: Restart
      Changed a 10 → 21: Restart because of x, b
      Changed b 11 → 20: Restart because of x, a
    ");
}
