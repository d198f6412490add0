//! What the machine must run and keep for a generation: units with what decides whether they restart,
//! users, state folders, kernel settings.

use std::collections::{BTreeMap, BTreeSet};

use package::active::{Active, Target};
use package::digest::Hasher;
use package::id::{GroupName, PackageName, RoleName, UserName};
use package::manifest::Entry;
use package::path::PackagePath;
use package::pkginfo::{Reads, StateFormat};
use package::{PackageId, Sha256};
use serde::{Deserialize, Serialize};

use super::layout::Units;
use crate::store::Package;

/// What a generation asks of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Running {
    /// Units by file name.
    pub units: BTreeMap<String, Unit>,
    /// Users with the group they are asked to be in.
    pub users: BTreeMap<UserName, Option<GroupName>>,
    /// Packages that keep state, with the user who owns it.
    pub state: BTreeMap<PackageName, Option<UserName>>,
    /// The formats of that state, where they are told.
    pub state_formats: BTreeMap<PackageName, StateFormat>,
    /// Kernel settings.
    pub sysctl: BTreeMap<String, String>,
    /// Files of packages that belong to a user and not to root.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub owners: BTreeMap<PackageId, BTreeMap<PackagePath, UserName>>,
}

/// A unit of a generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The package that brings it.
    pub package: PackageName,
    /// Of everything that it sees; while this is the same it need not restart.
    pub digest: Sha256,
    /// How long it must stay up before a switch is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays_up_seconds: Option<u32>,
}

impl Running {
    /// What `active`, which is these packages together, asks of the machine.
    pub(crate) fn of(
        packages: &[&Package],
        active: &Active,
        texts: &Units,
        roles: &BTreeSet<RoleName>,
    ) -> Self {
        let set = Set { packages, active, roles };
        let mut running = Self { users: active.users.clone(), ..Self::default() };
        for (name, target) in &active.units {
            let Some(package) = set.package(target.package.name()) else { continue };
            let info = package.info.units.get(name);
            let reads = info.and_then(|info| info.reads.as_ref());
            let text = texts.get(target).map_or("", String::as_str);
            let unit = Unit {
                package: package.id.name().clone(),
                digest: set.digest(name, text, package, reads),
                stays_up_seconds: info.and_then(|info| info.stays_up_seconds),
            };
            running.units.insert(name.clone(), unit);
        }
        for package in packages {
            let name = package.id.name();
            if package.info.state_directory {
                running.state.insert(name.clone(), package.info.username.clone());
            }
            if !package.info.owners.is_empty() {
                running.owners.insert(package.id.clone(), package.info.owners.clone());
            }
            if let Some(format) = package.info.state_format {
                running.state_formats.insert(name.clone(), format);
            }
            for service in package.manifest.services() {
                for (setting, value) in package.info.sysctl.get(service).into_iter().flatten() {
                    running.sysctl.insert(setting.clone(), value.to_string());
                }
            }
        }
        running
    }

    /// The units that can be started: all but templates, which others are made from.
    pub(crate) fn startable(&self) -> Vec<String> {
        self.units.keys().filter(|name| !is_template(name)).cloned().collect()
    }

    /// The units of `self` that can be started and that `other` does not have as they are. What
    /// triggers such a service counts as one: it would start the old one again in the midst of it.
    pub(crate) fn units_not_in(&self, other: &Self) -> Vec<String> {
        let digest = |running: &Self, name: &str| running.units.get(name).map(|unit| unit.digest);
        let is_other = |name: &str| digest(other, name) != digest(self, name);
        let mut units = self.startable();
        units.retain(|name| {
            let service = name.rsplit_once('.').map(|(stem, _)| format!("{stem}.service"));
            is_other(name) || service.is_some_and(|service| is_other(&service))
        });
        units
    }

    /// The packages whose programs in `older` cannot read what those of `self` wrote, with both
    /// formats.
    pub(crate) fn unreadable_by(&self, older: &Self) -> Vec<(PackageName, u32, u32)> {
        let mut unreadable = Vec::new();
        for (name, format) in &self.state_formats {
            let reads = older.state_formats.get(name).map_or(0, |older| older.version);
            if older.state.contains_key(name) && reads < format.readable_by {
                unreadable.push((name.clone(), format.version, reads));
            }
        }
        unreadable
    }
}

/// Whether a unit is a template, such as `shell@.service`.
pub(crate) fn is_template(unit: &str) -> bool {
    unit.rsplit_once('.').is_some_and(|(stem, _)| stem.ends_with('@'))
}

struct Set<'a> {
    packages: &'a [&'a Package],
    active: &'a Active,
    roles: &'a BTreeSet<RoleName>,
}

impl Set<'_> {
    fn package(&self, name: &PackageName) -> Option<&Package> {
        self.packages.iter().copied().find(|package| package.id.name() == name)
    }

    /// The packages that a package depends on, and itself.
    fn closure(&self, package: &Package) -> BTreeMap<PackageId, Sha256> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![package];
        while let Some(package) = waiting.pop() {
            if found.insert(package.id.clone(), package.digest).is_none() {
                let needed = &package.info.requires;
                waiting.extend(needed.iter().filter_map(|require| self.package(&require.name)));
            }
        }
        found
    }

    fn digest(&self, name: &str, text: &str, package: &Package, reads: Option<&Reads>) -> Sha256 {
        let mut digest = Fields(Hasher::new());
        digest.add("unit", text);
        for role in self.roles {
            digest.add("role", role.as_str());
        }
        let closure = self.closure(package);
        for (id, content) in &closure {
            digest.add(id.name().as_str(), &content.to_string());
        }
        let service = name.strip_suffix(".service").unwrap_or(name);
        for (setting, value) in package.info.sysctl.get(service).into_iter().flatten() {
            digest.add(setting, &value.to_string());
        }
        match reads {
            Some(reads) => self.declared(reads, &mut digest),
            None => self.any(&closure, &mut digest),
        }
        digest.0.finish()
    }

    /// The configuration that a unit says it reads.
    fn declared(&self, reads: &Reads, digest: &mut Fields) {
        for path in &reads.files {
            let content = self.content(path).map(|content| content.to_string());
            digest.add(path.as_str(), content.as_deref().unwrap_or("absent"));
        }
        for (variable, value) in self.variables() {
            if reads.variables.contains(variable) {
                digest.add(variable, &value);
            }
        }
    }

    /// All of the configuration.
    fn any(&self, closure: &BTreeMap<PackageId, Sha256>, digest: &mut Fields) {
        for package in self.packages {
            if package.info.is_configuration(&package.id) && !closure.contains_key(&package.id) {
                digest.add(package.id.name().as_str(), &package.digest.to_string());
            }
        }
        for (variable, value) in self.variables() {
            digest.add(variable, &value);
        }
    }

    fn variables(&self) -> BTreeMap<&str, String> {
        let all = self.packages.iter().flat_map(|package| &package.info.environment);
        all.map(|(name, value)| (name.as_str(), value.to_string())).collect()
    }

    /// The digest of the file that somebody finds at `path` in the install root.
    fn content(&self, path: &PackagePath) -> Option<Sha256> {
        let mut at = Some(path.clone());
        while let Some(above) = at {
            if let Some(Target { package, path: target }) = self.active.links.get(&above) {
                let below = path.as_str().strip_prefix(above.as_str()).unwrap_or_default();
                let inside = format!("{target}{below}").parse().ok()?;
                let package = self.package(package.name())?;
                let file = package.manifest.resolve(&inside)?;
                return match package.manifest.get(file.as_str())? {
                    // Everybody reads what comes of this: nobody must be able to guess from it.
                    Entry::File { .. } if package.is_secret() => Some(package.digest),
                    Entry::File { sha256, .. } => Some(*sha256),
                    _ => None,
                };
            }
            at = above.parent();
        }
        None
    }
}

/// Takes in fields so that two lists of them never look alike.
struct Fields(Hasher);

impl Fields {
    fn add(&mut self, name: &str, value: &str) {
        for part in [name, value] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part.as_bytes());
        }
    }
}
