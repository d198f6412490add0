//! What a set of packages looks like when it is active: which links, which environment, which units
//! and settings, or every conflict at once. Pure: the build sandbox and the hosts act on the answer.

mod conflict;
mod environment;
mod links;
mod settings;

use std::collections::{BTreeMap, BTreeSet};

use crate::distribution::Distribution;
use crate::id::{GroupName, PackageId, PackageName, RoleName, UserName};
use crate::manifest::Manifest;
use crate::path::PackagePath;
use crate::pkginfo::PkgInfo;

pub use conflict::Conflict;
pub use environment::{VariableProblem, variable_problem, variables};

/// One package of a set.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// Its id.
    pub id: &'a PackageId,
    /// Its `pkginfo.json`.
    pub info: &'a PkgInfo,
    /// Its files.
    pub manifest: &'a Manifest,
}

/// A path inside a package of the set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The package.
    pub package: PackageId,
    /// The path in it.
    pub path: PackagePath,
}

/// A set of packages when it is active.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Active {
    /// Folders that are made, below the install root.
    pub directories: BTreeSet<PackagePath>,
    /// Links that are made, below the install root, and what they lead to.
    pub links: BTreeMap<PackagePath, Target>,
    /// Unit files by name.
    pub units: BTreeMap<String, Target>,
    /// The packages by name: the links of the folder `active`.
    pub packages: BTreeMap<PackageName, PackageId>,
    /// The file `environment`, for systemd.
    pub environment: String,
    /// The file `environment.export`, for shells.
    pub environment_export: String,
    /// The service configuration, with the kernel settings of each service.
    pub service_configuration: String,
    /// Users with the group they are asked to be in.
    pub users: BTreeMap<UserName, Option<GroupName>>,
}

impl Active {
    /// What `members` look like on a host with these roles, or everything that keeps them from
    /// being active together.
    pub fn of(
        distribution: &Distribution,
        members: &[Member<'_>],
        roles: &BTreeSet<RoleName>,
    ) -> Result<Self, Vec<Conflict>> {
        let mut conflicts = BTreeSet::new();
        let members = distinct(members, &mut conflicts);
        check_requires(&members, &mut conflicts);
        let mut active = Self {
            packages: members
                .iter()
                .map(|member| (member.id.name().clone(), member.id.clone()))
                .collect(),
            ..Self::default()
        };
        links::add(&mut active, distribution, &members, roles, &mut conflicts);
        environment::add(&mut active, distribution, &members, &mut conflicts);
        settings::add(&mut active, distribution, &members, &mut conflicts);
        if conflicts.is_empty() { Ok(active) } else { Err(conflicts.into_iter().collect()) }
    }
}

/// One member for each name, in the order of their ids; a second of a name is a conflict.
fn distinct<'a>(members: &[Member<'a>], conflicts: &mut BTreeSet<Conflict>) -> Vec<Member<'a>> {
    let mut sorted = members.to_vec();
    sorted.sort_by_key(|member| member.id);
    sorted.dedup_by(|later, first| {
        let same = later.id.name() == first.id.name();
        if same {
            conflicts.insert(Conflict::DuplicateName {
                first: first.id.clone(),
                second: later.id.clone(),
            });
        }
        same
    });
    sorted
}

fn check_requires(members: &[Member<'_>], conflicts: &mut BTreeSet<Conflict>) {
    for member in members {
        for require in &member.info.requires {
            let package = member.id.clone();
            match members.iter().find(|other| *other.id.name() == require.name) {
                None => {
                    conflicts.insert(Conflict::Missing { package, require: require.clone() });
                }
                // A package of the reference does not say which variant it is.
                Some(Member { info: PkgInfo { variant: Some(found), .. }, id, .. })
                    if *found != require.variant =>
                {
                    conflicts.insert(Conflict::WrongVariant {
                        package,
                        require: require.clone(),
                        found: (*id).clone(),
                        variant: found.clone(),
                    });
                }
                Some(_) => {}
            }
        }
    }
}
