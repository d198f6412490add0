//! `distribution.toml`: the names and paths of what a tree makes, and the root it is built on.

use camino::Utf8PathBuf;
use package::Sha256;
use package::distribution::Distribution;

use package::document::{Node, Reader};

const KEYS: [&str; 7] = [
    "build",
    "config_directory",
    "install_root",
    "name",
    "state_directory",
    "upgrade_from",
    "version",
];

/// The root file system that builds see, pinned by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedRoot {
    /// A folder or an archive.
    pub path: Utf8PathBuf,
    /// Of an archive its SHA-256, of a folder the digest of its manifest.
    pub sha256: Sha256,
}

/// Reads the file; without `[build]` the root is the machine's own.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<(Distribution, Option<PinnedRoot>)> {
    let node = reader.toml()?;
    let fields = reader.object(&node, "distribution.toml", &KEYS)?;
    let name = reader.required(fields, &(0..0), "name", "distribution.toml");
    let version = reader.required(fields, &(0..0), "version", "distribution.toml");
    let name = name.and_then(|node| read_name(reader, node));
    let version = version.and_then(|node| reader.string(node, "version"));
    let paths = ["install_root", "config_directory", "state_directory"]
        .map(|key| fields.get(key).map(|node| absolute_path(reader, node, key)));
    let root = fields.get("build").map(|node| read_root(reader, node));
    let upgrade_from = fields.get("upgrade_from").map(|node| {
        let listed = reader.list(node, "upgrade_from").iter();
        listed
            .filter_map(|version| reader.string(version, "a version").map(str::to_owned))
            .collect()
    });
    let mut distribution = Distribution::named(name?, version?);
    distribution.upgrade_from = upgrade_from;
    let [install_root, config_directory, state_directory] = paths;
    for (given, path) in [
        (install_root, &mut distribution.install_root),
        (config_directory, &mut distribution.config_directory),
        (state_directory, &mut distribution.state_directory),
    ] {
        if let Some(given) = given {
            *path = given?;
        }
    }
    match root {
        Some(root) => Some((distribution, Some(root?))),
        None => Some((distribution, None)),
    }
}

fn read_root(reader: &mut Reader<'_>, node: &Node) -> Option<PinnedRoot> {
    let build = reader.object(node, "[build]", &["root", "root_sha256"])?;
    let path = reader.required(build, &node.span, "root", "[build]");
    let sha256 = reader.required(build, &node.span, "root_sha256", "[build]");
    let path = path.and_then(|node| reader.string(node, "root"));
    let sha256 = sha256.and_then(|node| reader.parse(node, "root_sha256"));
    Some(PinnedRoot { path: path?.into(), sha256: sha256? })
}

fn read_name<'n>(reader: &mut Reader<'_>, node: &'n Node) -> Option<&'n str> {
    let name = reader.string(node, "name")?;
    if is_name(name) {
        return Some(name);
    }
    let message = format!(
        "`{name}` cannot be a distribution's name: expected a lower-case letter, then up to 23 \
         lower-case letters, digits and `-`, without `-` at the end"
    );
    reader.error(&node.span, message, None);
    None
}

fn is_name(name: &str) -> bool {
    name.len() <= 24
        && name.starts_with(|char: char| char.is_ascii_lowercase())
        && !name.ends_with('-')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// A path that can stand in unit files, scripts and mount tables without quotes.
fn absolute_path(reader: &mut Reader<'_>, node: &Node, key: &str) -> Option<Utf8PathBuf> {
    let text = reader.string(node, key)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let is_good = text.strip_prefix('/').is_some_and(|rest| {
        rest.split('/').all(|part| !matches!(part, "" | "." | "..")) && rest.bytes().all(is_plain)
    });
    // Below these the sandbox and every host have something else.
    let top = text.split('/').nth(1).unwrap_or_default();
    let is_taken = ["pkg", "proc", "dev", "sys", "tmp", "run"].contains(&top)
        || (key == "install_root" && ["usr", "bin", "sbin", "lib", "lib64", "etc"].contains(&top));
    if is_good && !is_taken {
        return Some(text.into());
    }
    let message = format!("{key} cannot be `{text}`");
    let help =
        "expected an absolute path of letters, digits and `._-`, outside the system's own folders";
    reader.error(&node.span, message, Some(help.to_owned()));
    None
}
