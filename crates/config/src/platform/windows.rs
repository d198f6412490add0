//! Windows: access is not told by modes there.

use std::io;

use camino::Utf8Path;
use package::durable;

/// Whether only its owner can do something with the file.
pub(crate) fn is_private(path: &Utf8Path) -> bool {
    path.is_file()
}

/// Whether the file can be run.
pub(crate) fn is_executable(path: &Utf8Path) -> io::Result<bool> {
    Ok(fs_err::metadata(path)?.is_file())
}

/// Makes a folder that only its owner can look into.
pub(crate) fn make_private_folder(path: &Utf8Path) -> io::Result<()> {
    durable::create_folders(path)
}

/// Makes `path` a link to `target`, in one step if there is one already.
pub(crate) fn replace_link(path: &Utf8Path, _target: &str) -> io::Result<()> {
    Err(io::Error::other(format!("cannot publish `{path}`: bundles are made on Linux")))
}

/// Sets the permission bits of a file.
pub(crate) fn set_mode(_path: &Utf8Path, _mode: u32) -> io::Result<()> {
    Ok(())
}
