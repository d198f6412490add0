//! Files in the cache, by digest.

use std::io::{self, Read as _, Write as _};

use camino::{Utf8Path, Utf8PathBuf};
use download::Checksum;
use package::durable;

use super::cache::SourceCache;
use super::context::SourceContext;
use super::error::SourceFault;

impl SourceCache {
    /// Where the file with this digest is, or would be.
    pub(super) fn blob(&self, checksum: Checksum) -> Utf8PathBuf {
        let hex = checksum.hex();
        self.root.join(checksum.algorithm()).join(&hex[..2]).join(&hex)
    }

    /// Has `get` bring the file into the cache, unless it is there. One caller gets it, others
    /// wait.
    pub(super) fn fetch_blob(
        &self,
        checksum: Checksum,
        context: &SourceContext<'_>,
        get: impl FnOnce(&Utf8Path) -> Result<(), SourceFault>,
    ) -> Result<(), SourceFault> {
        let path = self.blob(checksum);
        if path.exists() {
            return Ok(());
        }
        if context.offline {
            return Err(SourceFault::Offline);
        }
        let item = format!("{}-{}", checksum.algorithm(), checksum.hex());
        let _lock = self.lock(&item, context.cancel)?;
        if path.exists() {
            return Ok(());
        }
        get(&path)
    }

    /// Copies `file` into the cache if it has the digest; otherwise the copy is put aside.
    pub(super) fn admit(&self, file: &Utf8Path, checksum: Checksum) -> Result<(), SourceFault> {
        let path = self.blob(checksum);
        let mut copy = durable::create_beside(&path)?;
        copy_content(file, copy.as_file_mut())?;
        // What counts is the copy: the file may be anybody's.
        let copied = Utf8Path::from_path(copy.path())
            .ok_or_else(|| io::Error::other(format!("`{}` is not UTF-8", copy.path().display())))?;
        let found = checksum.found_in(copied)?;
        if found == checksum {
            return Ok(durable::persist(copy, &path)?);
        }
        let corrupt = corrupt(&path);
        durable::persist(copy, &corrupt)?;
        Err(SourceFault::WrongHash { expected: checksum, found, corrupt })
    }

    /// The file with this digest, verified now. A file that went bad is put aside, so that the next
    /// fetch gets it anew.
    pub(super) fn verified(&self, checksum: Checksum) -> Result<Utf8PathBuf, SourceFault> {
        let path = self.blob(checksum);
        let found = match checksum.found_in(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(SourceFault::NotCached);
            }
            Err(error) => return Err(error.into()),
        };
        if found == checksum {
            return Ok(path);
        }
        let corrupt = corrupt(&path);
        durable::rename(&path, &corrupt)?;
        Err(SourceFault::WrongHash { expected: checksum, found, corrupt })
    }
}

/// Copies bytes only: modes and owners of foreign files mean nothing here.
pub(super) fn copy_content(from: &Utf8Path, to: &mut std::fs::File) -> io::Result<()> {
    let mut from = fs_err::File::open(from)?;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn corrupt(path: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{path}.corrupt"))
}
