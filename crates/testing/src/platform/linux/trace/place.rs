//! Where a call of another process points to: its memory, its file descriptors, its paths.
//!
//! Everything here is asked while the process is stopped in the call, so that what is found is what
//! the call will find.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use nix::libc;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::change::{FileId, Origins};

/// The longest path the kernel takes.
const PATH_MAX: usize = 4096;
const PAGE: usize = 4096;
/// How many links a path may lead through, as in the kernel.
const LINKS_MAX: usize = 40;

/// `length` bytes of the memory of a process.
pub(super) fn memory(pid: Pid, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        let base = usize::try_from(address).map_err(io::Error::other)? + done;
        let remote = [RemoteIoVec { base, len: length - done }];
        let read = process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes[done..])], &remote)?;
        if read == 0 {
            return Err(io::Error::other("memory of the program cannot be read"));
        }
        done += read;
    }
    Ok(bytes)
}

/// A number in the memory of a process.
pub(super) fn number(pid: Pid, address: u64) -> io::Result<u64> {
    let bytes = memory(pid, address, 8)?;
    Ok(u64::from_ne_bytes(bytes.try_into().map_err(|_| io::Error::other("8 bytes"))?))
}

/// A text in the memory of a process; nothing where there is none, which the kernel will refuse.
pub(super) fn text(pid: Pid, address: u64) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let Ok(mut base) = usize::try_from(address) else { return Ok(None) };
    while bytes.len() < PATH_MAX {
        // The next page may not be there, so no read crosses into it.
        let mut part = vec![0; PAGE - base % PAGE];
        let remote = [RemoteIoVec { base, len: part.len() }];
        let Ok(read) = process_vm_readv(pid, &mut [IoSliceMut::new(&mut part)], &remote) else {
            return Ok(None);
        };
        if let Some(end) = part[..read].iter().position(|byte| *byte == 0) {
            bytes.extend_from_slice(&part[..end]);
            let refuse = |error| io::Error::other(format!("a path is not UTF-8: {error}"));
            return String::from_utf8(bytes).map(Some).map_err(refuse);
        }
        bytes.extend_from_slice(&part[..read]);
        base += read;
    }
    Ok(None)
}

/// The path by which the kernel offers what a process has open as `fd`; leads to the file itself even
/// where it has no name any more.
pub(super) fn handle(pid: Pid, fd: i32) -> Utf8PathBuf {
    format!("/proc/{pid}/fd/{fd}").into()
}

/// The path of what a process has open as `fd`; nothing if that is no file.
pub(super) fn of_fd(pid: Pid, fd: i32) -> Option<Utf8PathBuf> {
    let target = std::fs::read_link(handle(pid, fd)).ok()?;
    let target = Utf8PathBuf::from_path_buf(target).ok()?;
    match target.as_str().strip_suffix(" (deleted)") {
        Some(path) => Some(path.into()),
        None => Some(target),
    }
}

/// The flags and the position with which a process has `fd` open.
pub(super) fn open_state(pid: Pid, fd: i32) -> io::Result<(i32, u64)> {
    let text = fs_err::read_to_string(format!("/proc/{pid}/fdinfo/{fd}"))?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let flags = value("flags:").and_then(|value| i32::from_str_radix(value, 8).ok());
    let position = value("pos:").and_then(|value| value.parse().ok());
    let missing = || io::Error::other("the kernel does not say how a file is open");
    Ok((flags.ok_or_else(missing)?, position.ok_or_else(missing)?))
}

/// What a path argument means.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A name; its directory exists and has no link in its path.
    Path(Utf8PathBuf),
    /// What the process has open, under its present or last path.
    Open(i32, Utf8PathBuf),
}

impl Place {
    pub(super) fn path(&self) -> &Utf8Path {
        match self {
            Self::Path(path) | Self::Open(_, path) => path,
        }
    }

    /// A path at which the file itself is found, whatever its name.
    pub(super) fn reach(&self, pid: Pid) -> Utf8PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Open(fd, _) => handle(pid, *fd),
        }
    }
}

/// What `path`, seen from the directory `fd`, means to a process. Nothing if its directory does not
/// exist: such a call changes nothing.
pub(super) fn resolve(pid: Pid, fd: i32, path: &str, follow: bool) -> Option<Place> {
    if path.is_empty() {
        return Some(Place::Open(fd, of_fd(pid, fd)?));
    }
    let mut path = Utf8PathBuf::from(path);
    if path.is_relative() {
        let base = match fd {
            libc::AT_FDCWD => {
                let target = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
                Utf8PathBuf::from_path_buf(target).ok()?
            }
            fd => of_fd(pid, fd)?,
        };
        path = base.join(path);
    }
    for _ in 0..LINKS_MAX {
        for own in ["/proc/self/fd", "/proc/thread-self/fd", "/dev/fd"] {
            let fd = path.strip_prefix(own).ok().and_then(|rest| rest.as_str().parse().ok());
            if let (Some(fd), true) = (fd, follow) {
                return Some(Place::Open(fd, of_fd(pid, fd)?));
            }
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Some(Place::Path(path.canonicalize_utf8().ok()?));
        };
        let found = parent.canonicalize_utf8().ok()?.join(name);
        match std::fs::read_link(&found) {
            Ok(target) if follow => {
                path = found.parent()?.join(Utf8PathBuf::from_path_buf(target).ok()?);
            }
            _ => return Some(Place::Path(found)),
        }
    }
    None
}

/// Which identity each inode has.
#[derive(Debug, Default)]
pub(super) struct Ids {
    known: HashMap<(u64, u64), FileId>,
    origins: Origins,
    /// Whether all files there are were read, so that another one came from somewhere else.
    complete: bool,
}

impl Ids {
    /// Reads what there is below `root`.
    pub(super) fn read(root: &Utf8Path) -> io::Result<Self> {
        let mut ids = Self::default();
        let mut waiting = vec![(root.to_owned(), Utf8PathBuf::new())];
        while let Some((path, relative)) = waiting.pop() {
            let metadata = fs_err::symlink_metadata(&path)?;
            let key = (metadata.dev(), metadata.ino());
            if metadata.is_dir() {
                for entry in path.read_dir_utf8()? {
                    let name = entry?.file_name().to_owned();
                    waiting.push((path.join(&name), relative.join(&name)));
                }
            }
            if !ids.known.contains_key(&key) {
                ids.insert(key, Some(relative));
            }
        }
        ids.complete = true;
        Ok(ids)
    }

    fn insert(&mut self, key: (u64, u64), origin: Option<Utf8PathBuf>) -> FileId {
        let id = FileId(u32::try_from(self.origins.len()).unwrap_or(u32::MAX));
        self.origins.push(origin);
        self.known.insert(key, id);
        id
    }

    /// The identity of a file, if it is there.
    pub(super) fn of(&mut self, path: &Utf8Path, follow: bool) -> io::Result<Option<FileId>> {
        let metadata = if follow { path.metadata() } else { path.symlink_metadata() };
        let Ok(metadata) = metadata else { return Ok(None) };
        let key = (metadata.dev(), metadata.ino());
        match self.known.get(&key) {
            Some(id) => Ok(Some(*id)),
            None if self.complete => {
                Err(io::Error::other(format!("`{path}` was put there by another program")))
            }
            None => Ok(Some(self.insert(key, None))),
        }
    }

    /// The identity of a file that was made just now, and its permission bits.
    pub(super) fn made(&mut self, path: &Utf8Path, follow: bool) -> io::Result<(FileId, u32)> {
        let metadata = if follow { path.metadata() } else { path.symlink_metadata() }?;
        let id = self.insert((metadata.dev(), metadata.ino()), None);
        Ok((id, metadata.mode() & 0o7777))
    }

    pub(super) fn into_origins(self) -> Origins {
        self.origins
    }
}
