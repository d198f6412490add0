//! What can go wrong while a bundle is installed.

use std::io;

use camino::Utf8PathBuf;
use package::bundle::Stale;
use package::id::RoleName;
use package::sign::SignatureError;
use package::versioned::FormatError;
use package::{PackageId, Sha256};

use crate::host::HostError;
use crate::observe::ObserveError;
use crate::preflight::{Level, Report};
use crate::receipt::ReceiptError;
use crate::roles::RolesError;
use crate::setup::{SealedError, SetupError};
use crate::store::StoreError;

/// Why a bundle was not installed. What was live before is live.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum InstallError {
    #[error("nothing says whose bundles this host takes")]
    NoKey,
    #[error("this host takes bundles that the key `{pinned}` signed, not `{given}`")]
    OtherKey { pinned: String, given: String },
    #[error("cannot use the key in `{path}`")]
    Pinned { path: Utf8PathBuf, source: SignatureError },
    #[error("`{file}` cannot be trusted")]
    Untrusted { file: String, source: SignatureError },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("cannot use what was published")]
    Format(#[from] FormatError),
    #[error("bundle `{expected}` is another one: its digest is {found}")]
    OtherBundle { expected: Sha256, found: Sha256 },
    #[error("the bundle is made for `{found}`, and this host has its packages in `{expected}`")]
    InstallRoot { expected: Utf8PathBuf, found: Utf8PathBuf },
    #[error("the bundle has no packages for the operating system of this host")]
    OperatingSystem,
    #[error("nothing says what this host is")]
    NoRole,
    #[error("the bundle has no role `{role}`; it has: {}", names(.known))]
    Role { role: RoleName, known: Vec<RoleName> },
    #[error("this host is `{role}` too, as `{path}` says, which no installation wrote")]
    OthersRole { role: RoleName, path: Utf8PathBuf },
    #[error("the bundle is incomplete: it has no {what} for package `{id}`")]
    Incomplete { id: PackageId, what: &'static str },
    #[error("`{file}` is not the file of the bundle")]
    Changed { file: String },
    #[error("cannot use the secrets `{id}` for {}", names(.roles))]
    Secrets { id: PackageId, roles: Vec<RoleName>, source: Box<SealedError> },
    #[error("package `{id}` needs values of this host, and `{flag}` does not name it")]
    NoLateConfig { id: PackageId, flag: Utf8PathBuf },
    #[error("nothing is installed that could be upgraded")]
    NotInstalled,
    #[error("version {installed} is installed, which cannot become {new}: it follows {}", followed(.allowed))]
    NoWay { installed: String, new: String, allowed: Vec<String> },
    #[error(
        "what is published is version {version}, bundle {found}, and this upgrade is to bundle {expected}"
    )]
    OtherTarget { version: String, found: Sha256, expected: Sha256 },
    #[error("version {installed} is installed, and this upgrade is from {expected} to {new}")]
    OtherVersion { installed: String, expected: String, new: String },
    #[error("what is live fails its checks, and was left alone:\n{}", .0.iter().map(|check| format!("  {check}")).collect::<Vec<_>>().join("\n"))]
    Ill(Vec<String>),
    #[error("what would be done is not what was planned: this host has changed since")]
    OtherPlan,
    #[error("{} failed: this machine cannot be what it shall become", checks(.0))]
    Preflight(Box<Report>),
    #[error(transparent)]
    Roles(#[from] RolesError),
    #[error(transparent)]
    Receipt(#[from] ReceiptError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot change this host")]
    Io(#[from] io::Error),
}

impl From<ObserveError> for InstallError {
    fn from(error: ObserveError) -> Self {
        Self::Host(error.into())
    }
}

fn followed(versions: &[String]) -> String {
    if versions.is_empty() { "none".to_owned() } else { versions.join(", ") }
}

fn names(roles: &[RoleName]) -> String {
    roles.iter().map(|role| format!("`{role}`")).collect::<Vec<_>>().join(", ")
}

fn checks(report: &Report) -> String {
    match report.count(Level::Error) {
        1 => "1 check".to_owned(),
        count => format!("{count} checks"),
    }
}
