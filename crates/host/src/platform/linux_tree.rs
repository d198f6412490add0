//! Looks at folders and reads files in them on Linux, without ever following a link below the folder
//! it was given, and without waiting for anybody: a pipe or a device that somebody put there is
//! neither opened nor read.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use camino::Utf8Path;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid,
    fchmod, fchown, fstat, futimens, openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;

/// How anything is opened: not through a link, not waiting for a writer, not as our terminal.
const QUIETLY: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    File,
    Link,
    Pipe,
    Socket,
    Device,
}

/// Seconds and nanoseconds since 1970.
pub(crate) type Time = (i64, i64);

/// What is known of something without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    /// Permission bits.
    pub(crate) mode: u32,
    /// Its owner.
    pub(crate) uid: u32,
    /// Its length.
    pub(crate) size: u64,
    /// When it was written to for the last time.
    pub(crate) modified: Time,
}

impl Folder {
    /// The folder at `path`, which is no link itself.
    pub(crate) fn open(path: &Utf8Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path.as_str(), OFlags::DIRECTORY | QUIETLY, Mode::empty())?))
    }

    /// A folder in this one.
    pub(crate) fn inner(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self(openat(&self.0, name, OFlags::DIRECTORY | QUIETLY, Mode::empty())?))
    }

    /// What it is itself.
    pub(crate) fn seen(&self) -> io::Result<Seen> {
        Ok(seen(&fstat(&self.0)?))
    }

    /// The names in it.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        Ok(names)
    }

    /// What is there under a name; nothing if there is nothing.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<Option<Seen>> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(seen(&found))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What a link in it says.
    pub(crate) fn link(&self, name: &OsStr) -> io::Result<OsString> {
        let target = readlinkat(&self.0, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Opens the file at a path below it, to be read.
    pub(crate) fn file(&self, path: &str) -> io::Result<File> {
        Ok(self.beneath(path)?.into())
    }

    /// Reads the whole of a file below it that is no longer than `size_max_bytes`.
    pub(crate) fn read(&self, path: &str, size_max_bytes: u64) -> io::Result<Vec<u8>> {
        let opened = self.beneath(path)?;
        if seen(&fstat(&opened)?).kind != Kind::File {
            return Err(io::Error::other("it is no file"));
        }
        let mut bytes = Vec::new();
        File::from(opened).take(size_max_bytes + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > size_max_bytes {
            return Err(io::Error::other(format!("it is longer than {size_max_bytes} bytes")));
        }
        Ok(bytes)
    }

    fn beneath(&self, path: &str) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(&self.0, path, QUIETLY, Mode::empty(), resolve) {
            // An older kernel, or one that a container may not ask.
            Err(Errno::NOSYS | Errno::PERM) => self.step_by_step(path),
            opened => opened,
        }
    }

    fn step_by_step(&self, path: &str) -> Result<OwnedFd, Errno> {
        let (mut above, mut rest) = (None::<OwnedFd>, path);
        while let Some((folder, below)) = rest.split_once('/') {
            let from = above.as_ref().map_or(self.0.as_fd(), AsFd::as_fd);
            above = Some(openat(from, folder, OFlags::DIRECTORY | QUIETLY, Mode::empty())?);
            rest = below;
        }
        let from = above.as_ref().map_or(self.0.as_fd(), AsFd::as_fd);
        openat(from, rest, QUIETLY, Mode::empty())
    }

    /// Sets the permission bits of the file or folder at a path below it.
    pub(crate) fn set_mode(&self, path: &str, mode: u32) -> io::Result<()> {
        Ok(fchmod(self.plain(path)?, Mode::from_raw_mode(mode))?)
    }

    /// Gives the file or folder at a path below it to a user; the permission bits stay.
    pub(crate) fn set_owner(&self, path: &str, uid: u32) -> io::Result<()> {
        let opened = self.plain(path)?;
        let mode = Mode::from_raw_mode(fstat(&opened)?.st_mode);
        fchown(&opened, Some(Uid::from_raw(uid)), None)?;
        // A change of the owner takes set-id bits away.
        Ok(fchmod(&opened, mode)?)
    }

    /// Sets when the file at a path below it was written to.
    pub(crate) fn set_modified(&self, path: &str, time: Time) -> io::Result<()> {
        let last_access = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        let last_modification = Timespec { tv_sec: time.0, tv_nsec: time.1 };
        let times = Timestamps { last_access, last_modification };
        Ok(futimens(self.plain(path)?, &times)?)
    }

    /// Opens a file or folder, and nothing else.
    fn plain(&self, path: &str) -> io::Result<OwnedFd> {
        let opened = if path.is_empty() { self.0.try_clone()? } else { self.beneath(path)? };
        match seen(&fstat(&opened)?).kind {
            Kind::File | Kind::Folder => Ok(opened),
            _ => Err(io::Error::other("it is neither a file nor a folder any more")),
        }
    }
}

/// Whether this process may change owners.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A name as text; what is no text is shown as well as it can be.
pub(crate) fn shown(name: &OsStr) -> String {
    let shown = |chunk: std::str::Utf8Chunk<'_>| {
        let invalid = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
        std::iter::once(chunk.valid().to_owned()).chain(invalid).collect::<String>()
    };
    name.as_bytes().utf8_chunks().map(shown).collect()
}

fn seen(found: &Stat) -> Seen {
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => Kind::Folder,
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Link,
        FileType::Fifo => Kind::Pipe,
        FileType::Socket => Kind::Socket,
        _ => Kind::Device,
    };
    #[expect(clippy::cast_possible_wrap, reason = "nanoseconds are fewer than 2^63")]
    let modified = (found.st_mtime, found.st_mtime_nsec as i64);
    Seen {
        kind,
        mode: found.st_mode & 0o7777,
        uid: found.st_uid,
        size: u64::try_from(found.st_size).unwrap_or_default(),
        modified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_is_followed_on_either_way() {
        let temporary = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(temporary.path()).unwrap();
        fs_err::create_dir_all(top.join("in/deep")).unwrap();
        fs_err::write(top.join("in/deep/file"), "inside").unwrap();
        fs_err::write(top.join("outside"), "outside").unwrap();
        fs_err::os::unix::fs::symlink("deep", top.join("in/folder")).unwrap();
        fs_err::os::unix::fs::symlink("../outside", top.join("in/link")).unwrap();
        let folder = Folder::open(&top.join("in")).unwrap();
        assert!(folder.beneath("deep/file").is_ok());
        assert!(folder.step_by_step("deep/file").is_ok());
        for path in ["folder/file", "link", "../outside"] {
            assert!(folder.beneath(path).is_err(), "{path}");
        }
        for path in ["folder/file", "link"] {
            assert!(folder.step_by_step(path).is_err(), "{path}");
        }
        assert!(Folder::open(&top.join("in/folder")).is_err());
    }
}
