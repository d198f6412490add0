//! From built packages to the one file that has all of them, and what the tree declares.

use std::collections::BTreeMap;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::archive::{self, PackError, PackOptions};
use package::artifact::{self, Artifact, ArtifactError, Assembly, DEFAULT_VARIANT, VariantSet};
use package::bundle::package_folder;
use package::distribution::Distribution;
use package::durable::Staging;
use package::id::Variant;
use package::path::{PackagePath, PathError};
use package::sign::SecretKey;
use package::{Cancel, Piece, Sha256, durable};

use crate::cache::FOLDER;
use crate::complete::{Complete, CompleteError};

/// The time of what the tree declares: zip files know none before, and nobody looks at it.
const FILE_TIME: u64 = 315_532_800;

/// What to put together.
#[derive(Debug)]
pub struct Assemble<'a> {
    /// The folder of the tree.
    pub tree: &'a Utf8Path,
    /// What it makes.
    pub distribution: &'a Distribution,
    /// The sets to take, all built.
    pub variants: Vec<Variant>,
    /// The program that hosts run.
    pub program: &'a Utf8Path,
    /// Who signs.
    pub key: &'a SecretKey,
    /// Stops the work.
    pub cancel: &'a Cancel,
}

/// An artifact of a tree.
#[derive(Debug)]
pub struct Assembled {
    /// The file.
    pub artifact: Artifact,
    /// The digest of the whole file.
    pub sha256: Sha256,
    /// Whether it was there already.
    pub unchanged: bool,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AssembleError {
    #[error(transparent)]
    Complete(#[from] CompleteError),
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error("cannot pack what the tree declares")]
    Pack(#[from] PackError),
    #[error("cannot use `{path}`")]
    Io { path: Utf8PathBuf, source: io::Error },
    #[error("package `{0}` cannot be in an artifact")]
    Path(String, #[source] PathError),
}

/// Where the artifact of a tree lies if nobody says where.
pub fn artifact_path(tree: &Utf8Path, distribution: &Distribution) -> Utf8PathBuf {
    tree.join(FOLDER).join(format!("{}_generate_config.sh", distribution.name))
}

/// Writes the artifact of a built tree to `target`, unless it is there.
pub fn assemble(target: &Utf8Path, wanted: &Assemble<'_>) -> Result<Assembled, AssembleError> {
    let io = |source| AssembleError::Io { path: target.to_owned(), source };
    let mut files: BTreeMap<PackagePath, Piece> = BTreeMap::new();
    let mut add = |path: String, file: &Utf8Path| {
        let name = path.parse().map_err(|error| AssembleError::Path(path, error))?;
        files.insert(name, file.into());
        Ok::<(), AssembleError>(())
    };
    let mut variants = BTreeMap::new();
    for variant in &wanted.variants {
        let Complete { packages, bootstrap } = Complete::read(wanted.tree, variant)?;
        for (id, archive) in &packages {
            let name = archive.file_name().unwrap_or_default();
            add(format!("{}{name}", package_folder(id)), archive)?;
        }
        for file in bootstrap.iter().flat_map(|made| [&made.archive, &made.active]) {
            add(format!("bootstrap/{}", file.file_name().unwrap_or_default()), file)?;
        }
        let name = match variant {
            Variant::Default => DEFAULT_VARIANT.to_owned(),
            Variant::Named(name) => name.to_string(),
        };
        let packages = packages.into_keys().collect();
        let bootstrap = bootstrap.map(|made| made.id);
        variants.insert(name, VariantSet { packages, bootstrap });
    }
    let staging = Staging::beside(target).map_err(io)?;
    let declared = wanted.tree.join("config");
    if durable::is_folder(&declared).map_err(io)? {
        let packed = staging.path().join("config.tar.zst");
        let options =
            PackOptions { mtime: FILE_TIME, cancel: wanted.cancel.clone(), ..Default::default() };
        archive::pack(&declared, &packed, &options)?;
        add(artifact::TREE_CONFIG.to_owned(), &packed)?;
    }
    let (distribution, key) = (wanted.distribution, wanted.key);
    let assembly = Assembly { distribution, variants, program: wanted.program.into(), files, key };
    if let Ok(artifact) = Artifact::open(target)
        && let Some(sha256) = artifact.sha256_beside()
        && assembly.is(&artifact)?
        // What people compare with is told only of what is there.
        && Sha256::of_file(target).map_err(io)? == sha256
    {
        return Ok(Assembled { artifact, sha256, unchanged: true });
    }
    let sha256 = artifact::write(target, assembly, wanted.cancel)?.sha256;
    Ok(Assembled { artifact: Artifact::open(target)?, sha256, unchanged: false })
}
