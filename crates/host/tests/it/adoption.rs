//! Install roots that the reference made.

use camino::Utf8Path;

use crate::world::{World, listing, names};

fn link(target: &Utf8Path, path: &Utf8Path) {
    std::os::unix::fs::symlink(target, path).unwrap();
}

const NAMES: [&str; 9] = [
    "bin",
    "etc",
    "include",
    "lib",
    "dcos.target.wants",
    "active",
    "environment",
    "environment.export",
    "active.buildinfo.full.json",
];

/// A root in which the reference made `a--1` and `b--1` active.
fn reference() -> World {
    let world = World::new();
    let root = world.root();
    world.unpack_foreign(
        "a--1",
        r#"{"environment":{"A":"1"}}"#,
        &[("bin/a", "a one"), ("lib/p/a", "x"), ("dcos.target.wants/a.service", "[Unit]\n")],
    );
    world.unpack_foreign("b--1", "{}", &[("bin/b", "b one"), ("lib/p/b", "x"), ("etc/b", "x")]);
    for folder in ["bin", "etc", "include", "lib/p", "dcos.target.wants", "active"] {
        fs_err::create_dir_all(root.join(folder)).unwrap();
    }
    for (id, path) in [
        ("a--1", "bin/a"),
        ("b--1", "bin/b"),
        ("a--1", "lib/p/a"),
        ("b--1", "lib/p/b"),
        ("b--1", "etc/b"),
    ] {
        link(&world.packages().join(id).join(path), &root.join(path));
    }
    for (name, id) in [("a", "a--1"), ("b", "b--1")] {
        link(&world.packages().join(id), &root.join("active").join(name));
    }
    let unit = "dcos.target.wants/a.service";
    link(Utf8Path::new("/etc/systemd/system/a.service"), &root.join(unit));
    fs_err::write(root.join("etc/dcos-service-configuration.json"), "{}").unwrap();
    for name in ["environment", "environment.export", "active.buildinfo.full.json"] {
        fs_err::write(root.join(name), "as the reference wrote it").unwrap();
    }
    world.add("a--2", "{}", &[("bin/a", "a two")]);
    world
}

/// That `a--2` is live, `a--1` and `b--1` are what it is rolled back to, and nothing is left.
fn assert_taken_over(world: &World) {
    assert_eq!(world.active(), ["a--2"]);
    assert_eq!(fs_err::read_to_string(world.root().join("bin/a")).unwrap(), "a two");
    let mut root = names(world.root());
    root.retain(|name| !NAMES.contains(&name.as_str()));
    assert_eq!(root, [".lock", "current", "generations", "log", "packages"]);
    for name in NAMES {
        let target = world.root().join(name).read_link_utf8().unwrap();
        assert_eq!(target, format!("current/{name}"));
    }
    let first = world.host.previous().unwrap();
    world.rollback_to(first).unwrap();
    assert_eq!(world.active(), ["a--1", "b--1"]);
    assert_eq!(fs_err::read_to_string(world.root().join("bin/a")).unwrap(), "a one");
    assert_eq!(fs_err::read_to_string(world.root().join("lib/p/b")).unwrap(), "x");
    assert_eq!(
        fs_err::read_to_string(world.root().join("dcos.target.wants/a.service")).unwrap(),
        "[Unit]\n"
    );
    assert!(world.activate(&["a--1", "b--1"]).unwrap().is_empty());
}

#[test]
fn what_was_active_becomes_the_first_generation() {
    let world = reference();
    assert_eq!(world.active(), ["a--1", "b--1"]);
    world.activate(&["a--2"]).unwrap();
    assert_eq!(world.live(), 2);
    let first = &world.host.generations().unwrap()[0];
    assert_eq!(first.unverified.len(), 2);
    let reasons: Vec<String> = world
        .host
        .history()
        .read()
        .unwrap()
        .iter()
        .map(|entry| format!("{:?}", entry.what))
        .collect();
    insta::assert_snapshot!(reasons.join("\n"), @r#"
    Begun { from: None, to: 1, reason: "what was active before" }
    Switched { from: None, to: 1 }
    Begun { from: Some(1), to: 2, reason: "a test" }
    Switched { from: Some(1), to: 2 }
    "#);
    assert_taken_over(&world);
}

#[test]
fn packages_keep_what_they_hold_and_get_a_manifest_beside_it() {
    let world = reference();
    let before = listing(world.packages(), &["manifest.unverified.json"], true);
    world.activate(&["a--2"]).unwrap();
    assert_eq!(listing(world.packages(), &["manifest.unverified.json"], true), before);
    assert!(world.packages().join("b--1/manifest.unverified.json").is_file());
}

#[test]
fn a_set_that_cannot_be_taken_over_is_left_as_it_is() {
    let world = reference();
    fs_err::write(world.packages().join("b--1/pkginfo.json"), "{").unwrap();
    let error = world.activate(&["a--2"]).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"
    1 package cannot be used:
      package `b--1` cannot be read: invalid `pkginfo.json`: EOF while parsing an object at line 1 column 1
    ");
    assert_eq!(world.active(), ["a--1", "b--1"]);
    assert!(fs_err::symlink_metadata(world.root().join("bin")).unwrap().is_dir());
}

#[test]
fn setup_takes_over_too_and_repeats_without_a_change() {
    let world = reference();
    world.host.setup(&world.top, &world.job()).unwrap();
    assert_eq!(world.active(), ["a--1", "b--1"]);
    assert_eq!(world.live(), 1);
    let before = world.all();
    assert!(world.host.setup(&world.top, &world.job()).unwrap().unwrap().is_empty());
    assert_eq!(world.all(), before);
    world.activate(&["a--2"]).unwrap();
    assert_taken_over(&world);
}

/// Makes the names from `count` on what the reference made of them, as if the take-over had been
/// interrupted there.
fn interrupted_at(count: usize) -> World {
    let (world, original) = (reference(), reference());
    world.host.setup(&world.top, &world.job()).unwrap();
    let mut order = NAMES;
    order.sort_unstable();
    for name in &order[count..] {
        let place = world.root().join(name);
        fs_err::remove_file(&place).unwrap();
        fs_err::rename(original.root().join(name), &place).unwrap();
    }
    world
}

#[test]
fn a_take_over_that_was_interrupted_is_completed() {
    for count in 0..NAMES.len() {
        let world = interrupted_at(count);
        // What an exchange leaves when it is not cleaned up, and a link that was not yet put there.
        fs_err::create_dir(world.root().join(".tmp-bin")).unwrap();
        link(Utf8Path::new("current/lib"), &world.root().join(".tmp-lib"));
        assert_eq!(world.active(), ["a--1", "b--1"]);
        world.activate(&["a--2"]).unwrap();
        assert_taken_over(&world);
    }
}

#[test]
fn setup_completes_a_take_over_that_was_interrupted() {
    for count in [0, 4, 8] {
        let world = interrupted_at(count);
        world.host.setup(&world.top, &world.job()).unwrap();
        assert_eq!(world.live(), 1);
        world.activate(&["a--2"]).unwrap();
        assert_taken_over(&world);
    }
}

#[test]
fn a_take_over_that_ended_before_the_switch_begins_again() {
    let world = reference();
    // Manifests were made, and one name was missing and is a link already.
    fs_err::remove_dir_all(world.root().join("include")).unwrap();
    link(Utf8Path::new("current/include"), &world.root().join("include"));
    fs_err::create_dir_all(world.host.paths.generations().join(".tmp-half/bin")).unwrap();
    world.activate(&["a--2"]).unwrap();
    assert_taken_over(&world);
}

#[test]
fn something_at_a_fixed_name_with_nothing_active_is_left_alone() {
    let world = World::new();
    fs_err::create_dir_all(world.root().join("bin")).unwrap();
    fs_err::write(world.root().join("bin/precious"), "x").unwrap();
    let before = world.all();
    let error = world.activate(&[]).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"`bin` in the install root is nothing that this program made; move it away");
    assert_eq!(world.all(), before);
}

#[test]
fn a_link_in_active_that_leads_to_no_package_is_told() {
    let world = reference();
    link(Utf8Path::new("/somewhere/else"), &world.root().join("active/x"));
    let error = world.activate(&["a--2"]).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"cannot read the install root: `TOP/root/active/x` leads to `/somewhere/else`, which is no package");
}
