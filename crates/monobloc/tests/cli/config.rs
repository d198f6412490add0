//! `monobloc config`: what somebody sees who says what a cluster is.

use insta::assert_snapshot;

use crate::test_env::{TestEnv, succeed};

const SHOP: &str = r#"include: []
parameters:
  cluster_name:
    type: string
    required: true
    immutable: true
    min_length: 1
    description: |
      The name of the cluster.
      People read it.
    example: Main Street
  storage:
    type: enum
    allowed: [local, shared]
    required: true
    description: Where orders are kept.
    example: local
  workers: {type: int, min: 1, max: 64, default: 4, description: How many orders at once., since: "1.2"}
  zone: {type: string, default_from: cluster_name | lower, immutable: true}
  ssh_port: {type: port, default: 22, scope: controller, description: Where hosts are reached.}
computed:
  threads: workers * 2
  pool: {value: threads + 1, type: int, max: 100, description: Connections of the front.}
groups:
  - when: storage == "shared"
    parameters:
      servers:
        type: list
        items: {type: ip, family: v4}
        required: true
        min_length: 1
        description: The servers that keep the orders.
        example: [10.0.0.1, 10.0.0.2]
      password: {type: secret, required: true, min_length: 4, description: What the servers want to hear.}
rules:
  - check: storage == "local" or workers < 20
    message: "{{ workers }} workers are too many for shared storage"
    help: take fewer
    keys: [workers, storage]
"#;

/// A file that uses everything.
const SHARED: &str = "\
cluster_name: Harbour
storage: shared
servers:
- 10.0.0.1
- 10.0.0.2
password: hunter2
workers: 8
";

/// A file with one mistake of each sort.
const WRONG: &str = "\
cluster_name: Harbour
storage: shared
servers: [10.0.0.1, ten]
wrokers: 8
zone:
ssh_port: 99999
pool: 3
";

pub(crate) fn env(config: &str) -> TestEnv {
    let env = TestEnv::of_tree(&[
        ("config/shop.yaml", SHOP),
        ("distribution.toml", "name = \"shop\"\nversion = \"1.2.3\"\n"),
    ]);
    if !config.is_empty() {
        write(&env, "genconf/config.yaml", config);
    }
    env
}

pub(crate) fn write(env: &TestEnv, path: &str, text: &str) {
    let path = env.path(path);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, text).unwrap();
}

pub(crate) fn run(env: &TestEnv, arguments: &[&str]) -> String {
    env.run(&[&["config"], arguments, &["--tree", "tree"]].concat())
}

#[test]
fn a_file_without_mistakes_is_valid() {
    let env = env(SHARED);
    assert_snapshot!(run(&env, &["validate"]), @"
    exit: 0
    --- stdout
    `genconf/config.yaml` has no mistakes
    --- stderr
    ");
    assert_snapshot!(run(&env, &["validate", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.config.validate/1",
      "status": "ok",
      "diagnostics": []
    }
    --- stderr
    "#);
}

#[test]
fn every_mistake_is_shown_at_once() {
    let env = env(WRONG);
    assert_snapshot!(run(&env, &["validate"]), @r#"
    exit: 1
    --- stdout
    --- stderr
    error: `servers[1]`: expected an IPv4 address, found `ten`
     --> genconf/config.yaml:3:21
      |
    3 | servers: [10.0.0.1, ten]
      |                     ^^^

    error: unknown key `wrokers`
     --> genconf/config.yaml:4:1
      |
    4 | wrokers: …
      | ^^^^^^^
      |
      = help: did you mean `workers`?

    error: `zone`: expected a text, found nothing
     --> genconf/config.yaml:5:1
      |
    5 | zone:
      | ^^^^
      |
      = help: give it a value, or remove it; `""` is an empty text

    error: `ssh_port`: expected a port from 1 to 65535, found `99999`
     --> genconf/config.yaml:6:11
      |
    6 | ssh_port: 99999
      |           ^^^^^

    error: `pool`: must be calculated, but was explicitly set
     --> genconf/config.yaml:7:7
      |
    7 | pool: 3
      |       ^
      |
      = help: remove `pool`: it follows from `threads`

    error: `password` must be set when `storage == "shared"`: what the servers want to hear
    --> genconf/config.yaml

    error: `genconf/config.yaml` has 6 mistakes
    "#);
}

#[test]
fn programs_get_the_status_object_of_the_reference_and_every_place() {
    let env = env("cluster_name: Harbour\nstorage: shared\nservers: [10.0.0.1, ten]\n");
    assert_snapshot!(run(&env, &["validate", "--json"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.config.validate/1",
      "status": "errors",
      "errors": {
        "servers": {
          "message": "`servers[1]`: expected an IPv4 address, found `ten`"
        }
      },
      "unset": [
        "password"
      ],
      "diagnostics": [
        {
          "severity": "error",
          "file": "genconf/config.yaml",
          "line": 3,
          "column": 21,
          "length": 3,
          "text": "servers: [10.0.0.1, ten]",
          "keys": [
            "servers"
          ],
          "message": "`servers[1]`: expected an IPv4 address, found `ten`",
          "help": null
        },
        {
          "severity": "error",
          "file": "genconf/config.yaml",
          "keys": [
            "password"
          ],
          "message": "`password` must be set when `storage == \"shared\"`: what the servers want to hear",
          "help": null
        }
      ]
    }
    --- stderr
    "#);
}

#[test]
fn a_rule_between_values_names_them_all() {
    let env = env(&SHARED.replace("workers: 8", "workers: 30"));
    assert_snapshot!(run(&env, &["validate"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `workers`, `storage`: 30 workers are too many for shared storage
     --> genconf/config.yaml:7:10
      |
    7 | workers: 30
      |          ^^
      |
      = help: take fewer

    error: `genconf/config.yaml` has 1 mistake
    ");
}

#[test]
fn warnings_do_not_fail() {
    let env = env("cluster_name: A\nstorage: local\nservers: [10.0.0.1]\n");
    assert_snapshot!(run(&env, &["validate"]), @r#"
    exit: 0
    --- stdout
    `genconf/config.yaml` has no mistakes
    --- stderr
    warning: `servers` has no effect here
     --> genconf/config.yaml:3:1
      |
    3 | servers: [10.0.0.1]
      | ^^^^^^^
      |
      = help: it is used only when `storage == "shared"`
    "#);
}

#[test]
fn a_file_that_cannot_be_read_is_one_error_with_advice() {
    let env = env("");
    assert_snapshot!(run(&env, &["validate"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: cannot read the configuration `genconf/config.yaml`: it does not exist
    hint: `monobloc config init` writes one to begin with
    ");
    fs_err::create_dir_all(env.path("genconf/config.yaml")).unwrap();
    assert_snapshot!(run(&env, &["show"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: cannot read the configuration `genconf/config.yaml`: it is a folder
    hint: `monobloc config init` writes one to begin with
    ");
    fs_err::write(env.path("latin.yaml"), b"cluster_name: A\nstorage: b\xe4r\n").unwrap();
    assert_snapshot!(run(&env, &["explain", "storage", "--config", "latin.yaml"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: cannot read the configuration `latin.yaml`: line 2 is not UTF-8
    hint: `monobloc config init` writes one to begin with
    ");
    assert_snapshot!(run(&env, &["diff", "a.yaml", "b.yaml", "--json"]), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.error/1",
      "error": "cannot read the configuration `a.yaml`: it does not exist",
      "hint": "`monobloc config init` writes one to begin with",
      "diagnostics": []
    }
    --- stderr
    "#);
}

#[test]
fn a_tree_that_cannot_be_used_says_why() {
    let env = env(SHARED);
    assert_snapshot!(env.run(&["config", "schema", "--tree", "nowhere"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: `nowhere` does not exist
    hint: `--tree` names the tree that declares the parameters: its folder, or the artifact made of it
    ");
    assert_snapshot!(env.run(&["config", "schema", "--tree", "genconf"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: `genconf` is no tree of components
    hint: `--tree` names the tree that declares the parameters: its folder, or the artifact made of it
    ");
    env.write_tree(&[("config/shop.yaml", "include: []\nparameters: {a: {type: strin}}\n")]);
    assert_snapshot!(run(&env, &["validate"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `type` of parameter `a` is `strin`
     --> config/shop.yaml:2:24
      |
    2 | parameters: {a: {type: strin}}
      |                        ^^^^^
      |
      = help: did you mean `string`?

    error: the configuration that the tree declares has 1 mistake
    ");
    env.write_tree(&[("distribution.toml", "name = 5\n")]);
    assert_snapshot!(run(&env, &["validate"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: distribution.toml lacks the key `version`
     --> tree/distribution.toml:1:1
      |
    1 | name = 5
      | ^

    error: name is a whole number, expected a string
     --> tree/distribution.toml:1:8
      |
    1 | name = 5
      |        ^

    error: the tree has 2 mistakes
    ");
}

#[test]
fn a_value_is_explained_down_to_what_somebody_set() {
    let env = env(SHARED);
    assert_snapshot!(run(&env, &["explain", "pool"]), @"
    exit: 0
    --- stdout
    pool = 17: calculated, threads + 1
      threads = 16: calculated, workers * 2
        workers = 8: set in genconf/config.yaml:7:10
          7 | workers: 8

      Connections of the front.

      expected  a whole number of at most 100
      is always threads + 1
      declared  config/shop.yaml:23:9
    --- stderr
    ");
    assert_snapshot!(run(&env, &["explain", "workers"]), @"
    exit: 0
    --- stdout
    workers = 8: set in genconf/config.yaml:7:10
      7 | workers: 8

      How many orders at once.

      expected  a whole number from 1 to 64
      default   4
      change    restarts services
      since     1.2
      declared  config/shop.yaml:18:12
    --- stderr
    ");
    assert_snapshot!(run(&env, &["explain", "servers"]), @r#"
    exit: 0
    --- stdout
    servers = ["10.0.0.1","10.0.0.2"]: set in genconf/config.yaml:4:3
      4 | - 10.0.0.1

      The servers that keep the orders.

      expected  a list, each item an IPv4 address
      exists    when storage == "shared", which holds (storage = shared)
      default   none: it must be set
      example   ["10.0.0.1","10.0.0.2"]
      change    restarts services
      declared  config/shop.yaml:28:9
    --- stderr
    "#);
    assert_snapshot!(run(&env, &["explain", "password"]), @r#"
    exit: 0
    --- stdout
    password = **HIDDEN**: set in genconf/config.yaml:6:11
      6 | password: **HIDDEN**

      What the servers want to hear.

      expected  a text
      exists    when storage == "shared", which holds (storage = shared)
      default   none: it must be set
      change    restarts services
      secret    shown to nobody, and kept apart from the rest
      declared  config/shop.yaml:34:17
    --- stderr
    "#);
}

#[test]
fn an_explanation_for_programs_has_everything() {
    let env = env(SHARED);
    assert_snapshot!(run(&env, &["explain", "ssh_port", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.config.explain/1",
      "name": "ssh_port",
      "status": "known",
      "value": 22,
      "source": {
        "from": "default"
      },
      "ways": [
        {
          "condition": null,
          "expected": "a port from 1 to 65535",
          "description": "Where hosts are reached.",
          "declared": "config/shop.yaml:20:13",
          "required": false,
          "default": 22,
          "default_from": null,
          "example": null,
          "since": null,
          "secret": false,
          "immutable": false,
          "restart": false,
          "late": false,
          "for_hosts": false
        }
      ],
      "diagnostics": []
    }
    --- stderr
    "#);
}

#[test]
fn a_value_that_does_not_exist_or_is_wrong_is_explained_too() {
    let env = env("cluster_name: A\nstorage: local\nworkers: 99\n");
    assert_snapshot!(run(&env, &["explain", "servers"]), @r#"
    exit: 0
    --- stdout
    servers: does not exist, as things are

      The servers that keep the orders.

      expected  a list, each item an IPv4 address
      exists    when storage == "shared", which does not hold (storage = local)
      default   none: it must be set
      example   ["10.0.0.1","10.0.0.2"]
      change    restarts services
      declared  config/shop.yaml:28:9
    --- stderr
    "#);
    assert_snapshot!(run(&env, &["explain", "pool"]), @"
    exit: 0
    --- stdout
    pool: no value, because of a mistake; calculated, threads + 1
      threads: no value, because of a mistake; calculated, workers * 2
        workers: has a mistake

      Connections of the front.

      expected  a whole number of at most 100
      is always threads + 1
      declared  config/shop.yaml:23:9
    --- stderr
    error: `workers`: expected a whole number from 1 to 64, found `99`
     --> genconf/config.yaml:3:10
      |
    3 | workers: 99
      |          ^^
    ");
    assert_snapshot!(run(&env, &["explain", "worker"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: no parameter is called `worker`
    hint: did you mean `workers`?
    ");
}

#[test]
fn show_has_what_was_set_and_expanded_has_everything() {
    let env = env(SHARED);
    assert_snapshot!(run(&env, &["show"]), @r#"
    exit: 0
    --- stdout
    cluster_name: Harbour
    storage: shared
    workers: 8
    servers:
    - "10.0.0.1"
    - "10.0.0.2"
    password: "**HIDDEN**"
    --- stderr
    "#);
    assert_snapshot!(run(&env, &["show", "--expanded"]), @r#"
    exit: 0
    --- stdout
    # set in genconf/config.yaml:1:15
    cluster_name: Harbour
    # set in genconf/config.yaml:2:10
    storage: shared
    # set in genconf/config.yaml:7:10
    workers: 8
    # the default, which is cluster_name | lower
    zone: harbour
    # the default
    ssh_port: 22
    # calculated, workers * 2
    threads: 16
    # calculated, threads + 1
    pool: 17
    # set in genconf/config.yaml:4:3
    servers:
    - "10.0.0.1"
    - "10.0.0.2"
    # set in genconf/config.yaml:6:11
    password: "**HIDDEN**"
    --- stderr
    "#);
}

#[test]
fn show_has_places_for_programs() {
    let env = env("cluster_name: A\nstorage: local\n");
    assert_snapshot!(run(&env, &["show", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.config.show/1",
      "values": {
        "cluster_name": {
          "status": "known",
          "value": "A",
          "source": {
            "from": "file",
            "file": "genconf/config.yaml",
            "line": 1,
            "column": 15,
            "length": 1,
            "text": "cluster_name: A"
          }
        },
        "storage": {
          "status": "known",
          "value": "local",
          "source": {
            "from": "file",
            "file": "genconf/config.yaml",
            "line": 2,
            "column": 10,
            "length": 5,
            "text": "storage: local"
          }
        }
      },
      "diagnostics": []
    }
    --- stderr
    "#);
}

#[test]
fn show_leaves_out_what_has_a_mistake() {
    assert_snapshot!(run(&env("cluster_name: A\nstorage: far\n"), &["show", "--expanded"]), @"
    exit: 1
    --- stdout
    # set in genconf/config.yaml:1:15
    cluster_name: A
    # the default
    workers: 4
    # the default, which is cluster_name | lower
    zone: a
    # the default
    ssh_port: 22
    # calculated, workers * 2
    threads: 8
    # calculated, threads + 1
    pool: 9
    --- stderr
    error: `storage`: expected `local` or `shared`, found `far`
     --> genconf/config.yaml:2:10
      |
    2 | storage: far
      |          ^^^
    ");
}

#[test]
fn diff_says_what_a_change_means_and_what_follows_from_it() {
    let env = env(SHARED);
    let new = "cluster_name: Port\nstorage: local\nssh_port: 2222\nworkers: 9\n";
    write(&env, "new.yaml", new);
    let files = ["diff", "genconf/config.yaml", "new.yaml"];
    assert_snapshot!(run(&env, &files), @r#"
    exit: 1
    --- stdout
    ~ cluster_name: Harbour → Port (immutable)
      ~ zone: harbour → port (immutable, follows from cluster_name)
    ~ storage: shared → local (restart)
      - servers: ["10.0.0.1","10.0.0.2"] (restart, follows from storage)
      - password: **HIDDEN** (restart, follows from storage)
    ~ workers: 8 → 9 (restart)
      ~ threads: 16 → 18 (restart, follows from workers)
      ~ pool: 17 → 19 (restart, follows from threads)
    ~ ssh_port: 22 → 2222 (harmless, hosts unaffected)
    4 changes: 1 impossible once a cluster is installed, 2 with restarts, 1 harmless
    --- stderr
    "#);
    let files = ["diff", "genconf/config.yaml", "genconf/config.yaml"];
    assert_snapshot!(run(&env, &files), @"
    exit: 0
    --- stdout
    --- stderr
    ");
}

#[test]
fn diff_says_of_a_secret_only_that_it_changed_and_refuses_a_file_with_mistakes() {
    let env = env(SHARED);
    write(&env, "secret.yaml", &SHARED.replace("hunter2", "hunter3"));
    let files = ["diff", "genconf/config.yaml", "secret.yaml", "--json"];
    assert_snapshot!(run(&env, &files), @r#"
    exit: 1
    --- stdout
    {
      "schema": "monobloc.config.diff/1",
      "equal": false,
      "changes": [
        {
          "name": "password",
          "kind": "changed",
          "old": {
            "value": "**HIDDEN**"
          },
          "new": {
            "value": "**HIDDEN**"
          },
          "effect": "restart",
          "for_hosts": true
        }
      ]
    }
    --- stderr
    "#);
    write(&env, "wrong.yaml", "cluster_name: A\nstorage: loca\n");
    assert_snapshot!(run(&env, &["diff", "genconf/config.yaml", "wrong.yaml"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: `storage`: expected `local` or `shared`, found `loca`
     --> wrong.yaml:2:10
      |
    2 | storage: loca
      |          ^^^^
      |
      = help: did you mean `local`?

    error: `wrong.yaml` has 1 mistake
    ");
}

#[test]
fn the_schema_is_a_document_of_its_own() {
    let output = succeed(&mut env("").monobloc(&["config", "schema", "--tree", "tree"]));
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["title"], "Configuration of shop");
    assert_eq!(schema["required"], serde_json::json!(["cluster_name", "storage"]));
    assert_eq!(schema["properties"]["password"]["writeOnly"], true);
}
