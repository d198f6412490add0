//! From an archive to a package of the store.

use camino::{Utf8Path, Utf8PathBuf};
use package::archive::{self, Format, UnpackError, UnpackOptions, Unpacked};
use package::bundle::BundleFile;
use package::durable::Staging;
use package::manifest::MANIFEST;
use package::path::PackagePath;
use package::sign::PublicKey;
use package::{Cancel, PackageId, Piece, Sha256, durable};

use super::{MADE_MANIFEST, Store, StoreError, several, unpacked};
use crate::event::{Event, Observer};
use crate::platform;

/// What a package must show before it is taken.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The content digest it must have.
    pub digest: Option<Sha256>,
    /// The key that must have signed it.
    pub key: Option<PublicKey>,
    /// The archive that it must come as, by its path in a repository.
    pub archive: Option<(PackagePath, BundleFile)>,
}

/// A package that is in the store now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The package.
    pub id: PackageId,
    /// Whether it was there before.
    pub already: bool,
}

impl Store {
    /// Adds the package that `archive` is named after.
    pub fn add(
        &self,
        archive: &Utf8Path,
        trust: &Trust,
        cancel: &Cancel,
        observer: &dyn Observer,
    ) -> Result<Added, StoreError> {
        let mut added = self.add_all(&[archive.to_owned()], trust, cancel, observer)?;
        Ok(added.remove(0))
    }

    /// Adds many packages, several at a time. After a failure those that were complete are there.
    pub fn add_all(
        &self,
        archives: &[Utf8PathBuf],
        trust: &Trust,
        cancel: &Cancel,
        observer: &dyn Observer,
    ) -> Result<Vec<Added>, StoreError> {
        self.sweep()?;
        several::at_a_time(archives, |archive| {
            let id = id_of(archive)?;
            let _locks = self.work_on(&id, cancel, observer)?;
            let already = self.contains(&id)?;
            if already {
                self.check_known(&id, &signature_of(archive), trust)?;
            } else {
                let piece = Piece::from(archive);
                self.add_new(&id, &piece, &signature_of(archive), trust, cancel)?;
            }
            observer.event(&Event::Stored { id: &id, already });
            Ok(Added { id, already })
        })
    }

    /// Makes sure that a package that is there is the one that is wanted.
    pub(super) fn check_known(
        &self,
        id: &PackageId,
        signature: &Utf8Path,
        trust: &Trust,
    ) -> Result<(), StoreError> {
        if let Some(expected) = trust.digest {
            let found = self.digest(id)?;
            if found != expected {
                return Err(StoreError::Other { id: id.clone(), found, expected });
            }
        }
        if let Some(key) = &trust.key {
            let folder = self.path(id);
            match fs_err::read(folder.join(MANIFEST)) {
                Ok(manifest) => check_signature(&folder, signature, key, &manifest, id)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(StoreError::NoManifest(id.clone()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Unpacks aside, checks, syncs, and only then gives the package its name.
    pub(super) fn add_new(
        &self,
        id: &PackageId,
        piece: &Piece,
        signature: &Utf8Path,
        trust: &Trust,
        cancel: &Cancel,
    ) -> Result<(), StoreError> {
        let archive = piece.shown();
        if let Some((_, file)) = &trust.archive {
            check_archive(piece, id, file)?;
        }
        let mut expected = trust.digest;
        if let Some(key) = &trust.key {
            let (bytes, manifest) = archive::read_manifest(piece)?;
            check_signature(archive, signature, key, &bytes, id)?;
            // What is unpacked must be what the signature was for, even if the file changed.
            expected = expected.or(Some(manifest.digest()));
        }
        let staging = Staging::of(&self.path(id))?;
        let folder = staging.path();
        let options = UnpackOptions { expected, cancel: cancel.clone(), ..Default::default() };
        let Unpacked { manifest, verified } = match archive::unpack(piece, folder, &options) {
            // Without one it must be what its own manifest, made of what arrives, then tells.
            Err(UnpackError::NoManifest(_)) if trust.key.is_none() => {
                archive::unpack(piece, folder, &UnpackOptions { expected: None, ..options })?
            }
            unpacked => unpacked?,
        };
        if !verified {
            if manifest.get(MADE_MANIFEST).is_some() {
                return Err(StoreError::Reserved { archive: archive.to_owned() });
            }
            fs_err::rename(folder.join(MANIFEST), folder.join(MADE_MANIFEST))?;
        }
        let wrong = |problem: String| StoreError::Wrong {
            archive: archive.to_owned(),
            id: id.clone(),
            problem,
        };
        let package = unpacked::load(folder, id)
            .map_err(|error| wrong(package::causes(&error).join(": ")))?;
        if let Some(problem) = package.name_problem() {
            return Err(wrong(problem));
        }
        if let Some(expected) = trust.digest.filter(|expected| *expected != package.digest) {
            let found = package.digest;
            return Err(wrong(format!("its content digest is {found}, expected {expected}")));
        }
        self.publish(id, &staging)
    }

    /// Makes a complete folder the package `id`, in the place of whatever is there.
    pub(crate) fn publish(&self, id: &PackageId, staging: &Staging) -> Result<(), StoreError> {
        let place = self.path(id);
        platform::sync_file_system(staging.path())?;
        if fs_err::symlink_metadata(&place).is_err() {
            return Ok(durable::rename(staging.path(), &place)?);
        }
        // What is damaged goes with the staging folder.
        if !durable::exchange(staging.path(), &place)? {
            let damaged = self.folder.join(format!("{}damaged-{id}", durable::TEMPORARY));
            durable::remove_tree(&damaged)?;
            fs_err::rename(&place, &damaged)?;
            fs_err::rename(staging.path(), &place)?;
            durable::remove_tree(&damaged)?;
        }
        Ok(durable::sync_directory(&self.folder)?)
    }
}

/// Makes sure that an archive is the file that was promised, before anything looks into it.
fn check_archive(piece: &Piece, id: &PackageId, expected: &BundleFile) -> Result<(), StoreError> {
    let size = piece.size()?;
    let problem = if size == expected.size {
        let found = piece.sha256()?;
        (found != expected.sha256)
            .then(|| format!("its SHA-256 is {found}, expected {}", expected.sha256))
    } else {
        Some(format!("it is {size} bytes long, expected {}", expected.size))
    };
    let Some(problem) = problem else {
        return Ok(());
    };
    Err(StoreError::Wrong { archive: piece.shown().to_owned(), id: id.clone(), problem })
}

fn check_signature(
    archive: &Utf8Path,
    signature: &Utf8Path,
    key: &PublicKey,
    manifest: &[u8],
    id: &PackageId,
) -> Result<(), StoreError> {
    let text = match fs_err::read_to_string(signature) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(StoreError::Unsigned { archive: archive.to_owned() });
        }
        text => text?,
    };
    key.verify_package(manifest, &text, id)
        .map_err(|source| StoreError::Signature { archive: archive.to_owned(), source })
}

/// The package that an archive's name says it is.
fn id_of(archive: &Utf8Path) -> Result<PackageId, StoreError> {
    let name = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Name {
        archive: archive.to_owned(),
        source,
    };
    let (stem, _) = Format::split(archive).map_err(|error| name(error.into()))?;
    stem.parse().map_err(|error: package::id::ParseIdError| name(error.into()))
}

fn signature_of(archive: &Utf8Path) -> Utf8PathBuf {
    format!("{archive}.minisig").into()
}
