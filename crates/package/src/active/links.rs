//! Which folders and links a set of packages becomes.
//!
//! Below `lib` and `include` a folder that only one package brings is one link, opened up where
//! packages or roles share it. `bin` and `etc` are linked file by file, so that nothing that is
//! written there lands in a package.

use std::collections::{BTreeMap, BTreeSet};

use crate::distribution::Distribution;
use crate::id::{PackageId, RoleName, UnitName};
use crate::manifest::Entry;
use crate::path::PackagePath;

use super::{Active, Conflict, Member, Target};

/// Folders below which a whole folder may be one link.
const FOLDED: [&str; 2] = ["lib", "include"];

/// What the packages bring for one path: the places of it, and whether each is a folder.
type Brought = BTreeMap<PackagePath, Vec<(Target, bool)>>;

pub(super) fn add(
    active: &mut Active,
    distribution: &Distribution,
    members: &[Member<'_>],
    roles: &BTreeSet<RoleName>,
    conflicts: &mut BTreeSet<Conflict>,
) {
    let units_folder = distribution.units_folder();
    let reserved = distribution.service_configuration();
    for folder in distribution.linked_folders() {
        let brought = brought(&folder, members, roles, conflicts);
        for (target, _) in brought.get(&reserved).into_iter().flatten() {
            let (path, target) = (reserved.clone(), target.clone());
            conflicts.insert(Conflict::ReservedFile { path, target });
        }
        if folder == units_folder {
            add_units(active, distribution, members, &brought, conflicts);
        } else {
            let top: PackagePath = folder.parse().expect("the linked folders are plain names");
            let folded = FOLDED.contains(&folder.as_str());
            active.directories.insert(top);
            add_folder(active, &brought, folded, conflicts);
        }
    }
}

/// Everything below `FOLDER` and its `FOLDER_ROLE` folders, by the path it would have.
fn brought(
    folder: &str,
    members: &[Member<'_>],
    roles: &BTreeSet<RoleName>,
    conflicts: &mut BTreeSet<Conflict>,
) -> Brought {
    let plain = std::iter::once(folder.to_owned());
    let sources: Vec<String> =
        plain.chain(roles.iter().map(|role| format!("{folder}_{role}"))).collect();
    let mut brought = Brought::new();
    for member in members {
        for (path, entry) in member.manifest.entries() {
            let Some((top, rest)) = path.as_str().split_once('/') else {
                let is_folder = matches!(entry, Entry::Directory { .. });
                if !is_folder && sources.iter().any(|source| source == path.as_str()) {
                    let (package, path) = (member.id.clone(), path.clone());
                    conflicts.insert(Conflict::NotAFolder { package, path });
                }
                continue;
            };
            if !sources.iter().any(|source| source == top) {
                continue;
            }
            let at = format!("{folder}/{rest}").parse().expect("a part of a valid path is valid");
            let target = Target { package: member.id.clone(), path: path.clone() };
            let is_folder = matches!(entry, Entry::Directory { .. });
            brought.entry(at).or_default().push((target, is_folder));
        }
    }
    brought
}

fn add_folder(
    active: &mut Active,
    brought: &Brought,
    folded: bool,
    conflicts: &mut BTreeSet<Conflict>,
) {
    // Below it everything is reached through the one link.
    let mut linked: Option<String> = None;
    for (path, places) in brought {
        if linked.as_ref().is_some_and(|above| path.as_str().starts_with(above)) {
            continue;
        }
        match places.as_slice() {
            [(target, is_folder)] if !is_folder || folded => {
                active.links.insert(path.clone(), target.clone());
                linked = is_folder.then(|| format!("{path}/"));
            }
            _ if places.iter().all(|(_, is_folder)| *is_folder) => {
                active.directories.insert(path.clone());
            }
            [(first, _), rest @ ..] => {
                conflicts.extend(rest.iter().map(|(second, _)| Conflict::File {
                    path: path.clone(),
                    first: first.clone(),
                    second: second.clone(),
                }));
            }
            [] => unreachable!("a path is there because something brings it"),
        }
    }
}

fn add_units(
    active: &mut Active,
    distribution: &Distribution,
    members: &[Member<'_>],
    brought: &Brought,
    conflicts: &mut BTreeSet<Conflict>,
) {
    let package = |target: &Target| -> PackageId { target.package.clone() };
    for (path, places) in brought {
        let unit = path.name();
        let [(first, _), rest @ ..] = places.as_slice() else {
            continue;
        };
        if path.components().count() > 2 {
            // It lies in a folder among the units, which is a conflict already.
            continue;
        }
        for (target, is_folder) in places {
            if *is_folder {
                let path = target.path.clone();
                conflicts.insert(Conflict::UnitFolder { package: package(target), path });
            } else if unit.parse::<UnitName>().is_err() {
                let unit = unit.to_owned();
                conflicts.insert(Conflict::UnitName { unit, package: package(target) });
            } else if distribution.reserves_unit(unit) {
                let unit = unit.to_owned();
                conflicts.insert(Conflict::ReservedUnit { unit, package: package(target) });
            }
        }
        conflicts.extend(rest.iter().map(|(second, _)| Conflict::Unit {
            unit: unit.to_owned(),
            first: first.clone(),
            second: second.clone(),
        }));
        let manifest = members.iter().find(|member| *member.id == first.package);
        match manifest.and_then(|member| member.manifest.resolve(&first.path)) {
            Some(path) => {
                let target = Target { package: package(first), path };
                active.units.insert(unit.to_owned(), target);
            }
            None if places.iter().any(|(_, is_folder)| *is_folder) => {}
            None => {
                let path = first.path.clone();
                conflicts.insert(Conflict::UnitTarget { package: package(first), path });
            }
        }
    }
}
