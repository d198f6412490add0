//! Debian packages, through the `apt-get` of the machine and the archives it is configured for.

use std::io::{Read, Seek as _, SeekFrom};

use camino::Utf8Path;
use download::Checksum;
use package::archive::{Format, Strip, decompress, extract_tar};

use super::archive;
use super::cache::SourceCache;
use super::client;
use super::context::SourceContext;
use super::error::SourceFault;
use super::spec::Pinned;
use super::value::Architecture;

pub(super) fn fetch(
    cache: &SourceCache,
    package: &Pinned,
    architecture: Option<&Architecture>,
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    let checksum = Checksum::Sha256(package.sha256());
    let name = match architecture {
        Some(architecture) => format!("{}:{architecture}", package.name()),
        None => package.name().to_owned(),
    };
    cache.fetch_blob(checksum, context, |_| {
        // As root, apt would download as a user who cannot write to this folder; it then warns and
        // goes on as root, which is no harm: what it downloads is verified here once more.
        let folder = cache.work_folder()?;
        client::program("apt-get", context)
            .args(["--quiet=2", "download"])
            .arg(format!("{name}={}", package.version()))
            .directory(folder.path())
            .hint("`deb` sources need a machine with apt, as Debian and Ubuntu are")
            .run(context.cancel)?;
        cache.admit(&client::only_file(folder.path(), ".deb", "apt-get download")?, checksum)
    })
}

/// Unpacks the files that the package would install, and nothing of what it would do.
pub(super) fn checkout(
    cache: &SourceCache,
    package: &Pinned,
    context: &SourceContext<'_>,
    target: &Utf8Path,
) -> Result<(), SourceFault> {
    let blob = cache.verified(Checksum::Sha256(package.sha256()))?;
    let (data, format) = open_data(&blob)?;
    let data = decompress(data, format)?;
    Ok(extract_tar(&blob, data, target, &archive::options(Strip::None, context))?)
}

/// The archive of files inside a package.
fn open_data(deb: &Utf8Path) -> Result<(impl Read + Send + 'static, Format), SourceFault> {
    let mut outer = ar::Archive::new(fs_err::File::open(deb)?);
    let (size, format) = loop {
        let mut entry = match outer.next_entry() {
            Some(Ok(entry)) => entry,
            Some(Err(_)) => return Err(SourceFault::NotADeb("it is damaged or cut short")),
            None => return Err(SourceFault::NotADeb("it has no `data.tar` archive")),
        };
        let name = String::from_utf8_lossy(entry.header().identifier()).into_owned();
        let size = entry.header().size();
        entry.seek(SeekFrom::End(0))?;
        if let Some(suffix) = name.trim_end_matches('/').strip_prefix("data.tar") {
            let format = match suffix {
                ".xz" => Format::TarXz,
                ".zst" => Format::TarZst,
                ".gz" => Format::TarGz,
                ".bz2" => Format::TarBz2,
                "" => Format::Tar,
                _ => {
                    return Err(SourceFault::NotADeb(
                        "its files are compressed in a way that is not known",
                    ));
                }
            };
            break (size, format);
        }
    };
    // The outer archive lends its entries only for as long as it lives; its file does not mind.
    let mut file = outer.into_inner()?;
    let end = file.stream_position()?;
    file.seek(SeekFrom::Start(end.saturating_sub(size)))?;
    Ok((file.take(size), format))
}
