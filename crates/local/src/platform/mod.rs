//! What only this operating system can: mounts, owners of files, and becoming another program.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod os;

pub use os::replace_process;
pub(crate) use os::{
    fill, is_cgroup2, memory_bytes, mount_cgroup2, mount_memory, mount_overlay, mounts, own,
    sync_file_system, unmount_below,
};
