//! Where operating systems differ: permissions of files.

use std::io;

use camino::Utf8Path;

/// Sets the permission bits of the file at `path`.
#[cfg(unix)]
pub(crate) fn set_mode(path: &Utf8Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Does nothing: there are no such bits here.
#[cfg(windows)]
pub(crate) fn set_mode(_path: &Utf8Path, _mode: u32) -> io::Result<()> {
    Ok(())
}
