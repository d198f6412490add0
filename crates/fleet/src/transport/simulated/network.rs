//! What simulated hosts are to each other: which machine each is, where it is, who listens, and what is in the
//! way between them.

use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ::host::wire::{Request, StepId};
use package::Sha256;
use tokio::time::Instant;

use super::{World, lock};
use crate::inventory::Host;

/// The first address of hosts that are only known by name.
const FIRST_ADDRESS: u32 = 0x0a00_0001;

/// What a host is among others.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) machine: Sha256,
    pub(super) address: IpAddr,
    /// What the script of the distribution finds.
    pub(super) detected: Option<IpAddr>,
    /// How far its clock is ahead, in seconds.
    pub(super) skew: i64,
    /// Where it listens for others, and how long.
    pub(super) listening: Option<(BTreeSet<u16>, Instant)>,
}

impl Network {
    pub(super) fn of(host: &Host, place: usize) -> Self {
        let number = u32::try_from(place).unwrap_or(u32::MAX);
        let made_up = || Ipv4Addr::from(FIRST_ADDRESS.wrapping_add(number)).into();
        let address = host.address.parse().unwrap_or_else(|_| made_up());
        let machine = Sha256::of(host.name.as_bytes());
        Self { machine, address, detected: Some(address), skew: 0, listening: None }
    }

    pub(super) fn listen(&mut self, ports: &BTreeSet<u16>, until: Instant) {
        self.listening = Some((ports.clone(), until));
    }

    pub(super) fn is_listening(&self, now: Instant) -> bool {
        self.listening.as_ref().is_some_and(|(_, until)| now < *until)
    }
}

/// What is in the way: from one host to another one, on a port.
pub(super) type Blocked = HashSet<(usize, usize, u16)>;

impl World {
    /// Makes the clock of a host go ahead by so many seconds.
    pub fn skew(&self, host: &str, seconds: i64) {
        self.change(host, |network| network.skew = seconds);
    }

    /// Makes a host a clone of another one.
    pub fn clone_machine(&self, host: &str, of: &str) {
        self.change(host, |network| network.machine = Sha256::of(of.as_bytes()));
    }

    /// Makes the script of the distribution find something else on a host.
    pub fn detect(&self, host: &str, address: Option<IpAddr>) {
        self.change(host, |network| network.detected = address);
    }

    /// Where a host is.
    pub fn address(&self, host: &str) -> Option<IpAddr> {
        Some(lock(&self.hosts[*self.places.get(host)?]).network.address)
    }

    /// Lets nothing pass from one host to another one on a port.
    pub fn block(&self, from: &str, to: &str, port: u16) {
        if let (Some(from), Some(to)) = (self.places.get(from), self.places.get(to)) {
            lock(&self.blocked).insert((*from, *to, port));
        }
    }

    fn change(&self, host: &str, change: impl FnOnce(&mut Network)) {
        if let Some(place) = self.places.get(host) {
            change(&mut lock(&self.hosts[*place]).network);
        }
    }

    /// Whom of these a host does not reach, with why.
    pub(super) fn unreachable(
        &self,
        from: usize,
        request: &Request,
        now: Instant,
    ) -> Vec<(SocketAddr, String)> {
        let Request::Reach { addresses } = request else { return Vec::new() };
        let blocked = lock(&self.blocked);
        let why = |address: &SocketAddr| {
            let Some(to) = self.seats.get(&address.ip()) else { return Some("no way to the host") };
            self.settle(*to, now);
            let host = lock(&self.hosts[*to]);
            let listening = host.network.listening.as_ref();
            let is_heard = listening
                .is_some_and(|(ports, until)| now < *until && ports.contains(&address.port()));
            match () {
                () if !host.is_reachable(now) => Some("no answer"),
                () if blocked.contains(&(from, *to, address.port())) => Some("no answer"),
                () if !is_heard => Some("refused"),
                () => None,
            }
        };
        let failed =
            addresses.iter().filter_map(|address| Some((*address, why(address)?.to_owned())));
        failed.collect()
    }

    /// Whether a host would have to listen anew: it did for this step, and does no more.
    pub(super) fn must_listen_anew(
        &self,
        place: usize,
        id: &StepId,
        request: &Request,
        now: Instant,
    ) {
        let mut host = lock(&self.hosts[place]);
        if matches!(request, Request::Listen { .. }) && !host.network.is_listening(now) {
            host.done.remove(id);
        }
    }
}
