//! Several at work on one host, in one process.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::world::{World, names, wanted};

/// Sets `one` and `two`, each of two packages that must be seen together.
fn sets() -> World {
    let world = World::new();
    for version in ["1", "2"] {
        for name in ["a", "b"] {
            let path = format!("bin/{name}");
            world.add(&format!("{name}--{version}"), "{}", &[(&path, version)]);
        }
    }
    world
}

#[test]
fn two_who_switch_at_once_do_so_one_after_the_other() {
    let world = sets();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for set in [["a--1", "b--1"], ["a--2", "b--2"]] {
            let (world, barrier) = (&world, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..5 {
                    world.host.activate(&wanted(&set), &world.job()).unwrap();
                }
            });
        }
    });
    let active = world.active();
    assert!(active == ["a--1", "b--1"] || active == ["a--2", "b--2"], "{active:?}");
    let version = active[0].strip_prefix("a--").unwrap();
    for name in ["a", "b"] {
        let path = world.root().join("bin").join(name);
        assert_eq!(fs_err::read_to_string(path).unwrap(), version);
    }
    assert_eq!(names(&world.host.paths.generations()).len() as u64, world.live());
}

#[test]
fn who_looks_while_generations_change_always_sees_one_of_them_whole() {
    let world = sets();
    world.activate(&["a--1", "b--1"]).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = 0;
            while !is_done.load(Ordering::SeqCst) || looks < 100 {
                let active = world.active();
                assert!(active == ["a--1", "b--1"] || active == ["a--2", "b--2"], "{active:?}");
                fs_err::read_to_string(world.root().join("bin/a")).unwrap();
                // Through one folder that stays open both are of one generation.
                let generation = world.root().join("bin").canonicalize_utf8().unwrap();
                let read = |name: &str| fs_err::read_to_string(generation.join(name)).unwrap();
                assert_eq!(read("a"), read("b"));
                looks += 1;
            }
        });
        for number in 0..30 {
            let version = number % 2 + 1;
            let set = [format!("a--{version}"), format!("b--{version}")];
            let set: Vec<&str> = set.iter().map(String::as_str).collect();
            world.activate(&set).unwrap();
            world.rollback_to(1).unwrap();
        }
        is_done.store(true, Ordering::SeqCst);
        reader.join().unwrap();
    });
}
