//! `mkpanda`, as scripts that were written for the reference call it.

use std::process::Command;

use camino::Utf8Path;
use insta::assert_snapshot;

use crate::test_env::{BROKEN, SCRIPT, TestEnv, show, succeed};

/// `app` needs `base`, which has two variants; the set `small` is `base` in its variant.
fn env() -> TestEnv {
    TestEnv::of_tree(&[
        ("app/buildinfo.json", r#"{"requires": ["base"]}"#),
        ("app/build", SCRIPT),
        ("base/buildinfo.json", ""),
        ("base/build", SCRIPT),
        ("base/small.buildinfo.json", r#"{"build_script": "build"}"#),
        (
            "small.treeinfo.json",
            r#"{"core_package_list": ["base"], "variants": {"base": "small"}}"#,
        ),
    ])
}

/// The standard output of a command that must succeed, where two builds may talk at once.
fn answer(command: &mut Command) -> String {
    String::from_utf8(succeed(command).stdout).unwrap()
}

#[test]
fn the_version_is_the_references() {
    let env = env();
    assert_snapshot!(show(&mut env.mkpanda("tree", &["--version"])), @"
    exit: 0
    --- stdout
    mkpanda 0.2
    --- stderr
    ");
}

#[test]
fn in_a_package_folder_every_variant_is_built() {
    let env = env();
    assert_snapshot!(answer(&mut env.mkpanda("tree/base", &[])), @"
    Package variants available as:
    small:[TEMP]/tree/cache/packages/base/base--[HASH].tar.zst
    <default>:[TEMP]/tree/cache/packages/base/base--[HASH].tar.zst
    ");
    assert_snapshot!(show(&mut env.mkpanda("tree/base", &["--variant=small"])), @"
    exit: 0
    --- stdout
    Package variants available as:
    small:[TEMP]/tree/cache/packages/base/base--[HASH].tar.zst
    --- stderr
    ");
    assert_snapshot!(show(&mut env.mkpanda("tree/base", &["--variant=default"])), @"
    exit: 0
    --- stdout
    Package variants available as:
    <default>:[TEMP]/tree/cache/packages/base/base--[HASH].tar.zst
    --- stderr
    ");
    let latest = |file: &str| env.read(&format!("tree/cache/packages/base/{file}"));
    for file in ["latest", "small.latest"] {
        assert!(latest(file).starts_with("base--"), "{}", latest(file));
    }
    assert_ne!(latest("latest"), latest("small.latest"));
}

#[test]
fn a_required_package_is_built_only_when_asked_to() {
    let env = env();
    assert_snapshot!(show(&mut env.mkpanda("tree/app", &[])), @"
    exit: 1
    --- stdout
    ERROR: required package base is not built
    --- stderr
    hint: build it first, or use --recursive
    ");
    assert_snapshot!(show(&mut env.mkpanda("tree/app", &["--recursive"])), @"
    exit: 0
    --- stdout
    Package variants available as:
    <default>:[TEMP]/tree/cache/packages/app/app--[HASH].tar.zst
    --- stderr
    building base
    built base--[HASH] ([SIZE], [TIME])
    building app
    built app--[HASH] ([SIZE], [TIME])
    ");
    assert_snapshot!(show(&mut env.mkpanda("tree/app", &[])), @"
    exit: 0
    --- stdout
    Package variants available as:
    <default>:[TEMP]/tree/cache/packages/app/app--[HASH].tar.zst
    --- stderr
    ");
}

#[test]
fn errors_stand_on_standard_output() {
    let env = env();
    env.write_tree(&[("base/build", BROKEN)]);
    assert_snapshot!(show(&mut env.mkpanda("tree/base", &["--variant=default"])), @"
    exit: 1
    --- stdout
    ERROR: base: the build script failed with exit status: 3
    --- stderr
    building base
    failed: base: the build script failed with exit status: 3
      | looking for libz
      | no libz
      the whole log: [TEMP]/tree/cache/packages/base/base--[HASH].log
    hint: look around in its sandbox with `monobloc build [TEMP]/tree --shell base`
    ");
    env.write_tree(&[("base/buildinfo.json", "{")]);
    assert_snapshot!(show(&mut env.mkpanda("tree/base", &[])), @"
    exit: 1
    --- stdout
    ERROR: the tree has 1 mistake; nothing was built
    --- stderr
    error: not valid JSON: EOF while parsing an object
     --> [TEMP]/tree/base/buildinfo.json:1:1
      |
    1 | {
      | ^
    ");
}

#[test]
fn a_tree_is_built_with_every_set() {
    let env = env();
    assert_snapshot!(answer(&mut env.mkpanda("tree", &["tree"])), @"
    starting: build packages
    completed: build packages
    ");
    assert_eq!(
        env.names("tree/cache/complete"),
        ["complete.latest.json", "small.complete.latest.json"]
    );
    assert_snapshot!(env.read("tree/cache/complete/complete.latest.json"), @r#"
    {
      "bootstrap":null,
      "packages":[
        "app--[HASH]",
        "base--[HASH]"
      ]
    }
    "#);
    assert!(!env.path("tree/cache/bootstrap").exists());
}

#[test]
fn one_set_of_a_tree_is_built_alone() {
    let env = env();
    assert_snapshot!(show(&mut env.mkpanda("tree", &["tree", "--variant=small"])), @"
    exit: 0
    --- stdout
    starting: build packages
    completed: build packages
    --- stderr
    building base (small)
    built base--[HASH] ([SIZE], [TIME])
    ");
    assert_snapshot!(show(&mut env.mkpanda("tree", &["tree", "--variant=big"])), @"
    exit: 1
    --- stdout
    ERROR: there is no `big.treeinfo.json` in the tree
    --- stderr
    hint: there are: small, default
    ");
    assert_eq!(env.names("tree/cache/complete"), ["small.complete.latest.json"]);
}

#[test]
fn mkbootstrap_writes_the_files_that_installers_look_for() {
    let env = env();
    assert_snapshot!(answer(&mut env.mkpanda("tree", &["tree", "--mkbootstrap"])), @"
    starting: build packages
    completed: build packages
    starting: make bootstrap small
    completed: make bootstrap small
    [TEMP]/tree/cache/bootstrap/[HASH].bootstrap.tar.zst
    starting: make bootstrap <default>
    completed: make bootstrap <default>
    [TEMP]/tree/cache/bootstrap/[HASH].bootstrap.tar.zst
    ");
    let id = env.read("tree/cache/bootstrap/bootstrap.latest");
    let small_id = env.read("tree/cache/bootstrap/small.bootstrap.latest");
    let mut names = vec!["bootstrap.latest".to_owned(), "small.bootstrap.latest".to_owned()];
    for id in [&id, &small_id] {
        names.extend([format!("{id}.active.json"), format!("{id}.bootstrap.tar.zst")]);
    }
    names.sort();
    assert_eq!(env.names("tree/cache/bootstrap"), names);
    let active = env.read(&format!("tree/cache/bootstrap/{id}.active.json"));
    assert_snapshot!(active, @r#"
    [
      "app--[HASH]",
      "base--[HASH]"
    ]
    "#);
    let complete = env.read("tree/cache/complete/complete.latest.json");
    assert!(complete.contains(&format!("\"bootstrap\":\"{id}\"")), "{complete}");
    let small = env.read("tree/cache/complete/small.complete.latest.json");
    assert_snapshot!(small, @r#"
    {
      "bootstrap":"[HASH]",
      "packages":[
        "base--[HASH]"
      ]
    }
    "#);
    assert!(small.contains(&small_id) && small_id != id, "{small}");
}

#[test]
fn the_bootstrap_is_an_install_root_without_units() {
    let env = env();
    succeed(&mut env.mkpanda("tree", &["tree", "--mkbootstrap", "--variant=default"]));
    let id = env.read("tree/cache/bootstrap/bootstrap.latest");
    let archive = format!("tree/cache/bootstrap/{id}.bootstrap.tar.zst");
    let list = succeed(&mut env.command("tar", &["-I", "zstd", "-tf", &archive]));
    let list = String::from_utf8(list.stdout).unwrap();
    let tops: std::collections::BTreeSet<_> = list
        .lines()
        .filter_map(|path| Utf8Path::new(path).components().find(|part| part.as_str() != "."))
        .collect();
    assert_snapshot!(tops.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), @"
    active
    active.buildinfo.full.json
    bin
    bootstrap
    environment
    environment.export
    etc
    include
    lib
    manifest.json
    packages
    ");
}

#[test]
fn a_folder_that_is_no_package_is_refused() {
    let env = env();
    assert_snapshot!(show(&mut env.mkpanda("home", &[])), @"
    exit: 1
    --- stdout
    --- stderr
    ERROR: `[TEMP]/home` is not a package folder: it has no `buildinfo.json`
    ");
}
