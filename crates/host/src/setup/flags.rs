//! The small files with which an installer tells `setup` what to do.

use std::collections::BTreeSet;
use std::io;

use camino::Utf8Path;
use package::PackageId;

/// Why the content of such a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum FlagError {
    #[error("expected a JSON list of package ids")]
    Ids(#[source] serde_json::Error),
    #[error("`{}` is not the id of a package list: expected letters, digits, `.`, `_` and `-`", .0.escape_debug())]
    ListId(String),
}

/// The content of a file; `None` where there is none.
pub(crate) fn read(path: &Utf8Path) -> io::Result<Option<Vec<u8>>> {
    match fs_err::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same as text, without blanks around it.
pub(crate) fn read_text(path: &Utf8Path) -> io::Result<Option<String>> {
    let Some(bytes) = read(path)? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("`{path}` is not text: {error}"))
    })?;
    Ok(Some(text.trim().to_owned()))
}

/// Reads a JSON list of ids: `active.json`, or a package list of a repository.
pub fn parse_ids(bytes: &[u8]) -> Result<BTreeSet<PackageId>, FlagError> {
    serde_json::from_slice(bytes).map_err(FlagError::Ids)
}

/// Reads the id of a package list, which becomes a part of a path.
pub fn parse_list_id(text: &str) -> Result<&str, FlagError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if text.is_empty() || text.starts_with('.') || !text.bytes().all(is_plain) {
        return Err(FlagError::ListId(text.chars().take(100).collect()));
    }
    Ok(text)
}
