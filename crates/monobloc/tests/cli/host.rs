//! `monobloc host`, as somebody meets it who keeps a host.

use insta::assert_snapshot;
use testing::http::{Answer, HttpServer};

use crate::test_env::{TestEnv, show, succeed};

const HOST: [&str; 5] = ["host", "--root", "opt", "--config-dir", "etc"];

/// A folder with the archives of `app--1`, `app--2` and `base--1`; the apps require the base.
fn archives() -> TestEnv {
    let env = TestEnv::new();
    let app = r#"{"requires":["base"],"variant":null}"#;
    let plain = r#"{"requires":[],"variant":null}"#;
    for (id, info, file) in
        [("base--1", plain, "lib/base"), ("app--1", app, "bin/app"), ("app--2", app, "bin/app")]
    {
        env.pack(&format!("{id}.tar.zst"), &[("pkginfo.json", info, 0o644), (file, id, 0o755)]);
    }
    env
}

/// The same with all of them in the store.
fn with_store() -> TestEnv {
    let env = archives();
    let added = ["add", "base--1.tar.zst", "app--1.tar.zst", "app--2.tar.zst"];
    succeed(&mut env.monobloc(&[&HOST[..], &added].concat()));
    env
}

/// Runs a command, and shows times and paths as what they are.
fn run(env: &TestEnv, arguments: &[&str]) -> String {
    let mut command = env.monobloc(&[&HOST[..], arguments].concat());
    show(command.env("USER", "ada"))
}

#[test]
fn a_set_goes_live_once() {
    let env = with_store();
    assert_snapshot!(run(&env, &["activate", "--plan", "base--1", "app--1"]), @"
    exit: 0
    --- stdout
    + app--1
    + base--1
    write generation 1: 6 folders, 4 links, 5 files
    make the link `active`
    make the link `active.buildinfo.full.json`
    make the link `bin`
    make the link `dcos.target.wants`
    make the link `environment`
    make the link `environment.export`
    make the link `etc`
    make the link `include`
    make the link `lib`
    make the folder `[TEMP]/opt/systemd`
    make the folder `[TEMP]/opt/systemd/multi-user.target.wants`
    write `[TEMP]/opt/systemd/dcos-setup.service`
    make the link `[TEMP]/opt/systemd/multi-user.target.wants/dcos-setup.service` to `../dcos-setup.service`
    make generation 1 live
    make the folder `[TEMP]/opt/systemd/dcos.target.wants`
    write `[TEMP]/opt/systemd/dcos.target`
    --- stderr
    ");
    assert_snapshot!(run(&env, &["active"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: nothing is active in `[TEMP]/opt`: it was not bootstrapped
    hint: make a set live with `monobloc host activate`
    ");
    assert_snapshot!(run(&env, &["activate", "base--1", "app--1"]), @"
    exit: 0
    --- stdout
    --- stderr
    generation 1 is live
    ");
    assert_snapshot!(run(&env, &["activate", "base--1", "app--1"]), @"
    exit: 0
    --- stdout
    --- stderr
    nothing to do: all is as wanted
    ");
}

#[test]
fn a_swap_is_made_taken_back_and_remembered() {
    let env = with_store();
    run(&env, &["activate", "base--1", "app--1"]);
    assert_snapshot!(run(&env, &["swap", "--plan", "app--2"]), @"
    exit: 0
    --- stdout
    ~ app--1 -> 2
    write generation 2: 6 folders, 4 links, 5 files
    switch from generation 1 to 2
    --- stderr
    ");
    assert_snapshot!(run(&env, &["swap", "app--2", "--reason", "an upgrade"]), @"
    exit: 0
    --- stdout
    --- stderr
    generation 2 is live
    ");
    assert_eq!(env.read("opt/bin/app"), "app--2");
    assert_snapshot!(run(&env, &["rollback"]), @"
    exit: 0
    --- stdout
    --- stderr
    generation 1 is live
    ");
    assert_eq!(env.read("opt/bin/app"), "app--1");
    assert_snapshot!(run(&env, &["active"]), @"
    exit: 0
    --- stdout
    app--1
    base--1
    --- stderr
    ");
    assert_snapshot!(run(&env, &["generations"]), @"
    exit: 0
    --- stdout
    *    1  [WHEN]  2 packages
         2  [WHEN]  2 packages
    --- stderr
    ");
    assert_snapshot!(run(&env, &["history"]), @"
    exit: 0
    --- stdout
    [WHEN]  ada  began to make generation 1 live
    [WHEN]  ada  generation 1 is live
    [WHEN]  ada  began to switch from generation 1 to 2: an upgrade
    [WHEN]  ada  generation 2 is live
    [WHEN]  ada  began to switch from generation 2 to 1
    [WHEN]  ada  generation 1 is live
    --- stderr
    ");
    assert_snapshot!(run(&env, &["setup"]), @"
    exit: 0
    --- stdout
    --- stderr
    nothing to do: all is as wanted
    ");
}

#[test]
fn packages_are_listed_verified_collected_and_removed() {
    let env = with_store();
    assert_snapshot!(run(&env, &["list"]), @"
    exit: 0
    --- stdout
    app--1
    app--2
    base--1
    --- stderr
    ");
    succeed(&mut env.monobloc(&[&HOST[..], &["activate", "base--1", "app--1"]].concat()));
    assert_snapshot!(run(&env, &["verify"]), @"
    exit: 0
    --- stdout
    ok      app--1
    ok      app--2
    ok      base--1
    --- stderr
    ");
    fs_err::write(env.path("opt/packages/app--2/bin/app"), "else").unwrap();
    fs_err::write(env.path("opt/packages/app--2/more"), "more").unwrap();
    assert_snapshot!(run(&env, &["verify", "app--2"]), @"
    exit: 1
    --- stdout
    FAILED  app--2
      bin/app: its content changed
      more: it should not be there
    --- stderr
    ");
    assert_snapshot!(run(&env, &["remove", "app--1"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: package `app--1` is active
    ");
    assert_snapshot!(run(&env, &["collect"]), @"
    exit: 0
    --- stdout
    --- stderr
    removed 0 generations and 1 package
    ");
    assert_snapshot!(run(&env, &["list"]), @"
    exit: 0
    --- stdout
    app--1
    base--1
    --- stderr
    ");
}

#[test]
fn mistakes_are_answered_with_what_to_do() {
    let env = with_store();
    assert_snapshot!(run(&env, &["rollback"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: nothing is active in `[TEMP]/opt`: it was not bootstrapped
    hint: make a set live with `monobloc host activate`
    ");
    assert_snapshot!(run(&env, &["activate", "app--1", "app--9"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: not in the store: `app--9`
    hint: get them with `monobloc host fetch` or `monobloc host add`
    ");
    assert_snapshot!(run(&env, &["activate", "app--1"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: the packages cannot be active together:
      `app--1` requires base, which is not in the set
    ");
    assert_snapshot!(run(&env, &["activate", "app"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: invalid value 'app' for '<ID>...': `app` is not a valid package id: expected `NAME--VERSION`, the version without `-`

    For more information, try '--help'.
    ");
    assert_snapshot!(run(&env, &["fetch", "--repository-url", "mirror.example", "app--1"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: `mirror.example` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    ");
    assert_snapshot!(show(&mut env.monobloc(&["host", "--distribution", "My Own", "list"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `My Own` is not the name of a distribution: expected small letters, digits and `-`
    ");
    succeed(&mut env.monobloc(&[&HOST[..], &["activate", "base--1", "app--1"]].concat()));
    succeed(&mut env.monobloc(&[&HOST[..], &["swap", "app--2"]].concat()));
    assert_snapshot!(run(&env, &["rollback", "7"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: generation 7 is not on this host; there are: 1, 2
    ");
    assert_snapshot!(run(&env, &["remove", "app--1"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: package `app--1` is used by generation 1
    hint: `monobloc host collect` removes generations that are not needed any more; `--with-generations` gives up those that use this package
    ");
    assert_snapshot!(run(&env, &["remove", "--with-generations", "app--1"]), @"
    exit: 0
    --- stdout
    --- stderr
    removed app--1
    ");
}

#[test]
fn every_answer_can_be_had_as_json() {
    let env = with_store();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = env.monobloc(&[&["--json"], &HOST[..], arguments].concat()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let mut schemas = Vec::new();
    for arguments in [
        &["add", "base--1.tar.zst"][..],
        &["list"],
        &["verify"],
        &["activate", "--plan", "base--1"],
        &["activate", "base--1", "app--1"],
        &["swap", "app--2"],
        &["rollback"],
        &["active"],
        &["generations"],
        &["history"],
        &["setup"],
        &["remove", "--with-generations", "app--2"],
        &["collect"],
        &["rollback", "9"],
    ] {
        schemas.push(format!("{}: {}", arguments[0], json(arguments)["schema"]));
    }
    assert_snapshot!(schemas.join("\n"), @r#"
    add: "monobloc.host.add/1"
    list: "monobloc.host.list/1"
    verify: "monobloc.host.verify/1"
    activate: "monobloc.host.plan/1"
    activate: "monobloc.host.plan/1"
    swap: "monobloc.host.plan/1"
    rollback: "monobloc.host.plan/1"
    active: "monobloc.host.active/1"
    generations: "monobloc.host.generations/1"
    history: "monobloc.host.history/1"
    setup: "monobloc.host.plan/1"
    remove: "monobloc.host.remove/1"
    collect: "monobloc.host.collect/1"
    rollback: "monobloc.error/1"
    "#);
    assert_eq!(json(&["active"])["packages"], serde_json::json!(["app--1", "base--1"]));
}

#[test]
fn a_package_comes_over_https_only_from_a_server_that_is_trusted() {
    let env = archives();
    let (server, certificate) = HttpServer::start_tls().unwrap();
    let archive = fs_err::read(env.path("base--1.tar.zst")).unwrap();
    server.on("/packages/base/base--1.tar.zst", [Answer::file(archive)]);
    fs_err::write(env.path("trusted.pem"), certificate).unwrap();
    let url = server.url("");
    let fetch = [&HOST[..], &["fetch", "--repository-url", &url, "base--1"]].concat();
    let refused = show(&mut env.monobloc(&fetch)).replace(&url, "URL");
    assert_snapshot!(refused, @"
    exit: 1
    --- stdout
    --- stderr
    error: cannot download `URL/packages/base/base--1.tar.zst`: io: invalid peer certificate: UnknownIssuer
    ");
    assert!(!env.path("opt/packages/base--1").exists());
    assert_eq!(server.requests(), []);
    let trusted = env.path("trusted.pem");
    assert_snapshot!(show(env.monobloc(&fetch).env("SSL_CERT_FILE", trusted)), @"
    exit: 0
    --- stdout
    --- stderr
    added base--1
    ");
    assert_eq!(env.read("opt/packages/base--1/lib/base"), "base--1");
}

/// The same, and a repository with some of them.
fn with_mirror() -> TestEnv {
    let env = with_store();
    for name in ["app", "base"] {
        let folder = env.path(&format!("mirror/packages/{name}"));
        fs_err::create_dir_all(&folder).unwrap();
        let archive = format!("{name}--1.tar.zst");
        fs_err::copy(env.path(&archive), folder.join(archive)).unwrap();
    }
    env
}

#[test]
fn an_audit_of_what_nobody_touched_is_clean() {
    let env = with_mirror();
    assert_snapshot!(run(&env, &["audit"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: nothing is active in `[TEMP]/opt`: it was not bootstrapped
    hint: make a set live with `monobloc host activate`
    ");
    run(&env, &["activate", "base--1", "app--1"]);
    assert_snapshot!(run(&env, &["audit"]), @"
    exit: 0
    --- stdout
    generation 1, 2 packages, 25 files, links and folders, [SIZE] read: all is as it should be
    digest [DIGEST]
    --- stderr
    ");
    assert_snapshot!(run(&env, &["audit", "--fast"]), @"
    exit: 0
    --- stdout
    generation 1, 2 packages, 25 files, links and folders, [SIZE] read: all is as it should be
    no digest: a fast audit does not read every byte
    --- stderr
    ");
    assert_snapshot!(run(&env, &["repair"]), @"
    exit: 0
    --- stdout
    --- stderr
    nothing to do: all is as it should be
    ");
}

#[test]
fn a_repair_does_what_it_can_and_names_the_rest() {
    let env = with_mirror();
    run(&env, &["activate", "base--1", "app--1"]);
    fs_err::write(env.path("opt/packages/app--1/bin/app"), "app-+1").unwrap();
    fs_err::remove_file(env.path("opt/generations/1/environment")).unwrap();
    fs_err::remove_file(env.path("opt/lib")).unwrap();
    fs_err::remove_file(env.path("opt/systemd/dcos.target")).unwrap();
    assert_snapshot!(run(&env, &["audit"]), @"
    exit: 1
    --- stdout
    [TEMP]/opt/generations/1/environment: should be a file, is nothing
    [TEMP]/opt/lib: should be a link to `current/lib`, is nothing
    [TEMP]/opt/packages/app--1/bin/app: should be SHA-256 [DIGEST], is SHA-256 [DIGEST]
    [TEMP]/opt/systemd/dcos.target: should be a file, is nothing
    generation 1, 2 packages, 24 files, links and folders, [SIZE] read: 4 differences
    digest [DIGEST]
    --- stderr
    ");
    assert_snapshot!(run(&env, &["repair", "--plan"]), @"
    exit: 1
    --- stdout
    write `[TEMP]/opt/generations/1/environment`
    make the link `[TEMP]/opt/lib` to `current/lib`
    write `[TEMP]/opt/systemd/dcos.target`
    cannot repair [TEMP]/opt/packages/app--1/bin/app: should be SHA-256 [DIGEST], is SHA-256 [DIGEST]: no repository to get its package from: name one with `--repository-url`
    --- stderr
    ");
    assert_snapshot!(run(&env, &["repair"]), @"
    exit: 1
    --- stdout
    write `[TEMP]/opt/generations/1/environment`
    make the link `[TEMP]/opt/lib` to `current/lib`
    write `[TEMP]/opt/systemd/dcos.target`
    cannot repair [TEMP]/opt/packages/app--1/bin/app: should be SHA-256 [DIGEST], is SHA-256 [DIGEST]: no repository to get its package from: name one with `--repository-url`
    --- stderr
    1 difference left
    ");
}

#[test]
fn a_repair_gets_a_package_again_that_was_changed() {
    let env = with_mirror();
    run(&env, &["activate", "base--1", "app--1"]);
    fs_err::write(env.path("opt/packages/app--1/bin/app"), "app-+1").unwrap();
    let from = ["--repository-url", "file://mirror"];
    assert_snapshot!(run(&env, &[&["repair", "--plan"], &from[..]].concat()), @"
    exit: 0
    --- stdout
    unpack package `app--1` again from the repository
    --- stderr
    ");
    assert_snapshot!(run(&env, &[&["repair"], &from[..]].concat()), @"
    exit: 0
    --- stdout
    unpack package `app--1` again from the repository
    --- stderr
    added app--1
    all is as it should be
    ");
    assert_snapshot!(run(&env, &["audit"]), @"
    exit: 0
    --- stdout
    generation 1, 2 packages, 25 files, links and folders, [SIZE] read: all is as it should be
    digest [DIGEST]
    --- stderr
    ");
    assert_snapshot!(run(&env, &["history"]), @"
    exit: 0
    --- stdout
    [WHEN]  ada  began to make generation 1 live
    [WHEN]  ada  generation 1 is live
    [WHEN]  ada  repaired 1 difference
    --- stderr
    ");
    assert_snapshot!(run(&env, &["repair", "--repository-url", "nowhere"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: `nowhere` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    ");
}

#[test]
fn an_audit_and_a_repair_can_be_had_as_json() {
    let env = with_store();
    run(&env, &["activate", "base--1", "app--1"]);
    fs_err::write(env.path("opt/packages/app--1/bin/app"), "app-+1").unwrap();
    fs_err::remove_file(env.path("opt/lib")).unwrap();
    let json = |arguments: &[&str]| {
        let output = env.monobloc(&[&["--json"], &HOST[..], arguments].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_snapshot!(json(&["audit"]), @r#"
    {
      "schema": "monobloc.host.audit/1",
      "fast": false,
      "generation": 1,
      "differences": [
        {
          "at": "[TEMP]/opt/lib",
          "should": "a link to `current/lib`",
          "is": "nothing"
        },
        {
          "at": "[TEMP]/opt/packages/app--1/bin/app",
          "should": "SHA-256 [DIGEST]",
          "is": "SHA-256 [DIGEST]",
          "package": "app--1"
        }
      ],
      "unchecked": [],
      "packages": 2,
      "entries": 25,
      "bytes": [SIZE],
      "digest": "[DIGEST]"
    }
    "#);
    assert_snapshot!(json(&["repair", "--plan"]), @r#"
    {
      "schema": "monobloc.host.repair/1",
      "executed": false,
      "steps": [
        "make the link `[TEMP]/opt/lib` to `current/lib`"
      ],
      "cannot": [
        {
          "what": "[TEMP]/opt/packages/app--1/bin/app: should be SHA-256 [DIGEST], is SHA-256 [DIGEST]",
          "why": "no repository to get its package from: name one with `--repository-url`"
        }
      ],
      "unchecked": []
    }
    "#);
    let repaired: serde_json::Value = serde_json::from_str(&json(&["repair"])).unwrap();
    assert_eq!(repaired["schema"], "monobloc.host.repair/1");
    assert_eq!(repaired["report"]["differences"].as_array().unwrap().len(), 1);
}

#[test]
fn going_back_over_state_that_cannot_be_read_needs_force() {
    let env = TestEnv::new();
    for version in ["1", "2"] {
        let info = format!(
            r#"{{"state_directory":true,"state_format":{{"version":{version},"readable_by":{version}}}}}"#
        );
        let archive = format!("kv--{version}.tar.zst");
        env.pack(&archive, &[("pkginfo.json", &*info, 0o644), ("bin/kv", version, 0o755)]);
        succeed(&mut env.monobloc(&[&HOST[..], &["add", &archive]].concat()));
        let id = format!("kv--{version}");
        succeed(&mut env.monobloc(&[&HOST[..], &["activate", &id]].concat()));
    }
    assert_snapshot!(run(&env, &["rollback"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: the state of `kv` (it has format 2, the other reads up to 1) cannot be read by what would be live; `--force` goes back nevertheless
    ");
    assert_snapshot!(run(&env, &["rollback", "--force"]), @"
    exit: 0
    --- stdout
    --- stderr
    generation 1 is live
    ");
}
