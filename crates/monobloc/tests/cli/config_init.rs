//! Promise: whoever begins gets a file that says what must be set, and never loses one.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use insta::assert_snapshot;

use crate::config::{env, run, write};
use crate::test_env::{TestEnv, succeed};

#[test]
fn without_a_terminal_init_writes_examples() {
    let env = env("");
    assert_snapshot!(run(&env, &["init"]), @"
    exit: 0
    --- stdout
    wrote `genconf/config.yaml`
    --- stderr
    hint: replace the examples in it, then try `monobloc config validate`
    ");
    assert_snapshot!(env.read("genconf/config.yaml"), @r#"
    # ==== Must be set

    # The name of the cluster.
    # People read it.
    # Expected: a text. Must be set. Cannot change once a cluster is installed.
    cluster_name: "Main Street"

    # Where orders are kept.
    # Expected: `local` or `shared`. Must be set.
    storage: local

    # ==== May be set; the values are the defaults

    # How many orders at once.
    # Expected: a whole number from 1 to 64.
    #workers: 4

    # Expected: a text. Cannot change once a cluster is installed.
    # Without it: cluster_name | lower
    #zone:

    # Where hosts are reached.
    # Expected: a port from 1 to 65535.
    #ssh_port: 22

    # ==== Only when storage == "shared"

    # The servers that keep the orders.
    # Expected: a list, each item an IPv4 address. Must be set.
    #servers:
    #- "10.0.0.1"
    #- "10.0.0.2"

    # What the servers want to hear.
    # Expected: a text. Must be set. Secret.
    #password:
    "#);
    let mode = fs_err::metadata(env.path("genconf/config.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn init_never_writes_over_a_file() {
    let env = env("");
    write(&env, "genconf/config.yaml", "mine\n");
    assert_snapshot!(run(&env, &["init"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `genconf/config.yaml` exists already; nothing was written
    hint: `--output` names another file
    ");
    assert_eq!(env.read("genconf/config.yaml"), "mine\n");
    fs_err::os::unix::fs::symlink("nowhere", env.path("link.yaml")).unwrap();
    assert_snapshot!(run(&env, &["init", "--output", "link.yaml", "--json"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.error/1",
      "error": "`link.yaml` exists already; nothing was written",
      "hint": "`--output` names another file",
      "diagnostics": []
    }
    --- stderr
    "#);
    assert_eq!(env.names("."), ["genconf", "home", "link.yaml", "tree"]);
}

/// Types these lines into `config init` at a terminal, which `script` plays.
fn type_in(env: &TestEnv, lines: &str) -> String {
    let monobloc = env.monobloc(&[]).get_program().to_str().unwrap().to_owned();
    let command = format!("{monobloc} config init --tree tree");
    let mut script = env.command("script", &["-qec", &command, "/dev/null"]);
    script.env("TERM", "dumb").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    format!("exit: {}\n{shown}", output.status.code().unwrap())
}

#[test]
fn on_a_terminal_init_asks_until_everything_is_set() {
    let env = env("");
    let shown = type_in(&env, "\nHarbour\nsharde\nshared\nten\n10.0.0.1 10.0.0.2\nabc\nhunter2\n");
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    for words in
        ["The name of the cluster.", "found `sharde`", "found `ten`", "wrote `genconf/config.yaml`"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let output = succeed(&mut env.monobloc(&["config", "show", "--tree", "tree"]));
    assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r#"
    cluster_name: Harbour
    storage: shared
    servers:
    - "10.0.0.1"
    - "10.0.0.2"
    password: "**HIDDEN**"
    "#);
    assert!(env.read("genconf/config.yaml").contains("password: hunter2\n"));
}

#[test]
fn who_stops_answering_gets_no_file() {
    let env = env("");
    let shown = type_in(&env, "Harbour\n\u{4}");
    assert!(shown.starts_with("exit: 1\n"), "{shown}");
    assert!(shown.contains("nothing was written"), "{shown}");
    assert!(!env.path("genconf").exists());
}
