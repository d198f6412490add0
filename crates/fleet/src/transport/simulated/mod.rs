//! Hosts that are not there: each a small model of a host, with latencies in virtual time and with
//! things that go wrong, the same ones for the same seed. Steps go on without a connection, as on hosts.
//!
//! On a runtime whose time is paused ([`simulate`]) fifty thousand hosts take seconds.

mod cluster;
mod host;
mod mishap;
mod network;
mod run;
mod source;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ::host::wire::{Action, Order, Relay, Request};
use package::Sha256;
use tokio::time::{Instant, sleep, sleep_until};

use self::cluster::Cluster;
pub use self::host::{Acted, Effect, Look};
use self::host::{Around, Fate, Found, Model};
pub use self::mishap::{Faults, Mishap};
use self::network::{Blocked, Network};
pub use self::run::{Kills, Simulated, SimulationError, simulate};
pub use self::source::Handed;
use self::source::{Pushing, Supply};
use super::{Answer, Listener, Session, Transport};
use crate::fault::{Fault, FaultKind};
use crate::inventory::Host;

/// Longer than anybody waits, in seconds.
const FOR_EVER: u64 = 1_000_000;
/// How long nobody answers at an address until nobody waits any more.
const NO_ANSWER: Duration = Duration::from_secs(20);

/// Hosts of a simulation. They outlive every controller.
#[derive(Debug)]
pub struct World {
    hosts: Vec<Mutex<Model>>,
    places: HashMap<String, usize>,
    /// Hosts by address.
    seats: HashMap<IpAddr, usize>,
    blocked: Mutex<Blocked>,
    /// The same by address.
    addresses: HashMap<String, usize>,
    cluster: Mutex<Cluster>,
    supply: Mutex<Supply>,
    /// When somebody first reached for them.
    began: OnceLock<Instant>,
}

/// How a simulation reaches its hosts.
#[derive(Debug, Clone)]
pub struct Simulation(Arc<World>);

/// A connection to a host that is not there.
#[derive(Debug)]
pub struct Connection {
    world: Arc<World>,
    place: usize,
    boots: u64,
    is_prepared: bool,
}

impl World {
    /// Machines with nothing on them. The quorum of those that are masters is watched.
    pub fn new<'a>(
        hosts: impl IntoIterator<Item = &'a Host>,
        is_master: impl Fn(&Host) -> bool,
        seed: u64,
        faults: &Faults,
    ) -> Arc<Self> {
        let mut world = Self {
            hosts: Vec::new(),
            places: HashMap::new(),
            seats: HashMap::new(),
            blocked: Mutex::default(),
            addresses: HashMap::new(),
            cluster: Mutex::new(Cluster::default()),
            supply: Mutex::new(Supply::default()),
            began: OnceLock::new(),
        };
        for host in hosts {
            let place = world.hosts.len();
            world.places.insert(host.name.clone(), place);
            world.addresses.insert(host.address.clone(), place);
            let is_master = is_master(host);
            let network = Network::of(host, place);
            world.seats.insert(network.address, place);
            world.hosts.push(Mutex::new(Model::new(seed, place, is_master, faults, network)));
            if is_master {
                lock(&world.cluster).masters.push(place);
            }
        }
        Arc::new(world)
    }

    /// Makes a bundle live on all of them, as a deployment long ago did.
    pub fn install(&self, bundle: Sha256) {
        self.hosts.iter().for_each(|host| lock(host).had(bundle));
        lock(&self.cluster).is_there = true;
    }

    /// The same on a part of them.
    pub fn install_on(&self, bundle: Sha256, hosts: &[&str]) {
        for place in hosts.iter().filter_map(|name| self.places.get(*name)) {
            lock(&self.hosts[*place]).had(bundle);
        }
        lock(&self.cluster).is_there = true;
    }

    /// What masters can do to the cluster once something is live on them.
    pub fn bring(&self, actions: &[Action]) {
        for host in &self.hosts {
            let mut host = lock(host);
            if host.is_master {
                actions.clone_into(&mut host.actions);
            }
        }
    }

    /// Makes all fail that a host shall do to the cluster.
    pub fn fail_actions(&self, host: &str, why: &str) {
        if let Some(place) = self.places.get(host) {
            lock(&self.hosts[*place]).acts_fail = Some(why.to_owned());
        }
    }

    /// Makes something go wrong with a host, and nothing else.
    pub fn afflict(&self, host: &str, mishap: Option<Mishap>) {
        if let Some(place) = self.places.get(host) {
            lock(&self.hosts[*place]).mishap = mishap;
        }
    }

    /// Makes checks of the cluster fail as soon as so many masters, and so many agents, run `bundle`.
    pub fn sicken(&self, bundle: Sha256, masters: usize, agents: usize) {
        lock(&self.cluster).sick = Some((bundle, masters, agents));
    }

    /// What a host was like when somebody last had to do with it.
    pub fn look(&self, host: &str) -> Option<Look> {
        Some(lock(&self.hosts[*self.places.get(host)?]).look())
    }

    /// All that was done to the quorum that must never be.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.cluster).violations.clone()
    }

    /// How the bundle got to hosts.
    pub fn handed(&self) -> Handed {
        lock(&self.supply).handed
    }

    /// What a host finds at the one that it shall get something from.
    fn source_of(&self, relay: &Relay, now: Instant) -> Option<Found> {
        let from = relay.from.as_deref()?;
        let place = source::address_in(from).and_then(|address| self.addresses.get(address));
        let Some(place) = place else { return Some(Err("there is no such host".to_owned())) };
        self.settle(*place, now);
        Some(lock(&self.hosts[*place]).found(now))
    }

    /// Lets everything happen that has until now, and forgets when: the next run has a clock of its own.
    fn rest(&self) {
        for place in 0..self.hosts.len() {
            self.settle(place, Instant::now());
            lock(&self.hosts[place]).rest();
        }
        lock(&self.cluster).rest();
    }

    /// Lets everything happen to a host that has until now.
    fn settle(&self, place: usize, now: Instant) {
        let mut host = lock(&self.hosts[place]);
        if let Some((from, to)) = host.settle(now) {
            let is_master = host.is_master;
            lock(&self.cluster).moved(is_master, from, to);
        }
    }

    /// Whether the cluster is well, as one of its masters sees it.
    fn cluster_is_well(&self, now: Instant) -> Result<(), String> {
        let masters = lock(&self.cluster).masters.clone();
        let well = self.masters_up(&masters, now).count();
        lock(&self.cluster).is_well(well)
    }

    /// The masters that are up and are not changing.
    fn masters_up<'a>(
        &'a self,
        masters: &'a [usize],
        now: Instant,
    ) -> impl Iterator<Item = usize> + 'a {
        masters.iter().copied().filter(move |place| {
            self.settle(*place, now);
            lock(&self.hosts[*place]).is_up(now)
        })
    }

    /// Has a host begin a step, and says when something is heard of it.
    fn begin(&self, place: usize, order: &Order, now: Instant) -> Begun {
        self.settle(place, now);
        let cluster = match order.request {
            Request::Check { cluster: true } => Some(self.cluster_is_well(now)),
            _ => None,
        };
        let unreachable = self.unreachable(place, &order.request, now);
        self.must_listen_anew(place, &order.id, &order.request, now);
        let source = match &order.request {
            Request::Relay(relay) => self.source_of(relay, now),
            _ => None,
        };
        let mut host = lock(&self.hosts[place]);
        if let Some(report) = host.done.get(&order.id) {
            return Begun::Done(Answer { report: report.clone(), already: true });
        }
        match &host.working {
            Some(working) if working.id == order.id => return Begun::Until(working.heard()),
            // One after the other.
            Some(working) => return Begun::Wait(working.ends),
            None => {}
        }
        let began = *self.began.get_or_init(|| now);
        let heard = host.begin(order, Around { cluster, unreachable, source }, now, began);
        if let (Request::Relay(relay), Some(working)) = (&order.request, &host.working) {
            lock(&self.supply).fetches(relay.from.as_deref(), working.ends, now);
        }
        let (is_master, changes) = (host.is_master, host.is_switching());
        drop(host);
        if is_master && changes {
            let masters = lock(&self.cluster).masters.clone();
            let up = self.masters_up(&masters, now).filter(|other| *other != place).count();
            let ends = lock(&self.hosts[place]).working.as_ref().map_or(now, |work| work.ends);
            lock(&self.cluster).master_changes(place, up, now, ends);
        }
        Begun::Until(heard)
    }
}

/// What comes of an order.
enum Begun {
    Done(Answer),
    Until(Fate),
    Wait(Instant),
}

impl Simulation {
    /// Reaches the hosts of `world`. On a runtime: its time is theirs.
    pub fn new(world: &Arc<World>) -> Self {
        world.began.get_or_init(Instant::now);
        Self(Arc::clone(world))
    }
}

impl Transport for Simulation {
    type Session = Connection;

    async fn connect(&self, host: &Host) -> Result<Connection, Fault> {
        let unknown = || Fault::new(FaultKind::Unreachable, "there is no such host");
        let place = *self.0.places.get(&host.name).ok_or_else(unknown)?;
        let wait = lock(&self.0.hosts[place]).latency(20, 200);
        sleep(wait).await;
        self.0.settle(place, Instant::now());
        let met = lock(&self.0.hosts[place]).meet(Instant::now());
        match met {
            Ok(boots) => {
                let world = Arc::clone(&self.0);
                Ok(Connection { world, place, boots, is_prepared: false })
            }
            Err(None) => {
                sleep(NO_ANSWER).await;
                let cause = format!("no answer within {} s", NO_ANSWER.as_secs());
                Err(Fault::new(FaultKind::Unreachable, cause).during("cannot connect"))
            }
            Err(Some(fault)) => Err(fault),
        }
    }
}

impl Session for Connection {
    async fn prepare(&mut self) -> Result<(), Fault> {
        if !self.is_prepared {
            let (wait, mishap) = {
                let mut host = lock(&self.world.hosts[self.place]);
                (host.latency(10, 50), host.mishap)
            };
            sleep(wait).await;
            if mishap == Some(Mishap::SudoRefused) {
                return Err(Fault::new(FaultKind::Sudo, "sudo asks for a password"));
            }
            self.is_prepared = true;
        }
        Ok(())
    }

    async fn push(&mut self, said: &mut dyn Listener) -> Result<(), Fault> {
        let _pushing = Pushing::new(&self.world.supply);
        let wait = lock(&self.world.hosts[self.place]).latency(500, 5_000);
        sleep(wait).await;
        said.progress(1, 1);
        self.is_still_there()
    }

    async fn step(&mut self, order: &Order, said: &mut dyn Listener) -> Result<Answer, Fault> {
        let wait = lock(&self.world.hosts[self.place]).latency(1, 30);
        sleep(wait).await;
        loop {
            self.is_still_there()?;
            match self.world.begin(self.place, order, Instant::now()) {
                Begun::Done(answer) => return Ok(answer),
                Begun::Wait(until) => sleep_until(until).await,
                Begun::Until(Fate::Silence) => sleep(Duration::from_secs(FOR_EVER)).await,
                Begun::Until(Fate::Lost(at)) => {
                    sleep_until(at).await;
                    return Err(lost());
                }
                Begun::Until(Fate::Ends(at)) => {
                    if let Request::Install(_) = order.request {
                        said.line("making it live");
                    }
                    sleep_until(at).await;
                    self.is_still_there()?;
                    self.world.settle(self.place, Instant::now());
                    let host = lock(&self.world.hosts[self.place]);
                    if let Some(report) = host.done.get(&order.id) {
                        return Ok(Answer { report: report.clone(), already: false });
                    }
                }
            }
        }
    }

    async fn leave(&mut self) -> Result<(), Fault> {
        let wait = lock(&self.world.hosts[self.place]).latency(5, 20);
        sleep(wait).await;
        self.is_prepared = false;
        self.is_still_there()?;
        lock(&self.world.hosts[self.place]).left();
        Ok(())
    }
}

impl Connection {
    fn is_still_there(&self) -> Result<(), Fault> {
        let now = Instant::now();
        self.world.settle(self.place, now);
        let host = lock(&self.world.hosts[self.place]);
        if host.boots == self.boots && host.is_reachable(now) { Ok(()) } else { Err(lost()) }
    }
}

fn lost() -> Fault {
    Fault::new(FaultKind::Lost, "the connection was lost")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
