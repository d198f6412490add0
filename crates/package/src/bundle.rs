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

impl Bundle {
    /// A bundle with nothing in it yet.
    pub fn new(distribution: Distribution, configuration: String) -> Self {
        Self {
            format: FORMAT,
            distribution,
            configuration,
            packages: BTreeMap::new(),
            manifests: BTreeMap::new(),
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
