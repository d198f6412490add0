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
fn flags_that_cannot_be_used_are_refused_one_by_one() {
    let world = bootstrapped();
    let mut said = Vec::new();
    fs_err::create_dir_all(&world.host.paths.config).unwrap();
    let packages = world.host.paths.config.join("setup-packages");
    fs_err::write(&packages, "").unwrap();
    said.push(refusal(&world));
    fs_err::remove_file(&packages).unwrap();
    for (flag, content) in [
        ("active.json", "{"),
        ("active.json", r#"{"a--1": 1}"#),
        ("active.json", r#"["a"]"#),
        ("active.json", r#"["gone--1"]"#),
        ("cluster-package-list", "../../etc/passwd"),
        ("cluster-package-list", ""),
        ("cluster-package-list", "gone"),
        ("repository-url", "nowhere"),
        ("repository-url", "\u{0}"),
    ] {
        let path = world.host.paths.setup_flag(flag);
        let before = fs_err::read_to_string(&path).ok();
        world.flag(flag, content);
        said.push(refusal(&world));
        assert_eq!(world.stored(), Vec::<String>::new());
        match before {
            Some(before) => world.flag(flag, &before),
            None => fs_err::remove_file(path).unwrap(),
        }
    }
    insta::assert_snapshot!(said.join("\n"), @r"
    `TOP/config/setup-packages` is not supported any more: name the packages in `setup-flags/active.json`
    cannot use the package list `TOP/config/setup-flags/active.json`: expected a JSON list of package ids: invalid type: map, expected a sequence at line 1 column 0
    cannot use the package list `TOP/config/setup-flags/active.json`: expected a JSON list of package ids: invalid type: map, expected a sequence at line 1 column 0
    cannot use the package list `TOP/config/setup-flags/active.json`: expected a JSON list of package ids: `a` is not a valid package id: expected `NAME--VERSION`, the version without `-` at line 1 column 5
    package `gone--1` is not at `file://TOP/repo`: cannot download `file://TOP/repo/packages/gone/gone--1.tar.xz`: failed to query resolved metadata `TOP/repo/packages/gone/gone--1.tar.xz`: No such file or directory (os error 2)
    cannot use `TOP/config/setup-flags/cluster-package-list`: `../../etc/passwd` is not the id of a package list: expected letters, digits, `.`, `_` and `-`
    cannot use `TOP/config/setup-flags/cluster-package-list`: `` is not the id of a package list: expected letters, digits, `.`, `_` and `-`
    cannot download `file://TOP/repo/package_lists/gone.package_list.json`: failed to open file `TOP/repo/package_lists/gone.package_list.json`: No such file or directory (os error 2)
    `nowhere` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    `\0` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    ");
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
fn modes_do_not_depend_on_the_umask() {
    let mut listings = Vec::new();
    for umask in ["022", "000", "077"] {
        let world = bootstrapped();
        let config = world.top.join("late--setup.dcos_config");
        fs_err::write(&config, LATE).unwrap();
        offer(&world, &config);
        world.flag(
            "late-config.yaml",
            "late_bound_package_id: late--setup\nbound_values:\n  port: 8080\n",
        );
        world.flag("active.json", r#"["a--1", "b--1"]"#);
        let status = child("setup::child_that_sets_up", &world.top, "", umask).status().unwrap();
        assert!(status.success());
        assert_eq!(world.active(), ["a--1", "b--1", "late--setup"]);
        let listing = listing(world.root(), &[], false);
        let modes: Vec<&str> = listing.lines().filter(|line| line.starts_with('0')).collect();
        listings.push((umask, modes.join("\n")));
    }
    insta::assert_snapshot!(listings[0].1, @"
    0755 generations/
    0755 generations/1/
    0755 generations/1/active/
    0644 generations/1/active.buildinfo.full.json
    0755 generations/1/bin/
    0755 generations/1/dcos.target.wants/
    0644 generations/1/environment
    0644 generations/1/environment.export
    0755 generations/1/etc/
    0644 generations/1/etc/dcos-service-configuration.json
    0644 generations/1/generation.json
    0755 generations/1/include/
    0755 generations/1/lib/
    0700 late/
    0600 late/late--setup.json
    0755 log/
    0600 log/history.jsonl
    0755 packages/
    0755 packages/a--1/
    0755 packages/a--1/bin/
    0755 packages/a--1/bin/a
    0644 packages/a--1/manifest.json
    0644 packages/a--1/pkginfo.json
    0755 packages/b--1/
    0755 packages/b--1/bin/
    0755 packages/b--1/bin/b
    0644 packages/b--1/manifest.json
    0644 packages/b--1/pkginfo.json
    0755 packages/late--setup/
    0755 packages/late--setup/bin/
    0755 packages/late--setup/bin/late
    0755 packages/late--setup/etc/
    0644 packages/late--setup/etc/late.conf
    0644 packages/late--setup/manifest.unverified.json
    0644 packages/late--setup/pkginfo.json
    ");
    for (umask, listing) in &listings[1..] {
        assert_eq!(*listing, listings[0].1, "umask {umask}");
    }
}

#[test]
fn child_that_sets_up() {
    if let Some((top, _)) = told() {
        host_at(&top).setup(&top, &job(&Cancel::new())).unwrap();
    }
}
