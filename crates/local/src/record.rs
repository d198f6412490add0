//! What is written down of clusters, so that any later program can go on with them or remove them.

use std::io;
use std::net::Ipv4Addr;

use camino::{Utf8Path, Utf8PathBuf};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::LocalError;
use crate::image::Suite;
use crate::name::{ClusterName, HostName};
use crate::network::Subnet;

/// A host that is wanted.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// Its name.
    pub name: String,
    /// The system on it.
    pub image: Suite,
    /// What it will be in its cluster, for the configuration that is written.
    pub role: Option<Role>,
    /// Folders and files of the machine that it sees, read-only.
    pub binds: Vec<Bind>,
}

impl HostSpec {
    /// A host that sees nothing of the machine and has no role.
    pub fn new(name: impl Into<String>, image: Suite) -> Self {
        Self { name: name.into(), image, role: None, binds: Vec::new() }
    }

    /// The same with a role.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// The same, which also sees `from` of the machine at `to`, read-only.
    #[must_use]
    pub fn bind(mut self, from: impl Into<Utf8PathBuf>, to: impl Into<Utf8PathBuf>) -> Self {
        self.binds.push(Bind { from: from.into(), to: to.into() });
        self
    }
}

/// What a host is in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// One of those that the others turn to.
    Master,
    /// Does the work.
    Slave,
    /// Does the work that is seen from outside.
    SlavePublic,
}

impl Role {
    /// The name that distributions know it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Slave => "slave",
            Self::SlavePublic => "slave_public",
        }
    }
}

/// A folder or file of the machine that a host sees, read-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Where it is on the machine.
    pub from: Utf8PathBuf,
    /// Where the host sees it.
    pub to: Utf8PathBuf,
}

/// A cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ClusterRecord {
    /// Tells it from a later one of the same name; programs that made clusters before did not write it.
    #[serde(default)]
    pub(crate) id: String,
    /// Whether all of it was made; the same programs did not say.
    #[serde(default = "yes")]
    pub(crate) is_made: bool,
    pub(crate) name: ClusterName,
    pub(crate) subnet: Subnet,
    pub(crate) fsync: bool,
    /// How large the disk of each host is, if it has one of its own.
    pub(crate) disk: Option<u64>,
    /// The program whose `local supervise` runs [`crate::supervise`].
    pub(crate) program: Utf8PathBuf,
    pub(crate) hosts: Vec<HostRecord>,
}

fn yes() -> bool {
    true
}

/// One of its hosts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HostRecord {
    pub(crate) name: HostName,
    pub(crate) address: Ipv4Addr,
    pub(crate) image: Suite,
    pub(crate) role: Option<Role>,
    /// The root of that image.
    pub(crate) lower: Utf8PathBuf,
    pub(crate) uuid: String,
    pub(crate) binds: Vec<Bind>,
}

/// Everything that the supervisor of a host must know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BootRecord {
    pub(crate) cluster: ClusterName,
    pub(crate) subnet: Subnet,
    pub(crate) program: Utf8PathBuf,
    pub(crate) host: HostRecord,
    pub(crate) root: Utf8PathBuf,
    pub(crate) boots: Utf8PathBuf,
    pub(crate) console: Utf8PathBuf,
    /// What is done to its network.
    pub(crate) faults: Utf8PathBuf,
    pub(crate) cgroup: Utf8PathBuf,
}

/// Reads a record; none if there is no file.
pub(crate) fn read<T: DeserializeOwned>(path: &Utf8Path) -> Result<Option<T>, LocalError> {
    let text = match fs_err::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|cause| LocalError::Record { path: path.to_owned(), cause })
}

/// Writes a record.
pub(crate) fn write<T: Serialize>(path: &Utf8Path, record: &T) -> Result<(), LocalError> {
    let text = serde_json::to_vec_pretty(record).map_err(io::Error::from)?;
    Ok(package::durable::write(path, &text)?)
}
