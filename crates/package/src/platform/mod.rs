//! What differs between operating systems: file modes and links. Nothing else may ask which one it is.

#[cfg(unix)]
#[path = "unix.rs"]
mod os;
#[cfg(windows)]
#[path = "windows.rs"]
mod os;

pub(crate) use os::{make_removable, mode_of, set_file_mode, set_mode, symlink};
