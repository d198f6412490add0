//! `monobloc build` on small trees.

use insta::assert_snapshot;

use crate::test_env::{BROKEN, SCRIPT, TestEnv, show, succeed};

/// The digest of `data\n`.
const DATA: &str = "6667b2d1aab6a00caa5aee5af8ad9f1465e567abf1c209d15727d57b3e8f6e5f";

/// `app` needs `base`.
const GOOD: [(&str, &str); 4] = [
    ("app/buildinfo.json", r#"{"requires": ["base"]}"#),
    ("app/build", SCRIPT),
    ("base/buildinfo.json", ""),
    ("base/build", SCRIPT),
];

/// A `buildinfo.json` with one source.
fn with_source(url: &str) -> String {
    format!(r#"{{"single_source": {{"kind": "url", "url": "{url}", "sha256": "{DATA}"}}}}"#)
}

#[test]
fn a_tree_is_built_and_then_up_to_date() {
    let env = TestEnv::of_tree(&GOOD);
    assert_snapshot!(env.run(&["build", "tree"]), @"
    exit: 0
    --- stdout
    2 packages: 2 built ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    [TEMP]/tree/cache/dcos_generate_config.sh ([SIZE])
      SHA-256 [DIGEST]
      key     [KEY], which signed it
    --- stderr
    building base
    built base--[HASH] ([SIZE], [TIME])
    building app
    built app--[HASH] ([SIZE], [TIME])
    made the key `[TEMP]/tree/keys/release.key`, which signs artifacts: keep it to yourself
    ");
    assert_snapshot!(env.run(&["build", "tree"]), @"
    exit: 0
    --- stdout
    2 packages: 2 up to date ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    [TEMP]/tree/cache/dcos_generate_config.sh ([SIZE], unchanged)
      SHA-256 [DIGEST]
      key     [KEY], which signed it
    --- stderr
    ");
    assert_snapshot!(env.run(&["build", "tree", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.build/1",
      "success": true,
      "seconds": [TIME],
      "warnings": [],
      "packages": [
        {
          "name": "base",
          "variant": null,
          "status": "cached",
          "id": "base--[HASH]",
          "digest": "[DIGEST]",
          "archive": "[TEMP]/tree/cache/packages/base/base--[HASH].tar.zst",
          "archive_bytes": [SIZE],
          "unpacked_bytes": [SIZE],
          "impure": false
        },
        {
          "name": "app",
          "variant": null,
          "status": "cached",
          "id": "app--[HASH]",
          "digest": "[DIGEST]",
          "archive": "[TEMP]/tree/cache/packages/app/app--[HASH].tar.zst",
          "archive_bytes": [SIZE],
          "unpacked_bytes": [SIZE],
          "impure": false
        }
      ],
      "artifact": {
        "path": "[TEMP]/tree/cache/dcos_generate_config.sh",
        "id": "[DIGEST]",
        "sha256": "[DIGEST]",
        "key": "[KEY]",
        "unchanged": true
      }
    }
    --- stderr
    "#);
}

#[test]
fn a_build_with_json_writes_one_document() {
    let env = TestEnv::of_tree(&GOOD);
    assert_snapshot!(env.run(&["--json", "build", "tree"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.build/1",
      "success": true,
      "seconds": [TIME],
      "warnings": [],
      "packages": [
        {
          "name": "base",
          "variant": null,
          "status": "built",
          "id": "base--[HASH]",
          "digest": "[DIGEST]",
          "archive": "[TEMP]/tree/cache/packages/base/base--[HASH].tar.zst",
          "archive_bytes": [SIZE],
          "unpacked_bytes": [SIZE],
          "impure": false
        },
        {
          "name": "app",
          "variant": null,
          "status": "built",
          "id": "app--[HASH]",
          "digest": "[DIGEST]",
          "archive": "[TEMP]/tree/cache/packages/app/app--[HASH].tar.zst",
          "archive_bytes": [SIZE],
          "unpacked_bytes": [SIZE],
          "impure": false
        }
      ],
      "artifact": {
        "path": "[TEMP]/tree/cache/dcos_generate_config.sh",
        "id": "[DIGEST]",
        "sha256": "[DIGEST]",
        "key": "[KEY]",
        "unchanged": false
      }
    }
    --- stderr
    building base
    built base--[HASH] ([SIZE], [TIME])
    building app
    built app--[HASH] ([SIZE], [TIME])
    made the key `[TEMP]/tree/keys/release.key`, which signs artifacts: keep it to yourself
    "#);
}

#[test]
fn a_single_package_is_one_package() {
    let env = TestEnv::of_tree(&GOOD);
    assert_snapshot!(env.run(&["build", "tree", "base"]), @"
    exit: 0
    --- stdout
    1 package: 1 built ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    --- stderr
    building base
    built base--[HASH] ([SIZE], [TIME])
    ");
}

#[test]
fn without_a_folder_the_tree_is_here() {
    let env = TestEnv::of_tree(&GOOD);
    assert_snapshot!(show(env.monobloc(&["build"]).current_dir(env.path("tree"))), @"
    exit: 0
    --- stdout
    2 packages: 2 built ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    [TEMP]/tree/cache/dcos_generate_config.sh ([SIZE])
      SHA-256 [DIGEST]
      key     [KEY], which signed it
    --- stderr
    building base
    built base--[HASH] ([SIZE], [TIME])
    building app
    built app--[HASH] ([SIZE], [TIME])
    made the key `[TEMP]/tree/keys/release.key`, which signs artifacts: keep it to yourself
    ");
}

#[test]
fn explain_says_why_each_package_would_be_built() {
    let env = TestEnv::of_tree(&GOOD);
    assert_snapshot!(env.run(&["build", "tree", "--explain"]), @"
    exit: 0
    --- stdout
    base
      it was never built
    app
      it was never built
    2 of 2 packages would be built
    --- stderr
    ");
    succeed(&mut env.monobloc(&["build", "tree"]));
    assert_snapshot!(env.run(&["build", "tree", "--explain"]), @"
    exit: 0
    --- stdout
    0 of 2 packages would be built
    --- stderr
    ");
    env.write_tree(&[("base/build", &format!("{SCRIPT}# more\n"))]);
    assert_snapshot!(env.run(&["build", "tree", "--explain"]), @"
    exit: 0
    --- stdout
    base
      file `build` changed
    app
      dependency `base` will be another one
    2 of 2 packages would be built
    --- stderr
    ");
    assert_snapshot!(env.run(&["build", "tree", "--explain", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.build.explain/1",
      "warnings": [],
      "packages": [
        {
          "name": "base",
          "variant": null,
          "id": "base--[HASH]",
          "cached": false,
          "reasons": [
            "file `build` changed"
          ]
        },
        {
          "name": "app",
          "variant": null,
          "id": "app--[HASH]",
          "cached": false,
          "reasons": [
            "dependency `base` will be another one"
          ]
        }
      ]
    }
    --- stderr
    "#);
}

#[test]
fn a_failing_script_shows_the_end_of_its_log_and_stops_what_needs_it() {
    let env = TestEnv::of_tree(&GOOD);
    env.write_tree(&[
        ("base/build", BROKEN),
        ("other/buildinfo.json", ""),
        ("other/build", SCRIPT),
    ]);
    assert_snapshot!(env.run(&["build", "tree", "--jobs", "1"]), @"
    exit: 1
    --- stdout
    3 packages: 1 built, 1 failed, 1 not tried ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    --- stderr
    building base
    failed: base: the build script failed with exit status: 3
      | looking for libz
      | no libz
      the whole log: [TEMP]/tree/cache/packages/base/base--[HASH].log
    hint: look around in its sandbox with `monobloc build [TEMP]/tree --shell base`
    not tried: app needs base
    building other
    built other--[HASH] ([SIZE], [TIME])
    ");
    let log = fs_err::read_to_string(env.built("base", ".log")).unwrap();
    assert_eq!(log, "looking for libz\nno libz\n");
}

#[test]
fn a_failing_script_is_in_the_json_document() {
    let env = TestEnv::of_tree(&GOOD);
    env.write_tree(&[("base/build", BROKEN)]);
    assert_snapshot!(env.run(&["build", "tree", "--json"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.build/1",
      "success": false,
      "seconds": [TIME],
      "warnings": [],
      "packages": [
        {
          "name": "base",
          "variant": null,
          "status": "failed",
          "error": "the build script failed with exit status: 3",
          "hint": "look around in its sandbox with `monobloc build [TEMP]/tree --shell base`",
          "log": "[TEMP]/tree/cache/packages/base/base--[HASH].log",
          "log_tail": [
            "looking for libz",
            "no libz"
          ]
        },
        {
          "name": "app",
          "variant": null,
          "status": "skipped",
          "needed": {
            "name": "base",
            "variant": null
          }
        }
      ],
      "artifact": null
    }
    --- stderr
    building base
    failed: base: the build script failed with exit status: 3
      | looking for libz
      | no libz
      the whole log: [TEMP]/tree/cache/packages/base/base--[HASH].log
    hint: look around in its sandbox with `monobloc build [TEMP]/tree --shell base`
    not tried: app needs base
    "#);
}

#[test]
fn a_script_that_makes_nothing_has_failed() {
    let env = TestEnv::of_tree(&GOOD);
    env.write_tree(&[("base/build", "#!/bin/sh\n")]);
    assert_snapshot!(env.run(&["build", "tree"]), @"
    exit: 1
    --- stdout
    2 packages: 1 failed, 1 not tried ([TIME])
    --- stderr
    building base
    failed: base: the build script put nothing into `$PKG_PATH`
      the whole log: [TEMP]/tree/cache/packages/base/base--[HASH].log
    not tried: app needs base
    ");
}

#[test]
fn a_failure_of_a_variant_says_how_to_look_at_that_variant() {
    let env = TestEnv::of_tree(&GOOD);
    env.write_tree(&[
        ("app/small.buildinfo.json", r#"{"requires": ["base"]}"#),
        ("app/small.build", BROKEN),
    ]);
    assert_snapshot!(env.run(&["build", "tree", "app", "--variant", "small"]), @"
    exit: 1
    --- stdout
    2 packages: 1 built, 1 failed ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    --- stderr
    building base
    built base--[HASH] ([SIZE], [TIME])
    building app (small)
    failed: app (small): the build script failed with exit status: 3
      | looking for libz
      | no libz
      the whole log: [TEMP]/tree/cache/packages/app/app--[HASH].log
    hint: look around in its sandbox with `monobloc build [TEMP]/tree --shell app --variant small`
    ");
}

#[test]
fn one_package_is_built_with_what_it_requires() {
    let env = TestEnv::of_tree(&GOOD);
    env.write_tree(&[("other/buildinfo.json", ""), ("other/build", BROKEN)]);
    assert_snapshot!(env.run(&["build", "tree", "app"]), @"
    exit: 0
    --- stdout
    2 packages: 2 built ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    --- stderr
    building base
    built base--[HASH] ([SIZE], [TIME])
    building app
    built app--[HASH] ([SIZE], [TIME])
    ");
}

#[test]
fn an_unknown_package_suggests_the_nearest() {
    let env = TestEnv::of_tree(&GOOD);
    assert_snapshot!(env.run(&["build", "tree", "bse"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: there is no package `bse` in the tree
    hint: did you mean `base`?
    ");
    assert_snapshot!(env.run(&["build", "tree", "bse", "--json"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.error/1",
      "error": "there is no package `bse` in the tree",
      "hint": "did you mean `base`?",
      "diagnostics": []
    }
    --- stderr
    "#);
    assert_snapshot!(env.run(&["build", "tree", "xyz"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: there is no package `xyz` in the tree
    ");
}

#[test]
fn an_unknown_variant_is_an_error() {
    let env = TestEnv::of_tree(&GOOD);
    assert_snapshot!(env.run(&["build", "tree", "--variant", "small"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: there is no `small.treeinfo.json` in the tree
    hint: there are: default
    ");
}

#[test]
fn a_variant_of_the_tree_is_built_alone() {
    let env = TestEnv::of_tree(&GOOD);
    env.write_tree(&[
        ("other/buildinfo.json", r#"{"requires": ["app"]}"#),
        ("other/build", SCRIPT),
        ("small.treeinfo.json", r#"{"core_package_list": ["app"]}"#),
    ]);
    assert_snapshot!(env.run(&["build", "tree", "--variant", "small"]), @"
    exit: 0
    --- stdout
    2 packages: 2 built ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    --- stderr
    building base
    built base--[HASH] ([SIZE], [TIME])
    building app
    built app--[HASH] ([SIZE], [TIME])
    ");
    assert_snapshot!(env.run(&["build", "tree", "--variant", "default"]), @"
    exit: 0
    --- stdout
    3 packages: 1 built, 2 up to date ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    --- stderr
    building other
    built other--[HASH] ([SIZE], [TIME])
    ");
}

#[test]
fn offline_a_source_that_is_not_in_the_cache_is_an_error() {
    let env = TestEnv::of_tree(&GOOD);
    env.write_tree(&[("base/buildinfo.json", &with_source("https://host.invalid/data"))]);
    assert_snapshot!(env.run(&["build", "tree", "--offline"]), @"
    exit: 1
    --- stdout
    2 packages: 1 failed, 1 not tried ([TIME])
    --- stderr
    failed: base: source `base`: cannot fetch url source `https://host.invalid/data`: it is not in the cache, and `--offline` allows nothing else
    hint: `monobloc build --fetch-only`, run with network access, fills the cache
    not tried: app needs base
    ");
}

#[test]
fn fetch_only_fills_the_cache_for_a_build_without_network() {
    let env = TestEnv::of_tree(&GOOD);
    env.write_tree(&[
        ("base/buildinfo.json", &with_source("file://data")),
        ("base/data", "data\n"),
    ]);
    assert_snapshot!(env.run(&["build", "tree", "--fetch-only"]), @"
    exit: 0
    --- stdout
    2 packages: 2 with all sources in the cache ([TIME])
    --- stderr
    fetched base
    ");
    assert_snapshot!(env.run(&["build", "tree", "--fetch-only", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.build/1",
      "success": true,
      "seconds": [TIME],
      "warnings": [],
      "packages": [
        {
          "name": "base",
          "variant": null,
          "status": "fetched"
        },
        {
          "name": "app",
          "variant": null,
          "status": "fetched"
        }
      ],
      "artifact": null
    }
    --- stderr
    fetched base
    "#);
    assert_eq!(env.names("cache/monobloc"), ["sources"]);
    assert!(!env.path("tree/cache/packages").exists(), "nothing was built");
    assert_snapshot!(env.run(&["build", "tree", "--offline"]), @"
    exit: 0
    --- stdout
    2 packages: 2 built ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    [TEMP]/tree/cache/dcos_generate_config.sh ([SIZE])
      SHA-256 [DIGEST]
      key     [KEY], which signed it
    --- stderr
    building base
    built base--[HASH] ([SIZE], [TIME])
    building app
    built app--[HASH] ([SIZE], [TIME])
    made the key `[TEMP]/tree/keys/release.key`, which signs artifacts: keep it to yourself
    ");
}

#[test]
fn a_wrong_hash_keeps_the_bad_file_aside() {
    let env = TestEnv::of_tree(&GOOD);
    env.write_tree(&[
        ("base/buildinfo.json", &with_source("file://data")),
        ("base/data", "other\n"),
    ]);
    assert_snapshot!(env.run(&["build", "tree", "--fetch-only"]), @"
    exit: 1
    --- stdout
    2 packages: 1 with all sources in the cache, 1 failed ([TIME])
    --- stderr
    failed: base: source `base`: cannot fetch url source `file://data`: `file://[TEMP]/tree/base/data` is not the expected file: expected sha256 [DIGEST], found [DIGEST], kept as `[TEMP]/cache/monobloc/sources/sha256/66/[DIGEST].corrupt`
    ");
    assert_eq!(env.read(&format!("cache/monobloc/sources/sha256/66/{DATA}.corrupt")), "other\n");
}

#[test]
fn a_remote_cache_is_not_used_without_a_pinned_root() {
    let env = TestEnv::of_tree(&GOOD);
    assert_snapshot!(env.run(&["build", "tree", "--explain", "--cache-url", "https://host.invalid/"]), @"
    exit: 0
    --- stdout
    base
      it was never built
    app
      it was never built
    2 of 2 packages would be built
    --- stderr
    warning: `--cache-url` is not used: the build environment is this machine's own root, so packages built elsewhere are others (pin a root in `distribution.toml`)
    ");
    assert_snapshot!(env.run(&["build", "tree", "--explain", "--cache-url", "not-a-url"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: invalid value 'not-a-url' for '--cache-url <URL>': relative URL without a base

    For more information, try '--help'.
    ");
}

#[test]
fn a_build_with_network_is_marked() {
    let env = TestEnv::of_tree(&GOOD);
    env.write_tree(&[("base/buildinfo.json", r#"{"network": true}"#)]);
    assert_snapshot!(env.run(&["build", "tree"]), @"
    exit: 0
    --- stdout
    2 packages: 2 built ([TIME])
    [SIZE] in [TEMP]/tree/cache/packages
    1 impure: built with access to the network
    [TEMP]/tree/cache/dcos_generate_config.sh ([SIZE])
      SHA-256 [DIGEST]
      key     [KEY], which signed it
    --- stderr
    building base
    built base--[HASH] ([SIZE], [TIME], impure: it could use the network)
    building app
    built app--[HASH] ([SIZE], [TIME])
    made the key `[TEMP]/tree/keys/release.key`, which signs artifacts: keep it to yourself
    ");
}
