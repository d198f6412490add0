//! Who the hosts are.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8PathBuf;
use package::id::RoleName;
use serde::{Deserialize, Serialize};

/// One host, and how it is reached. What is not said here, the configuration of SSH says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// What people call it; no two have the same.
    pub name: String,
    /// A name or an address, of either family, without a port.
    pub address: String,
    /// The port of its SSH server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Who logs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The key to log in with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Utf8PathBuf>,
    /// The host through which it is reached: `[USER@]HOST[:PORT]`, several with commas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<String>,
    /// What it is in the cluster.
    #[serde(default)]
    pub roles: BTreeSet<RoleName>,
    /// Where it stands: hosts of one rack may fail together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// What else is known of it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}
