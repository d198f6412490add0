//! What killed runs left is swept by the next build, unless somebody still works on it.

use camino::Utf8PathBuf;
use package::Cancel;
use package::lock::Lock;
use testing::files::write_files;

use crate::world::{SCRIPT, World};

/// Something half done in every place where something grows, and something finished beside it.
const PLACES: [&str; 9] = [
    "tree/cache/roots",
    "tree/cache/upstream",
    "tree/cache/packages/a",
    "tree/cache/bootstrap",
    "tree/cache/complete",
    "sources/work",
    "sources/git",
    "sources/crate",
    "sources/sha256/ab",
];

fn world() -> World {
    let world = World::new(&[("a/buildinfo.json", ""), ("a/build", SCRIPT)]);
    for place in PLACES {
        let files = [(".tmp-x/deep/file", "", 0o444), (".tmp-y", "", 0o600), ("whole", "", 0o644)];
        write_files(&world.path().join(place), &files).unwrap();
    }
    // Somebody fetched here before.
    write_files(&world.path().join("sources/locks"), &[("in-use", "", 0o644)]).unwrap();
    world
}

/// The places where something half done is left.
fn left(world: &World) -> Vec<&'static str> {
    let is_left = |place: &&str| {
        let folder: Utf8PathBuf = world.path().join(place);
        assert!(folder.join("whole").exists(), "{folder}");
        let left = [".tmp-x", ".tmp-y"].map(|name| folder.join(name).exists());
        assert_eq!(left[0], left[1], "{folder}");
        left[0]
    };
    PLACES.into_iter().filter(is_left).collect()
}

#[test]
fn a_build_sweeps_what_killed_runs_left() {
    let world = world();
    assert_eq!(world.build()["a"], "built");
    assert_eq!(left(&world), [""; 0]);
}

#[test]
fn what_somebody_works_on_is_not_swept() {
    let world = world();
    let (sources, tree) = (world.path().join("sources"), world.tree());
    let cancel = Cancel::new();
    let fetching = Lock::share(&sources.join("locks/in-use"), &cancel, &|| {}).unwrap();
    let unpacking = Lock::take(&tree.join("cache/roots/lock"), &cancel, &|| {}).unwrap();
    let checking_out = Lock::take(&tree.join("cache/upstream/lock"), &cancel, &|| {}).unwrap();
    assert_eq!(world.build()["a"], "built");
    let (roots, upstream) = (PLACES[0], PLACES[1]);
    let expected = [&[roots, upstream], &PLACES[5..]].concat();
    assert_eq!(left(&world), expected);
    drop((fetching, unpacking, checking_out));
    world.write(&[("a/extra/x", "something new")]);
    assert_eq!(world.build()["a"], "built");
    assert_eq!(left(&world), [""; 0]);
}

#[test]
fn sources_that_cannot_be_swept_are_used_all_the_same() {
    let world = world();
    fs_err::remove_file(world.path().join("sources/locks/in-use")).unwrap();
    // Nobody can take this for a lock.
    fs_err::create_dir(world.path().join("sources/locks/in-use")).unwrap();
    assert_eq!(world.build()["a"], "built");
}
