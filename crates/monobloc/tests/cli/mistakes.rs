//! A tree with mistakes, in text and in JSON.

use insta::assert_snapshot;

use crate::test_env::{SCRIPT, TestEnv};

fn env() -> TestEnv {
    TestEnv::of_tree(&[
        (
            "app/buildinfo.json",
            "{\n  \"requires\": [\"base\"],\n  \"enviroment\": {\"GREETING\": \"hällo\"}, \"network\": \"ja\"\n}\n",
        ),
        ("app/build", SCRIPT),
        ("base/buildinfo.json", "{\n  \"docker\": \"dcos/builder\",\n"),
        ("base/build", SCRIPT),
        ("base/xbuildinfo.json", ""),
    ])
}

#[test]
fn every_mistake_is_shown_in_the_line_it_stands_in() {
    let env = env();
    assert_snapshot!(env.run(&["build", "tree"]), @r#"
    exit: 1
    --- stdout
    --- stderr
    error: unknown key `enviroment` in buildinfo.json
     --> [TEMP]/tree/app/buildinfo.json:3:3
      |
    3 |   "enviroment": {"GREETING": "hällo"}, "network": "ja"
      |   ^^^^^^^^^^^^
      |
      = help: did you mean `environment`?

    error: network is a string, expected true or false
     --> [TEMP]/tree/app/buildinfo.json:3:51
      |
    3 |   "enviroment": {"GREETING": "hällo"}, "network": "ja"
      |                                                   ^^^^

    error: not valid JSON: EOF while parsing an object
     --> [TEMP]/tree/base/buildinfo.json:3:1
      |
    3 |
      | ^

    error: the file's name has no valid variant
    --> [TEMP]/tree/base/xbuildinfo.json
     = help: expected `buildinfo.json` or `VARIANT.buildinfo.json`

    error: the tree has 4 mistakes; nothing was built
    "#);
    assert_eq!(env.names("tree"), ["app", "base"], "nothing was made");
}

#[test]
fn every_mistake_is_in_the_json_document() {
    assert_snapshot!(env().run(&["build", "tree", "--json"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.error/1",
      "error": "the tree has 4 mistakes; nothing was built",
      "hint": null,
      "diagnostics": [
        {
          "severity": "error",
          "file": "[TEMP]/tree/app/buildinfo.json",
          "line": 3,
          "column": 3,
          "length": 12,
          "text": "  \"enviroment\": {\"GREETING\": \"hällo\"}, \"network\": \"ja\"",
          "message": "unknown key `enviroment` in buildinfo.json",
          "help": "did you mean `environment`?"
        },
        {
          "severity": "error",
          "file": "[TEMP]/tree/app/buildinfo.json",
          "line": 3,
          "column": 51,
          "length": 4,
          "text": "  \"enviroment\": {\"GREETING\": \"hällo\"}, \"network\": \"ja\"",
          "message": "network is a string, expected true or false",
          "help": null
        },
        {
          "severity": "error",
          "file": "[TEMP]/tree/base/buildinfo.json",
          "line": 3,
          "column": 1,
          "length": 1,
          "text": "",
          "message": "not valid JSON: EOF while parsing an object",
          "help": null
        },
        {
          "severity": "error",
          "file": "[TEMP]/tree/base/xbuildinfo.json",
          "message": "the file's name has no valid variant",
          "help": "expected `buildinfo.json` or `VARIANT.buildinfo.json`"
        }
      ]
    }
    --- stderr
    "#);
}

#[test]
fn warnings_do_not_stop_a_build() {
    let env = TestEnv::of_tree(&[
        ("app/buildinfo.json", "{\n  \"docker\": \"dcos/builder\"\n}\n"),
        ("app/build", SCRIPT),
        ("base/buildinfo.json", ""),
        ("base/build", SCRIPT),
    ]);
    assert_snapshot!(env.run(&["build", "tree", "--explain"]), @r#"
    exit: 0
    --- stdout
    app
      it was never built
    base
      it was never built
    2 of 2 packages would be built
    --- stderr
    warning: `docker` has no effect
     --> [TEMP]/tree/app/buildinfo.json:2:13
      |
    2 |   "docker": "dcos/builder"
      |             ^^^^^^^^^^^^^^
      |
      = help: builds run in a sandbox on this machine's root, or on the root file system that `distribution.toml` names
    "#);
    assert_snapshot!(env.run(&["build", "tree", "--explain", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.build.explain/1",
      "warnings": [
        {
          "severity": "warning",
          "file": "[TEMP]/tree/app/buildinfo.json",
          "line": 2,
          "column": 13,
          "length": 14,
          "text": "  \"docker\": \"dcos/builder\"",
          "message": "`docker` has no effect",
          "help": "builds run in a sandbox on this machine's root, or on the root file system that `distribution.toml` names"
        }
      ],
      "packages": [
        {
          "name": "app",
          "variant": null,
          "id": "app--[HASH]",
          "cached": false,
          "reasons": [
            "it was never built"
          ]
        },
        {
          "name": "base",
          "variant": null,
          "id": "base--[HASH]",
          "cached": false,
          "reasons": [
            "it was never built"
          ]
        }
      ]
    }
    --- stderr
    warning: `docker` has no effect
     --> [TEMP]/tree/app/buildinfo.json:2:13
      |
    2 |   "docker": "dcos/builder"
      |             ^^^^^^^^^^^^^^
      |
      = help: builds run in a sandbox on this machine's root, or on the root file system that `distribution.toml` names
    "#);
}

#[test]
fn warnings_are_in_the_json_document_of_a_build() {
    let env = TestEnv::of_tree(&[
        ("app/buildinfo.json", r#"{"docker": "dcos/builder"}"#),
        ("app/build", SCRIPT),
    ]);
    assert_snapshot!(env.run(&["build", "tree", "--fetch-only", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.build/1",
      "success": true,
      "seconds": [TIME],
      "warnings": [
        {
          "severity": "warning",
          "file": "[TEMP]/tree/app/buildinfo.json",
          "line": 1,
          "column": 12,
          "length": 14,
          "text": "{\"docker\": \"dcos/builder\"}",
          "message": "`docker` has no effect",
          "help": "builds run in a sandbox on this machine's root, or on the root file system that `distribution.toml` names"
        }
      ],
      "packages": [
        {
          "name": "app",
          "variant": null,
          "status": "fetched"
        }
      ],
      "artifact": null
    }
    --- stderr
    warning: `docker` has no effect
     --> [TEMP]/tree/app/buildinfo.json:1:12
      |
    1 | {"docker": "dcos/builder"}
      |            ^^^^^^^^^^^^^^
      |
      = help: builds run in a sandbox on this machine's root, or on the root file system that `distribution.toml` names
    "#);
}

#[test]
fn a_folder_without_packages_is_no_tree() {
    let env = TestEnv::of_tree(&[("README.md", "")]);
    assert_snapshot!(env.run(&["build", "tree"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: there is no package in this folder
    --> [TEMP]/tree
     = help: a tree is a folder of package folders, each with a `buildinfo.json`

    error: the tree has 1 mistake; nothing was built
    ");
}
