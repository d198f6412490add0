//! Package ids: a hash over everything that a build can see, so that equal ids mean equal packages.

use std::collections::BTreeMap;
use std::io;

use camino::Utf8PathBuf;
use package::id::{PackageId, PackageVersion};
use package::pkginfo::PkgInfo;
use package::{Sha256, json};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use serde_json::{Map, Value, json};

use crate::folder;
use crate::graph;
use crate::root::BuildRoot;
use crate::session::Sources;
use crate::source::{SourceContext, SourceError};
use crate::tree::{Component, PackageKey, Tree};

/// Raised when the way that packages are built changes what comes out.
const BUILDER: u32 = 1;

/// Hex digits of the hash in a version.
const DIGITS: usize = 40;

/// A package's id and what it was made of.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The id.
    pub id: PackageId,
    /// Everything that entered it, by name.
    pub inputs: Value,
    /// The files of its folder.
    pub(crate) files: folder::Inputs,
}

/// Why an id could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A source does not say what it is.
    #[error("package `{package}`, source `{name}`")]
    Source {
        /// The package.
        package: PackageKey,
        /// The source.
        name: String,
        /// Why.
        source: SourceError,
    },
    /// The package's folder cannot be read.
    #[error("cannot read the folder `{folder}` of package `{package}`")]
    Folder {
        /// The package.
        package: PackageKey,
        /// The folder.
        folder: Utf8PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The ids of all packages in `order`, in which each comes after what it requires.
pub(crate) fn identify(
    tree: &Tree,
    order: &[PackageKey],
    root: &BuildRoot,
    epoch: u64,
    sources: &Sources,
) -> Result<BTreeMap<PackageKey, Identity>, IdentityError> {
    // Files and sources are read at once; only the hashes depend on each other.
    let own: BTreeMap<&PackageKey, (folder::Inputs, Map<String, Value>)> = order
        .into_par_iter()
        .map(|key| {
            let component = &tree.components[key];
            Ok((
                key,
                (
                    files(key, component)?,
                    identities_of(key, component, &sources.context(component))?,
                ),
            ))
        })
        .collect::<Result<_, IdentityError>>()?;
    let mut identities: BTreeMap<PackageKey, Identity> = BTreeMap::new();
    for (key, (files, sources)) in order.iter().filter_map(|key| Some((key, own.get(key)?.clone())))
    {
        let component = &tree.components[key];
        let dependencies: BTreeMap<String, String> = graph::closure(tree, component.requires())
            .iter()
            .map(|needed| (needed.to_string(), identities[needed].id.to_string()))
            .collect();
        let inputs = json!({
            "builder": BUILDER,
            "name": key.name,
            "variant": key.variant,
            "install_root": tree.distribution.install_root,
            "units_folder": tree.distribution.units_folder(),
            "build_environment": root.identity,
            "source_date_epoch": epoch,
            "build_script": component.info.build_script,
            "network": component.info.network,
            "pkginfo": pkginfo(key, component),
            "sources": sources,
            "dependencies": dependencies,
            "files": files,
        });
        let hash = Sha256::of(json::pretty(&inputs).as_bytes()).to_string();
        let id = PackageId::new(key.name.clone(), version(component, &hash[..DIGITS]));
        identities.insert(key.clone(), Identity { id, inputs, files });
    }
    Ok(identities)
}

fn version(component: &Component, hash: &str) -> PackageVersion {
    let text = match &component.info.version_extra {
        Some(extra) => format!("{extra}.{hash}"),
        None => hash.to_owned(),
    };
    text.parse().expect("hex digits, and what was parsed as a version")
}

/// What `pkginfo.json` will say.
pub(crate) fn pkginfo(key: &PackageKey, component: &Component) -> PkgInfo {
    let info = &component.info;
    PkgInfo {
        requires: info.requires.iter().map(|require| require.value.clone()).collect(),
        environment: info.environment.clone(),
        sysctl: info.sysctl.clone(),
        state_directory: info.state_directory,
        username: info.username.clone(),
        group: info.group.clone(),
        units: info.units.clone(),
        checks: info.checks.clone(),
        actions: info.actions.clone(),
        state_format: info.state_format,
        owners: BTreeMap::new(),
        configuration: info.configuration,
        variant: Some(key.variant.clone()),
    }
}

fn files(key: &PackageKey, component: &Component) -> Result<folder::Inputs, IdentityError> {
    let folder = component.folder.clone();
    folder::inputs(&folder).map_err(|source| IdentityError::Folder {
        package: key.clone(),
        folder,
        source,
    })
}

fn identities_of(
    key: &PackageKey,
    component: &Component,
    context: &SourceContext<'_>,
) -> Result<Map<String, Value>, IdentityError> {
    let identities = component.info.sources.iter().map(|(name, spec)| {
        let failed =
            |source| IdentityError::Source { package: key.clone(), name: name.clone(), source };
        Ok((name.clone(), spec.identity(context).map_err(failed)?))
    });
    identities.collect()
}
