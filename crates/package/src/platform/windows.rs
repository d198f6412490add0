//! Windows keeps no modes; links need a privilege that an installer has.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use camino::Utf8Path;

/// Folders and files get the modes that an archive made on Linux would most likely have.
pub(crate) fn mode_of(metadata: &Metadata) -> u32 {
    if metadata.is_dir() { 0o755 } else { 0o644 }
}

/// Modes are not kept on Windows.
pub(crate) fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Modes are not kept on Windows.
pub(crate) fn set_file_mode(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Whether the open file is the one at `path`: on Windows what is open stays where it is.
pub(crate) fn is_at(_file: &File, _path: &Utf8Path) -> io::Result<bool> {
    Ok(true)
}

/// Makes a symbolic link at `link` that says `target`.
pub(crate) fn symlink(target: &str, link: &Utf8Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}

/// Windows cannot let two paths change places.
pub(crate) fn exchange(_one: &Utf8Path, _other: &Utf8Path) -> io::Result<bool> {
    Ok(false)
}

/// Deletes a folder, read-only files included.
pub(crate) fn remove_tree(path: &Utf8Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_removable(path)?;
            std::fs::remove_dir_all(path)
        }
        result => result,
    }
}

/// Clears the read-only mark of every file below `path`, so that it can be deleted.
fn make_removable(path: &Utf8Path) -> io::Result<()> {
    let metadata = fs_err::symlink_metadata(path)?;
    if metadata.is_dir() {
        for entry in path.read_dir_utf8()? {
            make_removable(entry?.path())?;
        }
    } else if metadata.permissions().readonly() {
        let mut permissions = metadata.permissions();
        #[expect(
            clippy::permissions_set_readonly_false,
            reason = "the file is about to be deleted"
        )]
        permissions.set_readonly(false);
        fs_err::set_permissions(path, permissions)?;
    }
    Ok(())
}
