//! A simulated cluster, and the upgrade of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet::event::Event;
use fleet::inventory::Host;
use fleet::journal::{Journal, JournalError};
use fleet::run::{Group, Membership, Operation, RunId, RunSpec, Size, Target, Waves};
use fleet::transport::simulated::{
    Faults, Kills, Look, Simulated, SimulationError, World, simulate,
};
use host::wire::Wanted;
use package::Sha256;

/// A version of what is installed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version(&'static str);

pub(crate) const OLD: Version = Version("old");
pub(crate) const NEW: Version = Version("new");

impl Version {
    pub(crate) fn bundle(self) -> Sha256 {
        Sha256::of(self.0.as_bytes())
    }

    pub(crate) fn wanted(self, upgrade: bool) -> Wanted {
        Wanted {
            from: "https://bundle.example".to_owned(),
            bundle: self.bundle(),
            roles: BTreeSet::new(),
            public_key: None,
            role_keys: Vec::new(),
            upgrade,
            allow_older: false,
            allow_expired: false,
            disable_preflight: false,
            skip_checks: false,
            planned: None,
        }
    }
}

/// Hosts, and what shall be done to them.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) world: Arc<World>,
    pub(crate) spec: RunSpec,
}

impl Cluster {
    /// A cluster on which the old version is live, to be upgraded.
    pub(crate) fn new(masters: usize, agents: usize, seed: u64, faults: &Faults) -> Self {
        let cluster = Self::empty(masters, agents, seed, faults);
        cluster.world.install(OLD.bundle());
        cluster
    }

    /// The same with nothing live yet.
    pub(crate) fn empty(masters: usize, agents: usize, seed: u64, faults: &Faults) -> Self {
        let id = RunId::try_from(format!("run-{seed}")).unwrap();
        let mut spec =
            RunSpec::new(id, "cluster", Operation::Upgrade).installing(false, Waves::careful());
        spec.wanted = vec![NEW.wanted(true)];
        spec.budget = Size::Percent(5);
        for place in 0..masters + agents {
            let is_master = place < masters;
            let name = if is_master {
                format!("m{}", place + 1)
            } else {
                format!("a{}", place + 1 - masters)
            };
            let group = if is_master { Group::Master } else { Group::Agent };
            spec.hosts.push(target(name, group));
        }
        let hosts = spec.hosts.iter().map(|target| &target.host);
        let world = World::new(hosts, |host| host.name.starts_with('m'), seed, faults);
        Self { world, spec }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.spec.hosts.iter().map(|target| target.host.name.as_str())
    }

    pub(crate) fn look(&self, name: &str) -> Look {
        self.world.look(name).unwrap()
    }

    /// Does the run.
    pub(crate) fn upgrade(&self) -> Result<Simulated, SimulationError> {
        self.watched(&mut |_| {})
    }

    /// Does the run, and hears of it.
    pub(crate) fn watched(
        &self,
        watch: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Simulated, SimulationError> {
        simulate(&self.world, self.spec.clone(), None, Journal::in_memory, watch)
    }

    /// Does the run with controllers that are killed.
    pub(crate) fn killed(
        &self,
        kills: Kills,
        journal: impl FnMut() -> Result<Journal, JournalError>,
        watch: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Simulated, SimulationError> {
        simulate(&self.world, self.spec.clone(), Some(kills), journal, watch)
    }
}

pub(crate) fn target(name: String, group: Group) -> Target {
    let host = Host {
        address: name.clone(),
        name,
        port: None,
        user: None,
        key: None,
        jump: None,
        roles: BTreeSet::new(),
        rack: None,
        labels: BTreeMap::new(),
    };
    Target {
        host,
        group,
        wanted: Some(0),
        back: None,
        canary: false,
        planned: None,
        membership: Membership::default(),
    }
}
