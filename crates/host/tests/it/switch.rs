//! From one generation to another, and back.

use host::HostError;
use host::plan::{Plan, Wanted};

use crate::world::{World, names, wanted};

/// Generations 1, 2, 3 of `a--1`, `a--2`, `a--3`; 3 is live.
fn three() -> World {
    let world = World::new();
    for id in ["a--1", "a--2", "a--3"] {
        world.add(id, "{}", &[("bin/a", id), ("etc_master/m", id)]);
        world.activate(&[id]).unwrap();
    }
    world
}

fn shows(world: &World) -> String {
    fs_err::read_to_string(world.root().join("bin/a")).unwrap()
}

fn builds(plan: &Plan) -> Option<u64> {
    plan.layout().map(|layout| layout.generation.number)
}

#[test]
fn the_same_set_again_is_nothing_to_do() {
    let world = three();
    let before = (world.all(), world.host.history().read().unwrap());
    assert!(world.activate(&["a--3"]).unwrap().is_empty());
    assert!(world.rollback_to(3).unwrap().is_empty());
    assert_eq!((world.all(), world.host.history().read().unwrap()), before);
}

#[test]
fn rollback_makes_the_generation_before_live_without_making_anything() {
    let world = three();
    assert_eq!(world.host.previous().unwrap(), 2);
    let plan = world.rollback_to(2).unwrap();
    assert_eq!((builds(&plan), plan.switches_to()), (None, Some(2)));
    assert_eq!((world.live(), shows(&world).as_str()), (2, "a--2"));
    assert_eq!(names(&world.host.paths.generations()), ["1", "2", "3"]);
    assert_eq!(world.host.previous().unwrap(), 1);
    world.rollback_to(1).unwrap();
    assert_eq!((world.live(), shows(&world).as_str()), (1, "a--1"));
    insta::assert_snapshot!(world.said(&world.host.previous().unwrap_err()), @"there is no generation to go back to: generation 1 is the first");
    world.rollback_to(3).unwrap();
    assert_eq!((world.live(), shows(&world).as_str()), (3, "a--3"));
}

#[test]
fn the_generation_before_is_the_one_that_was_live() {
    let world = three();
    world.rollback_to(1).unwrap();
    world.activate(&["a--2"]).unwrap();
    assert_eq!((world.live(), world.host.previous().unwrap()), (4, 1));
}

#[test]
fn rollback_over_a_change_of_roles_makes_a_new_generation() {
    let world = three();
    world.has_roles(&["master"]);
    let plan = world.rollback_to(1).unwrap();
    assert_eq!(builds(&plan), Some(4));
    assert_eq!(plan.changes.old_roles, Some([].into()));
    assert_eq!(world.live(), 4);
    assert_eq!(fs_err::read_to_string(world.root().join("etc/m")).unwrap(), "a--1");
}

#[test]
fn rollback_to_what_is_not_there_names_what_is() {
    let world = three();
    let before = world.all();
    insta::assert_snapshot!(world.said(&world.rollback_to(9).unwrap_err()), @"generation 9 is not on this host; there are: 1, 2, 3");
    assert_eq!(world.all(), before);
    let empty = World::new();
    insta::assert_snapshot!(empty.said(&empty.rollback_to(1).unwrap_err()), @"generation 1 is not on this host; there are: none");
    insta::assert_snapshot!(empty.said(&empty.host.previous().unwrap_err()), @"nothing is active in `TOP/root`: it was not bootstrapped");
}

#[test]
fn rollback_to_packages_that_are_gone_or_were_changed_is_refused() {
    let world = three();
    fs_err::remove_dir_all(world.packages().join("a--1")).unwrap();
    let archive = world.archive("a--2", "{}", &[("bin/a", "other")]);
    fs_err::remove_dir_all(world.packages().join("a--2")).unwrap();
    world.add_archive(&archive, &host::store::Trust::default()).unwrap();
    let before = world.all();
    let said = [1, 2].map(|number| world.said(&world.rollback_to(number).unwrap_err()));
    insta::assert_snapshot!(said.join("\n"), @"
    not in the store: `a--1`
    package `a--2` is not what it was when generation 2 was made of it
    ");
    assert_eq!(world.all(), before);
    assert_eq!(world.live(), 3);
}

#[test]
fn a_package_that_was_put_there_anew_with_other_content_is_a_new_generation() {
    let world = three();
    let archive = world.archive("a--3", "{}", &[("bin/a", "other")]);
    fs_err::remove_dir_all(world.packages().join("a--3")).unwrap();
    world.add_archive(&archive, &host::store::Trust::default()).unwrap();
    assert_eq!(builds(&world.activate(&["a--3"]).unwrap()), Some(4));
}

#[test]
fn swap_puts_one_package_in_the_place_of_the_other_of_its_name() {
    let world = three();
    world.add("b--1", "{}", &[]);
    world.activate(&["a--3", "b--1"]).unwrap();
    let swapped = world.host.swapped(&"a--1".parse().unwrap()).unwrap();
    assert_eq!(swapped, wanted(&["a--1", "b--1"]));
    world.host.activate(&swapped, &world.job()).unwrap();
    assert_eq!(world.active(), ["a--1", "b--1"]);
    let error = world.host.swapped(&"c--1".parse().unwrap()).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"no active package is called `c`");
}

#[test]
fn a_host_that_was_not_bootstrapped_says_so() {
    let world = World::new();
    let error = world.host.active().unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"nothing is active in `TOP/root`: it was not bootstrapped");
    fs_err::create_dir_all(world.root().join("active.old")).unwrap();
    let error = world.host.active().unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"`TOP/root` was left broken by a deploy of another program: there is no `active`, but `active.old`");
}

#[test]
fn a_link_that_leads_to_no_generation_stops_everything() {
    let world = three();
    let current = world.host.paths.current();
    let mut said = Vec::new();
    for target in ["generations/007", "elsewhere", "generations/12"] {
        fs_err::remove_file(&current).unwrap();
        std::os::unix::fs::symlink(target, &current).unwrap();
        let before = world.all();
        said.push(world.said(&world.activate(&["a--1"]).unwrap_err()));
        assert_eq!(world.all(), before);
    }
    fs_err::remove_file(&current).unwrap();
    fs_err::create_dir(&current).unwrap();
    said.push(world.said(&world.activate(&["a--1"]).unwrap_err()));
    insta::assert_snapshot!(said.join("\n"), @"
    `TOP/root/current` leads to `generations/007`, which is no generation
    `TOP/root/current` leads to `elsewhere`, which is no generation
    generation 12 is not on this host
    `TOP/root/current` leads to `something that is no link`, which is no generation
    ");
}

#[test]
fn a_record_of_a_newer_program_stops_everything() {
    let world = three();
    let record = world.host.paths.generation(2).join("generation.json");
    let text = fs_err::read_to_string(&record).unwrap();
    fs_err::write(&record, text.replace("\"format\":1", "\"format\":2")).unwrap();
    let before = world.all();
    let error = world.activate(&["a--1"]).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"`TOP/root/generations/2/generation.json` has format 2, this program reads formats up to 1: use the newer monobloc that wrote it");
    assert!(matches!(error, HostError::Observe(_)));
    assert!(world.host.collect(0, &world.job()).is_err());
    assert_eq!(world.all(), before);
}

#[test]
fn a_damaged_generation_that_is_not_live_is_only_not_there_to_go_back_to() {
    let world = three();
    fs_err::write(world.host.paths.generation(2).join("generation.json"), "{}").unwrap();
    world.activate(&["a--1"]).unwrap();
    assert!(world.host.activate(&Wanted::Generation(2), &world.job()).is_err());
    let collected = world.host.collect(9, &world.job()).unwrap();
    assert_eq!(collected.generations, [2]);
}

#[test]
fn nothing_is_collected_where_the_live_generation_cannot_be_read() {
    let world = three();
    let record = world.host.paths.generation(3).join("generation.json");
    let text = fs_err::read_to_string(&record).unwrap();
    for damaged in [None, Some(text.replace("\"number\":3", "\"number\":1"))] {
        match damaged {
            None => fs_err::remove_file(&record).unwrap(),
            Some(damaged) => fs_err::write(&record, damaged).unwrap(),
        }
        let before = world.all();
        world.host.collect(0, &world.job()).unwrap_err();
        world.host.remove(&"a--1".parse().unwrap(), true, &world.job()).unwrap_err();
        assert_eq!(world.all(), before);
    }
}

#[test]
fn two_swaps_at_once_both_take_place() {
    for _ in 0..5 {
        let world = World::new();
        for id in ["a--1", "a--2", "b--1", "b--2"] {
            world.add(id, "{}", &[]);
        }
        world.activate(&["a--1", "b--1"]).unwrap();
        std::thread::scope(|scope| {
            for id in ["a--2", "b--2"] {
                let world = &world;
                scope.spawn(move || {
                    let id = id.parse().unwrap();
                    let wanted = |host: &host::Host| host.swapped(&id);
                    world.host.activate_with(wanted, &world.job()).unwrap();
                });
            }
        });
        let active = world.host.active().unwrap();
        assert_eq!(wanted(&["a--2", "b--2"]), Wanted::Packages(active));
    }
}

#[test]
fn what_somebody_put_in_the_place_of_a_fixed_link_is_kept() {
    let world = three();
    let etc = world.root().join("etc");
    fs_err::remove_file(&etc).unwrap();
    fs_err::create_dir(&etc).unwrap();
    fs_err::write(etc.join("mine"), "precious").unwrap();
    world.activate(&["a--1"]).unwrap();
    assert_eq!(fs_err::read_link(&etc).unwrap().to_str(), Some("current/etc"));
    let kept = world.root().join("etc.replaced/mine");
    assert_eq!(fs_err::read_to_string(kept).unwrap(), "precious");
}

#[test]
fn a_generation_of_another_store_is_made_anew() {
    let world = three();
    let moved = world.top.join("moved");
    fs_err::rename(world.root(), &moved).unwrap();
    let mut paths = world.host.paths.clone();
    (paths.root, paths.repository) = (moved.clone(), moved.join("packages"));
    let host = host::Host::new(package::distribution::Distribution::default(), paths);
    host.setup(&world.top, &world.job()).unwrap();
    let target = fs_err::read_link(moved.join("active/a")).unwrap();
    assert!(target.starts_with(&moved), "{}", target.display());
}

#[test]
fn a_generation_that_lost_its_record_is_passed_over() {
    let world = three();
    fs_err::remove_file(world.host.paths.generation(2).join("generation.json")).unwrap();
    world.activate(&["a--1"]).unwrap();
    assert_eq!(world.live(), 4);
    let error = world.host.activate(&Wanted::Generation(2), &world.job()).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"generation 2 is not on this host; there are: 1, 3, 4");
}
