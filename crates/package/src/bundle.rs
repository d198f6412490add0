//! A bundle: an artifact configured for one cluster. `bundle.json` names every byte of it and has no
//! time in it; `latest.json` is the small, signed word on which bundle is the one to run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::archive::Format;
use crate::digest::Sha256;
use crate::distribution::Distribution;
use crate::id::{PackageId, RoleName};
use crate::json;
use crate::manifest::{Entry, Manifest};
use crate::path::PackagePath;
use crate::sign::{PublicKey, SecretKey, SignatureError};
use crate::versioned::{self, FormatError};

/// The name of the file that names all others.
pub const BUNDLE: &str = "bundle.json";
/// The name of the file that says which bundle is the one to run.
pub const LATEST: &str = "latest.json";
/// What stands behind the name of a signed file to make the name of its signature.
pub const SIGNATURE: &str = ".minisig";

/// The version of both documents that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// The blocks of most file systems.
const BLOCK_BYTES: u64 = 4096;

/// The operating systems that a bundle has packages for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperatingSystem {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
}

/// The content of `bundle.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    format: u32,
    /// What it is a bundle of, with the version of the artifact.
    pub distribution: Distribution,
    /// The id of the configuration.
    pub configuration: String,
    /// Which packages are active where.
    pub packages: BTreeMap<OperatingSystem, BTreeMap<RoleName, BTreeSet<PackageId>>>,
    /// The content digest of each package that comes as an archive.
    pub manifests: BTreeMap<PackageId, Sha256>,
    /// What each of them takes on a disk; programs that made bundles before did not say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unpacked: BTreeMap<PackageId, Unpacked>,
    /// Packages that a host makes of what only some roles can decrypt.
    pub secrets: BTreeMap<PackageId, BTreeSet<RoleName>>,
    /// The package that a host makes with values which only the host knows.
    pub late: Option<PackageId>,
    /// Every file, by its path below the folder that is served.
    pub files: BTreeMap<PackagePath, BundleFile>,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleFile {
    /// Its length.
    pub size: u64,
    /// The digest of its content.
    pub sha256: Sha256,
}

/// What a package takes on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacked {
    /// The length of its files, each rounded up to a block.
    pub bytes: u64,
    /// Its files, folders and links.
    pub entries: u64,
}

impl Unpacked {
    /// What the package of this manifest takes.
    pub fn of(manifest: &Manifest) -> Self {
        let bytes = manifest.entries().values().map(|entry| match entry {
            Entry::File { size, .. } => size.div_ceil(BLOCK_BYTES) * BLOCK_BYTES,
            Entry::Directory { .. } | Entry::Link { .. } => BLOCK_BYTES,
        });
        Self { bytes: bytes.sum(), entries: manifest.entries().len() as u64 }
    }
}

impl Bundle {
    /// A bundle with nothing in it yet.
    pub fn new(distribution: Distribution, configuration: String) -> Self {
        Self {
            format: FORMAT,
            distribution,
            configuration,
            packages: BTreeMap::new(),
            manifests: BTreeMap::new(),
            unpacked: BTreeMap::new(),
            secrets: BTreeMap::new(),
            late: None,
            files: BTreeMap::new(),
        }
    }

    /// Its one written form.
    pub fn to_json(&self) -> Vec<u8> {
        json::pretty(self).into_bytes()
    }

    /// Reads a `bundle.json`.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        versioned::parse(BUNDLE.into(), bytes, FORMAT)
    }

    /// The id of the bundle whose `bundle.json` this is.
    pub fn id(bytes: &[u8]) -> Sha256 {
        Sha256::of(bytes)
    }

    /// The archive of a package, by its path below the folder that is served.
    pub fn archive(&self, id: &PackageId) -> Option<(&PackagePath, &BundleFile)> {
        let folder = package_folder(id);
        let from = (Bound::Included(folder.as_str()), Bound::Unbounded);
        let named = self.files.range::<str, _>(from);
        let mut named = named.take_while(|(path, _)| path.as_str().starts_with(&folder));
        let wanted = id.to_string();
        named.find(|(path, _)| {
            Format::split(path.as_str().into()).is_ok_and(|(stem, _)| stem == wanted)
        })
    }

    /// The folder of what belongs to one bundle only, below the folder that is served.
    pub fn folder(id: &Sha256) -> String {
        format!("bundles/{id}")
    }
}

/// Where the archives of a package lie, below the folder that is served.
pub fn package_folder(id: &PackageId) -> String {
    format!("packages/{}/", id.name())
}

/// Where it lies what a host must know of a package before it has it, below the folder that is served.
pub fn about_path(id: &PackageId) -> String {
    format!("{}{id}.about", package_folder(id))
}

/// What stands before the name of a value that only a host knows, in the files that hold it.
pub const LATE_START: &str = "LATE_BIND_PLACEHOLDER_START_";
/// What stands behind it.
pub const LATE_END: &str = "_LATE_BIND_PLACEHOLDER_END";

/// What stands in a file for a value that only a host knows.
pub fn late_placeholder(name: &str) -> String {
    format!("{LATE_START}{name}{LATE_END}")
}

/// Where the document lies of which a host makes a package, below the folder that is served.
pub fn late_path(id: &PackageId) -> String {
    format!("{}{id}.dcos_config", package_folder(id))
}

/// Where the encrypted content of a package lies, below the folder that is served.
pub fn secret_path(id: &PackageId) -> String {
    format!("secrets/{id}.age")
}

/// The content of `latest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latest {
    format: u32,
    /// The name of the distribution.
    pub distribution: String,
    /// Grows with every publication.
    pub sequence: u64,
    /// The bundle to run.
    pub bundle: Sha256,
    /// When this word is too old to be believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// Why a `latest.json` is not believed although its signature is good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// Of another distribution.
    #[error("`{LATEST}` is of the distribution `{found}`, expected `{expected}`")]
    Distribution {
        /// What this host runs.
        expected: String,
        /// What was offered.
        found: String,
    },
    /// Somebody offers what was the latest once.
    #[error("publication {found} is older than {seen}, which this host has seen already")]
    Older {
        /// What was offered.
        found: u64,
        /// What was seen.
        seen: u64,
    },
    /// Two publications with one number.
    #[error("publication {0} names another bundle than it did before")]
    Ambiguous(u64),
    /// Somebody keeps newer ones from us, or nobody published in time.
    #[error("publication {sequence} expired at {expired}")]
    Expired {
        /// What was offered.
        sequence: u64,
        /// When it expired.
        expired: Timestamp,
    },
}

impl Latest {
    /// The word that `bundle` is the one to run.
    pub fn new(
        distribution: &Distribution,
        sequence: u64,
        bundle: Sha256,
        expires: Option<Timestamp>,
    ) -> Self {
        let distribution = distribution.name.clone();
        Self { format: FORMAT, distribution, sequence, bundle, expires }
    }

    /// Its one written form.
    pub fn to_json(&self) -> Vec<u8> {
        json::pretty(self).into_bytes()
    }

    /// Reads a `latest.json`.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        versioned::parse(LATEST.into(), bytes, FORMAT)
    }

    /// Whether a host of `distribution` that has `seen` another one may follow this one at `now`.
    pub fn check(
        &self,
        distribution: &Distribution,
        seen: Option<&Self>,
        now: Timestamp,
    ) -> Result<(), Stale> {
        if self.distribution != distribution.name {
            return Err(Stale::Distribution {
                expected: distribution.name.clone(),
                found: self.distribution.clone(),
            });
        }
        if let Some(seen) = seen {
            if self.sequence < seen.sequence {
                return Err(Stale::Older { found: self.sequence, seen: seen.sequence });
            }
            if self.sequence == seen.sequence && self.bundle != seen.bundle {
                return Err(Stale::Ambiguous(self.sequence));
            }
        }
        match self.expires {
            Some(expired) if expired <= now => {
                Err(Stale::Expired { sequence: self.sequence, expired })
            }
            _ => Ok(()),
        }
    }
}

impl SecretKey {
    /// The signature of a `bundle.json` or `latest.json` of `distribution`.
    pub fn sign_document(
        &self,
        name: &str,
        content: &[u8],
        distribution: &str,
    ) -> Result<String, SignatureError> {
        self.sign(content, &subject(name, distribution))
    }
}

impl PublicKey {
    /// Checks the signature of a `bundle.json` or `latest.json` of `distribution`.
    pub fn verify_document(
        &self,
        name: &str,
        content: &[u8],
        signature: &str,
        distribution: &str,
    ) -> Result<(), SignatureError> {
        self.verify(content, signature, &subject(name, distribution))
    }
}

fn subject(name: &str, distribution: &str) -> String {
    format!("monobloc {name} of {distribution}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution() -> Distribution {
        Distribution::default()
    }

    fn bundle(paths: &[&str]) -> Bundle {
        let mut bundle = Bundle::new(distribution(), "c1".to_owned());
        for (size, path) in (1..).zip(paths) {
            let file = BundleFile { size, sha256: Sha256::of(path.as_bytes()) };
            bundle.files.insert(path.parse().unwrap(), file);
        }
        bundle
    }

    fn latest(sequence: u64, bundle: &str, expires: Option<&str>) -> Latest {
        let expires = expires.map(|time| time.parse().unwrap());
        Latest::new(&distribution(), sequence, Sha256::of(bundle.as_bytes()), expires)
    }

    fn check(latest: &Latest, seen: Option<&Latest>) -> Result<(), Stale> {
        latest.check(&distribution(), seen, "2026-01-02T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut written = bundle(&["packages/a/a--1.tar.zst"]);
        let ids: BTreeSet<PackageId> =
            ["a--1".parse().unwrap(), "s--setup_1".parse().unwrap()].into();
        let role: RoleName = "master".parse().unwrap();
        written.packages.insert(OperatingSystem::Linux, [(role.clone(), ids)].into());
        written.manifests.insert("a--1".parse().unwrap(), Sha256::of(b"manifest"));
        written.secrets.insert("s--setup_1".parse().unwrap(), [role].into());
        written.late = Some("late--setup".parse().unwrap());
        assert_eq!(Bundle::parse(&written.to_json()).unwrap(), written);
        assert_eq!(Bundle::id(&written.to_json()), Sha256::of(&written.to_json()));
        for expires in [None, Some("2027-01-01T00:00:00Z")] {
            let written = latest(7, "a", expires);
            assert_eq!(Latest::parse(&written.to_json()).unwrap(), written);
        }
    }

    #[test]
    fn newer_formats_are_refused() {
        let newer = |json: Vec<u8>| {
            let mut document: serde_json::Value = serde_json::from_slice(&json).unwrap();
            document["format"] = 2.into();
            document.to_string().into_bytes()
        };
        let refused = Bundle::parse(&newer(bundle(&[]).to_json()));
        assert!(matches!(refused, Err(FormatError::Newer { found: 2, .. })), "{refused:?}");
        let refused = Latest::parse(&newer(latest(1, "a", None).to_json()));
        assert!(matches!(refused, Err(FormatError::Newer { found: 2, .. })), "{refused:?}");
    }

    #[test]
    fn an_archive_is_found_by_its_package_and_by_nothing_like_it() {
        let bundle = bundle(&[
            "packages/a-b/a-b--1.tar.zst",
            "packages/a/a--1.about",
            "packages/a/a--1.tar.zst",
            "packages/a/a--1.tar.zst.minisig",
            "packages/a/a--12.tar.xz",
            "packages/a/a--setup.dcos_config",
            "packages/b/a--2.tar.zst",
        ]);
        let found = |id: &str| {
            let found = bundle.archive(&id.parse().unwrap());
            found.map(|(path, file)| (path.as_str(), file.size))
        };
        assert_eq!(found("a--1"), Some(("packages/a/a--1.tar.zst", 3)));
        assert_eq!(found("a--12"), Some(("packages/a/a--12.tar.xz", 5)));
        assert_eq!(found("a-b--1"), Some(("packages/a-b/a-b--1.tar.zst", 1)));
        for id in ["a--2", "a--setup", "b--1", "c--1"] {
            assert_eq!(found(id), None, "{id}");
        }
    }

    #[test]
    fn a_publication_is_followed_forwards_only() {
        let seen = latest(7, "a", None);
        assert_eq!(check(&seen, None), Ok(()));
        assert_eq!(check(&seen, Some(&seen)), Ok(()));
        assert_eq!(check(&latest(8, "b", None), Some(&seen)), Ok(()));
        let older = check(&latest(6, "a", None), Some(&seen));
        assert_eq!(older, Err(Stale::Older { found: 6, seen: 7 }));
        assert_eq!(check(&latest(7, "b", None), Some(&seen)), Err(Stale::Ambiguous(7)));
    }

    #[test]
    fn a_publication_is_believed_until_it_expires() {
        assert_eq!(check(&latest(1, "a", Some("2026-01-02T12:00:01Z")), None), Ok(()));
        for expires in ["2026-01-02T12:00:00Z", "2026-01-01T00:00:00Z"] {
            let expired = expires.parse().unwrap();
            let found = check(&latest(1, "a", Some(expires)), None);
            assert_eq!(found, Err(Stale::Expired { sequence: 1, expired }));
        }
    }

    #[test]
    fn a_publication_of_another_distribution_is_refused() {
        let other = Latest::new(&Distribution::called("other", "1"), 1, Sha256::of(b""), None);
        let (expected, found) = ("dcos".to_owned(), "other".to_owned());
        assert_eq!(check(&other, None), Err(Stale::Distribution { expected, found }));
    }
}
