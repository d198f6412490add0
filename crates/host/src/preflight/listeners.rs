//! Who listens where: the kernel's tables `/proc/net/{tcp,tcp6,udp,udp6}`, and the processes that hold
//! the sockets.
//!
//! Ports stand there in hexadecimal digits, whose case says nothing, and among connections that are no
//! listeners: every field is parsed, and nothing is searched for in the text.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use camino::Utf8Path;

use super::facts::Facts;

/// The state of a TCP socket that listens.
const TCP_LISTEN: u8 = 0x0A;
/// The state of a UDP socket that takes what anybody sends; the kernel calls it closed.
const UDP_UNCONNECTED: u8 = 0x07;

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A socket on which somebody waits for others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    /// Its protocol.
    pub protocol: Protocol,
    /// Where it listens.
    pub at: SocketAddr,
    /// What the kernel calls the socket.
    pub inode: u64,
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// The listeners in one of the kernel's tables; lines that are none of it are skipped.
pub fn parse(protocol: Protocol, table: &str) -> Vec<Listener> {
    let waiting = match protocol {
        Protocol::Tcp => TCP_LISTEN,
        Protocol::Udp => UDP_UNCONNECTED,
    };
    let listener = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        fields.next()?.strip_suffix(':')?.parse::<u64>().ok()?;
        let at = address(fields.next()?)?;
        let state = u8::from_str_radix(fields.nth(1)?, 16).ok()?;
        let inode = fields.nth(5)?.parse().ok()?;
        (state == waiting).then_some(Listener { protocol, at, inode })
    };
    table.lines().filter_map(listener).collect()
}

/// `0100007F:1F90`: an address in words of the machine's byte order, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex(address) || !is_hex(port) || port.len() != 4 {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for part in 0..4 {
                bytes[part * 4..part * 4 + 4].copy_from_slice(&word(part * 8)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// A process that holds a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// What it is called.
    pub name: String,
    /// The program that it runs.
    pub program: String,
    /// The unit that it belongs to.
    pub unit: Option<String>,
}

/// All listeners of a machine, and who holds them as far as can be told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listening {
    /// Every socket.
    pub listeners: BTreeSet<Listener>,
    /// Who holds each, by the number of the socket.
    pub holders: BTreeMap<u64, Vec<Holder>>,
}

impl Listening {
    /// Reads the tables, and looks for the holders of sockets with these ports.
    pub(super) fn read(facts: &Facts, is_asked: impl Fn(&Listener) -> bool) -> Self {
        let mut listeners = BTreeSet::new();
        for (protocol, table) in [
            (Protocol::Tcp, "tcp"),
            (Protocol::Tcp, "tcp6"),
            (Protocol::Udp, "udp"),
            (Protocol::Udp, "udp6"),
        ] {
            let text = facts.text(Utf8Path::new("/proc/net").join(table)).unwrap_or_default();
            listeners.extend(parse(protocol, &text));
        }
        listeners.retain(is_asked);
        let inodes = listeners.iter().map(|listener| listener.inode).collect();
        Self { holders: holders(facts, &inodes), listeners }
    }
}

/// The processes that hold these sockets; others' can be seen by root only.
fn holders(facts: &Facts, inodes: &BTreeSet<u64>) -> BTreeMap<u64, Vec<Holder>> {
    let mut holders: BTreeMap<u64, Vec<Holder>> = BTreeMap::new();
    if inodes.is_empty() {
        return holders;
    }
    for pid in facts.names("/proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        let folder = Utf8Path::new("/proc").join(pid.to_string());
        let open = facts.names(folder.join("fd"));
        let sockets =
            open.iter().filter_map(|name| socket(&facts.link(folder.join("fd").join(name))?));
        let held: BTreeSet<u64> = sockets.filter(|inode| inodes.contains(inode)).collect();
        for inode in held {
            let holder = Holder {
                pid,
                name: facts.line(folder.join("comm")).unwrap_or_default(),
                program: facts.link(folder.join("exe")).unwrap_or_default(),
                unit: facts.text(folder.join("cgroup")).and_then(|groups| unit(&groups)),
            };
            holders.entry(inode).or_default().push(holder);
        }
    }
    holders
}

/// The number in `socket:[123]`.
fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The unit in the text of `/proc/PID/cgroup`.
fn unit(groups: &str) -> Option<String> {
    let is_unit =
        |part: &&str| [".service", ".scope", ".socket"].iter().any(|ending| part.ends_with(ending));
    groups.lines().find_map(|line| line.rsplit('/').find(is_unit)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Recorded on one machine; ports with letters in their digits, listeners beside connections.
    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:01BB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1 000000008ba8dad5 100 0 0 10 0
   1: 0100007F:13BA 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 102 1 000000008ba8dad5 100 0 0 10 0
   2: 0100000A:1F90 0200000A:C350 06 00000000:00000000 03:000016F3 00000000     0        0 0 3 000000008ba8dad5
   3: 0100000A:1F90 0200000A:C351 01 00000000:00000000 00:00000000 00000000     0        0 104 1 000000008ba8dad5 20 4 30 10 -1
   4: 3500007F:0035 00000000:0000 0A 00000000:00000000 00:00000000 00000000   101        0 105 1 000000008ba8dad5 100 0 0 10 5
";
    const TCP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 201 1 0 100 0 0 10 0
   1: 00000000000000000000000001000000:0CEA 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 202 1 0 100 0 0 10 0
   2: 0000000000000000FFFF00000100007F:1F91 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 203 1 0 100 0 0 10 0
";
    const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  123: 3500007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000   101        0 301 2 0000000000000000 0
  124: 0100000A:D431 0200000A:0035 01 00000000:00000000 00:00000000 00000000     0        0 302 2 0000000000000000 0
";

    fn shown(protocol: Protocol, table: &str) -> Vec<String> {
        let found = parse(protocol, table);
        found.iter().map(|one| format!("{} {} {}", one.protocol, one.at, one.inode)).collect()
    }

    // Defect 1 of the reference: lower-case digits were searched for in upper-case ones, as a part of
    // any field, in connections of any state.
    #[test]
    fn every_listener_is_found_whatever_its_digits_and_nothing_else() {
        assert_eq!(
            shown(Protocol::Tcp, TCP),
            ["tcp 0.0.0.0:443 101", "tcp 127.0.0.1:5050 102", "tcp 127.0.0.53:53 105"]
        );
        assert_eq!(
            shown(Protocol::Tcp, TCP6),
            ["tcp [::]:8080 201", "tcp [::1]:3306 202", "tcp 127.0.0.1:8081 203"]
        );
        assert_eq!(shown(Protocol::Udp, UDP), ["udp 127.0.0.53:53 301"]);
        let lower = TCP.replace("01BB", "01bb").replace("13BA", "13ba").replace(" 0A ", " 0a ");
        assert_eq!(shown(Protocol::Tcp, &lower), shown(Protocol::Tcp, TCP));
    }

    #[test]
    fn the_unit_of_a_process_is_the_innermost() {
        let two = "0::/system.slice/atoll-etcd.service\n";
        assert_eq!(unit(two).as_deref(), Some("atoll-etcd.service"));
        let nested = "0::/system.slice/docker.service/inner.scope/payload\n";
        assert_eq!(unit(nested).as_deref(), Some("inner.scope"));
        assert_eq!(unit("0::/\n"), None);
    }

    proptest! {
        #[test]
        fn no_table_breaks_the_parser(table in "\\PC*", lines in "([ 0-9A-F:]{0,80}\n){0,8}") {
            parse(Protocol::Tcp, &table);
            parse(Protocol::Udp, &lines);
        }

        #[test]
        fn what_the_kernel_writes_is_read_back(
            address in any::<[u8; 4]>(), port in 1_u16.., inode in any::<u32>(), state in 1_u8..12,
        ) {
            let word = u32::from_ne_bytes(address);
            let line = format!("  0: {word:08X}:{port:04X} 00000000:0000 {state:02X} \
                00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0 100 0 0 10 0");
            let at = SocketAddr::new(IpAddr::V4(address.into()), port);
            let one = Listener { protocol: Protocol::Tcp, at, inode: inode.into() };
            let expected: Vec<Listener> = (state == TCP_LISTEN).then_some(one).into_iter().collect();
            prop_assert_eq!(parse(Protocol::Tcp, &line), expected);
        }
    }
}
