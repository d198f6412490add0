//! `preflight.json`: what a machine must be before it becomes a host of a distribution, by role. A
//! distribution writes it as `config/preflight.yaml` ([`read`]), and a bundle has it in one form.

mod entry;
mod reach;
mod read;
mod version;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::id::RoleName;
use crate::json;
use crate::versioned::{self, FormatError};

pub use read::read;
pub use version::{Version, VersionError};

/// The name of the file in the folder of a bundle.
pub const PREFLIGHT: &str = "preflight.json";

/// The version of the document that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// The content of `preflight.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preflight {
    format: u32,
    /// What is checked, in the order of declaration.
    pub checks: Vec<Declared>,
    /// Who must reach whom. One machine alone cannot tell, so hosts leave it to who asks all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reach: Vec<Reach>,
}

/// Hosts that must reach others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The roles of those who connect; none: all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub from: BTreeSet<RoleName>,
    /// The roles of those they connect to; none: all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub to: BTreeSet<RoleName>,
    /// On these ports.
    pub tcp: BTreeSet<u16>,
}

/// One check with what a distribution says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// What is checked.
    #[serde(flatten)]
    pub check: Check,
    /// The roles that it is for; none: all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<RoleName>,
    /// How bad it is; nothing: as bad as a check of this name usually is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// What to do about it, in the distribution's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How bad it is if a check does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It is not checked.
    Off,
    /// Something to know.
    Notice,
    /// Somebody should look.
    Warning,
    /// The machine cannot be what it shall become.
    Error,
}

/// Severities by the word for them.
pub(crate) const SEVERITIES: [(&str, Severity); 4] = [
    ("error", Severity::Error),
    ("warning", Severity::Warning),
    ("notice", Severity::Notice),
    ("off", Severity::Off),
];

/// What is checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "check", rename_all = "snake_case")]
#[expect(missing_docs, reason = "docs/preflight.md says what the fields are")]
pub enum Check {
    /// Nobody else's installation is there, nor what one left.
    Installed,
    /// The processor.
    Architecture { one_of: BTreeSet<String> },
    /// The version of the kernel.
    Kernel { at_least: Option<Version> },
    /// The number of processors.
    Cpus { at_least: u32 },
    /// The size of the memory, in bytes.
    Memory { at_least: u64 },
    /// Swap is off.
    Swap,
    /// Room for the bundle, or so many bytes at a path.
    Disk { path: Option<Utf8PathBuf>, at_least: u64 },
    /// Programs can be run from these paths; none: from the places of the distribution.
    Noexec { paths: Vec<Utf8PathBuf> },
    /// An XFS at these paths knows the types of files in folders.
    Xfs { paths: Vec<Utf8PathBuf> },
    /// `systemd` runs, and is no older than this.
    Systemd { at_least: Option<u32> },
    /// `SELinux` does not enforce, or enforces one of these policies.
    Selinux { policies: BTreeSet<String> },
    /// The version of the hierarchy of control groups.
    Cgroup { version: u32 },
    /// Modules of the kernel are there.
    Modules { names: Vec<String> },
    /// Programs are in the search path.
    Commands { names: Vec<String> },
    /// Docker runs, and how.
    Docker { at_least: Option<Version>, storage_drivers: BTreeSet<String> },
    /// The clock is synchronised, with no larger error than this.
    Clock { max_error_ms: u64 },
    /// The id of the machine is its own.
    MachineId { shared: BTreeSet<String> },
    /// The machine has a name.
    Hostname,
    /// The machine's own name and these have addresses.
    Names { hosts: Vec<String> },
    /// No firewall is in the way.
    Firewall,
    /// Nobody listens where services will; with addresses: on these.
    Ports { tcp: BTreeSet<u16>, udp: BTreeSet<u16>, addresses: BTreeSet<IpAddr> },
    /// A script tells the address of the host, one of those that are expected.
    Address { script: String, expected: Vec<String> },
    /// A program of the distribution.
    Own { name: String, program: Program, timeout_ms: u64 },
}

/// What a check of a distribution runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// The text of a program, which begins with `#!`.
    Script(String),
    /// A program of the machine with its arguments.
    Command(Vec<String>),
}

impl Check {
    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            Self::Installed => "installed",
            Self::Architecture { .. } => "architecture",
            Self::Kernel { .. } => "kernel",
            Self::Cpus { .. } => "cpus",
            Self::Memory { .. } => "memory",
            Self::Swap => "swap",
            Self::Disk { .. } => "disk",
            Self::Noexec { .. } => "noexec",
            Self::Xfs { .. } => "xfs",
            Self::Systemd { .. } => "systemd",
            Self::Selinux { .. } => "selinux",
            Self::Cgroup { .. } => "cgroup",
            Self::Modules { .. } => "modules",
            Self::Commands { .. } => "commands",
            Self::Docker { .. } => "docker",
            Self::Clock { .. } => "clock",
            Self::MachineId { .. } => "machine_id",
            Self::Hostname => "hostname",
            Self::Names { .. } => "names",
            Self::Firewall => "firewall",
            Self::Ports { .. } => "ports",
            Self::Address { .. } => "address",
            Self::Own { name, .. } => name,
        }
    }

    /// Where it stands among others: those of this program as in its list, then those of distributions.
    pub fn order(&self) -> usize {
        let is_own = matches!(self, Self::Own { .. });
        let mut names = read::CHECKS.iter().map(|(name, _)| *name);
        let at = names.position(|name| name == self.name() && !is_own);
        at.unwrap_or(read::CHECKS.len())
    }

    /// How bad it is if a distribution asks for it and says no more.
    pub fn usual_severity(&self) -> Severity {
        match self {
            Self::Swap | Self::Modules { .. } | Self::Firewall => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

impl Preflight {
    /// A document of these checks.
    pub fn new(checks: Vec<Declared>) -> Self {
        Self { format: FORMAT, checks, reach: Vec::new() }
    }

    /// Its one written form.
    pub fn to_json(&self) -> Vec<u8> {
        json::pretty(self).into_bytes()
    }

    /// Reads a `preflight.json`.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        versioned::parse(PREFLIGHT.into(), bytes, FORMAT)
    }
}

impl Declared {
    /// A check for every role, with a severity.
    pub fn new(check: Check, severity: Severity) -> Self {
        Self { check, roles: BTreeSet::new(), severity: Some(severity), fix: None }
    }

    /// Whether it is for a host with one of these roles; a host that has none yet may get any.
    pub fn is_for(&self, roles: &BTreeSet<RoleName>) -> bool {
        self.roles.is_empty() || roles.is_empty() || !self.roles.is_disjoint(roles)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = SEVERITIES.iter().find(|(_, severity)| severity == self);
        f.write_str(word.map_or("", |(word, _)| word))
    }
}
