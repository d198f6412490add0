//! What this machine is: the names of the entries of a folder.

use std::collections::BTreeSet;
use std::io;

use camino::Utf8Path;
use package::durable;
use package::id::{ParseIdError, RoleName};

use crate::derived::{missing, remove_file};
use crate::generation::{self, Generation};
use crate::host::{Host, HostError, Job};
use crate::observe::ObserveError;
use crate::platform;
use crate::receipt::Receipt;

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

impl Host {
    /// The roles that the machine has once `generation` is live again: those that it was made for,
    /// where an installation wrote what is there now; otherwise those that the machine has.
    pub(crate) fn roles_with(
        &self,
        generation: &Generation,
    ) -> Result<BTreeSet<RoleName>, ObserveError> {
        let found = read(&self.paths.roles())?;
        if found == generation.roles {
            return Ok(found);
        }
        let written = Receipt::read(&self.paths)?.roles;
        let is_ours = !found.is_disjoint(&written)
            && found.difference(&generation.roles).all(|role| written.contains(role));
        Ok(if is_ours { generation.roles.clone() } else { found })
    }

    /// Gives the machine the roles of the live generation back after a switch that was undone.
    pub(crate) fn restore_roles(&self, job: &Job<'_>) {
        let restored = || {
            let Some(live) = generation::live(&self.paths)? else {
                return Ok(());
            };
            self.write_roles(&self.roles_with(&Generation::read(&self.paths, live)?)?)
        };
        if let Err(error) = restored() {
            job.warn(&package::causes(&error).join(": "));
        }
    }

    /// Makes these the roles of the machine; each is in the receipt while it is ours.
    pub(crate) fn write_roles(&self, wanted: &BTreeSet<RoleName>) -> Result<(), HostError> {
        let folder = self.paths.roles();
        let found = read(&folder).map_err(ObserveError::from)?;
        if found == *wanted {
            return Ok(());
        }
        let mut receipt = Receipt::read(&self.paths)?;
        let made = missing(&folder)?;
        receipt.update(&self.paths, |receipt| {
            receipt.folders.extend(made);
            receipt.roles.extend(wanted.difference(&found).cloned());
        })?;
        platform::create_folders(&folder)?;
        for role in wanted.difference(&found) {
            // An empty file is whole at once; one aside would be taken for a role.
            let path = folder.join(role.as_str());
            fs_err::File::create(&path)?.sync_all()?;
            platform::set_mode(&path, 0o644)?;
        }
        for role in found.difference(wanted) {
            remove_file(&folder.join(role.as_str()))?;
        }
        durable::sync_directory(&folder)?;
        receipt
            .update(&self.paths, |receipt| receipt.roles.retain(|role| wanted.contains(role)))?;
        Ok(())
    }
}
