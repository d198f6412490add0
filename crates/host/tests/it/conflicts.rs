//! Sets of packages that do not fit together: everything is told at once, and nothing is written.

use host::HostError;
use host::plan::PlanError;

use crate::world::World;

#[test]
fn every_conflict_is_told_at_once_and_nothing_is_written() {
    let world = World::new();
    world.add("old--1", "{}", &[("bin/old", "x")]);
    world.activate(&["old--1"]).unwrap();
    world.add(
        "a--1",
        r#"{"requires":["missing",{"name":"v","variant":"fast"}],"environment":{"X":"1","PATH":"/"},"username":"dcos_u","group":"docker"}"#,
        &[
            ("bin/same", ""),
            ("lib/x/f", ""),
            ("etc/dcos-service-configuration.json", ""),
            ("dcos.target.wants/u.service", ""),
            ("dcos.target.wants/out.service@", "../../../etc/passwd"),
            ("dcos.target.wants/gone.service@", "nothing"),
            ("dcos.target.wants/root.service@", "/etc/passwd"),
        ],
    );
    world.add(
        "b--1",
        r#"{"environment":{"X":"2","1Y":"","L":"a\nb"},"username":"dcos_u","sysctl":{"u":{"net.x":1}}}"#,
        &[
            ("bin/same", ""),
            ("lib/x@", "somewhere"),
            ("dcos.target.wants/u.service", ""),
            ("dcos.target.wants/dcos.target", ""),
            ("dcos.target.wants/x.d/y", ""),
        ],
    );
    world.add(
        "c--1",
        r#"{"group":"docker","sysctl":{"c":{"net.x":2,"bad setting":1}}}"#,
        &[("dcos.target.wants/c.service", "")],
    );
    world.add("c--2", "{}", &[]);
    world.add("d--1", r#"{"sysctl":{"d":{"net.x":1}},"username":"other_u"}"#, &[]);
    world.add("v--1", r#"{"variant":"slow"}"#, &[]);
    let before = (world.all(), world.host.history().read().unwrap());
    let error = world
        .activate(&["a--1", "b--1", "c--1", "c--2", "d--1", "v--1"])
        .expect_err("they do not fit together");
    insta::assert_snapshot!(world.said(&error), @"
    the packages cannot be active together:
      two packages of one name: `c--1` and `c--2`
      `a--1` requires missing, which is not in the set
      `a--1` requires v (variant fast), but `v--1` in the set is variant slow
      `bin/same` is brought by `a--1` (bin/same) and by `b--1` (bin/same)
      `lib/x` is brought by `a--1` (lib/x) and by `b--1` (lib/x)
      `a--1` brings `etc/dcos-service-configuration.json`: the installation itself makes `etc/dcos-service-configuration.json`
      unit `u.service` is brought by `a--1` and by `b--1`
      `b--1` brings the unit `dcos.target`, a name that belongs to the installation itself
      `b--1` has a folder among its units: `dcos.target.wants/x.d`; only unit files can be there
      the unit `dcos.target.wants/gone.service` of `a--1` leads to no file of that package
      the unit `dcos.target.wants/out.service` of `a--1` leads to no file of that package
      the unit `dcos.target.wants/root.service` of `a--1` leads to no file of that package
      environment variable `X` is set by `a--1` and by `b--1`
      `a--1` sets the environment variable `PATH`: the installation sets this variable itself
      `b--1` sets the environment variable `1Y`: not the name of an environment variable: expected letters, digits and `_`, no digit first
      `b--1` sets the environment variable `L`: the value has a line break or control character
      sysctl `net.x` is set to `1` by `b--1` and to `2` by `c--1`
      `d--1` has sysctl settings but no `.service` file that would apply them
      `c--1` sets sysctl `bad setting` to `1`: not a setting and a value
      `c--1` names the group `docker` but no user
      user `dcos_u` is asked to be in different groups by `a--1` and `b--1`
      `d--1` names the user `other_u`: users of this distribution start with `dcos_`
    ");
    assert!(matches!(error, HostError::Plan(PlanError::Conflicts(_))));
    assert_eq!((world.all(), world.host.history().read().unwrap()), before);
    assert_eq!(world.active(), ["old--1"]);
}

#[test]
fn a_folder_where_the_installation_writes_a_file_is_a_conflict() {
    let world = World::new();
    world.add("a--1", "{}", &[("etc/dcos-service-configuration.json/x", "")]);
    let before = world.all();
    let error = world.activate(&["a--1"]).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"
    the packages cannot be active together:
      `a--1` brings `etc/dcos-service-configuration.json`: the installation itself makes `etc/dcos-service-configuration.json`
    ");
    assert_eq!(world.all(), before);
}

#[test]
fn packages_that_are_missing_are_all_named() {
    let world = World::new();
    world.add("a--1", "{}", &[]);
    let before = world.all();
    let error = world.activate(&["a--1", "b--1", "c--2"]).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"not in the store: `b--1`, `c--2`");
    assert_eq!(world.all(), before);
}

#[test]
fn packages_that_cannot_be_read_are_all_named() {
    let world = World::new();
    for id in ["a--1", "b--1", "c--1"] {
        world.add(id, "{}", &[]);
    }
    fs_err::write(world.packages().join("a--1/pkginfo.json"), "{").unwrap();
    fs_err::write(world.packages().join("b--1/manifest.json"), "{}").unwrap();
    fs_err::remove_file(world.packages().join("c--1/pkginfo.json")).unwrap();
    let before = world.all();
    let error = world.activate(&["a--1", "b--1", "c--1"]).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"
    3 packages cannot be used:
      package `a--1` cannot be read: invalid `pkginfo.json`: EOF while parsing an object at line 1 column 1
      package `b--1` cannot be read: invalid `manifest.json`: missing field `format` at line 1 column 2
      package `c--1` cannot be read: it has no `pkginfo.json`
    ");
    assert_eq!(world.all(), before);
}

#[test]
fn something_that_is_no_role_is_told_with_its_folder() {
    let world = World::new();
    world.has_roles(&["master", "no role"]);
    let error = world.activate(&[]).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"`TOP/config/roles` holds something that is no role; remove it: `no role` is not a valid role name: expected letters, digits and `_-`, starting with a letter or digit");
}

#[test]
fn a_package_whose_bin_is_no_folder_is_refused_and_not_left_out() {
    let world = World::new();
    world.add("a--1", "{}", &[("bin", "a file")]);
    let before = world.all();
    let error = world.activate(&["a--1"]).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"
    the packages cannot be active together:
      `bin` of `a--1` is no folder: what lies in it could not be shown
    ");
    assert_eq!(world.all(), before);
}
