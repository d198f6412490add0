//! `monobloc configure`, and a host that installs what came of it.

use insta::assert_snapshot;
use package::archive::{self, PackOptions};
use testing::files::write_files;

use crate::test_env::{SCRIPT, TestEnv, show, succeed};

const TREE: [(&str, &str); 6] = [
    ("distribution.toml", "name = \"test\"\nversion = \"1.2\"\n"),
    (
        "config/test.yaml",
        "include: [cluster, quorum, dns]\n\
        parameters:\n  password: { type: secret, required: true }\n\
        files:\n  etc_master/kv.password: { mode: \"0400\" }\n",
    ),
    ("config/files/etc_master/kv.password", "{{ password }}\n"),
    ("config/files/etc/kv.env", "KV_CLUSTER={{ cluster_name }}\nKV_MASTERS={{ num_masters }}\n"),
    ("cache/complete/complete.latest.json", r#"{"bootstrap":null,"packages":["kv--1"]}"#),
    ("kv/buildinfo.json", "{}"),
];

/// Masters stand behind a load balancer, and nobody knows their addresses beforehand.
pub(crate) const CONFIG: &str = "\
cluster_name: harbour
bootstrap_url: http://boot.example
password: hunter2hunter2
master_discovery: master_http_loadbalancer
exhibitor_address: masters.example
num_masters: 3
exhibitor_storage_backend: zookeeper
exhibitor_zk_hosts: zk1.example:2181,zk2.example:2181
exhibitor_zk_path: /harbour
";

pub(crate) fn site() -> TestEnv {
    let env = TestEnv::of_tree(&TREE);
    let folder = env.path("tree/cache/packages/kv");
    fs_err::create_dir_all(&folder).unwrap();
    write_files(
        &env.path("kv"),
        &[("bin/kv", "#!/bin/sh\n", 0o755), ("pkginfo.json", "{}", 0o644)],
    )
    .unwrap();
    let archive = folder.join("kv--1.tar.zst");
    archive::pack(&env.path("kv"), &archive, &PackOptions::default()).unwrap();
    env.write_config(CONFIG);
    env
}

/// Runs a command; keys and numbers of publications are different in every run.
pub(crate) fn run(env: &TestEnv, arguments: &[&str]) -> String {
    let said = show(&mut env.monobloc(arguments));
    assert!(!said.contains("hunter2") && !said.contains("AGE-SECRET"), "{said}");
    let mut lines = Vec::new();
    for line in said.lines() {
        lines.push(match line.split_once("RW") {
            Some((before, _)) if line.contains("key     RW") => {
                format!("{before}[KEY], which hosts verify with")
            }
            Some((before, _)) if line.contains("public_key") => format!("{before}[KEY]\","),
            _ if line.contains("\"sequence\"") => "  \"sequence\": [NUMBER],".to_owned(),
            _ => line.to_owned(),
        });
    }
    lines.join("\n") + "\n"
}

pub(crate) const CONFIGURE: [&str; 3] = ["configure", "--tree", "tree"];

#[test]
fn a_cluster_is_configured_once_and_again_changes_nothing() {
    let env = site();
    assert_snapshot!(run(&env, &CONFIGURE), @"
    exit: 0
    --- stdout
    published [DIGEST] of test 1.2
      serve   genconf/serve (10 files, [SIZE])
      key     [KEY], which hosts verify with
      install test_install.sh (SHA-256 [DIGEST])
      secrets genconf/keys: give each host the key of its role
    --- stderr
    made the key `genconf/keys/cluster.key`, which signs: keep it to yourself
    ");
    assert_snapshot!(run(&env, &CONFIGURE), @"
    exit: 0
    --- stdout
    unchanged [DIGEST] of test 1.2
      serve   genconf/serve (10 files, [SIZE])
      key     [KEY], which hosts verify with
      install test_install.sh (SHA-256 [DIGEST])
      secrets genconf/keys: give each host the key of its role
    --- stderr
    ");
    env.write_config(&CONFIG.replace("harbour", "port"));
    assert_snapshot!(run(&env, &[&CONFIGURE[..], &["--gc"]].concat()), @"
    exit: 0
    --- stdout
    published [DIGEST] of test 1.2
      serve   genconf/serve (10 files, [SIZE])
      key     [KEY], which hosts verify with
      install test_install.sh (SHA-256 [DIGEST])
      secrets genconf/keys: give each host the key of its role
    removed 1 bundle, 9 files, [SIZE]
    --- stderr
    warning: `exhibitor_zk_path` is not what was published before, and cannot change once a cluster is installed
    ");
    assert_snapshot!(run(&env, &[&CONFIGURE[..], &["--json"]].concat()), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.configure/1",
      "bundle": "[DIGEST]",
      "configuration": "[HASH]",
      "sequence": [NUMBER],
      "unchanged": true,
      "files": 10,
      "bytes": [SIZE],
      "secrets": [
        "test-config-secrets-master--setup_[HASH]"
      ],
      "late": null,
      "serve": "genconf/serve",
      "public_key": "[KEY]",
      "install": {
        "path": "test_install.sh",
        "sha256": "[DIGEST]"
      },
      "upgrade": null,
      "bootstrap_url": "http://boot.example",
      "for": [],
      "removed": null
    }
    --- stderr
    "#);
}

#[test]
fn mistakes_stop_it_and_nothing_is_made() {
    let env = site();
    env.write_config("cluster_name: harbour\npassword: hunter2hunter2\nnum_mastres: 3\n");
    assert_snapshot!(run(&env, &CONFIGURE), @r#"
    exit: 1
    --- stdout
    --- stderr
    error: unknown key `num_mastres`
     --> genconf/config.yaml:3:1
      |
    3 | num_mastres: …
      | ^^^^^^^^^^^
      |
      = help: did you mean `num_masters`?

    error: `bootstrap_url` must be set: where hosts fetch the bundle from
    --> genconf/config.yaml
     = help: for example `bootstrap_url: "http://192.0.2.10:8080"`

    error: `master_discovery` must be set: how hosts find the masters
    --> genconf/config.yaml
     = help: for example `master_discovery: static`

    error: `exhibitor_storage_backend` must be set: where the masters keep the list of themselves
    --> genconf/config.yaml
     = help: for example `exhibitor_storage_backend: static`

    error: `genconf/config.yaml` has 4 mistakes
    "#);
    assert_eq!(env.names("genconf"), ["config.yaml"]);
    env.write_config(CONFIG);
    fs_err::remove_file(env.path("tree/cache/complete/complete.latest.json")).unwrap();
    assert_snapshot!(run(&env, &CONFIGURE), @"
    exit: 1
    --- stdout
    --- stderr
    error: `tree` was not built yet: there is no `tree/cache/complete/complete.latest.json`
    hint: build it first: `monobloc build tree`
    ");
    let unknown = ["--secret-key", "none.key"];
    assert_snapshot!(run(&site(), &[&CONFIGURE[..], &unknown].concat()), @"
    exit: 1
    --- stdout
    --- stderr
    error: cannot use `none.key`: failed to open file `none.key`: No such file or directory (os error 2)
    ");
}

#[test]
fn the_installer_answers_to_its_flags() {
    let env = site();
    assert_snapshot!(run(&env, &["--validate-config", "--tree", "tree"]), @"
    exit: 0
    --- stdout
    `genconf/config.yaml` has no mistakes
    --- stderr
    ");
    assert_snapshot!(run(&env, &["--genconf", "--tree", "tree"]), @"
    exit: 0
    --- stdout
    published [DIGEST] of test 1.2
      serve   genconf/serve (10 files, [SIZE])
      key     [KEY], which hosts verify with
      install test_install.sh (SHA-256 [DIGEST])
      secrets genconf/keys: give each host the key of its role
    --- stderr
    made the key `genconf/keys/cluster.key`, which signs: keep it to yourself
    ");
}

#[test]
fn a_host_installs_what_was_configured_for_its_role() {
    let env = site();
    succeed(&mut env.monobloc(&CONFIGURE));
    for (role, root) in [("master", "m"), ("slave", "s")] {
        let (opt, etc) = (format!("{root}/opt"), format!("{root}/etc"));
        let key = format!("genconf/keys/{role}.agekey");
        let mut words =
            vec!["host", "--distribution", "test", "--root", &opt, "--config-dir", &etc];
        words.extend(["install", "--from", "genconf/serve", "--role", role]);
        words.extend(["--public-key", "genconf/keys/cluster.pub"]);
        if role == "master" {
            words.extend(["--key-file", &key]);
        }
        succeed(&mut env.monobloc(&words));
        let file = |path: &str| env.read(&format!("{opt}/{path}"));
        assert_eq!(file("etc/kv.env"), "KV_CLUSTER=harbour\nKV_MASTERS=3\n");
        assert!(file("etc/dns_config").contains("masters.example"), "{}", file("etc/dns_config"));
        assert!(file("etc/test-version.json").contains("1.2"));
        let secret = env.path(&format!("{opt}/etc/kv.password"));
        assert_eq!(secret.exists(), role == "master");
    }
    assert_eq!(env.read("m/opt/etc/kv.password"), "hunter2hunter2\n");
    // A new value of the controller is no news for hosts, one for hosts is.
    env.write_config(&format!("{CONFIG}agent_list: [10.0.0.9]\n"));
    succeed(&mut env.monobloc(&CONFIGURE));
    let again = ["host", "--distribution", "test", "--root", "m/opt", "--config-dir", "m/etc"];
    let again = [&again[..], &["install", "--from", "genconf/serve"]].concat();
    assert!(run(&env, &again).contains("unchanged: "));
    env.write_config(&CONFIG.replace("hunter2hunter2", "hunter3hunter3"));
    succeed(&mut env.monobloc(&CONFIGURE));
    succeed(&mut env.monobloc(&again));
    assert_eq!(env.read("m/opt/etc/kv.password"), "hunter3hunter3\n");
}

#[test]
fn hosts_put_their_own_values_in_and_get_the_checks_of_the_operator() {
    let env = site();
    let late = CONFIG.replace("exhibitor_address: masters.example\n", "");
    env.write_config(&format!("{late}late_values: [exhibitor_address]\n"));
    write_files(&env.path("genconf/check_bins"), &[("disk", "#!/bin/sh\n", 0o755)]).unwrap();
    succeed(&mut env.monobloc(&CONFIGURE));
    let host = ["host", "--distribution", "test", "--root", "opt", "--config-dir", "etc"];
    let install = ["install", "--from", "genconf/serve", "--role", "slave"];
    let key = ["--public-key", "genconf/keys/cluster.pub"];
    let words = [&host[..], &install, &key].concat();
    // Without its values there is nothing that could be installed.
    assert_snapshot!(run(&env, &words), @"
    exit: 1
    --- stdout
    --- stderr
    error: package `test-provider-[HASH]-onprem--setup` needs values of this host, and `[TEMP]/etc/setup-flags/late-config.yaml` does not name it
    ");
    let values = "late_bound_package_id: test-provider-0-onprem--setup\n\
                  bound_values:\n  exhibitor_address: 10.7.7.7\n";
    write_files(&env.path("etc/setup-flags"), &[("late-config.yaml", values, 0o600)]).unwrap();
    succeed(&mut env.monobloc(&words));
    assert!(env.read("opt/etc/dns_config").contains("10.7.7.7"));
    assert_eq!(env.read("opt/active/custom-check-bins/disk"), "#!/bin/sh\n");
    // The next configuration has another id; the host's values are the same.
    env.write_config(&format!("{late}late_values: [exhibitor_address]\ndns_search: a.example\n"));
    succeed(&mut env.monobloc(&CONFIGURE));
    succeed(&mut env.monobloc(&words));
    assert!(env.read("opt/etc/dns_config").contains("10.7.7.7"));
}

#[test]
fn packages_for_windows_come_through_the_one_file_into_the_bundle() {
    let env = TestEnv::of_tree(&[
        TREE[0],
        TREE[1],
        TREE[2],
        TREE[3],
        ("kv/buildinfo.json", ""),
        ("kv/build", SCRIPT),
        ("kv/windows.buildinfo.json", r#"{"build_script": "build"}"#),
        (
            "windows.treeinfo.json",
            r#"{"core_package_list": ["kv"], "variants": {"kv": "windows"}}"#,
        ),
    ]);
    env.write_config(CONFIG);
    succeed(&mut env.monobloc(&["build", "tree", "-o", "test.sh"]));
    fs_err::remove_dir_all(env.path("tree")).unwrap();
    succeed(&mut env.monobloc(&["configure", "--tree", "test.sh"]));
    let bundle: serde_json::Value =
        serde_json::from_str(&env.read("genconf/serve/bundle.json")).unwrap();
    for (system, suffix) in [("linux", ".tar.zst"), ("windows", ".zip")] {
        let mut packages = bundle["packages"][system]["slave"].as_array().unwrap().iter();
        let kv = packages.find_map(|id| id.as_str().filter(|id| id.starts_with("kv--"))).unwrap();
        let archive = format!("packages/kv/{kv}{suffix}");
        assert!(bundle["files"][&archive].is_object(), "{archive}");
        assert!(env.path("genconf/serve").join(archive).is_file());
    }
}
