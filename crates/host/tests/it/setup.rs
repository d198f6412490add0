//! What boot does with an install root and the flags of an installer.

use camino::Utf8PathBuf;
use host::plan::Plan;
use host::setup::SetupError;
use package::Cancel;

use crate::processes::{child, told};
use crate::world::{World, host_at, job, listing, names};

/// A bootstrapped root and a repository in a folder that holds `a--1`, `b--1` and `c--1`.
pub(crate) fn bootstrapped() -> World {
    let world = World::new();
    fs_err::create_dir_all(world.root()).unwrap();
    fs_err::write(world.host.paths.bootstrap_marker(), "").unwrap();
    for name in ["a", "b", "c"] {
        let id = format!("{name}--1");
        let path = format!("bin/{name}");
        offer(&world, &world.archive(&id, "{}", &[(&path, "x")]));
    }
    world.flag("repository-url", &format!(" file://{}/repo/ \n", world.top));
    world
}

/// Puts a file of a package into the repository.
pub(crate) fn offer(world: &World, file: &Utf8PathBuf) {
    let name = file.file_name().unwrap();
    let folder = world.top.join("repo/packages").join(name.split_once("--").unwrap().0);
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::copy(file, folder.join(name)).unwrap();
}

pub(crate) fn setup(world: &World) -> Result<Option<Plan>, SetupError> {
    world.host.setup(&world.top, &world.job())
}

/// The refusal, after a check that nothing is active and the next boot tries again.
pub(crate) fn refusal(world: &World) -> String {
    let error = setup(world).expect_err("it must be refused");
    assert!(world.host.active().is_err(), "something is active");
    assert!(world.host.paths.bootstrap_marker().exists());
    world.said(&error)
}

#[test]
fn without_a_marker_and_without_anything_active_there_is_nothing_to_do() {
    let world = World::new();
    assert_eq!(setup(&world).unwrap(), None);
    assert_eq!(names(world.root()), [".lock"]);
}

#[test]
fn the_packages_that_active_json_names_become_the_set() {
    let world = bootstrapped();
    world.flag("active.json", r#"["a--1", "b--1"]"#);
    let plan = setup(&world).unwrap().unwrap();
    assert_eq!(plan.switches_to(), Some(1));
    assert_eq!(world.active(), ["a--1", "b--1"]);
    assert!(!world.host.paths.bootstrap_marker().exists());
    assert!(world.root().join("bin/a").exists());
}

#[test]
fn active_json_counts_more_than_what_is_active_and_than_a_list() {
    let world = bootstrapped();
    world.add("old--1", "{}", &[]);
    world.activate(&["old--1"]).unwrap();
    world.flag("cluster-package-list", "list");
    world.flag("active.json", r#"["a--1"]"#);
    setup(&world).unwrap();
    assert_eq!(world.active(), ["a--1"]);
}

#[test]
fn a_package_list_adds_to_what_is_active() {
    let world = bootstrapped();
    world.add("old--1", "{}", &[]);
    world.activate(&["old--1"]).unwrap();
    let lists = world.top.join("repo/package_lists");
    fs_err::create_dir_all(&lists).unwrap();
    fs_err::write(lists.join("abc123.package_list.json"), r#"["b--1", "c--1"]"#).unwrap();
    world.flag("cluster-package-list", " abc123\n");
    setup(&world).unwrap();
    assert_eq!(world.active(), ["b--1", "c--1", "old--1"]);
    assert_eq!(world.stored(), ["b--1", "c--1", "old--1"]);
}

#[test]
fn without_flags_what_is_active_stays_active() {
    let world = World::new();
    world.add("old--1", "{}", &[]);
    world.activate(&["old--1"]).unwrap();
    fs_err::write(world.host.paths.bootstrap_marker(), "").unwrap();
    assert!(setup(&world).unwrap().unwrap().is_empty());
    assert_eq!(world.active(), ["old--1"]);
    assert!(!world.host.paths.bootstrap_marker().exists());
}

#[test]
fn a_repository_is_needed_only_for_what_is_missing() {
    let world = bootstrapped();
    fs_err::remove_file(world.host.paths.setup_flag("repository-url")).unwrap();
    world.flag("active.json", r#"["a--1"]"#);
    insta::assert_snapshot!(refusal(&world), @"packages are missing, and `TOP/config/setup-flags/repository-url` does not say where to get them");
    world.add("a--1", "{}", &[]);
    setup(&world).unwrap();
    assert_eq!(world.active(), ["a--1"]);
}

#[test]
fn setup_can_be_repeated_and_changes_nothing_then() {
    let world = bootstrapped();
    world.flag("active.json", r#"["a--1"]"#);
    setup(&world).unwrap();
    let before = world.all();
    assert!(setup(&world).unwrap().unwrap().is_empty());
    assert_eq!(world.all(), before);
    // A boot that was interrupted after the switch does it all again.
    fs_err::write(world.host.paths.bootstrap_marker(), "").unwrap();
    assert!(setup(&world).unwrap().unwrap().is_empty());
    assert_eq!(world.all(), before);
}

#[test]
fn a_host_moves_to_the_roles_it_has_now() {
    let world = World::new();
    world.add("a--1", "{}", &[("bin/a", "x"), ("bin_master/m", "x")]);
    world.has_roles(&["slave"]);
    world.activate(&["a--1"]).unwrap();
    world.has_roles(&["master"]);
    let plan = setup(&world).unwrap().unwrap();
    assert_eq!(plan.changes.old_roles, Some(["slave".parse().unwrap()].into()));
    assert_eq!(names(&world.root().join("bin")), ["a", "m"]);
    assert_eq!(world.live(), 2);
    assert!(setup(&world).unwrap().unwrap().is_empty());
}

const LATE: &str = "package:
- path: /etc/late.conf
  content: 'port=LATE_BIND_PLACEHOLDER_START_port_LATE_BIND_PLACEHOLDER_END'
- path: /bin/late
  content: x
  permissions: '0755'
";

#[test]
fn child_that_sets_up() {
    if let Some((top, _)) = told() {
        host_at(&top).setup(&top, &job(&Cancel::new())).unwrap();
    }
}
