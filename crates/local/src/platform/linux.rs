//! Mounts, owners of files, and becoming another program, by system calls.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

/// What `statfs` says of a cgroup v2 hierarchy.
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// A mount that this process sees.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Which part of the file system it shows.
    pub(crate) root: String,
    /// Where.
    pub(crate) point: Utf8PathBuf,
    /// The kind of file system.
    pub(crate) kind: String,
}

/// All mounts, in the order in which they were made.
pub(crate) fn mounts() -> io::Result<Vec<Mount>> {
    let text = fs_err::read_to_string("/proc/self/mountinfo")?;
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ').skip(3);
    let root = plain(fields.next()?);
    let point = plain(fields.next()?).into();
    Some(Mount { root, point, kind: right.split(' ').next()?.to_owned() })
}

/// The kernel writes blanks and backslashes as octal numbers.
fn plain(field: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(field.to_owned(), |field, (code, char)| field.replace(code, char))
}

/// Unmounts everything at and below `folder`, the last mount first.
pub(crate) fn unmount_below(folder: &Utf8Path) -> io::Result<()> {
    for mount in mounts()?.iter().rev().filter(|mount| mount.point.starts_with(folder)) {
        rustix::mount::unmount(mount.point.as_std_path(), UnmountFlags::DETACH)
            .map_err(|error| named("unmount", &mount.point, error))?;
    }
    Ok(())
}

/// Mounts an overlay of `upper` over `lower` at `point`. If `volatile`, syncing does nothing in it.
pub(crate) fn mount_overlay(
    lower: &Utf8Path,
    disk: &Utf8Path,
    point: &Utf8Path,
    volatile: bool,
) -> io::Result<()> {
    let (upper, work) = (disk.join("upper"), disk.join("work"));
    let volatile = if volatile { ",volatile" } else { "" };
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}{volatile}");
    mount(c"overlay", "overlay", point, Some(&CString::new(options)?))
}

/// Mounts a file system in memory that has room for `bytes`.
pub(crate) fn mount_memory(point: &Utf8Path, bytes: u64) -> io::Result<()> {
    mount(c"tmpfs", "monobloc-disk", point, Some(&CString::new(format!("size={bytes},mode=755"))?))
}

/// The memory of the machine.
pub(crate) fn memory_bytes() -> io::Result<u64> {
    let text = fs_err::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| io::Error::other("`/proc/meminfo` has no `MemTotal`"))
}

/// Takes all room of a file system but for `leave` bytes.
pub(crate) fn fill(file: &Utf8Path, leave: u64) -> io::Result<()> {
    let folder = file.parent().unwrap_or(file);
    // What took room before makes room first.
    let filler = fs_err::File::create(file)?;
    // What is written meanwhile takes room too, so that there may be less than there just was.
    loop {
        let found = rustix::fs::statvfs(folder.as_std_path())?;
        let room = (found.f_bavail * found.f_frsize).saturating_sub(leave);
        let length = filler.metadata()?.len();
        if room < found.f_frsize {
            return Ok(());
        }
        match rustix::fs::fallocate(&filler, FallocateFlags::empty(), length, room) {
            Ok(()) | Err(Errno::NOSPC) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Mounts the hierarchy of cgroups v2.
pub(crate) fn mount_cgroup2(point: &Utf8Path) -> io::Result<()> {
    mount(c"cgroup2", "cgroup2", point, None)
}

fn mount(kind: &CStr, source: &str, point: &Utf8Path, data: Option<&CStr>) -> io::Result<()> {
    rustix::mount::mount(source, point.as_std_path(), kind, MountFlags::empty(), data)
        .map_err(|error| named("mount", point, error))
}

fn named(what: &str, point: &Utf8Path, error: rustix::io::Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("cannot {what} `{point}`: {error}"))
}

/// Whether cgroups v2 are mounted at `point`.
pub(crate) fn is_cgroup2(point: &Utf8Path) -> bool {
    rustix::fs::statfs(point.as_std_path()).is_ok_and(|found| found.f_type == CGROUP2_MAGIC)
}

/// Sets owner and permission bits of a file.
pub(crate) fn own(path: &Utf8Path, owner: u32, mode: u32) -> io::Result<()> {
    chown(path, Some(owner), Some(owner))
        .and_then(|()| fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)))
}

/// Waits until everything that was written to the file system of `folder` is on the disk.
pub(crate) fn sync_file_system(folder: &Utf8Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(fs_err::File::open(folder)?)?)
}

/// Makes this process become another program; returns only if it cannot.
pub fn replace_process(mut command: Command) -> io::Error {
    command.exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_as_the_kernel_writes_them() {
        let line = "41 31 0:38 / /sys/fs/a\\040b rw,relatime shared:2 - cgroup2 none rw";
        let mount = parse(line).unwrap();
        assert_eq!((mount.root.as_str(), mount.point.as_str()), ("/", "/sys/fs/a b"));
        assert_eq!(mount.kind, "cgroup2");
        assert!(mounts().unwrap().iter().any(|mount| mount.point == "/"));
    }
}
