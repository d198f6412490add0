//! A file to begin with.

use std::collections::BTreeMap;

use config::Definition;
use insta::assert_snapshot;

use crate::declared::{SHOP, define, resolve};

fn answers(answers: &[(&str, &str)]) -> BTreeMap<String, String> {
    answers.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// The messages about a file with these answers.
fn mistakes(definition: &Definition, given: &[(&str, &str)]) -> Vec<String> {
    let resolution = resolve(definition, &definition.starter(&answers(given)));
    resolution.diagnostics.iter().map(ToString::to_string).collect()
}

#[test]
fn what_must_be_set_comes_first_and_the_rest_is_commented_out() {
    assert_snapshot!(define(SHOP).starter(&BTreeMap::new()), @r#"
    # ==== Must be set

    # The name of the cluster. People read it.
    # Expected: a text. Must be set. Cannot change once a cluster is installed.
    cluster_name: "Main Street"

    # ==== May be set; the values are the defaults

    # Where orders are kept.
    # Expected: `local` or `shared`.
    #storage: local

    # How much is written to the log.
    # Expected: `info` or `debug`.
    #log_level: info

    # Expected: a whole number from 1 to 64.
    #workers: 4

    # The DNS zone.
    # Expected: a text. Cannot change once a cluster is installed.
    # Without it: cluster_name | lower
    #zone:

    # What the front sends to the back.
    # Expected: a text. Secret.
    #password: ""

    # Where hosts are reached.
    # Expected: a port from 1 to 65535.
    #ssh_port: 22

    # Expected: a text. Can be late: known only on the hosts.
    #region: here

    # ==== Only when storage == "shared"

    # The servers that keep the orders.
    # Expected: a list, each item an IPv4 address. Must be set.
    #servers:
    #- "10.0.0.1"
    #- "10.0.0.2"

    # Expected: a text.
    #mount_options: rw
    "#);
}

#[test]
fn a_file_with_all_answers_is_valid() {
    let definition = define(SHOP);
    let given = [
        ("cluster_name", "Main: Street #1"),
        ("storage", "shared"),
        ("servers", "10.0.0.1, 10.0.0.2"),
    ];
    assert_eq!(mistakes(&definition, &given), Vec::<String>::new());
    let resolution = resolve(&definition, &definition.starter(&answers(&given)));
    assert_eq!(resolution.known("cluster_name").unwrap().value, "Main: Street #1");
    assert_eq!(resolution.known("server_count").unwrap().value, 2);
}

#[test]
fn a_file_whose_comments_are_all_taken_out_is_valid_yaml() {
    let definition = define(SHOP);
    let text = definition.starter(&answers(&[("cluster_name", "A"), ("storage", "shared")]));
    let all: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .filter(|line| line != "zone:\n")
        .collect();
    let resolution = resolve(&definition, &all);
    assert!(resolution.is_ok(), "{all}\n{:?}", resolution.diagnostics);
}

#[test]
fn a_wrong_answer_stands_there_and_is_found() {
    let definition = define(SHOP);
    let given = [("cluster_name", "A"), ("workers", "many"), ("wrokers", "5")];
    assert_snapshot!(mistakes(&definition, &given).join("\n"), @"
    config.yaml:18:10: `workers`: expected a whole number from 1 to 64, found `many`
    config.yaml:46:1: unknown key `wrokers` (did you mean `workers`?)
    ");
}

#[test]
fn an_answer_is_checked_as_a_value_of_a_file_is() {
    let definition = define(SHOP);
    let answer = |name: &str, text: &str| {
        let parameter = definition.parameters(name).next().unwrap();
        parameter.answer(text).map(|value| value.to_string())
    };
    assert_eq!(answer("workers", " 5 ").unwrap(), "5");
    assert_eq!(answer("servers", "10.0.0.1 10.0.0.2").unwrap(), r#"["10.0.0.1","10.0.0.2"]"#);
    assert_eq!(answer("servers", r#"["10.0.0.1"]"#).unwrap(), r#"["10.0.0.1"]"#);
    assert_snapshot!(answer("workers", "65").unwrap_err(), @"expected a whole number from 1 to 64, found `65`");
    assert_snapshot!(answer("servers", "10.0.0.1, a").unwrap_err(), @"`[1]`: expected an IPv4 address, found `a`");
    assert_snapshot!(answer("servers", "").unwrap_err(), @"expected at least one, found none");
}

#[test]
fn questions_follow_from_the_answers_before() {
    let definition = define(SHOP);
    let next = |text: &str| definition.question(&resolve(&definition, text)).map(|next| next.name);
    assert_eq!(next("storage: shared"), Some("cluster_name"));
    assert_eq!(next("storage: shared\ncluster_name: A"), Some("servers"));
    assert_eq!(next("storage: local\ncluster_name: A"), None);
}

#[test]
fn a_key_that_is_declared_twice_is_written_once() {
    let definition = define(
        "include: []\nparameters:\n  x: {type: bool, default: true}\ngroups:\n  \
         - when: x\n    parameters: {a: {type: int, required: true}}\n  \
         - when: not x\n    parameters: {a: {type: int, default: 3}}\n",
    );
    assert_eq!(mistakes(&definition, &[("a", "1")]), Vec::<String>::new());
}
