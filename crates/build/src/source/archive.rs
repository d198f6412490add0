//! Unpacking what is in the cache.

use std::io::Read as _;

use camino::{Utf8Path, Utf8PathBuf};
use package::archive::{ExtractOptions, Format, Strip, extract};

use super::context::SourceContext;
use super::error::SourceFault;

/// How sources are unpacked.
pub(super) fn options(strip: Strip, context: &SourceContext<'_>) -> ExtractOptions {
    ExtractOptions { strip, cancel: context.cancel.clone(), ..ExtractOptions::default() }
}

/// Unpacks `archive` as the new folder `target`, as old trees expect it: a tar archive without the
/// first part of every path, a zip archive without its one top folder.
pub(super) fn unpack_without_top(
    archive: &Utf8Path,
    format: Format,
    context: &SourceContext<'_>,
    target: &Utf8Path,
) -> Result<(), SourceFault> {
    let strip = if format == Format::Zip { Strip::SingleTop } else { Strip::First };
    Ok(extract(archive, format, target, &options(strip, context))?)
}

/// The format that the first bytes of a file tell: in the cache, files have no names.
pub(super) fn format_by_content(path: &Utf8Path) -> Result<Format, SourceFault> {
    let mut start = Vec::new();
    fs_err::File::open(path)?.take(6).read_to_end(&mut start)?;
    Ok(match start.as_slice() {
        [b'P', b'K', ..] => Format::Zip,
        [0x1f, 0x8b, ..] => Format::TarGz,
        [b'B', b'Z', b'h', ..] => Format::TarBz2,
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Format::TarXz,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Format::TarZst,
        _ => Format::Tar,
    })
}

/// The folder that is alone in `folder`.
pub(super) fn only_folder(folder: &Utf8Path) -> Result<Utf8PathBuf, SourceFault> {
    let entries: Vec<_> = folder.read_dir_utf8()?.collect::<Result<_, _>>()?;
    match entries.as_slice() {
        [only] if only.file_type()?.is_dir() => Ok(only.path().to_owned()),
        _ => Err(SourceFault::NotOneFolder),
    }
}
