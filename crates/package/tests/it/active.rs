use std::collections::{BTreeMap, BTreeSet};

use package::Sha256;
use package::active::{Active, Conflict, Member};
use package::distribution::Distribution;
use package::id::{PackageId, RoleName};
use package::manifest::{Entry, Manifest, Mode};
use package::path::PackagePath;
use package::pkginfo::PkgInfo;

/// A package made up of paths: `x/` is a folder, `x@` a link, anything else a file.
struct Made {
    id: PackageId,
    info: PkgInfo,
    manifest: Manifest,
}

fn made(id: &str, info: &str, paths: &[&str]) -> Made {
    let mut entries = BTreeMap::new();
    for path in paths {
        let plain: PackagePath = path.trim_end_matches(['/', '@']).parse().unwrap();
        let mut above = plain.parent();
        while let Some(folder) = above {
            above = folder.parent();
            entries.insert(folder, Entry::Directory { mode: Mode::new(0o755) });
        }
        let entry = match path.as_bytes().last().unwrap() {
            b'/' => Entry::Directory { mode: Mode::new(0o755) },
            b'@' => Entry::Link { target: "somewhere".to_owned() },
            _ => Entry::File { mode: Mode::new(0o644), size: 0, sha256: Sha256::of(b"") },
        };
        entries.insert(plain, entry);
    }
    Made {
        id: id.parse().unwrap(),
        info: PkgInfo::parse(info.as_bytes()).unwrap(),
        manifest: Manifest::new(entries).unwrap(),
    }
}

fn active(packages: &[Made], roles: &[&str]) -> Result<Active, Vec<Conflict>> {
    let members: Vec<Member<'_>> =
        packages.iter().map(|Made { id, info, manifest }| Member { id, info, manifest }).collect();
    let roles: BTreeSet<RoleName> = roles.iter().map(|role| role.parse().unwrap()).collect();
    Active::of(&Distribution::default(), &members, &roles)
}

/// Folders and links, one a line.
fn shown(active: &Active) -> String {
    let folders = active.directories.iter().map(|path| format!("{path}/"));
    let links = active
        .links
        .iter()
        .map(|(path, target)| format!("{path} -> {}/{}", target.package, target.path));
    folders.chain(links).collect::<Vec<_>>().join("\n")
}

fn conflicts(packages: &[Made], roles: &[&str]) -> String {
    let conflicts = active(packages, roles).expect_err("they do not fit together");
    conflicts.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn bin_and_etc_are_linked_file_by_file_and_single_folders_of_lib_as_one() {
    let packages = [
        made(
            "a--1",
            "{}",
            &[
                "bin/a",
                "etc/a/conf",
                "lib/python/a/x.py",
                "lib/only/a/b",
                "lib/liba.so@",
                "include/a/h",
            ],
        ),
        made(
            "b--1",
            "{}",
            &["bin/b", "etc/a/other", "lib/python/b/x.py", "share/doc", "lib/empty/"],
        ),
    ];
    insta::assert_snapshot!(shown(&active(&packages, &[]).unwrap()), @"
    bin/
    etc/
    etc/a/
    include/
    lib/
    lib/python/
    bin/a -> a--1/bin/a
    bin/b -> b--1/bin/b
    etc/a/conf -> a--1/etc/a/conf
    etc/a/other -> b--1/etc/a/other
    include/a -> a--1/include/a
    lib/empty -> b--1/lib/empty
    lib/liba.so -> a--1/lib/liba.so
    lib/only -> a--1/lib/only
    lib/python/a -> a--1/lib/python/a
    lib/python/b -> b--1/lib/python/b
    ");
}

#[test]
fn role_folders_count_only_with_the_role_and_open_up_what_they_share() {
    let packages = [made(
        "a--1",
        "{}",
        &[
            "etc/a",
            "etc_master/m",
            "etc_slave/s",
            "lib/p/x",
            "lib_master/p/y",
            "dcos.target.wants_master/m.service",
            "dcos.target.wants/a.service",
        ],
    )];
    insta::assert_snapshot!(shown(&active(&packages, &["slave"]).unwrap()), @"
    bin/
    etc/
    include/
    lib/
    etc/a -> a--1/etc/a
    etc/s -> a--1/etc_slave/s
    lib/p -> a--1/lib/p
    ");
    let master = active(&packages, &["master"]).unwrap();
    insta::assert_snapshot!(shown(&master), @"
    bin/
    etc/
    include/
    lib/
    lib/p/
    etc/a -> a--1/etc/a
    etc/m -> a--1/etc_master/m
    lib/p/x -> a--1/lib/p/x
    lib/p/y -> a--1/lib_master/p/y
    ");
    assert_eq!(master.units.keys().collect::<Vec<_>>(), ["a.service", "m.service"]);
    assert_eq!(active(&packages, &[]).unwrap().units.keys().collect::<Vec<_>>(), ["a.service"]);
}

#[test]
fn the_environment_is_the_references_and_reads_back_in_a_shell() {
    let packages = [
        made("b--1", r#"{"environment":{"Z":"plain/value:1","A":"two words","N":7}}"#, &["bin/b"]),
        made(
            "a--1",
            r##"{"environment":{"Q":"a\"b\\c$HOME`id`'!","E":"","H":"# no comment"}}"##,
            &["bin/a"],
        ),
    ];
    let active = active(&packages, &[]).unwrap();
    insta::assert_snapshot!(active.environment, @r##"
    # Pkgpanda provided environment variables
    LD_LIBRARY_PATH=/opt/mesosphere/lib
    PATH=/opt/mesosphere/bin:/usr/bin:/bin:/sbin

    # package: a--1
    Q="a\"b\\c\$HOME\`id\`'!"
    E=""
    H="# no comment"

    # package: b--1
    Z=plain/value:1
    A="two words"
    N=7
    "##);
    let script = format!(
        "set -eu\n{}\nprintf '%s|' \"$Z\" \"$A\" \"$N\" \"$Q\" \"$E\" \"$H\"",
        active.environment_export
    );
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "plain/value:1|two words|7|a\"b\\c$HOME`id`'!||# no comment|"
    );
}

#[test]
fn the_service_configuration_holds_settings_of_services_that_exist() {
    let info = r#"{"sysctl":{"a":{"net.x":1,"net.y":"2 3"},"gone":{"net.z":1}}}"#;
    let packages = [made("a--1", info, &["deep/a.service"])];
    insta::assert_snapshot!(active(&packages, &[]).unwrap().service_configuration, @r#"
    {
      "sysctl":{
        "a":{
          "net.x":1,
          "net.y":"2 3"
        }
      }
    }
    "#);
    insta::assert_snapshot!(active(&[], &[]).unwrap().service_configuration, @r#"
    {
      "sysctl":{}
    }
    "#);
}

#[test]
fn every_conflict_is_found_at_once_and_names_both_packages() {
    let packages = [
        made(
            "a--1",
            r#"{"requires":["missing",{"name":"v","variant":"fast"},"v"],"environment":{"X":"1","PATH":"/"},"username":"dcos_u","group":"docker"}"#,
            &[
                "bin/same",
                "lib/x/f",
                "dcos.target.wants/u.service",
                "etc/dcos-service-configuration.json",
            ],
        ),
        made(
            "b--1",
            r#"{"environment":{"X":"2","1Y":"","L":"a\nb"},"username":"dcos_u","sysctl":{"u":{"net.x":1}}}"#,
            &[
                "bin/same",
                "lib/x@",
                "dcos.target.wants/u.service",
                "dcos.target.wants/dcos.target",
                "dcos.target.wants/x.d/y",
            ],
        ),
        made(
            "c--1",
            r#"{"group":"docker","sysctl":{"c":{"net.x":2,"bad setting":1}}}"#,
            &["dcos.target.wants/c.service"],
        ),
        made("c--2", "{}", &["bin/same"]),
        made("d--1", r#"{"sysctl":{"d":{"net.x":1}},"username":"other_u"}"#, &["bin/d"]),
        made("v--1", r#"{"variant":"slow"}"#, &["bin/v"]),
    ];
    insta::assert_snapshot!(conflicts(&packages, &[]), @"
    two packages of one name: `c--1` and `c--2`
    `a--1` requires missing, which is not in the set
    `a--1` requires v (variant fast), but `v--1` in the set is variant slow
    `a--1` requires v, but `v--1` in the set is variant slow
    `bin/same` is brought by `a--1` (bin/same) and by `b--1` (bin/same)
    `lib/x` is brought by `a--1` (lib/x) and by `b--1` (lib/x)
    `a--1` brings `etc/dcos-service-configuration.json`: the installation itself makes `etc/dcos-service-configuration.json`
    unit `u.service` is brought by `a--1` and by `b--1`
    `b--1` brings the unit `dcos.target`, a name that belongs to the installation itself
    `b--1` has a folder among its units: `dcos.target.wants/x.d`; only unit files can be there
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
}

#[test]
fn a_file_in_a_folder_and_its_role_folder_collides_only_with_the_role() {
    let packages = [made("a--1", "{}", &["etc/same", "etc_master/same"])];
    active(&packages, &["slave"]).unwrap();
    insta::assert_snapshot!(conflicts(&packages, &["master"]), @"`etc/same` is brought by `a--1` (etc/same) and by `a--1` (etc_master/same)");
}

#[test]
fn a_package_of_the_reference_satisfies_a_require_whatever_variant_it_is() {
    let packages = [
        made("a--1", r#"{"requires":["b",{"name":"c","variant":"v"}]}"#, &[]),
        made("b--1", "{}", &[]),
        made("c--1", "{}", &[]),
    ];
    active(&packages, &[]).unwrap();
}

#[test]
fn the_answer_does_not_depend_on_the_order_of_the_packages() {
    let packages = || {
        vec![
            made("a--1", r#"{"environment":{"A":"1"}}"#, &["lib/p/x", "bin/a"]),
            made("b--1", r#"{"environment":{"B":"1"}}"#, &["lib/p/y", "bin/b"]),
        ]
    };
    let mut reversed = packages();
    reversed.reverse();
    assert_eq!(active(&packages(), &[]), active(&reversed, &[]));
}
