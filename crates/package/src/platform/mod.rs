//! What differs between operating systems: file modes, links and deleting. Nothing else may ask which one it is.

#[cfg(unix)]
#[path = "unix.rs"]
mod os;
#[cfg(windows)]
#[path = "windows.rs"]
mod os;

pub(crate) use os::{exchange, is_at, mode_of, remove_tree, set_file_mode, set_mode, symlink};
