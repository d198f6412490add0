//! `/active/`: what is live, and what shall be.

use insta::assert_snapshot;

use crate::world::World;

#[test]
fn what_is_active_can_be_asked_for_once_it_was_put_there() {
    let world = World::with_packages();
    assert_snapshot!(world.get("/active/").shown(&world), @r#"404 {"error":"nothing is active in `TOP/root`: it was not bootstrapped"}"#);
    assert_eq!(world.get("/active/a--1").status, 404);
    assert_eq!(world.put("/active/", r#"["b--1", "a--1"]"#).status, 204);
    assert_eq!(world.get("/active/").shown(&world), r#"200 ["a--1","b--1"]"#);
    assert_eq!(fs_err::read_to_string(world.host.paths.root.join("bin/a")).unwrap(), "a--1");
    let got = world.get("/active/a--1");
    assert_eq!(got.shown(&world), r#"200 {"id":"a--1","name":"a","version":"1"}"#);
    assert_snapshot!(world.get("/active/a--2").shown(&world), @r#"404 {"error":"package `a--2` is not active"}"#);
    assert_eq!(world.get("/active/x--1").status, 404);
    assert_eq!(world.get("/active/x").status, 404);
    assert_eq!(world.put("/active/", "[]").status, 204);
    assert_eq!(world.get("/active/").shown(&world), "200 []");
}

#[test]
fn a_host_that_another_program_left_broken_is_an_error_of_the_server() {
    let world = World::new();
    fs_err::create_dir_all(world.host.paths.root.join("active.old")).unwrap();
    assert_snapshot!(world.get("/active/").shown(&world), @r#"500 {"error":"`TOP/root` was left broken by a deploy of another program: there is no `active`, but `active.old`"}"#);
}

#[test]
fn a_set_must_be_a_list_of_ids() {
    let world = World::with_packages();
    assert_snapshot!(world.put("/active/", r#"["a--1""#).shown(&world), @r#"400 {"error":"the body is not JSON: EOF while parsing a list at line 1 column 7"}"#);
    assert_snapshot!(world.put("/active/", r#"{"a--1": 1}"#).shown(&world), @r#"400 {"error":"the body is not a list of package ids"}"#);
    assert_snapshot!(world.put("/active/", r#"["a", "a--1", "../b"]"#).shown(&world), @r#"400 {"error":"`a` is not a valid package id: expected `NAME--VERSION`, the version without `-`; `../b` is not a valid package id: expected `NAME--VERSION`, the version without `-`"}"#);
    for body in ["", "null", "[1]", r#""a--1""#] {
        assert_eq!(world.put("/active/", body).status, 400, "{body}");
    }
    assert!(world.host.active().is_err(), "something was activated");
}

#[test]
fn packages_that_are_not_there_are_named() {
    let world = World::with_packages();
    let body = r#"["y.z--1", "a--1", "y--1", "x--1"]"#;
    assert_snapshot!(world.put("/active/", body).shown(&world), @r#"409 {"error":"not in the store: `x--1`, `y--1`, `y.z--1`","missing_packages":["x--1","y--1","y.z--1"]}"#);
}

#[test]
fn all_conflicts_are_named() {
    let world = World::with_packages();
    world.add("c--1", r#"{"requires": ["d"]}"#, &[("bin/b", "")]);
    let got = world.put("/active/", r#"["a--1", "b--1", "c--1", "a--2", "b--1"]"#);
    assert_eq!(got.status, 409);
    let said: serde_json::Value = serde_json::from_str(&got.body).unwrap();
    assert_snapshot!(said["error"].as_str().unwrap(), @"
    the packages cannot be active together:
      two packages of one name: `b--1` and `b--1`
      two packages of one name: `a--1` and `a--2`
      `c--1` requires d, which is not in the set
      `bin/b` is brought by `b--1` (bin/b) and by `c--1` (bin/b)
    ");
    assert!(world.host.active().is_err(), "something was activated");
    assert_eq!(world.put("/active/", r#"["a--1", "a--1"]"#).status, 409);
    assert_eq!(world.put("/active/", r#"["a--1", "a--1", "x--1"]"#).status, 409);
}

#[test]
fn the_history_names_who_asked_and_what_for() {
    let world = World::with_packages();
    world.put("/pkgpanda/active/", r#"["a--1"]"#);
    let entries = world.host.history().read().unwrap();
    assert!(!entries.is_empty());
    for entry in entries {
        assert_eq!((entry.by.user.as_str(), entry.by.command.as_str()), ("ada", "PUT /active/"));
    }
}
