//! Puts a door into its folder, whole or not at all.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::Cancel;
use package::durable::{self, Staging};

use super::{Door, DoorError, Doors, Files, Role, file, served, usb};
use crate::bundle::{Genconf, Signer};
use crate::definition::Definition;
use crate::platform;
use crate::resolve::Resolution;

/// A door that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Which.
    pub door: Door,
    /// Its folder.
    pub path: Utf8PathBuf,
    /// How many files it has.
    pub files: usize,
}

impl Genconf {
    /// The folder of a door.
    pub fn door(&self, door: Door) -> Utf8PathBuf {
        self.folder().join("for").join(door.name())
    }

    /// The roles that a definition names, with their hosts, and whether the published bundle has
    /// secrets for them.
    pub fn roles(&self, definition: &Definition, resolution: &Resolution) -> Vec<Role> {
        let published = self.published();
        let has_secrets = |role| {
            let secrets = published.iter().flat_map(|bundle| bundle.secrets.values());
            secrets.into_iter().any(|roles| roles.contains(role))
        };
        let roles = definition.roles.iter().map(|role| (role.clone(), has_secrets(role)));
        Role::of(resolution, roles)
    }

    /// Makes a door anew in its folder; what was there is replaced as a whole.
    pub fn write_door(
        &self,
        doors: &Doors<'_>,
        door: Door,
        signer: &Signer,
        cancel: &Cancel,
    ) -> Result<Written, DoorError> {
        let path = self.door(door);
        let _lock = self.lock(cancel)?;
        let files = doors.files(door)?;
        let mut count = files.len();
        let staging = Staging::of(&path).map_err(at(&path))?;
        make_folder(staging.path()).map_err(at(&path))?;
        count += match door {
            Door::Usb => usb::copy(&self.served()?, staging.path(), cancel)?,
            Door::File => file::write(doors, self.served()?, staging.path(), signer, cancel)?,
            _ => 0,
        };
        write_files(staging.path(), &files)?;
        replace_folder(staging.path(), &path).map_err(at(&path))?;
        Ok(Written { door, path, files: count })
    }
}

impl Genconf {
    /// What hosts need of what was published.
    fn served(&self) -> Result<Vec<(String, Utf8PathBuf)>, DoorError> {
        let published = self.published().ok_or(DoorError::NotPublished)?;
        let latest = self.latest()?.ok_or(DoorError::NotPublished)?;
        served::files(&self.serve(), &published, &latest.bundle.to_string())
    }
}

fn write_files(folder: &Utf8Path, files: &Files) -> Result<(), DoorError> {
    for (path, (content, mode)) in files {
        let mut below = folder.to_owned();
        let above = path.parent();
        for part in above.iter().flat_map(|above| above.as_str().split('/')) {
            below.push(part);
            if !durable::is_folder(&below).map_err(at(&below))? {
                make_folder(&below).map_err(at(&below))?;
            }
        }
        let file = folder.join(path.as_str());
        durable::write(&file, content).map_err(at(&file))?;
        platform::set_mode(&file, *mode).map_err(at(&file))?;
    }
    Ok(())
}

/// Gives the folder `new` the name of `target`, in one step if the file system can, and deletes what had
/// the name.
fn replace_folder(new: &Utf8Path, target: &Utf8Path) -> io::Result<()> {
    if durable::is_folder(target)? && durable::exchange(new, target)? {
        durable::sync_directory(target.parent().unwrap_or(target))?;
        return durable::remove_tree(new);
    }
    durable::remove_tree(target)?;
    durable::rename(new, target)
}

/// Makes a folder whose mode is what it is, whatever the umask is.
pub(super) fn make_folder(path: &Utf8Path) -> io::Result<()> {
    durable::create_folders(path)?;
    platform::set_mode(path, 0o755)
}

/// Says which file could not be read or written.
pub(super) fn at(path: &Utf8Path) -> impl FnOnce(io::Error) -> DoorError {
    let path = path.to_owned();
    move |source| DoorError::Io { path, source }
}
