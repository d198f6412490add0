//! What this machine is: the names of the entries of a folder.

use std::collections::BTreeSet;
use std::io;

use camino::Utf8Path;
use package::id::{ParseIdError, RoleName};

/// Why the roles cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum RolesError {
    /// The folder cannot be read.
    #[error("cannot read the roles of this machine")]
    Io(#[from] io::Error),
    /// An entry that is no role.
    #[error("`{folder}` holds something that is no role; remove it")]
    Name {
        /// The folder.
        folder: camino::Utf8PathBuf,
        /// What is wrong with the name.
        source: ParseIdError,
    },
}

/// The roles of this machine; no folder means none.
pub(crate) fn read(folder: &Utf8Path) -> Result<BTreeSet<RoleName>, RolesError> {
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error.into()),
    };
    let mut roles = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name();
        let role = name.to_string_lossy().parse();
        roles
            .insert(role.map_err(|source| RolesError::Name { folder: folder.to_owned(), source })?);
    }
    Ok(roles)
}
