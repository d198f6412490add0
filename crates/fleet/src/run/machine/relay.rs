//! Who gets packages from whom. Some hosts get them from here; who has them serves others, so a tree
//! grows by itself, in the order in which hosts answer.
//!
//! A host gets what it lacks and nothing else, so it can serve those that lack no more than it did. From
//! here go copies until `fan` hosts serve a kind of hosts, and those for hosts that no other one could
//! serve. One that will serve soon does not count: nobody waits for a host of which nothing is heard.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use host::wire::{Relay, Report};
use package::{PackageId, Sha256};

use super::{At, Doing, Effect, Effects, Group, Machine, Outcome};
use crate::event::What;
use crate::inventory::Host;
use crate::run::state::Happening;

/// How many hosts one after the other fail to get anything from one before nobody is sent there any more.
const FAILURES_MAX: u32 = 2;
/// How many hosts fail one before it gets everything from here.
const SOURCES_MAX: usize = 2;
/// How long hosts serve others at the most, in seconds.
const SERVE_SECONDS: u64 = 3600;
/// What a host calls it when the one that it gets something from is at fault, or the way to it.
const SOURCE: &str = "source";

/// What hosts lack: those that lack the same are of one kind.
#[derive(Debug)]
pub(super) struct Kinds {
    places: BTreeMap<BTreeSet<PackageId>, usize>,
    lacking: Vec<BTreeSet<PackageId>>,
}

impl Default for Kinds {
    /// The first kind lacks nothing.
    fn default() -> Self {
        Self { places: [(BTreeSet::new(), 0)].into(), lacking: vec![BTreeSet::new()] }
    }
}

impl Kinds {
    /// The kind of hosts that lack these.
    pub(super) fn of(&mut self, packages: &BTreeSet<PackageId>) -> usize {
        if let Some(known) = self.places.get(packages) {
            return *known;
        }
        let kind = self.lacking.len();
        self.places.insert(packages.clone(), kind);
        self.lacking.push(packages.clone());
        kind
    }

    /// For each kind those that lack no more, its own first.
    fn served(&self) -> Vec<Vec<usize>> {
        let all = 0..self.lacking.len();
        let of = |kind: usize| {
            let others = all.clone().filter(move |other| *other != kind);
            let no_more =
                others.filter(|other| self.lacking[*other].is_subset(&self.lacking[kind]));
            std::iter::once(kind).chain(no_more).collect()
        };
        all.clone().map(of).collect()
    }
}

/// A host that serves others.
#[derive(Debug)]
struct Source {
    port: u16,
    /// How many get something from it.
    children: usize,
    /// How many failed one after the other.
    failures: u32,
}

/// Where the hosts of a phase are.
#[derive(Debug)]
pub(super) struct InRelay {
    fan: usize,
    kinds: Vec<usize>,
    racks: Vec<Option<usize>>,
    /// For each kind those that its hosts can serve.
    serves: Vec<Vec<usize>>,
    /// For each kind those whose hosts can serve it.
    served_by: Vec<Vec<usize>>,
    /// Who waits, by kind.
    waiting: Vec<BTreeSet<usize>>,
    /// The same, by kind and rack.
    nearby: BTreeMap<(usize, usize), BTreeSet<usize>>,
    /// Who waits and gets everything from here.
    unserved: VecDeque<usize>,
    /// How many are sent everything now.
    sending: usize,
    /// Who gets everything from whom now.
    getting: BTreeMap<usize, usize>,
    sources: BTreeMap<usize, Source>,
    /// Sources that can serve one more, by kind.
    free: Vec<BTreeSet<usize>>,
    /// How many are sources, by kind.
    able: Vec<usize>,
    /// The sources that failed a host.
    failed: BTreeMap<usize, BTreeSet<usize>>,
}

impl InRelay {
    /// How often a host was sent to others, now included.
    pub(super) fn tries(&self, host: usize) -> usize {
        self.failed.get(&host).map_or(0, BTreeSet::len) + 1
    }

    fn wait(&mut self, host: usize) {
        if self.failed.get(&host).is_some_and(|failed| failed.len() >= SOURCES_MAX) {
            return self.unserved.push_back(host);
        }
        let kind = self.kinds[host];
        self.waiting[kind].insert(host);
        if let Some(rack) = self.racks[host] {
            self.nearby.entry((kind, rack)).or_default().insert(host);
        }
    }

    /// The next one that can have something, and from whom; none: from here. `is_idle`: nobody is at
    /// anything, so nothing is worth waiting for.
    fn next(&mut self, is_idle: bool) -> Option<(usize, Option<usize>)> {
        let (host, from) = self.next_from_others().or_else(|| self.next_from_here(is_idle))?;
        let kind = self.kinds[host];
        self.waiting[kind].remove(&host);
        if let Some(near) = self.racks[host].and_then(|rack| self.nearby.get_mut(&(kind, rack))) {
            near.remove(&host);
        }
        match from {
            None => self.sending += 1,
            Some(from) => {
                self.getting.insert(host, from);
                self.change(from, |source| source.children += 1);
            }
        }
        Some((host, from))
    }

    fn next_from_others(&self) -> Option<(usize, Option<usize>)> {
        self.free.iter().enumerate().find_map(|(kind, free)| {
            let served = &self.serves[kind];
            let is_any = served.iter().any(|kind| !self.waiting[*kind].is_empty());
            let mut free = free.iter().filter(|_| is_any);
            free.find_map(|source| Some((self.child_of(*source, served)?, Some(*source))))
        })
    }

    /// One that waits and that a source can serve, of its own rack if there is one.
    fn child_of(&self, source: usize, served: &[usize]) -> Option<usize> {
        let can_be =
            |host: &&usize| self.failed.get(*host).is_none_or(|failed| !failed.contains(&source));
        served.iter().find_map(|kind| {
            let near = self.racks[source].and_then(|rack| self.nearby.get(&(*kind, rack)));
            let near = near.and_then(|near| near.iter().find(can_be));
            near.or_else(|| self.waiting[*kind].iter().find(can_be)).copied()
        })
    }

    fn next_from_here(&mut self, is_idle: bool) -> Option<(usize, Option<usize>)> {
        if self.sending >= self.fan {
            return None;
        }
        if let Some(host) = self.unserved.pop_front() {
            return Some((host, None));
        }
        let mut kinds = self.waiting.iter().enumerate();
        kinds.find_map(|(kind, waiting)| {
            let host = waiting.first()?;
            let able: usize = self.served_by[kind].iter().map(|kind| self.able[*kind]).sum();
            (is_idle || able < self.fan).then_some((*host, None))
        })
    }

    /// Changes a source, if it is still one, and what can be done with it.
    fn change(&mut self, host: usize, change: impl FnOnce(&mut Source)) {
        let Some(source) = self.sources.get_mut(&host) else { return };
        change(source);
        let free = &mut self.free[self.kinds[host]];
        if source.failures >= FAILURES_MAX {
            self.drop_source(host);
        } else if source.children < self.fan {
            free.insert(host);
        } else {
            free.remove(&host);
        }
    }

    fn drop_source(&mut self, host: usize) {
        if self.sources.remove(&host).is_some() {
            let kind = self.kinds[host];
            self.free[kind].remove(&host);
            self.able[kind] -= 1;
        }
    }

    /// A host has everything, and serves others if it can.
    fn has(&mut self, host: usize, port: Option<u16>) {
        let Some(port) = port else { return };
        self.sources.insert(host, Source { port, children: 0, failures: 0 });
        self.free[self.kinds[host]].insert(host);
        self.able[self.kinds[host]] += 1;
    }
}

impl Machine {
    pub(super) fn in_relay(&self) -> &InRelay {
        match &self.at {
            At::Relay(at) => at,
            _ => unreachable!("only a phase of relays has relays"),
        }
    }

    fn in_relay_mut(&mut self) -> &mut InRelay {
        match &mut self.at {
            At::Relay(at) => at,
            _ => unreachable!("only a phase of relays has relays"),
        }
    }

    /// Begins a phase; returns how many hosts take part.
    pub(super) fn begin_relay(&mut self, fan: usize) -> usize {
        let serves = self.kinds.served();
        let mut served_by = vec![Vec::new(); serves.len()];
        for (kind, served) in serves.iter().enumerate() {
            for served in served {
                served_by[*served].push(kind);
            }
        }
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut racks = Vec::new();
        for target in &self.spec.hosts {
            let next = places.len();
            let rack = target.host.rack.as_deref();
            racks.push(rack.map(|rack| *places.entry(rack).or_insert(next)));
        }
        let mut at = InRelay {
            fan: fan.max(1),
            kinds: self.hosts.iter().map(|entry| entry.kind).collect(),
            racks,
            waiting: vec![BTreeSet::new(); serves.len()],
            nearby: BTreeMap::new(),
            unserved: VecDeque::new(),
            sending: 0,
            getting: BTreeMap::new(),
            sources: BTreeMap::new(),
            free: vec![BTreeSet::new(); serves.len()],
            able: vec![0; serves.len()],
            failed: BTreeMap::new(),
            serves,
            served_by,
        };
        let all = self.spec.hosts.iter().zip(&self.hosts).enumerate();
        let able = all.filter(|(_, (target, entry))| {
            target.group != Group::Witness && entry.state.can_go_on()
        });
        let (with_all, lacking): (Vec<usize>, Vec<usize>) =
            able.map(|(host, _)| host).partition(|host| at.kinds[*host] == 0);
        let hosts = with_all.len() + lacking.len();
        for host in lacking {
            at.wait(host);
        }
        self.queue = with_all.into_iter().map(|host| (host, Doing::Stage)).collect();
        self.at = At::Relay(Box::new(at));
        hosts
    }

    /// A host that can be given what it lacks now.
    pub(super) fn supplied(&mut self) -> Option<(usize, Doing)> {
        let is_idle = self.running == 0;
        let At::Relay(at) = &mut self.at else { return None };
        if self.stopped.is_some() {
            return None;
        }
        let (host, from) = at.next(is_idle)?;
        Some((host, if from.is_some() { Doing::Fetch } else { Doing::Send }))
    }

    /// What a host is told that gets something from another one, or that shall serve others.
    pub(super) fn relay(&self, host: usize, bundle: Sha256) -> Relay {
        let at = self.in_relay();
        let from = at.getting.get(&host).map(|from| {
            let port = at.sources.get(from).map_or(0, |source| source.port);
            url(&self.spec.hosts[*from].host, port)
        });
        let packages = self.kinds.lacking[self.hosts[host].kind].clone();
        Relay { folder: String::new(), bundle, from, packages, seconds: SERVE_SECONDS }
    }

    /// A host answered that gets something, serves, or stages what it got.
    pub(super) fn relayed(
        &mut self,
        host: usize,
        doing: Doing,
        during: &str,
        outcome: &Outcome,
        out: &mut Effects,
    ) {
        let at = self.in_relay_mut();
        let from = at.getting.remove(&host);
        if doing == Doing::Send {
            at.sending -= 1;
        }
        let report = match outcome {
            Outcome::Answered { report, .. } => Some(report),
            _ => None,
        };
        match (doing, report) {
            (Doing::Send, _) if *outcome == Outcome::Silent => {
                self.goes_on(host, Some(Doing::Serve));
            }
            (Doing::Fetch | Doing::Serve, Some(Report::Relaying { port, bytes })) => {
                self.has(host, from, *port, *bytes, out);
            }
            // One that serves nobody has what it needs all the same.
            (Doing::Serve, Some(Report::Unsupported { .. } | Report::Unknown)) => {
                self.has(host, None, None, 0, out);
            }
            (Doing::Fetch, Some(Report::Failed(failed))) if failed.kind == SOURCE => {
                self.failed_by(host, from, failed.causes.join(": "), during, out);
            }
            (Doing::Stage, _) => self.judged(host, doing, during, outcome, out),
            _ => {
                if let Some(from) = from {
                    at.change(from, |source| source.children -= 1);
                }
                self.judged(host, doing, during, outcome, out);
            }
        }
        if self.hosts[host].state.is_trouble() {
            self.in_relay_mut().drop_source(host);
        }
    }

    fn goes_on(&mut self, host: usize, next: Option<Doing>) {
        self.happens(host, Happening::Continues);
        if let Some(next) = next.filter(|_| self.stopped.is_none()) {
            // Before all others: its connection is there.
            self.queue.push_front((host, next));
        }
    }

    /// A host has what it lacked.
    fn has(
        &mut self,
        host: usize,
        from: Option<usize>,
        port: Option<u16>,
        bytes: u64,
        out: &mut Effects,
    ) {
        let at = self.in_relay_mut();
        if let Some(from) = from {
            at.change(from, |source| {
                source.children -= 1;
                source.failures = 0;
            });
        }
        at.has(host, port);
        let name = |host: usize| self.spec.hosts[host].host.name.clone();
        out.push(Effect::Tell(What::Supplied { host: name(host), from: from.map(name), bytes }));
        self.goes_on(host, Some(Doing::Stage));
    }

    /// A host could not get anything from another one.
    fn failed_by(
        &mut self,
        host: usize,
        from: Option<usize>,
        cause: String,
        during: &str,
        out: &mut Effects,
    ) {
        let name = |host: usize| self.spec.hosts[host].host.name.clone();
        let source = from.map(name).unwrap_or_default();
        let during = format!("{during} from {source}");
        out.push(Effect::Tell(What::Aside { host: name(host), during, cause }));
        let at = self.in_relay_mut();
        if let Some(from) = from {
            at.change(from, |source| {
                source.children -= 1;
                source.failures += 1;
            });
            at.failed.entry(host).or_default().insert(from);
        }
        at.wait(host);
        self.goes_on(host, None);
    }
}

/// Where a host serves others.
fn url(host: &Host, port: u16) -> String {
    let address = &host.address;
    if address.contains(':') {
        format!("http://[{address}]:{port}")
    } else {
        format!("http://{address}:{port}")
    }
}
