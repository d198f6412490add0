//! Everything that will stand in the folder of a generation, as data.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8PathBuf;
use jiff::Timestamp;
use package::active::{Active, Target};
use package::distribution::Distribution;
use package::id::RoleName;
use package::json;
use package::path::PackagePath;
use serde::{Deserialize, Serialize};

use super::{FORMAT, Generation, RECORD, Running};
use crate::store::{Package, Store};

/// What to write for a generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// What it is made of.
    pub generation: Generation,
    /// Folders, each after the one it lies in.
    pub folders: BTreeSet<PackagePath>,
    /// Links and what they say.
    pub links: BTreeMap<PackagePath, Utf8PathBuf>,
    /// Files and their text.
    pub files: BTreeMap<PackagePath, String>,
}

/// The texts of unit files by the place they are taken from.
pub(crate) type Units = BTreeMap<Target, String>;

/// What a layout is for.
pub(crate) struct Of<'a> {
    pub(crate) distribution: &'a Distribution,
    pub(crate) store: &'a Store,
    pub(crate) packages: &'a [&'a Package],
    pub(crate) units: &'a Units,
    pub(crate) roles: &'a BTreeSet<RoleName>,
    pub(crate) number: u64,
    pub(crate) from: Option<u64>,
    pub(crate) created: Timestamp,
}

impl Layout {
    /// Lays out the generation in which `active` is what its packages look like together.
    pub(crate) fn new(of: &Of<'_>, active: Active) -> Self {
        let generation = Generation {
            format: FORMAT,
            number: of.number,
            distribution: of.distribution.name.clone(),
            packages: of
                .packages
                .iter()
                .map(|package| (package.id.clone(), package.digest))
                .collect(),
            unverified: of
                .packages
                .iter()
                .filter(|package| !package.verified)
                .map(|package| package.id.clone())
                .collect(),
            roles: of.roles.clone(),
            repository: of.store.folder().to_owned(),
            from: of.from,
            created: of.created,
            running: Running::of(of.packages, &active, of.units, of.roles),
        };
        let units_folder = of.distribution.units_folder();
        let mut folders = active.directories;
        folders.extend([plain("active"), plain(&units_folder)]);
        let mut links: BTreeMap<PackagePath, Utf8PathBuf> = active
            .links
            .iter()
            .map(|(path, target)| (path.clone(), through(path, target)))
            .collect();
        links.extend(
            active
                .packages
                .iter()
                .map(|(name, id)| (plain(&format!("active/{name}")), of.store.path(id))),
        );
        let buildinfos: BTreeMap<&str, _> = of
            .packages
            .iter()
            .map(|package| (package.id.name().as_str(), &package.buildinfo))
            .collect();
        let mut files = BTreeMap::from([
            (plain("environment"), active.environment),
            (plain("environment.export"), active.environment_export),
            (plain("active.buildinfo.full.json"), json::pretty(&buildinfos)),
            (of.distribution.service_configuration(), active.service_configuration),
            (plain(RECORD), json::pretty(&generation)),
        ]);
        for (name, target) in &active.units {
            let text = of.units.get(target).cloned().expect("every unit was read with its package");
            files.insert(plain(&format!("{units_folder}/{name}")), text);
        }
        Self { generation, folders, links, files }
    }
}

impl Layout {
    /// A path that would not be written into a folder of this very generation, or is there twice.
    pub(crate) fn misplaced(&self) -> Option<&PackagePath> {
        let is_twice = |path: &PackagePath| {
            let kinds = [
                self.folders.contains(path),
                self.links.contains_key(path),
                self.files.contains_key(path),
            ];
            kinds.into_iter().filter(|there| *there).count() > 1
        };
        let is_outside = |path: &PackagePath| {
            path.parent().is_some_and(|parent| !self.folders.contains(&parent))
        };
        let paths = self.folders.iter().chain(self.links.keys()).chain(self.files.keys());
        paths.into_iter().find(|path| is_outside(path) || is_twice(path))
    }
}

/// A path that is made of names that were checked before.
fn plain(path: &str) -> PackagePath {
    path.parse().expect("names of packages, units and the format itself are plain")
}

/// What the link at `path` says: the way through the generation's own link to the package.
///
/// This is short enough for a file system to keep in the inode, where the absolute path, with its
/// 40 digits, would take a block for each link.
fn through(path: &PackagePath, target: &Target) -> Utf8PathBuf {
    let up = "../".repeat(path.components().count() - 1);
    format!("{up}active/{}/{}", target.package.name(), target.path).into()
}
