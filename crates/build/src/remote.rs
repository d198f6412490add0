//! Packages that somebody else built: `URL/packages/NAME/ARCHIVE`, over HTTP or from a folder.
//!
//! Only asked where the build environment is pinned, so that an equal id means an equal package.

use camino::Utf8Path;
use download::{DownloadError, Downloader, Options};
use package::archive::{self, UnpackOptions};
use package::id::PackageId;
use package::manifest::Manifest;
use package::{Cancel, Cancelled};
use url::Url;

/// The largest package that is taken.
const PACKAGE_MAX_BYTES: u64 = 16 << 30;

/// A place to get packages from.
#[derive(Debug)]
pub(crate) struct Remote {
    url: Url,
    downloader: Downloader,
}

impl Remote {
    /// The cache at `url`.
    pub(crate) fn new(mut url: Url) -> Self {
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Self { url, downloader: Downloader::default() }
    }

    /// Downloads the package to `target` and verifies it. A package that is not there, or not what
    /// it should be, is one to build: no more than a warning.
    pub(crate) fn get(
        &self,
        id: &PackageId,
        target: &Utf8Path,
        cancel: &Cancel,
        warn: &dyn Fn(&str),
    ) -> Result<Option<Manifest>, Cancelled> {
        let name = target.file_name().unwrap_or_default();
        let Ok(url) = self.url.join(&format!("packages/{}/{name}", id.name())) else {
            return Ok(None);
        };
        let options = Options { size_max_bytes: PACKAGE_MAX_BYTES, ..Options::new(cancel) };
        let found = match self.downloader.fetch(&url, target, &options) {
            Ok(_) => verified(id, target, cancel),
            Err(DownloadError::Cancelled(cancelled)) => return Err(cancelled),
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => Err(crate::chain(&error)),
        };
        cancel.check()?;
        match found {
            Ok(manifest) => Ok(Some(manifest)),
            Err(problem) => {
                warn(&format!("not taken from the remote cache: {problem}"));
                Ok(None)
            }
        }
    }
}

/// Checks every byte of the archive against its manifest, and that it is the package asked for.
fn verified(id: &PackageId, archive: &Utf8Path, cancel: &Cancel) -> Result<Manifest, String> {
    let options = UnpackOptions { cancel: cancel.clone(), ..Default::default() };
    let unpacked = archive::verify(archive, &options).map_err(|error| crate::chain(&error))?;
    if !unpacked.verified {
        return Err("it has no manifest".to_owned());
    }
    let stated = archive::stated_id(archive).map_err(|error| crate::chain(&error))?;
    if stated.as_ref() == Some(id) {
        Ok(unpacked.manifest)
    } else {
        Err("it is another package".to_owned())
    }
}
