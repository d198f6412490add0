//! What may be thrown away.

use crate::world::World;

/// Seven generations, each of a version of `a` and all of `base`.
fn seven() -> World {
    let world = World::new();
    world.add("base--1", "{}", &[("bin/base", "x")]);
    for version in 1..=7 {
        let id = format!("a--{version}");
        world.add(&id, "{}", &[("bin/a", &id)]);
        world.activate(&[&id, "base--1"]).unwrap();
    }
    world.add("unused--1", "{}", &[]);
    world
}

fn left(world: &World) -> String {
    let numbers: Vec<u64> =
        world.host.generations().unwrap().iter().map(|found| found.number).collect();
    format!("{numbers:?} {}", world.stored().join(" "))
}

#[test]
fn the_newest_and_all_they_use_are_kept() {
    let world = seven();
    let collected = world.host.collect(3, &world.job()).unwrap();
    assert_eq!(collected.generations, [1, 2, 3, 4]);
    assert_eq!(left(&world), "[5, 6, 7] a--5 a--6 a--7 base--1");
    assert_eq!(world.host.collect(3, &world.job()).unwrap(), host::Collected::default());
    assert_eq!(world.active(), ["a--7", "base--1"]);
}

#[test]
fn the_live_one_and_the_one_before_it_are_kept_however_old_they_are() {
    let world = seven();
    world.rollback_to(3).unwrap();
    world.host.collect(0, &world.job()).unwrap();
    assert_eq!(left(&world), "[2, 3] a--2 a--3 base--1");
    world.rollback_to(2).unwrap();
    assert_eq!(world.active(), ["a--2", "base--1"]);
}

#[test]
fn what_the_reference_made_active_is_kept() {
    let world = World::new();
    world.unpack_foreign("a--1", "{}", &[]);
    world.unpack_foreign("b--1", "{}", &[]);
    fs_err::create_dir_all(world.root().join("active")).unwrap();
    let link = world.root().join("active/a");
    std::os::unix::fs::symlink(world.packages().join("a--1"), link).unwrap();
    world.host.collect(5, &world.job()).unwrap();
    assert_eq!(world.stored(), ["a--1"]);
}
