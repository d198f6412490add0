//! Modes and symbolic links as every Unix has them.

use std::ffi::{CStr, CString};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use camino::Utf8Path;
use rustix::fs::{
    AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, RenameFlags, chmodat, fchmod, fstat,
    openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

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

/// Whether the open file is the one at `path`.
pub(crate) fn is_at(file: &File, path: &Utf8Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    match fs_err::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => {
            let (found, open) = (found?, file.metadata()?);
            Ok((found.dev(), found.ino()) == (open.dev(), open.ino()))
        }
    }
}

/// Makes a symbolic link at `link` that says `target`.
pub(crate) fn symlink(target: &str, link: &Utf8Path) -> io::Result<()> {
    fs_err::os::unix::fs::symlink(target, link)
}

/// Lets two paths change places in one step. `false`: the file system cannot do that.
pub(crate) fn exchange(one: &Utf8Path, other: &Utf8Path) -> io::Result<bool> {
    match renameat_with(CWD, one.as_str(), CWD, other.as_str(), RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Folders that are open inside each other while a tree is deleted; this bounds the open files and
/// the stack.
const OPEN_MAX: usize = 32;

/// Deletes a folder and everything in it. Folders that lie deeper than [`OPEN_MAX`] are moved up to
/// the top of it first, so that no depth is too deep.
pub(crate) fn remove_tree(path: &Utf8Path) -> io::Result<()> {
    let path = CString::new(path.as_str())?;
    let top = match open_folder(CWD, &path) {
        // No folder at all.
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(unlinkat(CWD, &path, AtFlags::empty())?),
        top => top?,
    };
    let mut moved = 0;
    loop {
        let before = moved;
        empty(&mut Dir::read_from(&top)?, top.as_fd(), 0, &mut moved)?;
        match unlinkat(CWD, &path, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if moved > before => {}
            result => return Ok(result?),
        }
    }
}

/// Deletes everything in `folder`, which lies `depth` below `top`.
fn empty(
    folder: &mut Dir,
    top: BorrowedFd<'_>,
    depth: usize,
    moved: &mut u64,
) -> Result<(), Errno> {
    while let Some(entry) = folder.read() {
        let entry = entry?;
        if [c".", c".."].contains(&entry.file_name()) {
            continue;
        }
        match remove(folder.fd()?, &entry, top, depth, moved) {
            // Listed, but moved or deleted since.
            Err(Errno::NOENT) => {}
            result => result?,
        }
    }
    Ok(())
}

fn remove(
    folder: BorrowedFd<'_>,
    entry: &DirEntry,
    top: BorrowedFd<'_>,
    depth: usize,
    moved: &mut u64,
) -> Result<(), Errno> {
    let name = entry.file_name();
    let kind = match entry.file_type() {
        FileType::Unknown => {
            let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            FileType::from_raw_mode(found.st_mode)
        }
        kind => kind,
    };
    if !kind.is_dir() {
        return unlinkat(folder, name, AtFlags::empty());
    }
    if depth == OPEN_MAX {
        return move_up(folder, name, top, moved);
    }
    let inner = open_folder(folder, name)?;
    empty(&mut Dir::new(inner)?, top, depth + 1, moved)?;
    unlinkat(folder, name, AtFlags::REMOVEDIR)
}

/// Moves a folder to the top, under a name that nothing there has.
fn move_up(
    folder: BorrowedFd<'_>,
    name: &CStr,
    top: BorrowedFd<'_>,
    moved: &mut u64,
) -> Result<(), Errno> {
    // Only who may write to a folder may move it.
    drop(open_folder(folder, name)?);
    loop {
        *moved += 1;
        match renameat(folder, name, top, format!(".moved-{moved}")) {
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            result => return result,
        }
    }
}

/// Opens a folder, never through a link, and gives its owner every right on it.
fn open_folder(parent: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || openat(&parent, name, flags, Mode::empty());
    let folder = match open() {
        Err(Errno::ACCESS) => {
            // It is a folder: of anything else the error would be another one.
            chmodat(&parent, name, Mode::RWXU, AtFlags::empty())?;
            open()?
        }
        folder => folder?,
    };
    if !Mode::from_raw_mode(fstat(&folder)?.st_mode).contains(Mode::RWXU) {
        // Where that is not allowed, deleting may be all the same.
        let _ = fchmod(&folder, Mode::RWXU);
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustix::fs::mkdirat;

    #[test]
    fn a_folder_of_any_depth_is_deleted() {
        let temporary = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(temporary.path()).unwrap().join("deep");
        fs_err::create_dir(&path).unwrap();
        let mut folder = open_folder(CWD, &CString::new(path.as_str()).unwrap()).unwrap();
        // Too long for any path, with files on the way, and with names that the deletion uses.
        for level in 0..5_000 {
            mkdirat(&folder, "folder", Mode::RWXU).unwrap();
            let inner = open_folder(&folder, c"folder").unwrap();
            if level % 100 == 0 {
                for file in ["file", ".moved-2"] {
                    openat(&folder, file, OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
                }
                mkdirat(&folder, ".moved-1", Mode::RWXU).unwrap();
                mkdirat(&folder, ".moved-1/x", Mode::RWXU).unwrap();
                fchmod(&folder, Mode::RUSR).unwrap();
            }
            folder = inner;
        }
        crate::durable::remove_tree(&path).unwrap();
        assert_eq!(fs_err::read_dir(temporary.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_are_deleted_and_not_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(temporary.path()).unwrap();
        let (kept, tree, link) = (folder.join("kept"), folder.join("tree"), folder.join("link"));
        fs_err::create_dir(&kept).unwrap();
        fs_err::write(kept.join("file"), "").unwrap();
        fs_err::create_dir(&tree).unwrap();
        symlink(kept.as_str(), &tree.join("link")).unwrap();
        symlink(kept.as_str(), &link).unwrap();
        crate::durable::remove_tree(&tree).unwrap();
        crate::durable::remove_tree(&link).unwrap();
        crate::durable::remove_tree(&link).unwrap();
        assert_eq!(fs_err::read_dir(folder).unwrap().count(), 1);
        assert!(kept.join("file").exists());
    }
}
