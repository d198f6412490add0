//! Unix.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use camino::Utf8Path;
use package::durable;

/// Whether only its owner can do something with the file.
pub(crate) fn is_private(path: &Utf8Path) -> bool {
    fs_err::metadata(path).is_ok_and(|found| (found.mode() & 0o077).count_ones() == 0)
}

/// Whether the file can be run.
pub(crate) fn is_executable(path: &Utf8Path) -> io::Result<bool> {
    Ok(fs_err::metadata(path)?.permissions().mode() & 0o111 != 0)
}

/// Makes a folder that only its owner can look into.
pub(crate) fn make_private_folder(path: &Utf8Path) -> io::Result<()> {
    durable::create_folders(path)?;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

/// Makes `path` a link to `target`, in one step if there is one already.
pub(crate) fn replace_link(path: &Utf8Path, target: &str) -> io::Result<()> {
    if fs_err::read_link(path).is_ok_and(|found| found.as_os_str() == target) {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default();
    let aside = path.with_file_name(format!("{}{name}", durable::TEMPORARY));
    durable::remove_tree(&aside)?;
    fs_err::os::unix::fs::symlink(target, &aside)?;
    durable::rename(&aside, path)
}

/// Sets the permission bits of a file.
pub(crate) fn set_mode(path: &Utf8Path, mode: u32) -> io::Result<()> {
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode))
}
