//! `manifest.json`: every path of a package with its type, mode, size, digest or link target. The
//! digest of its bytes is the content digest of the package.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::path::{PackagePath, PathError};

/// The name of the file inside a package; always the first entry of an archive.
pub const MANIFEST: &str = "manifest.json";

/// The name of a manifest that a host made of what arrived without one.
pub const UNVERIFIED: &str = "manifest.unverified.json";

/// The version of the format that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// How many links are followed to a file.
const LINKS_MAX: u32 = 16;

/// What stands at one path of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Entry {
    /// A folder.
    Directory {
        /// Permission bits.
        mode: Mode,
    },
    /// A regular file.
    File {
        /// Permission bits.
        mode: Mode,
        /// Length in bytes.
        size: u64,
        /// Digest of the content.
        sha256: Sha256,
    },
    /// A symbolic link.
    Link {
        /// What the link says; it is never followed.
        target: String,
    },
}

/// Permission bits, written as four octal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Mode(u32);

impl Mode {
    /// The bits of `mode` that are permissions.
    pub fn new(mode: u32) -> Self {
        Self(mode & 0o7777)
    }

    /// The bits.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> Self {
        mode.to_string()
    }
}

impl TryFrom<String> for Mode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match u32::from_str_radix(&text, 8) {
            Ok(mode) if text.len() == 4 && text.starts_with(|char: char| char.is_ascii_digit()) => {
                Ok(Self(mode))
            }
            _ => Err(format!("`{text}` is not a mode: expected four octal digits")),
        }
    }
}

/// All paths of a package but `manifest.json` itself, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    entries: BTreeMap<PackagePath, Entry>,
}

/// The form in JSON, to write.
#[derive(Serialize)]
struct Written<'a> {
    format: u32,
    entries: &'a BTreeMap<PackagePath, Entry>,
}

/// The same to read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "format")]
    _format: u32,
    entries: BTreeMap<String, Entry>,
}

/// Only what tells whether the rest can be read.
#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

/// A `manifest.json` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not JSON, or not of the form.
    #[error("invalid `{MANIFEST}`")]
    Invalid(#[source] serde_json::Error),
    /// Written by a newer program.
    #[error(
        "`{MANIFEST}` has format {found}, this program reads formats up to {FORMAT}: use a newer monobloc"
    )]
    Newer {
        /// The format it has.
        found: u32,
    },
    /// A path that would not stay inside the package.
    #[error("invalid path in `{MANIFEST}`")]
    Path(#[source] PathError),
    /// Not the bytes that this program would write for the same content.
    #[error("`{MANIFEST}` is not in its one valid form: it was changed or made by another program")]
    Form,
    /// A path below something that is not a folder.
    #[error("`{MANIFEST}` lists `{0}` but not the folder it lies in")]
    Parent(PackagePath),
}

impl Manifest {
    /// A manifest of these entries; every path's folder must be among them.
    pub fn new(entries: BTreeMap<PackagePath, Entry>) -> Result<Self, ManifestError> {
        for path in entries.keys() {
            if path.as_str() == MANIFEST {
                return Err(ManifestError::Path(PathError::reserved(path.as_str())));
            }
            match path.parent() {
                Some(parent) if !matches!(entries.get(&parent), Some(Entry::Directory { .. })) => {
                    return Err(ManifestError::Parent(path.clone()));
                }
                _ => {}
            }
        }
        Ok(Self { entries })
    }

    /// Reads the content of a `manifest.json`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let FormatOnly { format } =
            serde_json::from_slice(bytes).map_err(ManifestError::Invalid)?;
        if format > FORMAT {
            return Err(ManifestError::Newer { found: format });
        }
        let document: Document = serde_json::from_slice(bytes).map_err(ManifestError::Invalid)?;
        let entries = document
            .entries
            .into_iter()
            .map(|(path, entry)| Ok((path.try_into()?, entry)))
            .collect::<Result<_, PathError>>()
            .map_err(ManifestError::Path)?;
        let manifest = Self::new(entries)?;
        // One content, one digest: doubled keys and other spellings are refused.
        if manifest.to_json() == bytes { Ok(manifest) } else { Err(ManifestError::Form) }
    }

    /// The bytes to write: one form only, so that equal manifests have equal digests.
    pub fn to_json(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(&Written { format: FORMAT, entries: &self.entries })
            .expect("a manifest has a JSON form");
        bytes.push(b'\n');
        bytes
    }

    /// The content digest: that of the bytes of `manifest.json`.
    pub fn digest(&self) -> Sha256 {
        Sha256::of(&self.to_json())
    }

    /// All paths with what stands there, in order.
    pub fn entries(&self) -> &BTreeMap<PackagePath, Entry> {
        &self.entries
    }

    /// What stands at `path`.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// The file that `path` leads to when links are followed, never out of the package.
    pub fn resolve(&self, path: &PackagePath) -> Option<PackagePath> {
        let mut at = path.clone();
        for _ in 0..LINKS_MAX {
            match self.entries.get(&at)? {
                Entry::File { .. } => return Some(at),
                Entry::Directory { .. } => return None,
                Entry::Link { target } => at = follow(&at, target)?,
            }
        }
        None
    }

    /// Every path where `other` has something else, with what both have, in order.
    pub fn differences<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'a PackagePath, Option<&'a Entry>, Option<&'a Entry>)> {
        let paths: BTreeSet<&PackagePath> =
            self.entries.keys().chain(other.entries.keys()).collect();
        paths
            .into_iter()
            .map(|path| (path, self.entries.get(path), other.entries.get(path)))
            .filter(|(_, old, new)| old != new)
    }

    /// The names of all services: what stands before `.service` of a file, wherever it lies.
    pub fn services(&self) -> BTreeSet<&str> {
        let is_file = |entry: &Entry| !matches!(entry, Entry::Directory { .. });
        let files = self.entries.iter().filter(|(_, entry)| is_file(entry));
        files.filter_map(|(path, _)| path.name().strip_suffix(".service")).collect()
    }

    /// The bytes of all files together.
    pub fn size(&self) -> u64 {
        let sizes = self.entries.values().map(|entry| match entry {
            Entry::File { size, .. } => *size,
            _ => 0,
        });
        // A hostile manifest may name any sizes.
        sizes.fold(0, u64::saturating_add)
    }
}

/// Where the link at `link` that says `target` leads, if that is in the package.
fn follow(link: &PackagePath, target: &str) -> Option<PackagePath> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = link.components().collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    parts.join("/").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let entries = [
            ("bin", Entry::Directory { mode: Mode::new(0o755) }),
            ("bin/a", Entry::File { mode: Mode::new(0o4755), size: 3, sha256: Sha256::of(b"abc") }),
            ("bin/b", Entry::Link { target: "a".to_owned() }),
        ];
        let entries = entries.map(|(path, entry)| (path.parse().unwrap(), entry));
        Manifest::new(BTreeMap::from(entries)).unwrap()
    }

    #[test]
    fn the_written_form_is_fixed_for_ever() {
        insta::assert_snapshot!(String::from_utf8(sample().to_json()).unwrap(), @r#"{"format":1,"entries":{"bin":{"type":"directory","mode":"0755"},"bin/a":{"type":"file","mode":"4755","size":3,"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},"bin/b":{"type":"link","target":"a"}}}"#);
        assert_eq!(Manifest::parse(&sample().to_json()).unwrap(), sample());
    }

    #[test]
    fn hostile_manifests_are_refused_with_the_reason() {
        let good = String::from_utf8(sample().to_json()).unwrap();
        for (text, expected) in [
            (good.replace("\"format\":1", "\"format\":2"), "use a newer monobloc"),
            (good.replace("bin/b", "bin/../b"), "invalid path"),
            (good.replace("bin/b", "/b"), "invalid path"),
            (good.replace("\"bin\":", "\"bim\":"), "but not the folder it lies in"),
            (good.replace("bin/b", "bin/a/b"), "but not the folder it lies in"),
            (good.replace("bin/b", "manifest.json"), "invalid path"),
            (good.replace("4755", "9755"), "invalid `manifest.json`"),
            (good.replace("4755", "+755"), "invalid `manifest.json`"),
            (good.replace("\"size\":3", "\"size\":-3"), "invalid `manifest.json`"),
            (good.replace("{\"bin\"", "{ \"bin\""), "not in its one valid form"),
            (good.replace("\"link\"", "\"device\""), "invalid `manifest.json`"),
            (good.replace("\"target\"", "\"x\":1,\"target\""), "invalid `manifest.json`"),
            (good.replacen("\"bin/b\":", "\"bin/a\":", 1), "not in its one valid form"),
            (String::new(), "invalid `manifest.json`"),
        ] {
            let error = Manifest::parse(text.as_bytes()).expect_err(&text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_that_overflow_do_not_panic() {
        let entry = Entry::File { mode: Mode::new(0o644), size: u64::MAX, sha256: Sha256::of(b"") };
        let entries = ["a", "b"].map(|path| (path.parse().unwrap(), entry.clone()));
        assert_eq!(Manifest::new(BTreeMap::from(entries)).unwrap().size(), u64::MAX);
    }

    #[test]
    fn links_are_followed_inside_the_package_only() {
        let at: PackagePath = "units/a.service".parse().unwrap();
        let leads = |target| follow(&at, target).map(|path| path.to_string());
        assert_eq!(leads("../lib/a.service").as_deref(), Some("lib/a.service"));
        assert_eq!(leads("./b.service").as_deref(), Some("units/b.service"));
        assert_eq!(leads("../../a"), None);
        assert_eq!(leads("/etc/passwd"), None);
        assert_eq!(leads("").as_deref(), Some("units"));
        assert_eq!(leads(".."), None);
    }
}
