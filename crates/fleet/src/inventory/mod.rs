//! Who the hosts are: what somebody wrote ([`file`](mod@file)), all of it or a part ([`select`]).

pub mod file;
pub mod select;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use camino::Utf8PathBuf;
use package::id::RoleName;
use serde::{Deserialize, Serialize};

pub use select::{SelectError, Selection};

/// All hosts of a cluster, no two with the same name or at the same place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// In the order in which they were written.
    pub hosts: Vec<Host>,
    /// Where their keys are written down, if not where SSH has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<Utf8PathBuf>,
}

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

/// The lists of hosts that a configuration has, and the one way to reach all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lists {
    /// Addresses by role.
    pub addresses: BTreeMap<RoleName, Vec<String>>,
    /// Who logs in.
    pub user: Option<String>,
    /// The port of every SSH server.
    pub port: Option<u16>,
    /// The key to log in with.
    pub key: Option<Utf8PathBuf>,
}

/// Two hosts that cannot both be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Duplicate(pub String);

impl Inventory {
    /// The hosts of a configuration: each is called as its address, and one in two lists has both roles.
    pub fn of_lists(lists: &Lists) -> Result<Self, Duplicate> {
        let mut hosts: Vec<Host> = Vec::new();
        let mut known: HashMap<Seat, usize> = HashMap::new();
        for (role, addresses) in &lists.addresses {
            for address in addresses {
                let at = *known.entry(seat(address, lists.port)).or_insert_with(|| {
                    hosts.push(Host {
                        name: address.clone(),
                        address: address.clone(),
                        port: lists.port,
                        user: lists.user.clone(),
                        key: lists.key.clone(),
                        jump: None,
                        roles: BTreeSet::new(),
                        rack: None,
                        labels: BTreeMap::new(),
                    });
                    hosts.len() - 1
                });
                if !hosts[at].roles.insert(role.clone()) {
                    return Err(Duplicate(format!("`{address}` stands twice among `{role}`")));
                }
            }
        }
        Ok(Self { hosts, known_hosts: None })
    }

    /// All hosts by name.
    pub fn by_name(&self) -> HashMap<&str, &Host> {
        self.hosts.iter().map(|host| (host.name.as_str(), host)).collect()
    }

    /// The host of this name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }
}

/// Where a server listens, written in one way.
type Seat = (String, Option<u16>);

fn seat(address: &str, port: Option<u16>) -> Seat {
    let address = address.parse::<IpAddr>().map_or_else(
        |_| address.to_ascii_lowercase(),
        |address| address.to_canonical().to_string(),
    );
    (address, port.filter(|port| *port != 22))
}
