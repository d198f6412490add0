//! Files with a format number: a program that meets a newer one says so and stops.

use camino::{Utf8Path, Utf8PathBuf};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Why the content of a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Written by a newer program.
    #[error(
        "`{path}` has format {found}, this program reads formats up to {newest}: use the newer monobloc that wrote it"
    )]
    Newer {
        /// The file.
        path: Utf8PathBuf,
        /// Its format.
        found: u32,
        /// The newest that can be read.
        newest: u32,
    },
    /// Not of the form.
    #[error("`{path}` is damaged")]
    Invalid {
        /// The file.
        path: Utf8PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Only what tells whether the rest can be read.
#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

/// Reads a JSON document that carries `format`; keys it does not know are ignored.
pub fn parse<T: DeserializeOwned>(
    path: &Utf8Path,
    bytes: &[u8],
    newest: u32,
) -> Result<T, FormatError> {
    let invalid = |source| FormatError::Invalid { path: path.to_owned(), source };
    let FormatOnly { format } = serde_json::from_slice(bytes).map_err(invalid)?;
    if format > newest {
        return Err(FormatError::Newer { path: path.to_owned(), found: format, newest });
    }
    serde_json::from_slice(bytes).map_err(invalid)
}
