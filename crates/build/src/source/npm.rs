//! Packages of npm's registry, through the `npm` of the machine and whatever it is configured for.

use camino::Utf8Path;
use download::Checksum;
use package::archive::Format;

use super::archive::unpack_without_top;
use super::cache::SourceCache;
use super::client;
use super::context::SourceContext;
use super::error::SourceFault;
use super::spec::Pinned;

pub(super) fn fetch(
    cache: &SourceCache,
    package: &Pinned,
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    let checksum = Checksum::Sha256(package.sha256());
    cache.fetch_blob(checksum, context, |_| {
        let folder = cache.work_folder()?;
        client::program("npm", context)
            .arg("pack")
            .arg(format!("{}@{}", package.name(), package.version()))
            .args(["--ignore-scripts", "--silent", "--pack-destination"])
            .arg(folder.path().as_str())
            .directory(folder.path())
            .hint("install npm: it comes with Node.js, or as the package `npm`")
            .run(context.cancel)?;
        cache.admit(&client::only_file(folder.path(), ".tgz", "npm pack")?, checksum)
    })
}

pub(super) fn checkout(
    cache: &SourceCache,
    package: &Pinned,
    context: &SourceContext<'_>,
    target: &Utf8Path,
) -> Result<(), SourceFault> {
    let blob = cache.verified(Checksum::Sha256(package.sha256()))?;
    unpack_without_top(&blob, Format::TarGz, context, target)
}
