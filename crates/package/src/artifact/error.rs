//! What can be wrong with an artifact.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::cancel::Cancelled;
use crate::digest::Sha256;
use crate::sign::SignatureError;
use crate::versioned::FormatError;

/// Why an artifact cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ArtifactError {
    #[error("cannot use `{path}`")]
    Io { path: Utf8PathBuf, source: io::Error },
    #[error("`{0}` is cut short, or no artifact")]
    NotOne(Utf8PathBuf),
    #[error("`{path}` is damaged: {problem}")]
    Damaged { path: Utf8PathBuf, problem: String },
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("cannot trust `{path}`")]
    Untrusted { path: Utf8PathBuf, source: SignatureError },
    #[error("`{path}` is damaged: {file} has the SHA-256 {found}, expected {expected}")]
    Changed { path: Utf8PathBuf, file: String, found: Sha256, expected: Sha256 },
    #[error("`{path}` has no file `{file}`")]
    Missing { path: Utf8PathBuf, file: String },
    #[error("cannot sign `{path}`")]
    Sign { path: Utf8PathBuf, source: SignatureError },
    #[error("`{path}` changed while it was read")]
    Moving { path: Utf8PathBuf },
    #[error("`{path}` is no list of the parts of a file: {problem}")]
    Parts { path: Utf8PathBuf, problem: String },
    #[error("part `{part}` is missing: expected it beside `{list}`")]
    NoPart { part: String, list: Utf8PathBuf },
    #[error("`{0}` is there already")]
    Exists(Utf8PathBuf),
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl ArtifactError {
    pub(super) fn damaged(path: &Utf8Path, problem: &str) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.to_owned() }
    }
}
