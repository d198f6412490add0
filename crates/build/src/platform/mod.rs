//! What differs between operating systems: groups of processes, open files that
//! they inherit, modes and links. Nothing else may ask which one it is.

#[cfg(unix)]
#[path = "unix.rs"]
mod os;
#[cfg(windows)]
#[path = "windows.rs"]
mod os;

pub(crate) use os::{
    end_group, inherit, is_executable, is_public, lead_group, set_mode, set_time, stamp, symlink,
};

/// How a group of processes is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    /// It may clean up first.
    Ask,
    /// It is gone.
    Kill,
}
