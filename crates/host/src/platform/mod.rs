//! What differs between operating systems. Nothing else may ask which one it is.

#[cfg(unix)]
#[path = "linux.rs"]
mod os;

pub(crate) use os::{create_folders, exchange, set_mode, symlink, symlinks_in, sync_file_system};
