//! Where operating systems differ: permissions of files, and the harness for crashes and faults, which
//! is bound to how one system makes its calls.

use std::io;

use camino::Utf8Path;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use linux::{crash, disk, trace};

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

/// Gives a program a group of processes of its own, as an SSH server does.
#[cfg(all(unix, feature = "ssh"))]
pub(crate) fn own_group(command: &mut tokio::process::Command) {
    command.process_group(0);
}

/// Does nothing: there are no such groups here.
#[cfg(all(windows, feature = "ssh"))]
pub(crate) fn own_group(_command: &mut tokio::process::Command) {}
