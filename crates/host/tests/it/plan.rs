//! Observe, plan, execute: what is planned is what is done, or nothing is.

use std::collections::{BTreeMap, BTreeSet};

use host::event::Silent;
use host::plan::{self, Plan, Step, Wanted};
use host::{Clock as _, ExecuteError, HostError};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::world::{CancelAt, File, Listener, Noon, World, names, wanted};

fn two() -> World {
    let world = World::new();
    for id in ["a--1", "a--2"] {
        world.add(id, "{}", &[("bin/a", id)]);
    }
    world.activate(&["a--1"]).unwrap();
    world
}

fn planned(world: &World, wanted: &Wanted) -> Plan {
    world.host.plan(wanted, &Noon).unwrap()
}

fn execute(world: &World, plan: &Plan) -> Result<(), ExecuteError> {
    let lock = world.host.lock(&world.job()).unwrap();
    world.host.execute(plan, &lock, &world.job())
}

/// That the plan is refused because the host is another one now, and what it says.
fn stale(world: &World, plan: &Plan) -> String {
    let before = (world.all(), world.host.history().read().unwrap());
    let error = execute(world, plan).expect_err("the host changed");
    assert!(matches!(error, ExecuteError::Stale(_)), "{error}");
    assert_eq!((world.all(), world.host.history().read().unwrap()), before);
    error.to_string()
}

#[test]
fn a_plan_says_what_changes_and_in_which_order_it_is_done() {
    let world = two();
    world.add("b--1", "{}", &[]);
    world.has_roles(&["master"]);
    let plan = planned(&world, &wanted(&["a--2", "b--1"]));
    let mut json: serde_json::Value = serde_json::to_value(&plan).unwrap();
    // The digests and the whole layout are looked at elsewhere.
    json["base"]["packages"] = "…".into();
    for step in json["steps"].as_array_mut().unwrap() {
        if step["step"] == "build" {
            step["links"] = "…".into();
            step["files"] = "…".into();
            step["generation"] = "…".into();
        }
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap(), @r#"
    {
      "format": 1,
      "base": {
        "live": 1,
        "highest": 1,
        "roles": [
          "master"
        ],
        "packages": "…"
      },
      "changes": {
        "added": [
          "a--2",
          "b--1"
        ],
        "removed": [
          "a--1"
        ],
        "unverified": [],
        "old_roles": []
      },
      "steps": [
        {
          "step": "build",
          "generation": "…",
          "folders": [
            "active",
            "bin",
            "dcos.target.wants",
            "etc",
            "include",
            "lib"
          ],
          "links": "…",
          "files": "…"
        },
        {
          "step": "switch",
          "from": 1,
          "to": 2
        }
      ]
    }
    "#);
    assert_eq!(Plan::parse(&serde_json::to_vec(&plan).unwrap()).unwrap(), plan);
    let newer = serde_json::to_string(&plan).unwrap().replacen("\"format\":1", "\"format\":2", 1);
    insta::assert_snapshot!(Plan::parse(newer.as_bytes()).unwrap_err(), @"`plan` has format 2, this program reads formats up to 1: use the newer monobloc that wrote it");
}

#[test]
fn to_observe_and_to_plan_writes_nothing() {
    let world = two();
    let before = (world.all(), world.host.history().read().unwrap());
    planned(&world, &wanted(&["a--2"]));
    assert_eq!((world.all(), world.host.history().read().unwrap()), before);
}

#[test]
fn a_plan_for_another_live_generation_is_refused() {
    let world = two();
    let plan = planned(&world, &wanted(&[]));
    world.activate(&["a--2"]).unwrap();
    insta::assert_snapshot!(stale(&world, &plan), @"this host changed since the plan was made (another generation is live); make a new plan");
}

#[test]
fn a_plan_from_before_another_generation_was_made_is_refused() {
    let world = two();
    let plan = planned(&world, &wanted(&[]));
    world.activate(&["a--2"]).unwrap();
    world.rollback_to(1).unwrap();
    insta::assert_snapshot!(stale(&world, &plan), @"this host changed since the plan was made (a generation was added or removed); make a new plan");
}

#[test]
fn a_plan_for_other_roles_is_refused() {
    let world = two();
    let plan = planned(&world, &wanted(&["a--2"]));
    world.has_roles(&["master"]);
    insta::assert_snapshot!(stale(&world, &plan), @"this host changed since the plan was made (its roles are others); make a new plan");
}

#[test]
fn a_plan_for_packages_that_are_gone_or_others_now_is_refused() {
    let world = two();
    let plan = planned(&world, &wanted(&["a--2"]));
    world.host.remove(&"a--2".parse().unwrap(), false, &world.job()).unwrap();
    insta::assert_snapshot!(stale(&world, &plan), @"this host changed since the plan was made (a package was removed or changed); make a new plan");
    world.add("a--2", "{}", &[("bin/a", "something else")]);
    stale(&world, &plan);
}

#[test]
fn a_plan_for_a_generation_that_was_collected_is_refused() {
    let world = two();
    world.activate(&["a--2"]).unwrap();
    world.activate(&["a--1", "a--2"]).unwrap_err();
    world.add("b--1", "{}", &[]);
    world.activate(&["a--1", "b--1"]).unwrap();
    world.activate(&["b--1"]).unwrap();
    // Its package is used by a younger generation, so that only the generation itself goes.
    let plan = planned(&world, &Wanted::Generation(1));
    world.host.collect(1, &world.job()).unwrap();
    insta::assert_snapshot!(stale(&world, &plan), @"this host changed since the plan was made (the generation was removed); make a new plan");
    assert_eq!(world.active(), ["b--1"]);
}

#[test]
fn a_plan_that_names_anything_but_the_fixed_names_is_refused() {
    let world = two();
    let plan = planned(&world, &wanted(&["a--2"]));
    for (step, name) in [("link", "../config/roles/master"), ("replace", "packages")] {
        let mut json = serde_json::to_value(&plan).unwrap();
        let evil = serde_json::json!({ "step": step, "name": name });
        json["steps"].as_array_mut().unwrap().insert(0, evil);
        let evil = Plan::parse(&serde_json::to_vec(&json).unwrap()).unwrap();
        let before = (world.all(), world.host.history().read().unwrap());
        let error = execute(&world, &evil).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!((world.all(), world.host.history().read().unwrap()), before);
    }
}

#[test]
fn a_cancelled_switch_leaves_everything_as_it_was() {
    let world = two();
    let before = world.all();
    for moment in ["Building", "Syncing"] {
        let cancel = package::Cancel::new();
        let observer = CancelAt(moment, &cancel);
        let job = host::Job { cancel: &cancel, observer: &observer, ..world.job() };
        let error = world.host.activate(&wanted(&["a--2"]), &job).unwrap_err();
        assert_eq!(world.said(&error), "cancelled");
        assert_eq!(world.all(), before, "{moment}");
        assert_eq!(world.host.history().unfinished().unwrap(), None);
    }
    world.activate(&["a--2"]).unwrap();
    // The numbers of those that were given up are not used again.
    assert_eq!(world.live(), 4);
}

#[test]
fn a_cancelled_first_switch_leaves_an_empty_install_root() {
    let world = World::new();
    let cancel = package::Cancel::new();
    let observer = CancelAt("Building", &cancel);
    let job = host::Job { cancel: &cancel, observer: &observer, ..world.job() };
    world.host.activate(&wanted(&[]), &job).unwrap_err();
    assert_eq!(names(world.root()), [".lock", "generations", "log"]);
    assert_eq!(names(&world.host.paths.generations()), Vec::<String>::new());
}

#[test]
fn what_happens_is_told_in_order() {
    let world = two();
    let listener = Listener::default();
    let job = world.job_for("told", &listener);
    world.host.activate(&wanted(&["a--2"]), &job).unwrap();
    insta::assert_snapshot!(listener.heard().join("\n"), @"
    Building { generation: 2, links: 2 }
    Syncing
    Live { generation: 2 }
    ");
}

#[test]
fn a_plan_with_two_things_at_one_path_is_refused() {
    let world = two();
    let plan = planned(&world, &wanted(&["a--2"]));
    let mut json = serde_json::to_value(&plan).unwrap();
    for step in json["steps"].as_array_mut().unwrap() {
        if step["step"] == "build" {
            step["files"]["bin/a"] = "collides with the link".into();
        }
    }
    let broken = Plan::parse(&serde_json::to_vec(&json).unwrap()).unwrap();
    let before = world.all();
    let error = execute(&world, &broken).unwrap_err();
    assert_eq!(error.to_string(), "the plan changes `bin/a`, which is not its business");
    assert_eq!(world.all(), before);
    assert_eq!(world.host.history().unfinished().unwrap(), None);
}

/// Packages of a few files each; some of them do not fit together.
fn packages() -> impl Strategy<Value = Vec<BTreeSet<&'static str>>> {
    let paths = prop::sample::subsequence(
        vec![
            "bin/x",
            "bin/y",
            "bin_master/x",
            "etc/d/x",
            "etc/d/e/y",
            "etc/z",
            "lib/p/x",
            "lib/p/q/y",
            "lib/p/q/z",
            "lib_master/p/w",
            "lib/empty/",
            "include/h",
            "dcos.target.wants/x.service",
            "dcos.target.wants_master/y.service",
        ],
        0..5,
    );
    prop::collection::vec(paths.prop_map(|paths| paths.into_iter().collect()), 0..4)
}

/// What is on disk in the form of a layout.
fn on_disk(
    world: &World,
    number: u64,
) -> (BTreeSet<String>, BTreeMap<String, String>, Vec<String>) {
    let folder = world.host.paths.generation(number);
    let (mut folders, mut links, mut files) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
    let mut left = vec![folder.clone()];
    while let Some(at) = left.pop() {
        for name in names(&at) {
            let path = at.join(name);
            let shown = path.strip_prefix(&folder).unwrap().to_string();
            let found = fs_err::symlink_metadata(&path).unwrap();
            if found.is_symlink() {
                assert!(path.exists(), "{path} leads nowhere");
                links.insert(shown, path.read_link_utf8().unwrap().to_string());
            } else if found.is_dir() {
                folders.insert(shown);
                left.push(path);
            } else {
                files.push(shown);
            }
        }
    }
    files.sort();
    (folders, links, files)
}

fn check_plan(sets: &[BTreeSet<&str>], master: bool) {
    let world = World::new();
    world.has_roles(if master { &["master"] } else { &[] });
    let mut ids = Vec::new();
    for (number, paths) in sets.iter().enumerate() {
        let id = format!("p{number}--1");
        let files: Vec<File<'_>> = paths.iter().map(|path| (*path, "x")).collect();
        world.add(&id, "{}", &files);
        ids.push(id);
    }
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let wanted = wanted(&ids);
    let observed = world.host.observe(&wanted, Noon.now()).unwrap();
    let again = world.host.observe(&wanted, Noon.now()).unwrap();
    let before = world.all();
    let plan = match plan::plan(&world.host, &observed, &wanted) {
        Ok(plan) => plan,
        Err(conflicts) => {
            let second = plan::plan(&world.host, &again, &wanted).unwrap_err();
            assert_eq!(second.to_string(), conflicts.to_string());
            let error = world.host.activate(&wanted, &world.job()).unwrap_err();
            assert!(matches!(error, HostError::Plan(_)));
            assert_eq!(world.all(), before);
            return;
        }
    };
    assert_eq!(plan::plan(&world.host, &again, &wanted).unwrap(), plan);
    let written = serde_json::to_vec(&plan).unwrap();
    let read = Plan::parse(&written).unwrap();
    assert_eq!(read, plan);
    execute(&world, &read).unwrap();
    let layout = plan.layout().unwrap();
    let (folders, links, files) = on_disk(&world, 1);
    assert_eq!(folders, layout.folders.iter().map(ToString::to_string).collect());
    assert_eq!(
        links,
        layout.links.iter().map(|(path, target)| (path.to_string(), target.to_string())).collect()
    );
    assert_eq!(files, layout.files.keys().map(ToString::to_string).collect::<Vec<_>>());
    for (path, text) in &layout.files {
        let path = world.host.paths.generation(1).join(path.as_str());
        assert_eq!(fs_err::read_to_string(path).unwrap(), *text);
    }
    assert!(matches!(plan.steps.last(), Some(Step::Switch { from: None, to: 1 })));
    assert!(world.host.activate(&wanted, &world.job_for("again", &Silent)).unwrap().is_empty());
}

#[test]
fn any_set_is_planned_the_same_each_time_and_becomes_what_was_planned() {
    let config = Config { cases: 40, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(packages(), any::<bool>()), |(sets, master)| {
            check_plan(&sets, master);
            Ok(())
        })
        .unwrap();
}
