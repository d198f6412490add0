//! `monobloc host check`, as somebody meets it who wants to know whether a host is well.

use insta::assert_snapshot;

use crate::test_env::{File, TestEnv, succeed};

const HOST: [&str; 5] = ["host", "--root", "opt", "--config-dir", "etc"];

const DECLARED: &str = r#"{"checks":{
    "members":{"program":"check/quorum","arguments":["--at-least","2"],"timeout_seconds":5},
    "agent":{"program":"bin/etcd","roles":["slave"]}}}"#;

/// A host with two packages that have checks; the second of `etcd` is `script`.
fn host(script: &str) -> TestEnv {
    let env = TestEnv::new();
    let quorum = "#!/bin/sh\necho \"quorum $*\"\n";
    let packages: [(&str, &[File<'_>]); 2] = [
        (
            "etcd--1",
            &[
                ("pkginfo.json", DECLARED, 0o644),
                ("bin/etcd", "", 0o755),
                ("check/quorum", quorum, 0o755),
                ("check/ready", script, 0o755),
            ],
        ),
        ("caddy--1", &[("pkginfo.json", "{}", 0o644), ("check/http", "#!/bin/sh\n", 0o755)]),
    ];
    for (id, files) in packages {
        let archive = format!("{id}.tar.zst");
        env.pack(&archive, files);
        succeed(&mut env.monobloc(&[&HOST[..], &["add", &archive]].concat()));
    }
    succeed(&mut env.monobloc(&[&HOST[..], &["activate", "etcd--1", "caddy--1"]].concat()));
    env
}

fn run(env: &TestEnv, arguments: &[&str]) -> String {
    env.run(&[&HOST[..], &["check"], arguments].concat())
}

#[test]
fn a_host_that_is_well_passes_all_checks() {
    let env = host("#!/bin/sh\necho this is not shown\n");
    assert_snapshot!(run(&env, &[]), @"
    exit: 0
    --- stdout
    caddy--1  http  [TIME]  passed
    etcd--1  members  [TIME]  passed
    etcd--1  ready  [TIME]  passed
    --- stderr
    ");
    assert_snapshot!(run(&env, &["http", "members"]), @"
    exit: 0
    --- stdout
    caddy--1  http  [TIME]  passed
    etcd--1  members  [TIME]  passed
    --- stderr
    ");
}

#[test]
fn what_a_failing_check_says_is_shown_without_what_would_change_the_terminal() {
    let env = host(
        "#!/bin/sh\nprintf '\\033[31mno leader\\033[0m\\a\\n\\n'; echo since 12:00 >&2; exit 4\n",
    );
    assert_snapshot!(run(&env, &[]), @"
    exit: 1
    --- stdout
    caddy--1  http  [TIME]  passed
    etcd--1  members  [TIME]  passed
    etcd--1  ready  [TIME]  failed with status 4
        no leader

        since 12:00
    --- stderr
    1 of 3 checks failed
    ");
    assert_snapshot!(run(&env, &["ready", "--json"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.host.check/1",
      "checks": [
        {
          "package": "etcd--1",
          "name": "ready",
          "verdict": "failed",
          "status": 4,
          "seconds": [TIME],
          "output": "\u001b[31mno leader\u001b[0m\u0007\n\nsince 12:00\n"
        }
      ]
    }
    --- stderr
    "#);
}

#[test]
fn a_check_that_cannot_be_started_has_failed() {
    let env = host("#!/bin/sh\n");
    fs_err::remove_file(env.path("opt/packages/etcd--1/check/ready")).unwrap();
    assert_snapshot!(run(&env, &["ready"]), @"
    exit: 1
    --- stdout
    etcd--1  ready  [TIME]  not started: `[TEMP]/opt/packages/etcd--1/check/ready` does not exist
    --- stderr
    1 of 1 check failed
    ");
    assert_snapshot!(run(&env, &["ready", "--json"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.host.check/1",
      "checks": [
        {
          "package": "etcd--1",
          "name": "ready",
          "verdict": "not_started",
          "reason": "`[TEMP]/opt/packages/etcd--1/check/ready` does not exist",
          "seconds": [TIME],
          "output": ""
        }
      ]
    }
    --- stderr
    "#);
}

#[test]
fn checks_are_listed_with_their_limits() {
    let env = host("#!/bin/sh\n");
    assert_snapshot!(run(&env, &["--list"]), @"
    exit: 0
    --- stdout
    caddy--1  http
    etcd--1  members
    etcd--1  ready
    --- stderr
    ");
    assert_snapshot!(run(&env, &["--list", "--json", "members"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.host.checks/1",
      "checks": [
        {
          "package": "etcd--1",
          "name": "members",
          "program": "[TEMP]/opt/packages/etcd--1/check/quorum",
          "arguments": [
            "--at-least",
            "2"
          ],
          "timeout_seconds": 5,
          "within_seconds": 60
        }
      ]
    }
    --- stderr
    "#);
}

#[test]
fn a_name_that_no_check_has_is_an_error() {
    let env = host("#!/bin/sh\nexit 1\n");
    assert_snapshot!(run(&env, &["ready", "redy", "agent"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: no active package has a check called `redy` or `agent`
    hint: `monobloc host check --list` shows all of them
    ");
    assert_snapshot!(run(&env, &["--list", "redy"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: no active package has a check called `redy`
    hint: `monobloc host check --list` shows all of them
    ");
}

#[test]
fn a_host_without_checks_says_so() {
    let env = TestEnv::new();
    assert_snapshot!(run(&env, &[]), @"
    exit: 1
    --- stdout
    --- stderr
    error: nothing is active in `[TEMP]/opt`: it was not bootstrapped
    hint: make a set live with `monobloc host activate`
    ");
    env.pack("a--1.tar.zst", &[("pkginfo.json", "{}", 0o644), ("bin/a", "", 0o755)]);
    succeed(&mut env.monobloc(&[&HOST[..], &["add", "a--1.tar.zst"]].concat()));
    succeed(&mut env.monobloc(&[&HOST[..], &["activate", "a--1"]].concat()));
    assert_snapshot!(run(&env, &[]), @"
    exit: 0
    --- stdout
    --- stderr
    the active packages have no checks
    ");
}
