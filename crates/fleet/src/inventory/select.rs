//! A part of an inventory.

use std::collections::BTreeSet;

use package::id::RoleName;

use super::{Host, Inventory};

/// Which hosts are meant: those for which all of it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// By name or address; none: all.
    pub hosts: Vec<String>,
    /// With one of these roles; none: with any.
    pub roles: BTreeSet<RoleName>,
    /// With all of these labels.
    pub labels: Vec<(String, String)>,
}

/// Why nothing can be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// Nobody is called so.
    #[error("no host is called {}", quoted(.unknown))]
    Unknown {
        /// The names.
        unknown: Vec<String>,
        /// One that is like the first of them.
        near: Option<String>,
    },
    /// All are called so, and none is meant.
    #[error("no host has all that was asked for")]
    Nobody,
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl Selection {
    /// Whether all hosts are meant.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    fn has(&self, host: &Host) -> bool {
        let has_label =
            |(name, value): &(String, String)| host.labels.get(name).is_some_and(|is| is == value);
        (self.roles.is_empty() || !self.roles.is_disjoint(&host.roles))
            && self.labels.iter().all(has_label)
    }
}

impl Inventory {
    /// The hosts that are meant, in the order of the inventory.
    pub fn select(&self, selection: &Selection) -> Result<Self, SelectError> {
        let named: BTreeSet<&str> = selection.hosts.iter().map(String::as_str).collect();
        let is_named = |host: &Host| {
            named.contains(host.name.as_str()) || named.contains(host.address.as_str())
        };
        let mut unknown = named.clone();
        for host in &self.hosts {
            unknown.remove(host.name.as_str());
            unknown.remove(host.address.as_str());
        }
        if let Some(first) = unknown.first() {
            let known = self.hosts.iter().map(|host| host.name.as_str());
            let near = package::diagnostic::nearest(first, known).map(str::to_owned);
            let unknown = unknown.into_iter().map(str::to_owned).collect();
            return Err(SelectError::Unknown { unknown, near });
        }
        let is_meant = |host: &&Host| (named.is_empty() || is_named(host)) && selection.has(host);
        let hosts: Vec<Host> = self.hosts.iter().filter(is_meant).cloned().collect();
        let known_hosts = self.known_hosts.clone();
        if hosts.is_empty() { Err(SelectError::Nobody) } else { Ok(Self { hosts, known_hosts }) }
    }
}
