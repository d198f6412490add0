//! `monobloc host install`, as somebody meets it who has a key and an address.

use std::io::Write as _;
use std::process::Stdio;

use insta::assert_snapshot;

use crate::publisher::Publisher;
use crate::test_env::{TestEnv, show, succeed};

const INSTALL: [&str; 8] =
    ["host", "--root", "opt", "--config-dir", "etc", "install", "--from", "served"];
const SECRET: &str = "correct horse battery staple";

/// A folder in which a bundle with `app--1`, `base--1` and secrets for masters is published.
fn published() -> (TestEnv, Publisher) {
    let env = TestEnv::new();
    let mut publisher = Publisher::new(&env.path("served"));
    let plain = r#"{"requires":[],"variant":null}"#;
    for (id, file) in [("app--1", "bin/app"), ("base--1", "lib/base")] {
        let name = format!("{id}.tar.zst");
        env.pack(&name, &[("pkginfo.json", plain, 0o644), (file, id, 0o755)]);
        publisher.package("master", &env.path(&name));
    }
    publisher.secrets("master", &[("etc/password", SECRET, None)]);
    publisher.publish(1, None);
    fs_err::write(env.path("release.pub"), &publisher.public).unwrap();
    fs_err::write(env.path("master.key"), publisher.role_key.to_file("master")).unwrap();
    (env, publisher)
}

/// Runs an install; what is of one run only is shown as what it is.
fn install(env: &TestEnv, arguments: &[&str]) -> String {
    let said = show(&mut env.monobloc(&[&INSTALL[..], arguments].concat()));
    let key = env.read("master.key");
    assert!(!said.contains(SECRET) && !said.contains(key.lines().last().unwrap()), "{said}");
    let mut settled = String::new();
    for part in said.split_inclusive("setup_") {
        let (hash, rest) = part.split_at(part.len().min(40));
        let is_hash = hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        settled.push_str(if is_hash { "HASH" } else { hash });
        settled.push_str(rest);
    }
    // Several packages come at a time, in any order.
    let (mut lines, mut packages) = (Vec::new(), Vec::new());
    for line in settled.lines() {
        let is_package = line.starts_with("added ") || line.starts_with("have ");
        if is_package { &mut packages } else { &mut lines }.push(line);
    }
    packages.sort_unstable();
    let after_head = lines.iter().position(|line| *line == "--- stderr").unwrap() + 1;
    lines.splice(after_head..after_head, packages);
    lines.join("\n") + "\n"
}

const FIRST: [&str; 6] =
    ["--role", "master", "--public-key", "release.pub", "--key-file", "master.key"];

#[test]
fn an_install_says_what_it_does_and_the_next_one_that_nothing_is_left_to_do() {
    let (env, _) = published();
    assert_snapshot!(install(&env, &FIRST), @"
    exit: 0
    --- stdout
    installed: dcos 0 as master
    --- stderr
    added app--1
    added base--1
    added secrets-master--setup_HASH
    generation 1 is live
    ");
    assert_snapshot!(install(&env, &[]), @"
    exit: 0
    --- stdout
    unchanged: dcos 0 as master
    --- stderr
    have app--1
    have base--1
    have secrets-master--setup_HASH
    ");
    assert_eq!(env.read("opt/etc/password"), SECRET);
    let said = install(&env, &["--json", "--disable-preflight"]);
    assert_snapshot!(said, @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.host.install/1",
      "bundle": "[DIGEST]",
      "version": "0",
      "publication": 1,
      "roles": [
        "master"
      ],
      "changed": false,
      "preflight": null,
      "plan": {
        "format": 1,
        "base": {
          "live": 1,
          "highest": 1,
          "roles": [
            "master"
          ],
          "packages": {
            "app--1": "[DIGEST]",
            "base--1": "[DIGEST]",
            "secrets-master--setup_HASH": "[DIGEST]"
          }
        },
        "changes": {
          "added": [],
          "removed": [],
          "unverified": [
            "secrets-master--setup_HASH"
          ],
          "old_roles": null
        },
        "steps": []
      }
    }
    --- stderr
    have app--1
    have base--1
    have secrets-master--setup_HASH
    preflight is disabled: nobody looks at what this machine is
    "#);
}

#[test]
fn what_is_missing_is_told_with_what_to_do() {
    let (env, _) = published();
    assert_snapshot!(install(&env, &["--role", "master"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: nothing says whose bundles this host takes
    hint: name the file with the publisher's key: `--public-key FILE`
    ");
    assert_snapshot!(install(&env, &["--public-key", "release.pub"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: nothing says what this host is
    hint: say what this host is: `--role ROLE`
    ");
    assert_snapshot!(install(&env, &["--public-key", "release.pub", "--role", "maestro"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: the bundle has no role `maestro`; it has: `master`
    hint: say what this host is: `--role ROLE`
    ");
    assert_snapshot!(install(&env, &FIRST[..4]), @"
    exit: 1
    --- stdout
    --- stderr
    error: cannot use the secrets `secrets-master--setup_HASH` for `master`: this host has no key for them
    hint: give the key of the role: `--key-file FILE`
    ");
    assert_snapshot!(install(&env, &["--key-file", "release.pub"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `release.pub`: not a key: expected a line that starts with `AGE-SECRET-KEY-1`
    ");
    assert_snapshot!(install(&env, &["--key-file", "-", "--key-file", "-"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: `--key-file -` can be given only once
    ");
    assert!(!env.path("opt").exists() && !env.path("etc").exists());
}

#[test]
fn what_is_stale_is_taken_only_by_who_says_so() {
    let (env, publisher) = published();
    publisher.publish(2, Some("2026-01-02T12:00:00Z"));
    assert_snapshot!(install(&env, &FIRST), @"
    exit: 1
    --- stdout
    --- stderr
    error: publication 2 expired at 2026-01-02T12:00:00Z
    hint: newer ones may be withheld, or the clock of this host is wrong; `--allow-expired` takes it nevertheless
    ");
    assert!(!env.path("opt").exists() && !env.path("etc").exists());
    assert_snapshot!(install(&env, &[&FIRST[..], &["--allow-expired"]].concat()).lines().next().unwrap(), @"exit: 0");
    publisher.publish(1, None);
    assert_snapshot!(install(&env, &[]), @"
    exit: 1
    --- stdout
    --- stderr
    error: publication 1 is older than 2, which this host has seen already
    hint: somebody may be offering what was withdrawn; `--allow-older` takes it nevertheless
    ");
    assert_snapshot!(install(&env, &["--allow-older"]), @"
    exit: 0
    --- stdout
    unchanged: dcos 0 as master
    --- stderr
    have app--1
    have base--1
    have secrets-master--setup_HASH
    ");
    succeed(&mut env.monobloc(&["keys", "generate", "other"]));
    let said = install(&env, &["--public-key", "other.pub"]);
    assert!(said.contains("hint: only `monobloc host uninstall` makes this host forget"), "{said}");
}

#[test]
fn a_key_comes_from_standard_input_and_is_in_no_output() {
    let (env, publisher) = published();
    let arguments = [&INSTALL[..], &FIRST[..5], &["-"]].concat();
    let mut command = env.monobloc(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let key = publisher.role_key.to_file("master");
    child.stdin.take().unwrap().write_all(key.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(env.read("opt/etc/password"), SECRET);
    // Nor do those say it who read the host.
    let place = &INSTALL[..5];
    let mut all = said;
    for command in [
        &["audit", "--json"][..],
        &["history", "--json"],
        &["verify", "--json"],
        &["generations", "--json"],
    ] {
        let output = succeed(&mut env.monobloc(&[place, command].concat()));
        all += &String::from_utf8_lossy(&[output.stdout, output.stderr].concat());
    }
    let digest = package::Sha256::of(SECRET.as_bytes()).to_string();
    for hidden in [SECRET, key.lines().last().unwrap(), &digest] {
        assert!(!all.contains(hidden), "{all}");
    }
}
