//! Process groups, modes and links as every Unix has them.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};

use camino::Utf8Path;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process_group};

use super::Force;

/// Makes the program the leader of a process group of its own.
pub(crate) fn lead_group(command: &mut Command) {
    command.process_group(0);
}

/// Signals every process of the group that `child` leads.
pub(crate) fn end_group(child: &mut Child, force: Force) -> io::Result<()> {
    let signal = match force {
        Force::Ask => Signal::TERM,
        Force::Kill => Signal::KILL,
    };
    match kill_process_group(Pid::from_child(child), signal) {
        // Nobody is left in it.
        Err(Errno::SRCH) => Ok(()),
        result => result.map_err(io::Error::from),
    }
}

/// Lets programs that are started from now on have the open file too, under the number it returns.
pub(crate) fn inherit(file: &File) -> io::Result<i32> {
    fcntl_setfd(file, FdFlags::empty())?;
    Ok(file.as_raw_fd())
}

/// Whether the owner may execute the file.
pub(crate) fn is_executable(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o100 != 0
}

/// Whether everybody may read the file, or enter the folder.
pub(crate) fn is_public(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o004 != 0
}

/// Sets the permission bits of the file at `path`.
pub(crate) fn set_mode(path: &Utf8Path, mode: u32) -> io::Result<()> {
    fs_err::set_permissions(path, Permissions::from_mode(mode))
}

/// Makes a symbolic link at `link` that says `says`.
pub(crate) fn symlink(says: &str, link: &Utf8Path) -> io::Result<()> {
    fs_err::os::unix::fs::symlink(says, link)
}

/// A text that changes whenever a file is changed or replaced.
pub(crate) fn stamp(metadata: &Metadata) -> String {
    let (size, mode, inode) = (metadata.size(), metadata.mode(), metadata.ino());
    format!("{size} {mode:o} {inode} {}.{}\n", metadata.ctime(), metadata.ctime_nsec())
}

/// Sets the time of a file, folder or link itself, in seconds since 1970.
pub(crate) fn set_time(path: &Path, seconds: u64) -> io::Result<()> {
    let time = Timespec { tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX), tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
