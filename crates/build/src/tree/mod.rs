//! A tree: a folder of components, each with a `buildinfo.json` and a build script. Loading reads
//! all of it and reports every mistake of the whole tree in one go.

mod buildinfo;
mod check;
mod distribution;
mod load;
mod operation;
mod source;
mod treeinfo;

use std::collections::BTreeMap;
use std::fmt;

use camino::Utf8PathBuf;
use package::diagnostic::Diagnostic;
use package::distribution::Distribution;
use package::id::{PackageName, Variant};
use package::pkginfo::Require;

pub use buildinfo::{BuildInfo, Placed};
pub use distribution::PinnedRoot;
pub use load::{LoadError, Upstream};
pub use treeinfo::TreeInfo;

/// One variant of one package of a tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct PackageKey {
    /// The package.
    pub name: PackageName,
    /// The variant.
    pub variant: Variant,
}

impl fmt::Display for PackageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variant {
            Variant::Default => self.name.fmt(f),
            Variant::Named(variant) => write!(f, "{} ({variant})", self.name),
        }
    }
}

impl From<&Require> for PackageKey {
    fn from(require: &Require) -> Self {
        Self { name: require.name.clone(), variant: require.variant.clone() }
    }
}

/// A package of a tree, not yet built.
#[derive(Debug, Clone)]
pub struct Component {
    /// Its folder.
    pub folder: Utf8PathBuf,
    /// Its `buildinfo.json`.
    pub file: Utf8PathBuf,
    /// What that says.
    pub info: BuildInfo,
}

impl Component {
    /// The packages that it requires itself.
    pub(crate) fn requires(&self) -> impl Iterator<Item = PackageKey> {
        self.info.requires.iter().map(|require| PackageKey::from(&require.value))
    }
}

/// A loaded tree.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The folder of the tree.
    pub root: Utf8PathBuf,
    /// Names and paths of what it makes.
    pub distribution: Distribution,
    /// The root file system to build on; `None` is the machine's own.
    pub build_root: Option<PinnedRoot>,
    /// Every variant of every package.
    pub components: BTreeMap<PackageKey, Component>,
    /// The sets that are made of them.
    pub sets: BTreeMap<Variant, TreeInfo>,
    /// What somebody should look at.
    pub warnings: Vec<Diagnostic>,
}

impl Tree {
    /// The variants that the package `name` has.
    pub fn variants(&self, name: &PackageName) -> Vec<String> {
        let keys = self.components.keys().filter(|key| key.name == *name);
        keys.map(|key| key.variant.to_string()).collect()
    }

    /// The package whose name is most like `name`.
    pub fn nearest(&self, name: &PackageName) -> Option<String> {
        let names = self.components.keys().map(|key| key.name.as_str());
        package::diagnostic::nearest(name.as_str(), names).map(str::to_owned)
    }
}
