//! What can go wrong with an archive.

use std::io;

use camino::Utf8PathBuf;

use super::format::UnknownFormat;
use crate::cancel::Cancelled;
use crate::digest::Sha256;
use crate::manifest::{MANIFEST, ManifestError};

/// Why an archive could not be unpacked or verified. Nothing is left of what was unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The name tells no format.
    #[error(transparent)]
    Format(#[from] UnknownFormat),
    /// The archive is not there, or cannot be read.
    #[error("cannot read the archive")]
    Open(#[source] io::Error),
    /// The bytes are not an archive of the format, or end early.
    #[error("`{archive}` is damaged or cut short")]
    Damaged {
        /// The archive.
        archive: Utf8PathBuf,
        /// What the reader said.
        source: io::Error,
    },
    /// An entry that must not be unpacked.
    #[error("refused entry `{}` of `{archive}`: {reason}", entry.escape_debug())]
    Refused {
        /// The archive.
        archive: Utf8PathBuf,
        /// The entry as the archive names it.
        entry: String,
        /// Why.
        reason: String,
    },
    /// The archive is not what its manifest says.
    #[error("`{archive}` does not match its manifest: `{}`: {difference}", entry.escape_debug())]
    Mismatch {
        /// The archive.
        archive: Utf8PathBuf,
        /// The entry.
        entry: String,
        /// What was expected and found.
        difference: String,
    },
    /// The manifest cannot be used.
    #[error("cannot use `{archive}`")]
    Manifest {
        /// The archive.
        archive: Utf8PathBuf,
        /// Why.
        source: ManifestError,
    },
    /// The archive has no manifest, and one was asked for.
    #[error("`{0}` has no `{MANIFEST}` as its first entry: it cannot be verified")]
    NoManifest(Utf8PathBuf),
    /// The manifest is not the one that was asked for.
    #[error(
        "`{archive}` is another package than expected: content digest {found}, expected {expected}"
    )]
    WrongDigest {
        /// The archive.
        archive: Utf8PathBuf,
        /// The digest asked for.
        expected: Sha256,
        /// The digest it has.
        found: Sha256,
    },
    /// The place to unpack to is taken.
    #[error("`{0}` exists already")]
    TargetExists(Utf8PathBuf),
    /// A file could not be written.
    #[error("cannot unpack `{archive}`")]
    Write {
        /// The archive.
        archive: Utf8PathBuf,
        /// What the system said, with the path.
        source: io::Error,
    },
    /// Stopped from outside.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Why a folder could not be packed. No archive is left behind.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// Things that a package cannot hold, all of them.
    #[error("cannot pack `{folder}`:\n{}", problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n"))]
    Refused {
        /// The folder.
        folder: Utf8PathBuf,
        /// One line for each thing.
        problems: Vec<String>,
    },
    /// A file changed between the two times it was read.
    #[error("`{0}` changed while it was being packed")]
    Changed(Utf8PathBuf),
    /// A file could not be read or written.
    #[error("cannot pack `{folder}`")]
    Io {
        /// The folder.
        folder: Utf8PathBuf,
        /// What the system said, with the path.
        source: io::Error,
    },
    /// Stopped from outside.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
