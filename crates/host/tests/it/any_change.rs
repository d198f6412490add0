//! Whatever changes on a host, an audit finds it and a repair puts it right.

use std::os::unix::fs::PermissionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use proptest::prelude::*;

use crate::audit::{Site, pipe};

/// Something to do to one path.
#[derive(Debug, Clone, Copy)]
enum Mutation {
    Flip(usize),
    Append,
    Truncate,
    Mode(u32),
    Remove,
    Retarget,
    Add,
    Pipe,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        (0_usize..10_000).prop_map(Mutation::Flip),
        Just(Mutation::Append),
        Just(Mutation::Truncate),
        (0_u32..0o1000).prop_map(Mutation::Mode),
        Just(Mutation::Remove),
        Just(Mutation::Retarget),
        Just(Mutation::Add),
        Just(Mutation::Pipe),
    ]
}

/// Everything that an audit answers for.
fn paths(site: &Site) -> Vec<Utf8PathBuf> {
    let mut paths = Vec::new();
    let mut folders = vec![
        site.at("root/packages/app--1"),
        site.at("root/packages/base--1"),
        site.at("root/packages/old--1"),
        site.at("root/generations/2"),
        site.at("machine/units/dcos.target.wants"),
    ];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir_utf8().unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path().to_owned());
            }
            paths.push(entry.path().to_owned());
        }
    }
    for name in ["bin", "etc", "lib", "environment", "active", "current"] {
        paths.push(site.at("root").join(name));
    }
    for unit in ["dcos-app.service", "dcos.target", "dcos-setup.service"] {
        paths.push(site.at("machine/units").join(unit));
    }
    paths.sort();
    paths
}

/// Does it; `false` if it changes nothing, or nothing that anybody could tell.
fn mutate(path: &Utf8Path, mutation: Mutation) -> bool {
    let found = fs_err::symlink_metadata(path).unwrap();
    match mutation {
        Mutation::Flip(at) if found.is_file() && found.len() > 0 => {
            let mut bytes = fs_err::read(path).unwrap();
            let at = at % bytes.len();
            // When a generation was made is written nowhere else.
            let is_note = String::from_utf8_lossy(&bytes)
                .find("\"created\":")
                .is_some_and(|start| (start..start + 50).contains(&at));
            if is_note && path.file_name() == Some("generation.json") {
                return false;
            }
            bytes[at] ^= 1;
            fs_err::write(path, bytes).unwrap();
        }
        Mutation::Append if found.is_file() => {
            let mut bytes = fs_err::read(path).unwrap();
            bytes.push(b' ');
            fs_err::write(path, bytes).unwrap();
        }
        Mutation::Truncate if found.is_file() && found.len() > 0 => {
            fs_err::write(path, "").unwrap();
        }
        Mutation::Mode(mode) if !found.is_symlink() => {
            if found.permissions().mode() & 0o777 == mode {
                return false;
            }
            // Whoever runs the tests must be able to look.
            let mode = mode | if found.is_dir() { 0o500 } else { 0o400 };
            if found.permissions().mode() & 0o777 == mode {
                return false;
            }
            fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        Mutation::Remove if found.is_dir() => fs_err::remove_dir_all(path).unwrap(),
        Mutation::Remove => fs_err::remove_file(path).unwrap(),
        Mutation::Retarget if found.is_symlink() => {
            fs_err::remove_file(path).unwrap();
            fs_err::os::unix::fs::symlink("elsewhere", path).unwrap();
        }
        Mutation::Add if found.is_dir() => fs_err::write(path.join("added"), "").unwrap(),
        Mutation::Pipe if found.is_file() => {
            fs_err::remove_file(path).unwrap();
            pipe(path);
        }
        _ => return false,
    }
    true
}

#[test]
fn any_single_change_is_found_and_put_right() {
    let site = Site::new();
    let digest = site.audit().digest;
    let all = paths(&site);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let strategy = (0..all.len(), mutation());
    runner
        .run(&strategy, |(at, mutation)| {
            let before = fs_err::read(&all[at]).ok();
            if !mutate(&all[at], mutation) {
                return Ok(());
            }
            let report = site.audit();
            prop_assert!(!report.is_clean(), "{} {mutation:?} is not found", all[at]);
            prop_assert_ne!(report.digest, digest);
            // A record that can be read and names other packages, roles or places cannot be told from
            // packages, roles and places that changed.
            if matches!(mutation, Mutation::Flip(_))
                && all[at].file_name() == Some("generation.json")
            {
                fs_err::write(&all[at], before.unwrap()).unwrap();
                return Ok(());
            }
            let repaired = site.repair_from(&site.source());
            prop_assert!(repaired.report.is_clean(), "{} {mutation:?}: {repaired:?}", all[at]);
            prop_assert_eq!(repaired.report.digest, digest);
            Ok(())
        })
        .unwrap();
}
