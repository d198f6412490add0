//! What a package says of itself in operation: in its id, in its `pkginfo.json`, and true.

use insta::assert_snapshot;

use crate::world::{SCRIPT, Watcher, World};

const INFO: &str = r#"{
    "units": {"a.service": {"reads": {"files": ["etc/a"], "variables": ["A"]}}, "m.service": {}},
    "checks": {"one": {"program": "check/one"}, "link": {"program": "bin/link", "roles": ["master"]}},
    "state_format": 3, "configuration": 1}"#;

const FILES: &str = "#!/bin/sh\nset -eu\ncd \"$PKG_PATH\"\n\
    mkdir check bin dcos.target.wants dcos.target.wants_master\n\
    touch dcos.target.wants/a.service dcos.target.wants_master/m.service check/one\n\
    chmod +x check/one\nln -s ../check/one bin/link\n";

fn of(info: &str, script: &str) -> World {
    World::new(&[("a/buildinfo.json", info), ("a/build", script)])
}

#[test]
fn what_is_declared_goes_to_the_host() {
    let world = of(INFO, FILES);
    assert_eq!(world.build()["a"], "built");
    assert_snapshot!(world.text("a", "pkginfo.json"), @r#"
    {
      "checks":{
        "link":{
          "program":"bin/link",
          "roles":[
            "master"
          ],
          "timeout_seconds":30,
          "within_seconds":60
        },
        "one":{
          "program":"check/one",
          "timeout_seconds":30,
          "within_seconds":60
        }
      },
      "configuration":true,
      "state_directory":false,
      "state_format":{
        "readable_by":3,
        "version":3
      },
      "units":{
        "a.service":{
          "reads":{
            "files":[
              "etc/a"
            ],
            "variables":[
              "A"
            ]
          }
        },
        "m.service":{}
      },
      "variant":null
    }
    "#);
}

#[test]
fn what_is_not_declared_is_in_no_id() {
    let world = of("{}", SCRIPT);
    let plan = world.plan();
    let inputs = &plan.identities.values().next().unwrap().inputs;
    assert_snapshot!(inputs["pkginfo"], @r#"{"state_directory":false,"variant":null}"#);
}

#[test]
fn each_declaration_is_in_the_id_as_it_is_meant() {
    let id = |info: &str| of(info, SCRIPT).ids()["a"].clone();
    let plain = id("{}");
    let texts = [
        r#"{"units":{"a.service":{}}}"#,
        r#"{"units":{"a.service":{"reads":{}}}}"#,
        r#"{"checks":{"a":{"program":"bin/a"}}}"#,
        r#"{"state_format":1}"#,
        r#"{"configuration":true}"#,
    ];
    let ids: std::collections::BTreeSet<String> = texts.iter().map(|text| id(text)).collect();
    assert_eq!(ids.len(), texts.len());
    assert!(!ids.contains(&plain));
    for text in [r#"{"units":{}}"#, r#"{"checks":{}}"#, r#"{"configuration":false}"#] {
        assert_eq!(id(text), plain, "{text}");
    }
    let spelled = r#"{"checks":{"a":{"program":"bin/a","timeout_seconds":30,"arguments":[]}}}"#;
    assert!(ids.contains(&id(spelled)));
    assert!(ids.contains(&id(r#"{"state_format":{"version":1,"readable_by":1}}"#)));
}

#[test]
fn what_is_declared_must_be_in_the_result() {
    let info = r#"{
        "units": {"a.service": {}, "b.service": {}, "c.service": {}},
        "checks": {"missing": {"program": "check/x"}, "plain": {"program": "etc/plain"},
            "folder": {"program": "etc"}, "out": {"program": "etc/out"}}}"#;
    let script = "#!/bin/sh\nset -eu\ncd \"$PKG_PATH\"\nmkdir -p etc dcos.target.wants other\n\
        touch dcos.target.wants/b.service other/c.service etc/plain\nln -s /bin/true etc/out\n";
    let world = of(info, script);
    assert_snapshot!(world.build()["a"], @"
    failed: the result is not what `buildinfo.json` says:
      check `folder`: `etc` is no file of the package
      check `missing`: `check/x` is no file of the package
      check `out`: `etc/out` is no file of the package
      check `plain`: `etc/plain` is not executable
      unit `a.service`: there is no `dcos.target.wants/a.service`, and none for a role
      unit `c.service`: there is no `dcos.target.wants/c.service`, and none for a role
    ");
    assert!(!world.archive("a").exists());
}

#[test]
fn a_file_among_the_checks_that_cannot_run_is_a_warning() {
    let script = "#!/bin/sh\nset -eu\nmkdir -p $PKG_PATH/check/more\ncd $PKG_PATH/check\n\
        touch README more/x run\nchmod +x run\nln -s README link\n";
    let world = of("{}", script);
    let watcher = Watcher::default();
    assert_eq!(world.build_watched(&watcher)["a"], "built");
    assert_snapshot!(watcher.warnings.lock().unwrap().join("\n"), @"`check/README` is not executable, so that as a check it always fails");
}
