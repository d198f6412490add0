//! From values to what is served: the configuration packages, the encrypted secrets, `bundle.json`
//! with a digest of every byte, and `latest.json`, all made aside and published by one rename.
//!
//! ```text
//! genconf/
//!     config.yaml  ip-detect  check_bins/          what people write
//!     keys/                                        never served
//!     cluster_packages.json  controller.json
//!     serve/
//!         current -> publications/7                the commit point
//!         publications/7/latest.json  bundle -> ../../bundles/ID
//!         bundles/ID/bundle.json …                 what belongs to one bundle only
//!         packages/ package_lists/ bootstrap/ secrets/   shared, named by content, never changed
//!         latest.json -> current/latest.json …     fixed links
//! ```

mod check_bins;
mod collect;
mod compose;
mod controller;
mod keys;
mod publish;
mod published;
pub(crate) mod script;

use std::collections::BTreeMap;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use package::archive::{PackError, UnpackError};
use package::bundle::OperatingSystem;
use package::distribution::Distribution;
use package::lock::{Lock, LockError};
use package::preflight::Preflight;
use package::secret::SecretError;
use package::sign::SignatureError;
use package::versioned::FormatError;
use package::{Cancel, Cancelled, PackageId, Piece, Sha256};

use crate::definition::Definition;
use crate::render::Rendered;
use crate::resolve::Resolution;

pub use collect::Collected;
pub(crate) use collect::SHARED;
pub use controller::{Cluster, Controller};
pub use keys::Signer;
pub(crate) use publish::{BUNDLES, CURRENT, PUBLICATIONS, UPGRADES};

/// Where every value that hosts get is written down, in the configuration package.
const EXPANDED: &str = "etc/expanded.config.json";

/// What is configured: the packages of one release, all built.
#[derive(Debug, Clone)]
pub struct Release {
    /// What it is a release of.
    pub distribution: Distribution,
    /// Its variant, if it is not the default one.
    pub variant: Option<String>,
    /// The archive of each package, by operating system.
    pub packages: BTreeMap<OperatingSystem, BTreeMap<PackageId, Piece>>,
    /// The archive that hosts of the reference start with, if one was made.
    pub bootstrap: Option<BootstrapFiles>,
    /// The program that hosts run; without it they must have it already, and there are no scripts.
    pub program: Option<Piece>,
}

/// A bootstrap archive and the list of what is in it.
#[derive(Debug, Clone)]
pub struct BootstrapFiles {
    /// Its name.
    pub id: String,
    /// The archive.
    pub archive: Piece,
    /// The list.
    pub active: Piece,
}

/// The folder in which a cluster is configured.
#[derive(Debug, Clone)]
pub struct Genconf {
    folder: Utf8PathBuf,
}

/// What to configure, and how.
#[derive(Debug)]
pub struct Job<'a> {
    /// What the distribution declares.
    pub definition: &'a Definition,
    /// Its values, all of them good.
    pub resolution: &'a Resolution,
    /// The files made of them.
    pub files: BTreeMap<package::path::PackagePath, Rendered>,
    /// What machines must be.
    pub preflight: Option<Preflight>,
    /// The packages.
    pub release: &'a Release,
    /// Who signs.
    pub signer: &'a Signer,
    /// When hosts stop to believe that this is the latest.
    pub expires: Option<Timestamp>,
    /// Now: publications are numbered so that even a lost folder does not go back.
    pub now: Timestamp,
    /// Leaves the packages where they are: whoever serves the folder serves the release too.
    pub thin: bool,
    /// The installed version that a script shall upgrade from, if one is wanted.
    pub upgrade_from: Option<String>,
    /// Stops the work, up to the commit point.
    pub cancel: &'a Cancel,
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The bundle.
    pub bundle: Sha256,
    /// The configuration in it.
    pub configuration: String,
    /// The number of the publication.
    pub sequence: u64,
    /// Whether it was published already.
    pub unchanged: bool,
    /// How many files it has.
    pub files: usize,
    /// Their length together.
    pub bytes: u64,
    /// The packages that hosts make of what is encrypted.
    pub secrets: Vec<PackageId>,
    /// The package that hosts make with values of their own.
    pub late: Option<PackageId>,
    /// The folder to serve.
    pub serve: Utf8PathBuf,
    /// The script that installs hosts, if there is one.
    pub install: Option<Script>,
    /// The script that upgrades them, if one was wanted.
    pub upgrade: Option<Script>,
    /// Where hosts find what is served, if the configuration says it.
    pub address: Option<String>,
}

/// A script for hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Its path below the folder that is served.
    pub path: String,
    /// Its text.
    pub content: Vec<u8>,
    /// The digest of its text, for whoever runs it.
    pub sha256: Sha256,
}

/// Why nothing was published.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum BundleError {
    #[error("cannot use `{path}`")]
    Io { path: Utf8PathBuf, source: io::Error },
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    #[error("cannot use the package `{archive}`")]
    Package { archive: Utf8PathBuf, source: UnpackError },
    #[error("cannot pack the configuration")]
    Pack(#[from] PackError),
    #[error("`{path}` cannot be used: {problem}")]
    Unusable { path: Utf8PathBuf, problem: String },
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Sign(#[from] SignatureError),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("`{0}` is there, but no file of this program: move it away")]
    Foreign(Utf8PathBuf),
    #[error("file `{path}` cannot be made: {problem}")]
    File { path: package::path::PackagePath, problem: String },
    #[error(
        "package `{0}` was published before with other content: a release needs another id for it"
    )]
    OtherContent(PackageId),
    #[error(
        "`{0}` is gone, but what is published was made with it, and hosts rely on it: put it back"
    )]
    LostKey(Utf8PathBuf),
    #[error("package `{0}` has two archives in the release")]
    Ambiguous(PackageId),
    #[error("`{piece}` has the SHA-256 {found}, expected {expected}: the release is damaged")]
    Damaged { piece: Utf8PathBuf, found: Sha256, expected: Sha256 },
    #[error("the release brings no program for hosts, so there is no script for them")]
    NoProgram,
    #[error("the release has no packages for Linux")]
    NoPackages,
    #[error("the distribution names no roles")]
    NoRoles,
    #[error("`{0}` must not contain folders: checks are files")]
    CheckBinsFolder(Utf8PathBuf),
}

impl Genconf {
    /// The folder that is usually called `genconf`.
    pub fn new(folder: Utf8PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// What is served.
    pub fn serve(&self) -> Utf8PathBuf {
        self.folder.join("serve")
    }

    /// What is never served: keys.
    pub fn keys(&self) -> Utf8PathBuf {
        self.folder.join("keys")
    }

    /// Keeps everybody else from publishing until it is dropped.
    pub(crate) fn lock(&self, cancel: &Cancel) -> Result<Lock, BundleError> {
        let path = self.folder.join(".lock");
        Lock::take(&path, cancel, &|| {}).map_err(|error| match error {
            LockError::Io(source) => BundleError::Io { path, source },
            LockError::Cancelled(cancelled) => cancelled.into(),
        })
    }
}

/// Says which file could not be read or written.
fn at(path: &Utf8Path) -> impl FnOnce(io::Error) -> BundleError {
    let path = path.to_owned();
    move |source| BundleError::Io { path, source }
}
