//! What is configured: a tree that was built, or the artifact that was made of it.

use std::collections::BTreeMap;

use build::{Complete, CompleteError};
use camino::Utf8Path;
use config::bundle::{BootstrapFiles, Release};
use package::artifact::{Artifact, DEFAULT_VARIANT, PROGRAM, VariantSet};
use package::bundle::{OperatingSystem, package_folder};
use package::distribution::Distribution;
use package::id::{Variant, VariantName};
use package::{PackageId, Piece};

use super::build::parse_variant;
use crate::failure::Failure;

/// The variant whose packages are for Windows.
const WINDOWS: &str = "windows";

/// The packages of a built tree, with the program that hosts get.
pub(super) fn of_tree(
    tree: &Utf8Path,
    variant: &str,
    distribution: &Distribution,
    program: &Utf8Path,
) -> Result<Release, Failure> {
    let hint = format!("build it first: `monobloc build {tree}`");
    let failed = |error: CompleteError| Failure::of(&error).hint(hint.clone());
    let pieces = |archives: BTreeMap<PackageId, camino::Utf8PathBuf>| {
        archives.into_iter().map(|(id, archive)| (id, Piece::from(archive))).collect()
    };
    let linux = Complete::read(tree, &parse_variant(variant)?).map_err(failed)?;
    let mut packages = BTreeMap::from([(OperatingSystem::Linux, pieces(linux.packages))]);
    match Complete::read(tree, &Variant::Named(WINDOWS.parse::<VariantName>()?)) {
        Ok(windows) => {
            packages.insert(OperatingSystem::Windows, pieces(windows.packages));
        }
        Err(CompleteError::NotBuilt { .. }) => {}
        Err(error) => return Err(failed(error)),
    }
    let bootstrap = linux.bootstrap.map(|made| BootstrapFiles {
        id: made.id,
        archive: made.archive.into(),
        active: made.active.into(),
    });
    Ok(Release {
        distribution: distribution.clone(),
        variant: shown(variant),
        packages,
        bootstrap,
        program: Some(program.into()),
    })
}

/// The packages of an artifact, read where they lie.
pub(super) fn of_artifact(artifact: &Artifact, variant: &str) -> Result<Release, Failure> {
    let index = artifact.index();
    let Some(linux) = index.variants.get(variant) else {
        let known: Vec<&str> = index.variants.keys().map(String::as_str).collect();
        let problem = format!("`{}` has no variant `{variant}`", artifact.path());
        return Err(Failure::usage(problem).hint(format!("it has: {}", known.join(", "))));
    };
    let mut packages = BTreeMap::from([(OperatingSystem::Linux, pieces(artifact, linux)?)]);
    if let Some(windows) = index.variants.get(WINDOWS) {
        packages.insert(OperatingSystem::Windows, pieces(artifact, windows)?);
    }
    let bootstrap = match &linux.bootstrap {
        Some(id) => Some(BootstrapFiles {
            id: id.clone(),
            archive: piece(artifact, &format!("bootstrap/{id}.bootstrap.tar.zst"))?,
            active: piece(artifact, &format!("bootstrap/{id}.active.json"))?,
        }),
        None => None,
    };
    Ok(Release {
        distribution: index.distribution.clone(),
        variant: shown(variant),
        packages,
        bootstrap,
        program: Some(piece(artifact, PROGRAM)?),
    })
}

fn shown(variant: &str) -> Option<String> {
    (variant != DEFAULT_VARIANT).then(|| variant.to_owned())
}

fn pieces(artifact: &Artifact, set: &VariantSet) -> Result<BTreeMap<PackageId, Piece>, Failure> {
    let mut pieces = BTreeMap::new();
    for id in &set.packages {
        let folder = package_folder(id);
        let names = ["tar.zst", "zip"].map(|ending| format!("{folder}{id}.{ending}"));
        let found = names.iter().find_map(|name| artifact.piece(name));
        let lacks = || Failure::new(format!("`{}` lacks the package `{id}`", artifact.path()));
        pieces.insert(id.clone(), found.ok_or_else(lacks)?);
    }
    Ok(pieces)
}

fn piece(artifact: &Artifact, path: &str) -> Result<Piece, Failure> {
    let lacks = || Failure::new(format!("`{}` lacks the file `{path}`", artifact.path()));
    artifact.piece(path).ok_or_else(lacks)
}
