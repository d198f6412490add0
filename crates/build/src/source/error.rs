//! Why a source could not be had.

use std::{fmt, io};

use camino::Utf8PathBuf;
use download::{Checksum, DownloadError};
use package::archive::{UnknownFormat, UnpackError};
use package::digest::ParseDigestError;
use package::{Cancelled, Sha256};

use super::spec::SourceSpec;
use super::value::{GitCommit, InvalidValue, RefOrigin};
use crate::program::ProgramError;

/// What was to be done with a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Telling its content.
    Identify,
    /// Bringing it into the cache.
    Fetch,
    /// Laying it out.
    CheckOut,
}

/// What could not be done with which source, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot {} {spec}", match .action {
    Action::Identify => "identify",
    Action::Fetch => "fetch",
    Action::CheckOut => "check out",
})]
pub struct SourceError {
    /// What was to be done.
    pub action: Action,
    /// The source, without credentials.
    pub spec: String,
    /// Why it could not be done.
    #[source]
    pub fault: Box<SourceFault>,
}

impl SourceError {
    pub(super) fn new(action: Action, spec: &SourceSpec, fault: SourceFault) -> Self {
        Self { action, spec: spec.to_string(), fault: Box::new(fault) }
    }

    /// Whether the work was only told to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            *self.fault,
            SourceFault::Cancelled(_)
                | SourceFault::Download(DownloadError::Cancelled(_))
                | SourceFault::Program(ProgramError::Cancelled(_))
                | SourceFault::Unpack(UnpackError::Cancelled(_))
        )
    }

    /// What the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        match &*self.fault {
            SourceFault::Offline | SourceFault::NotCached => {
                Some("`monobloc build --fetch-only`, run with network access, fills the cache")
            }
            SourceFault::LocalChanges { .. } => {
                Some("commit or stash them, so that the commit says what is built")
            }
            SourceFault::NoLockFile => {
                Some("only crates that bring a `Cargo.lock`, as most programs do, can be built so")
            }
            SourceFault::Program(ProgramError::Failed { stderr, .. }) => hint_of_client(stderr),
            SourceFault::Program(error) => error.hint(),
            _ => None,
        }
    }
}

/// Why something could not be done with a source.
#[derive(Debug, thiserror::Error)]
pub enum SourceFault {
    /// It would have to be fetched, and must not be.
    #[error("it is not in the cache, and `--offline` allows nothing else")]
    Offline,
    /// It was not fetched.
    #[error("it is not in the cache")]
    NotCached,
    /// What came is not what was asked for.
    #[error("it has the wrong digest: expected {expected}, found {}, kept as `{corrupt}`", .found.hex())]
    WrongHash {
        /// What was asked for.
        expected: Checksum,
        /// What came.
        found: Checksum,
        /// Where the wrong file is.
        corrupt: Utf8PathBuf,
    },
    /// The place to lay it out at is taken.
    #[error("`{0}` exists already")]
    TargetExists(Utf8PathBuf),
    /// The address cannot be used.
    #[error("its URL cannot be used")]
    Url(#[from] ::url::ParseError),
    /// The name tells no archive format.
    #[error(transparent)]
    Format(#[from] UnknownFormat),
    /// The download failed.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// An archive that is not one folder.
    #[error("it is neither a wheel nor a folder with a source distribution")]
    NotOneFolder,
    /// The archive could not be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// A client program failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not wanted any more.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The repository has no such commit.
    #[error("the repository has no commit `{0}`")]
    NoCommit(GitCommit),
    /// The repository has no such branch or tag.
    #[error("the repository has no branch or tag `{0}`, which `ref_origin` names")]
    NoRefOrigin(RefOrigin),
    /// The path is not the top folder of a git repository.
    #[error("`{0}` is not the top folder of a git repository")]
    NotARepository(Utf8PathBuf),
    /// A repository without any commit.
    #[error("the git repository `{0}` has no commit yet")]
    NoCommitYet(Utf8PathBuf),
    /// A repository has changes that no commit has.
    #[error("`{path}` has changes that are not committed:{}", lines(.changes))]
    LocalChanges {
        /// The repository.
        path: Utf8PathBuf,
        /// The files, as `git status` lists them.
        changes: Vec<String>,
    },
    /// A client program did its work but left no file, or several.
    #[error("`{program}` left {} where one `{suffix}` file was expected", count(.found))]
    NotOneFile {
        /// The program.
        program: &'static str,
        /// How the name of the file should end.
        suffix: &'static str,
        /// What it left.
        found: Vec<String>,
    },
    /// `pip` did not tell its index.
    #[error("`python3 -m pip download --help` does not tell which index is configured")]
    NoIndex,
    /// The index that `pip` tells needs credentials that it does not tell.
    #[error(
        "the credentials of the index `{0}` are neither in `PIP_INDEX_URL` nor in pip's configuration"
    )]
    NoIndexCredentials(String),
    /// The index has no file with the digest.
    #[error("the index has no file of it with sha256 {expected}{}", others(.files))]
    NotInIndex {
        /// The digest that the tree names.
        expected: Sha256,
        /// The files of that version that the index does have.
        files: Vec<IndexFile>,
    },
    /// The file with the digest is of another version than the tree says.
    #[error("the file with this sha256 is not of this version but is `{found}`")]
    OtherVersion {
        /// The name or version that it has.
        found: String,
    },
    /// A crate without lock file.
    #[error("the crate brings no `Cargo.lock`, so what it depends on is not fixed")]
    NoLockFile,
    /// A lock file that cannot be read.
    #[error("its `Cargo.lock` cannot be read")]
    BadLockFile(#[from] Box<toml::de::Error>),
    /// A lock file with something that is not from the registry that the crate is from.
    #[error(
        "its `Cargo.lock` names `{package}` from `{place}`: only crates of one registry can be had"
    )]
    ForeignDependency {
        /// The package that the lock file names.
        package: String,
        /// Where it is from.
        place: String,
    },
    /// A lock file that does not say what a package must be.
    #[error("its `Cargo.lock` has no checksum for `{0}`")]
    NoLockChecksum(String),
    /// A lock file with a checksum that is none.
    #[error(transparent)]
    BadLockChecksum(#[from] ParseDigestError),
    /// A lock file with a name or version that no crate can have.
    #[error(transparent)]
    BadLockValue(#[from] InvalidValue),
    /// It is not known where `cargo` keeps its files.
    #[error("neither `CARGO_HOME` nor `HOME` says where cargo keeps what it downloads")]
    NoCargoHome,
    /// `cargo` fetched, but the file is not where it keeps such files.
    #[error("`cargo fetch` did not leave `{file}` in a folder of `{folder}`")]
    NotInCargoCache {
        /// The name of the file.
        file: String,
        /// Where the folders of all registries are.
        folder: Utf8PathBuf,
    },
    /// The crate has something where its dependencies should go.
    #[error("the crate brings a `{0}` of its own, where its dependencies should go")]
    VendorTaken(&'static str),
    /// A Debian package without the part that holds its files.
    #[error("it is not a Debian package: {0}")]
    NotADeb(&'static str),
}

/// A file that an index has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFile {
    /// Its name.
    pub name: String,
    /// Its digest, if the index tells it.
    pub sha256: Option<Sha256>,
}

impl fmt::Display for IndexFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sha256 {
            Some(sha256) => write!(f, "{} has sha256 {sha256}", self.name),
            None => write!(f, "{} has no sha256", self.name),
        }
    }
}

/// What to do about what clients say most often.
fn hint_of_client(stderr: &str) -> Option<&'static str> {
    if stderr.contains("No module named pip") {
        return Some("install pip: the package `python3-pip`");
    }
    let unknown = stderr.contains("Unable to locate package")
        || stderr.contains("E: Version") && stderr.contains("was not found");
    unknown.then_some("`apt-get update` brings the list of packages up to date")
}

fn lines<T: fmt::Display>(items: &[T]) -> String {
    items.iter().fold(String::new(), |lines, item| lines + "\n    " + &item.to_string())
}

fn others(files: &[IndexFile]) -> String {
    if files.is_empty() {
        return ", and no other file of this version".to_owned();
    }
    format!("; of this version it has:{}", lines(files))
}

fn count(found: &[String]) -> String {
    if found.is_empty() { "nothing".to_owned() } else { format!("`{}`", found.join("`, `")) }
}
