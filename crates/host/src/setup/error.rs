//! What can go wrong while a host is set up.

use std::io;

use camino::Utf8PathBuf;
use package::PackageId;

use super::flags::FlagError;
use super::late::LateError;
use crate::host::HostError;
use crate::store::{RepositoryError, StoreError};

/// Why a host was not set up. What was live before is live.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SetupError {
    #[error("`{0}` is not supported any more: name the packages in `setup-flags/active.json`")]
    SetupPackages(Utf8PathBuf),
    #[error("packages are missing, and `{0}` does not say where to get them")]
    NoRepository(Utf8PathBuf),
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error("cannot use `{path}`")]
    Late { path: Utf8PathBuf, source: LateError },
    #[error("package `{0}` is active with other values; give the new ones another name")]
    LateChanged(PackageId),
    #[error("cannot use the package list `{place}`")]
    Ids { place: String, source: FlagError },
    #[error("cannot use `{path}`")]
    ListId { path: Utf8PathBuf, source: FlagError },
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot read or change the configuration of this host")]
    Io(#[from] io::Error),
}
