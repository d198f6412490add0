//! What can go wrong with the store.

use std::io;

use camino::Utf8PathBuf;
use download::DownloadError;
use package::archive::UnpackError;
use package::artifact::ArtifactError;
use package::lock::LockError;
use package::sign::SignatureError;
use package::{Cancelled, PackageId, Sha256};

use super::MADE_MANIFEST;

/// Why a package could not be added, read or removed. The store is as it was before.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum StoreError {
    #[error("package `{0}` is not in the store")]
    NotFound(PackageId),
    #[error("package `{id}` cannot be read")]
    Unreadable { id: PackageId, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("package `{0}` has no manifest: another program unpacked it")]
    NoManifest(PackageId),
    #[error("package `{id}` in the store has content digest {found}, expected {expected}")]
    Other { id: PackageId, found: Sha256, expected: Sha256 },
    #[error("`{archive}` does not name a package: expected `NAME--VERSION.tar.zst` or `.tar.xz`")]
    Name { archive: Utf8PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("`{archive}` is not package `{id}`: {problem}")]
    Wrong { archive: Utf8PathBuf, id: PackageId, problem: String },
    #[error("`{archive}` holds `{MADE_MANIFEST}`, a name that this program keeps for itself")]
    Reserved { archive: Utf8PathBuf },
    #[error("`{archive}` is not signed: there is no `{archive}.minisig`")]
    Unsigned { archive: Utf8PathBuf },
    #[error("the signature of `{archive}` is not good")]
    Signature { archive: Utf8PathBuf, source: SignatureError },
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error("package `{id}` is not at `{base}`")]
    Missing { id: PackageId, base: String, source: Box<DownloadError> },
    #[error(transparent)]
    Download(#[from] Box<DownloadError>),
    #[error("`{url}` cannot be used")]
    Downloaded { url: String, source: Box<StoreError> },
    #[error(transparent)]
    Artifact(Box<ArtifactError>),
    #[error("cannot change the store")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl StoreError {
    /// Whether the place that a package was to come from is to blame, and not this host.
    pub fn is_of_the_source(&self) -> bool {
        match self {
            Self::Missing { .. }
            | Self::Artifact(_)
            | Self::Wrong { .. }
            | Self::Reserved { .. }
            | Self::Unsigned { .. }
            | Self::Signature { .. } => true,
            Self::Download(error) => {
                !matches!(**error, DownloadError::Write { .. } | DownloadError::Cancelled(_))
            }
            Self::Downloaded { source, .. } => source.is_of_the_source(),
            Self::Unpack(error) => !matches!(
                error,
                UnpackError::Open(_)
                    | UnpackError::TargetExists(_)
                    | UnpackError::Write { .. }
                    | UnpackError::Cancelled(_)
            ),
            Self::NotFound(_)
            | Self::Unreadable { .. }
            | Self::NoManifest(_)
            | Self::Other { .. }
            | Self::Name { .. }
            | Self::Io(_)
            | Self::Cancelled(_) => false,
        }
    }

    pub(crate) fn unreadable(
        id: &PackageId,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::Unreadable { id: id.clone(), source: Box::new(source) }
    }
}

impl From<ArtifactError> for StoreError {
    fn from(error: ArtifactError) -> Self {
        Self::Artifact(Box::new(error))
    }
}

impl From<LockError> for StoreError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Io(error) => Self::Io(error),
            LockError::Cancelled(cancelled) => Self::Cancelled(cancelled),
        }
    }
}
