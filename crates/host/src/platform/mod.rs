//! What differs between operating systems. Nothing else may ask which one it is.

#[cfg(unix)]
#[path = "linux.rs"]
mod os;
#[cfg(unix)]
#[path = "linux_process.rs"]
pub(crate) mod process;
#[cfg(unix)]
#[path = "linux_tree.rs"]
pub(crate) mod tree;

pub(crate) use os::{
    OPERATING_SYSTEM, Space, boot_id, create_folders, create_private, give_to, mode_and_owner,
    runs_in_unit, set_mode, space, symlink, symlinks_in, sync_file_system, tells_types,
};
