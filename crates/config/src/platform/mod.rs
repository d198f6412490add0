//! What differs between operating systems: who may read a file, and links. Nothing else may ask which one it is.

#[cfg(unix)]
#[path = "unix.rs"]
mod os;
#[cfg(windows)]
#[path = "windows.rs"]
mod os;

pub(crate) use os::{is_executable, is_private, make_private_folder, replace_link, set_mode};
