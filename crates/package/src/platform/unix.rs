//! Modes and symbolic links as every Unix has them.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use camino::Utf8Path;

/// The permission bits of a file, set-id and sticky bits included.
pub(crate) fn mode_of(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

/// Sets the permission bits of the file at `path`.
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs_err::set_permissions(path, Permissions::from_mode(mode))
}

/// Sets the permission bits of an open file.
pub(crate) fn set_file_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}

/// Makes a symbolic link at `link` that says `target`.
pub(crate) fn symlink(target: &str, link: &Utf8Path) -> io::Result<()> {
    fs_err::os::unix::fs::symlink(target, link)
}

/// Gives the owner full rights on every folder below `path`, so that it can be deleted.
pub(crate) fn make_removable(path: &Utf8Path) -> io::Result<()> {
    let metadata = fs_err::symlink_metadata(path)?;
    if metadata.is_dir() {
        set_mode(path.as_std_path(), mode_of(&metadata) | 0o700)?;
        for entry in path.read_dir_utf8()? {
            make_removable(entry?.path())?;
        }
    }
    Ok(())
}
