//! What is in the store: listed, verified, removed, swept.

use std::os::unix::fs::PermissionsExt as _;

use camino::Utf8Path;
use host::HostError;
use package::PackageId;
use package::lock::Lock;

use crate::world::World;

fn changed(world: &World, id: &PackageId) -> Vec<String> {
    let differences = world.host.store.verify(id, &world.cancel).unwrap();
    differences
        .iter()
        .map(|(path, old, new)| match (old, new) {
            (None, _) => format!("+{path}"),
            (_, None) => format!("-{path}"),
            _ => format!("!{path}"),
        })
        .collect()
}

fn set_mode(path: &Utf8Path, mode: u32) {
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn packages_are_listed_in_order_and_nothing_else_is() {
    let world = World::new();
    assert_eq!(world.host.store.list().unwrap(), []);
    for id in ["b--1", "a--2", "a--1"] {
        world.add(id, "{}", &[]);
    }
    for junk in ["no-package", ".tmp-x", "c--1--2"] {
        fs_err::create_dir(world.packages().join(junk)).unwrap();
    }
    fs_err::write(world.packages().join("file--1"), "").unwrap();
    let listed: Vec<String> =
        world.host.store.list().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(listed, ["a--1", "a--2", "b--1"]);
}

#[test]
fn verify_finds_every_kind_of_change() {
    let world = World::new();
    let id = world.add("a--1", "{}", &[("bin/a", "one"), ("etc/b", "x"), ("lib/l@", "../etc/b")]);
    let at = |path: &str| world.packages().join("a--1").join(path);
    assert_eq!(changed(&world, &id), Vec::<String>::new());
    fs_err::write(at("bin/a"), "two").unwrap();
    fs_err::remove_file(at("etc/b")).unwrap();
    fs_err::remove_file(at("lib/l")).unwrap();
    std::os::unix::fs::symlink("elsewhere", at("lib/l")).unwrap();
    fs_err::write(at("bin/more"), "").unwrap();
    fs_err::write(at("manifest.unverified.json"), "{}").unwrap();
    assert_eq!(
        changed(&world, &id),
        ["!bin/a", "+bin/more", "-etc/b", "!lib/l", "+manifest.unverified.json"]
    );
}

#[test]
fn verify_sees_modes() {
    let world = World::new();
    let id = world.add("a--1", "{}", &[("bin/a", "one"), ("etc/b", "x")]);
    set_mode(&world.packages().join("a--1/bin/a"), 0o4755);
    set_mode(&world.packages().join("a--1/etc"), 0o777);
    assert_eq!(changed(&world, &id), ["!bin/a", "!etc"]);
}

#[test]
fn verify_finds_what_was_added_to_a_package_without_manifest_of_its_own() {
    let world = World::new();
    world.unpack_foreign("a--1", "{}", &[("bin/a", "x")]);
    let id: PackageId = "a--1".parse().unwrap();
    let error = world.host.store.verify(&id, &world.cancel).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"package `a--1` has no manifest: another program unpacked it");
    fs_err::create_dir_all(world.root().join("active")).unwrap();
    let link = world.root().join("active/a");
    std::os::unix::fs::symlink(world.packages().join("a--1"), link).unwrap();
    world.activate(&["a--1"]).unwrap();
    assert_eq!(changed(&world, &id), Vec::<String>::new());
    fs_err::write(world.packages().join("a--1/bin/more"), "").unwrap();
    assert_eq!(changed(&world, &id), ["+bin/more"]);
}

#[test]
fn a_package_is_removed_only_if_nothing_uses_it() {
    let world = World::new();
    for id in ["a--1", "a--2", "b--1"] {
        world.add(id, "{}", &[]);
    }
    world.activate(&["a--1"]).unwrap();
    world.activate(&["a--2"]).unwrap();
    let remove = |name: &str, give_up| -> Result<(), HostError> {
        world.host.remove(&name.parse().unwrap(), give_up, &world.job())
    };
    let said = [("a--2", true), ("a--1", false), ("c--1", false)]
        .map(|(name, give_up)| world.said(&remove(name, give_up).unwrap_err()));
    insta::assert_snapshot!(said.join("\n"), @"
    package `a--2` is active
    package `a--1` is used by generation 1
    package `c--1` is not in the store
    ");
    assert_eq!(world.stored(), ["a--1", "a--2", "b--1"]);
    remove("b--1", false).unwrap();
    assert_eq!(world.stored(), ["a--1", "a--2"]);
    remove("a--1", true).unwrap();
    assert_eq!(world.stored(), ["a--2"]);
    let left: Vec<u64> = world.host.generations().unwrap().iter().map(|one| one.number).collect();
    assert_eq!(left, [2]);
}

#[test]
fn leftovers_are_swept_unless_somebody_is_at_work() {
    let world = World::new();
    world.add("a--1", "{}", &[("bin/a", "x")]);
    let left = world.packages().join(".tmp-left/a--1/lib");
    fs_err::create_dir_all(&left).unwrap();
    set_mode(&left, 0o555);
    fs_err::create_dir_all(world.host.paths.generations().join(".tmp-half")).unwrap();
    fs_err::write(world.root().join(".tmp-current"), "").unwrap();
    fs_err::write(world.packages().join(".download-b--1.tar.zst.part"), "half").unwrap();
    let at_work =
        Lock::share(&world.packages().join(".lock"), &world.cancel, &|| unreachable!()).unwrap();
    drop(world.host.lock(&world.job()).unwrap());
    assert_eq!(world.stored(), [".download-b--1.tar.zst.part", ".tmp-left", "a--1"]);
    drop(at_work);
    drop(world.host.lock(&world.job()).unwrap());
    // A download that was begun is worth keeping.
    assert_eq!(world.stored(), [".download-b--1.tar.zst.part", "a--1"]);
    assert_eq!(crate::world::names(&world.host.paths.generations()), Vec::<String>::new());
    assert_eq!(crate::world::names(world.root()), [".lock", "generations", "packages"]);
    world.host.collect(1, &world.job()).unwrap();
    assert_eq!(world.stored(), Vec::<String>::new());
}
