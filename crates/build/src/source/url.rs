//! Files and archives from a URL.

use camino::Utf8Path;
use download::{Checksum, Options};
use package::durable::Staging;

use super::archive::unpack_without_top;
use super::blob::copy_content;
use super::cache::SourceCache;
use super::context::SourceContext;
use super::error::SourceFault;
use super::location::SourceUrl;
use crate::platform;

/// How large a source may be: larger than any that people build from, smaller than a disk.
pub(super) const SIZE_MAX_BYTES: u64 = 32 << 30;

pub(super) fn fetch(
    cache: &SourceCache,
    url: &SourceUrl,
    checksum: Checksum,
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    cache.fetch_blob(checksum, context, |blob| {
        let url = url.resolve(context.package_folder)?;
        download(&url, blob, checksum, context)
    })
}

/// Downloads to a place in the cache.
pub(super) fn download(
    url: &::url::Url,
    blob: &Utf8Path,
    checksum: Checksum,
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    let options = Options {
        checksum: Some(checksum),
        size_max_bytes: SIZE_MAX_BYTES,
        progress: context.progress,
        ..Options::new(context.cancel)
    };
    context.downloader.fetch(url, blob, &options)?;
    Ok(())
}

pub(super) fn checkout(
    cache: &SourceCache,
    url: &SourceUrl,
    checksum: Checksum,
    context: &SourceContext<'_>,
    target: &Utf8Path,
) -> Result<(), SourceFault> {
    context.cancel.check()?;
    let blob = cache.verified(checksum)?;
    let staging = Staging::beside(target)?;
    let folder = staging.path().join("file");
    fs_err::create_dir(&folder)?;
    let copy = folder.join(url.file_name());
    copy_content(&blob, fs_err::File::create_new(&copy)?.file_mut())?;
    platform::set_mode(&copy, 0o644)?;
    platform::set_mode(&folder, 0o755)?;
    Ok(fs_err::rename(&folder, target)?)
}

pub(super) fn checkout_extracted(
    cache: &SourceCache,
    url: &SourceUrl,
    checksum: Checksum,
    context: &SourceContext<'_>,
    target: &Utf8Path,
) -> Result<(), SourceFault> {
    let format = url.format()?;
    let blob = cache.verified(checksum)?;
    unpack_without_top(&blob, format, context, target)
}
