//! Windows has no process groups that could be signalled: only the program itself is ended.

use std::fs::{File, Metadata};
use std::io;
use std::os::windows::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command};

use camino::Utf8Path;

use super::Force;

/// Does nothing.
pub(crate) fn lead_group(_command: &mut Command) {}

/// Ends `child` where force is allowed; asking is not possible.
pub(crate) fn end_group(child: &mut Child, force: Force) -> io::Result<()> {
    match force {
        Force::Ask => Ok(()),
        Force::Kill => child.kill(),
    }
}

/// Builds do not run on Windows.
pub(crate) fn inherit(_file: &File) -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Windows keeps no such mark.
pub(crate) fn is_executable(_metadata: &Metadata) -> bool {
    true
}

/// Windows keeps no such mark.
pub(crate) fn is_public(_metadata: &Metadata) -> bool {
    true
}

/// Modes are not kept on Windows.
pub(crate) fn set_mode(_path: &Utf8Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Makes a symbolic link at `link` that says `says`.
pub(crate) fn symlink(says: &str, link: &Utf8Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(says, link)
}

/// A text that changes whenever a file is changed or replaced.
pub(crate) fn stamp(metadata: &Metadata) -> String {
    format!("{} {}\n", metadata.file_size(), metadata.last_write_time())
}

/// Builds do not run on Windows.
pub(crate) fn set_time(_path: &Path, _seconds: u64) -> io::Result<()> {
    Ok(())
}
