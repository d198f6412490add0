//! The private network of a cluster: a switch in a namespace of its own, with a cable to the machine and
//! one to each host. There is no way out of it.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};

use crate::error::LocalError;
use crate::machine;
use crate::name::ClusterName;
use crate::record::BootRecord;
use crate::tool::{self, ToolError};

/// The bridge.
const SWITCH: &str = "switch";
/// The switch's end of the cable to the machine.
const MACHINE: &str = "machine";
/// A host's end of its cable.
const CARD: &str = "eth0";
/// The first host has this number in the network; the machine has 1.
const FIRST: u32 = 11;
/// The networks that are tried if none is given.
const NETWORKS: [u8; 2] = [10, 77];

/// A network of IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subnet {
    first: u32,
    prefix: u8,
}

impl Subnet {
    /// One that neither the machine nor another cluster uses.
    pub(crate) fn free(used: &[Self]) -> Result<Self, LocalError> {
        let [a, b] = NETWORKS;
        let all = (0..=u8::MAX)
            .map(|number| Self { first: Ipv4Addr::new(a, b, number, 0).to_bits(), prefix: 24 });
        let is_free = |subnet: &Self| !used.iter().any(|other| subnet.overlaps(*other));
        all.into_iter().find(is_free).ok_or(LocalError::SubnetsUsed)
    }

    /// The networks that the machine has a way to, but for the one to everywhere.
    pub(crate) fn of_machine() -> Result<Vec<Self>, LocalError> {
        let table = fs_err::read_to_string("/proc/net/route")?;
        Ok(table.lines().skip(1).filter_map(route).filter(|subnet| subnet.prefix > 0).collect())
    }

    /// The machine's own address.
    pub(crate) fn machine(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first + 1)
    }

    /// The address of a host, counted from 0.
    pub(crate) fn host(self, index: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first + FIRST + index)
    }

    /// How many hosts have room.
    pub(crate) fn hosts_max(self) -> usize {
        let addresses = 1_usize << (32 - self.prefix);
        addresses.saturating_sub(FIRST as usize + 1)
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        let prefix = self.prefix.min(other.prefix);
        self.first & mask(prefix) == other.first & mask(prefix)
    }

    fn with(self, address: Ipv4Addr) -> String {
        format!("{address}/{}", self.prefix)
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

/// A line of `/proc/net/route`; its numbers are as the network has them in memory.
fn route(line: &str) -> Option<Subnet> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |field: &str| u32::from_str_radix(field, 16).ok().map(u32::from_be);
    let (first, mask) = (number(fields.get(1)?)?, number(fields.get(7)?)?);
    Some(Subnet { first, prefix: u8::try_from(mask.leading_ones()).ok()? })
}

impl FromStr for Subnet {
    type Err = LocalError;

    fn from_str(text: &str) -> Result<Self, LocalError> {
        let wrong = || LocalError::Subnet(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let first = address.parse::<Ipv4Addr>().map_err(|_| wrong())?.to_bits();
        let prefix = prefix.parse().ok().filter(|prefix| (8..=28).contains(prefix));
        let prefix = prefix.ok_or_else(wrong)?;
        let address = Ipv4Addr::from_bits(first);
        let is_no_network = address.is_loopback() || address.is_multicast() || first < 1 << 24;
        if first & !mask(prefix) != 0 || is_no_network {
            return Err(wrong());
        }
        Ok(Self { first, prefix })
    }
}

impl TryFrom<String> for Subnet {
    type Error = LocalError;

    fn try_from(text: String) -> Result<Self, LocalError> {
        text.parse()
    }
}

impl From<Subnet> for String {
    fn from(subnet: Subnet) -> Self {
        subnet.to_string()
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with(Ipv4Addr::from_bits(self.first)))
    }
}

fn ip(arguments: &str) -> Result<(), ToolError> {
    tool::run("ip", &arguments.split(' ').collect::<Vec<_>>()).map(|_| ())
}

/// Makes the switch of a cluster and hangs the machine on it.
pub(crate) fn create_switch(cluster: &ClusterName, subnet: Subnet) -> Result<(), ToolError> {
    let namespace = machine::switch_namespace(cluster);
    let link = machine::link(cluster);
    ip(&format!("netns add {namespace}"))?;
    ip(&format!("-n {namespace} link add {SWITCH} type bridge forward_delay 0 mcast_snooping 0"))?;
    ip(&format!("-n {namespace} link set {SWITCH} up"))?;
    ip(&format!("link add {link} type veth peer name {MACHINE} netns {namespace}"))?;
    ip(&format!("-n {namespace} link set {MACHINE} master {SWITCH} up"))?;
    ip(&format!("addr add {} dev {link}", subnet.with(subnet.machine())))?;
    ip(&format!("link set {link} up"))
}

/// Takes the power from the switch, so that nobody on it hears anything any more.
pub(crate) fn silence_switch(cluster: &ClusterName) {
    // Without a switch there is silence already.
    drop(ip(&format!("-n {} link set {SWITCH} down", machine::switch_namespace(cluster))));
}

/// Whether this machine has an interface that is called as its cable to a cluster.
pub(crate) fn has_link(cluster: &ClusterName) -> bool {
    Utf8Path::new("/sys/class/net").join(machine::link(cluster)).exists()
}

/// Removes the switch, all cables and all namespaces of a cluster, as far as there are any.
pub(crate) fn remove_all(cluster: &ClusterName) -> Result<(), LocalError> {
    if has_link(cluster) {
        ip(&format!("link del {}", machine::link(cluster)))?;
    }
    let prefix = machine::namespaces(cluster);
    let Ok(entries) = Utf8Path::new("/run/netns").read_dir_utf8() else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().starts_with(&prefix) {
            ip(&format!("netns del {}", entry.file_name()))?;
        }
    }
    Ok(())
}

/// Gives a host a network card and plugs it in, by a dead cable if `is_cut`. The namespace is new for every boot: nothing of the old
/// one, no half-closed connection and no rule, outlives the power.
pub(crate) fn plug(boot: &BootRecord, is_cut: bool) -> Result<(), ToolError> {
    unplug(boot);
    let switch = machine::switch_namespace(&boot.cluster);
    let (host, own) = (&boot.host.name, machine::host_namespace(&boot.cluster, &boot.host.name));
    let [a, b, c, d] = boot.host.address.octets();
    let hardware = format!("02:6d:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
    ip(&format!("netns add {own}"))?;
    ip(&format!(
        "-n {switch} link add {host} type veth peer name {CARD} netns {own} address {hardware}"
    ))?;
    ip(&format!("-n {own} link set lo up"))?;
    ip(&format!("-n {own} addr add {} dev {CARD}", boot.subnet.with(boot.host.address)))?;
    ip(&format!("-n {own} link set {CARD} up"))?;
    let power = if is_cut { "down" } else { "up" };
    ip(&format!("-n {switch} link set {host} master {SWITCH} {power}"))
}

/// Removes a host's network card, if it has one.
pub(crate) fn unplug(boot: &BootRecord) {
    let (cluster, host) = (&boot.cluster, &boot.host.name);
    drop(ip(&format!("-n {} link del {host}", machine::switch_namespace(cluster))));
    drop(ip(&format!("netns del {}", machine::host_namespace(cluster, host))));
}

/// Pulls a host's cable: nothing that it still says is heard.
pub(crate) fn silence(boot: &BootRecord) -> Result<(), ToolError> {
    let switch = machine::switch_namespace(&boot.cluster);
    ip(&format!("-n {switch} link set {} down", boot.host.name))
}

/// Puts a host's cable in again.
pub(crate) fn unsilence(boot: &BootRecord) -> Result<(), ToolError> {
    let switch = machine::switch_namespace(&boot.cluster);
    ip(&format!("-n {switch} link set {} up", boot.host.name))
}

/// Loses `percent` of the packets to a host and of those from it; none any more if it is 0.
pub(crate) fn lose(boot: &BootRecord, percent: u8) -> Result<(), ToolError> {
    let switch = machine::switch_namespace(&boot.cluster);
    let table = format!("bridge {}", boot.host.name);
    // What is added first can be deleted, whether it was there or not.
    let mut rules = vec![format!("add table {table}"), format!("delete table {table}")];
    if percent > 0 {
        let hook = "{ type filter hook forward priority 0; }";
        rules.push(format!("add table {table}"));
        rules.push(format!("add chain {table} lossy {hook}"));
        for card in ["iifname", "oifname"] {
            let packets =
                format!("{card} \"{}\" numgen random mod 100 < {percent}", boot.host.name);
            rules.push(format!("add rule {table} lossy {packets} drop"));
        }
    }
    tool::run("ip", &["netns", "exec", &switch, "nft", &rules.join("\n")]).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(text: &str) -> Subnet {
        text.parse().unwrap()
    }

    #[test]
    fn subnets_are_parsed_counted_and_compared() {
        let small = subnet("10.77.3.0/24");
        assert_eq!(small.to_string(), "10.77.3.0/24");
        assert_eq!(small.machine().to_string(), "10.77.3.1");
        assert_eq!(small.host(1).to_string(), "10.77.3.12");
        assert_eq!(small.hosts_max(), 244);
        assert!(small.overlaps(subnet("10.0.0.0/8")));
        assert!(!small.overlaps(subnet("10.77.4.0/24")));
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.1/24",
            "10.0.0.0/33",
            "10.0.0.0/0",
            "x/24",
            "127.0.0.0/8",
            "0.0.0.0/8",
            "224.0.0.0/24",
        ] {
            assert!(bad.parse::<Subnet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_free_subnet_is_one_that_nobody_uses() {
        let used = [subnet("10.77.0.0/23"), subnet("192.168.0.0/16")];
        assert_eq!(Subnet::free(&used).unwrap(), subnet("10.77.2.0/24"));
        assert!(Subnet::free(&[subnet("10.0.0.0/8")]).is_err());
    }

    #[test]
    fn routes_are_read_as_the_kernel_writes_them() {
        let line = "eth0\t00034D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0";
        assert_eq!(route(line), Some(subnet("10.77.3.0/24")));
    }
}
