//! A folder beside the target in which a checkout grows, so that the target is complete or absent.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::durable;

use super::cache::SourceCache;
use crate::platform;

/// A private folder that is gone when it is dropped.
#[derive(Debug)]
pub(super) struct Staging {
    folder: Utf8PathBuf,
}

impl Staging {
    /// A new folder on the file system of `target`.
    pub(super) fn beside(target: &Utf8Path) -> io::Result<Self> {
        let parent = match target.parent() {
            Some(parent) if parent != "" => parent,
            _ => Utf8Path::new("."),
        };
        Self::within(parent)
    }

    /// A new folder in `parent`.
    pub(super) fn within(parent: &Utf8Path) -> io::Result<Self> {
        fs_err::create_dir_all(parent)?;
        let folder = tempfile::Builder::new().prefix(".source-").tempdir_in(parent)?;
        Self::keep(folder)
    }

    /// A new folder for a client to work in, below the cache and closed to others: `cargo` and `npm`
    /// read their configuration from every folder above, so none of them may be open to everybody.
    pub(super) fn apart(cache: &SourceCache) -> io::Result<Self> {
        let parent = cache.root.join("work");
        fs_err::create_dir_all(&parent)?;
        platform::set_mode(&parent, 0o700)?;
        Self::within(&parent)
    }

    fn keep(folder: tempfile::TempDir) -> io::Result<Self> {
        let folder = Utf8PathBuf::from_path_buf(folder.keep())
            .map_err(|path| io::Error::other(format!("`{}` is not UTF-8", path.display())))?;
        Ok(Self { folder })
    }

    /// The folder.
    pub(super) fn path(&self) -> &Utf8Path {
        &self.folder
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Nothing knows the folder by its name; what cannot be deleted is only waste.
        let _ = durable::remove_tree(&self.folder);
    }
}
