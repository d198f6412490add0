//! A package of the store as it lies there.

use std::io;

use camino::Utf8Path;
use package::manifest::{MANIFEST, Manifest};
use package::pkginfo::{BUILDINFO, PKGINFO, PkgInfo};
use package::{PackageId, Sha256};
use serde_json::Value;

use package::durable::is_folder;

use super::{MADE_MANIFEST, StoreError};

/// What a package says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its id.
    pub id: PackageId,
    /// Its `pkginfo.json`.
    pub info: PkgInfo,
    /// Its files.
    pub manifest: Manifest,
    /// The digest of the manifest.
    pub digest: Sha256,
    /// Whether the manifest came with it; otherwise it was made of what arrived.
    pub verified: bool,
    /// Its `buildinfo.full.json`; null where it has none.
    pub buildinfo: Value,
}

pub(super) fn load(folder: &Utf8Path, id: &PackageId) -> Result<Package, StoreError> {
    load_with(folder, id, || Err(StoreError::NoManifest(id.clone())))
}

/// Reads a package; one without a manifest gets the one that `make` makes.
pub(super) fn load_with(
    folder: &Utf8Path,
    id: &PackageId,
    make: impl FnOnce() -> Result<Manifest, StoreError>,
) -> Result<Package, StoreError> {
    if !is_folder(folder)? {
        return Err(StoreError::NotFound(id.clone()));
    }
    let info = fs_err::read(folder.join(PKGINFO))
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other(format!("it has no `{PKGINFO}`")),
            _ => error,
        })
        .map_err(|error| StoreError::unreadable(id, error))
        .and_then(|bytes| {
            PkgInfo::parse(&bytes).map_err(|error| StoreError::unreadable(id, error))
        })?;
    let buildinfo = match fs_err::read(folder.join(BUILDINFO)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let problem = format!("`{BUILDINFO}` is damaged: {error}");
            StoreError::unreadable(id, io::Error::other(problem))
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Value::Null,
        Err(error) => return Err(StoreError::unreadable(id, error)),
    };
    for (name, verified) in [(MANIFEST, true), (MADE_MANIFEST, false)] {
        match fs_err::read(folder.join(name)) {
            Ok(bytes) => {
                let manifest =
                    Manifest::parse(&bytes).map_err(|error| StoreError::unreadable(id, error))?;
                let digest = Sha256::of(&bytes);
                let id = id.clone();
                return Ok(Package { id, info, manifest, digest, verified, buildinfo });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::unreadable(id, error)),
        }
    }
    let manifest = make()?;
    let (id, digest) = (id.clone(), manifest.digest());
    Ok(Package { id, info, manifest, digest, verified: false, buildinfo })
}

impl Package {
    /// Whether it was made of secrets on this host: digests of its files are for nobody's eyes.
    pub fn is_secret(&self) -> bool {
        super::is_secret(&self.manifest, self.verified)
    }

    /// Checks that what the package says of how it was built is about this package.
    pub(super) fn name_problem(&self) -> Option<String> {
        let said = |key: &str| self.buildinfo.get(key).and_then(Value::as_str);
        let (name, version) = (said("name")?, said("package_version")?);
        let is_same = name == self.id.name().as_str() && version == self.id.version().as_str();
        (!is_same).then(|| format!("it says that it is `{name}--{version}`"))
    }
}

/// The content digest of a package: that of its manifest, which is only hashed.
pub(super) fn digest(folder: &Utf8Path, id: &PackageId) -> Result<Sha256, StoreError> {
    if !is_folder(folder)? {
        return Err(StoreError::NotFound(id.clone()));
    }
    for name in [MANIFEST, MADE_MANIFEST] {
        match Sha256::of_file(&folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            digest => return digest.map_err(|error| StoreError::unreadable(id, error)),
        }
    }
    Err(StoreError::NoManifest(id.clone()))
}
