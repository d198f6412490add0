//! One simulated host: what is on it, what it is at, what it did, and how it answers. It changes only when
//! somebody looks: then all happens to it that has until that moment.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use ::host::wire::{
    Action, Audit, CHANGED_SINCE, Done, Failed, Finding, Level, Order, PlanSummary, Removal,
    Report, Request, Status, StepId, Wanted,
};
use jiff::{SignedDuration, Timestamp};
use package::{PackageId, Sha256};
use tokio::time::Instant;

use super::mishap::{Faults, Mishap};
use super::network::Network;
use crate::chance::Chance;
use crate::fault::{Fault, FaultKind};

/// How often a flapping host is lost before it stays.
const FLAPS: u32 = 4;

/// How many of those times it does not even let anybody connect: fewer than a host is tried.
const FLAPS_CONNECTING: u32 = 2;

/// How much slower a slow host is.
const SLOW: u64 = 15;

/// How far off a clock can be, in seconds: ten years.
const SKEW: i64 = 315_360_000;

/// What a host lacks of a bundle.
const BUNDLE_BYTES: u64 = 100_000_000;

/// Where hosts serve others.
const PORT: u16 = 40_000;

/// How long a host lives that dies as soon as it serves others: less than it takes to stage anything.
const DIES_AFTER: Duration = Duration::from_millis(900);

/// Between two moments at which answers come.
const TICK: Duration = Duration::from_millis(200);

/// When simulations take place.
const EPOCH_SECONDS: i64 = 1_800_000_000;

/// The time of simulations, by clocks that are right.
pub(super) fn time(began: Instant) -> Timestamp {
    let passed = SignedDuration::try_from(began.elapsed()).unwrap_or_default();
    let epoch = Timestamp::from_second(EPOCH_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH);
    epoch.checked_add(passed).unwrap_or(Timestamp::MAX)
}

/// The next moment at which answers come: then many come at once, as they do where a commit takes time.
fn tick(began: Instant, at: Instant) -> Instant {
    let since = (at - began).as_nanos().div_ceil(TICK.as_nanos());
    began + TICK * u32::try_from(since).unwrap_or(u32::MAX)
}

/// A change of what is live on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The step that did it.
    pub step: StepId,
    /// What was live.
    pub from: Option<u64>,
    /// What is since.
    pub to: Option<u64>,
    /// When.
    pub at: Instant,
}

/// Something that a host did to the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acted {
    /// The step that did it.
    pub step: StepId,
    /// What.
    pub action: String,
    /// What it was told.
    pub arguments: Vec<String>,
    /// When.
    pub at: Instant,
}

/// What a host is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// What goes wrong with it.
    pub mishap: Option<Mishap>,
    /// The live generation.
    pub live: Option<u64>,
    /// The bundle of it.
    pub bundle: Option<Sha256>,
    /// Bundles that are staged.
    pub staged: BTreeSet<Sha256>,
    /// When the last of them was.
    pub staged_at: Option<Instant>,
    /// What changed what is live, in order.
    pub effects: Vec<Effect>,
    /// What it did to the cluster, in order.
    pub acts: Vec<Acted>,
    /// Whether it is at something.
    pub is_working: bool,
    /// Whether it listened for others, and nobody told it that it is enough.
    pub listens: bool,
    /// Whether it serves others, or would if its time was not over.
    pub is_serving: bool,
}

/// The model of a host.
#[derive(Debug)]
pub(super) struct Model {
    chance: Chance,
    pub(super) is_master: bool,
    pub(super) mishap: Option<Mishap>,
    /// Whether its mishap had its time already.
    is_past: bool,
    flaps: u32,
    generations: BTreeMap<u64, Sha256>,
    live: Option<u64>,
    /// The generation that failed its checks when there was nothing to go back to.
    ill: Option<u64>,
    staged: BTreeSet<Sha256>,
    staged_at: Option<Instant>,
    pub(super) done: HashMap<StepId, Report>,
    pub(super) working: Option<Working>,
    down: Option<(Instant, Instant)>,
    is_gone: bool,
    pub(super) boots: u64,
    effects: Vec<Effect>,
    /// What it is among others.
    pub(super) network: Network,
    /// What its packages can do to the cluster.
    pub(super) actions: Vec<Action>,
    /// Why none of that works.
    pub(super) acts_fail: Option<String>,
    acts: Vec<Acted>,
    /// Until when it serves others.
    serves_until: Option<Instant>,
    /// When it will be gone.
    dies: Option<Instant>,
}

/// A step that is under way.
#[derive(Debug, Clone)]
pub(super) struct Working {
    pub(super) id: StepId,
    request: Request,
    cluster: Option<Result<(), String>>,
    /// Whom it does not reach.
    unreachable: Vec<(SocketAddr, String)>,
    source: Option<Found>,
    /// When it began, by a clock that is right.
    time: Timestamp,
    begun: Instant,
    pub(super) ends: Instant,
    fate: Option<Mishap>,
}

/// What a host finds around it while it does a step.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// Whether the cluster is well.
    pub(super) cluster: Option<Result<(), String>>,
    /// Whom it does not reach.
    pub(super) unreachable: Vec<(SocketAddr, String)>,
    /// The host that it shall get something from.
    pub(super) source: Option<Found>,
}

/// What a host finds at another one that it shall get something from: until when, or why nothing.
pub(super) type Found = Result<Instant, String>;

/// What is heard of a step.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    /// It ends.
    Ends(Instant),
    /// The connection is lost.
    Lost(Instant),
    /// Nothing, ever.
    Silence,
}

impl Working {
    /// Halfway.
    fn middle(&self) -> Instant {
        self.begun + (self.ends - self.begun) / 2
    }

    pub(super) fn heard(&self) -> Fate {
        match self.fate {
            Some(
                Mishap::RebootInSwitch
                | Mishap::DeadInSwitch
                | Mishap::CutInSwitch
                | Mishap::Flapping,
            ) => Fate::Lost(self.middle()),
            Some(
                Mishap::SilentStage
                | Mishap::SilentSwitch
                | Mishap::SilentForward
                | Mishap::SilentAct,
            ) => Fate::Silence,
            _ => Fate::Ends(self.ends),
        }
    }
}

impl Model {
    pub(super) fn new(
        seed: u64,
        place: usize,
        is_master: bool,
        faults: &Faults,
        network: Network,
    ) -> Self {
        let mut chance = Chance::new(seed, u64::try_from(place).unwrap_or(u64::MAX));
        Self {
            mishap: faults.draw(is_master, &mut chance),
            chance,
            is_master,
            is_past: false,
            flaps: FLAPS,
            generations: BTreeMap::new(),
            live: None,
            ill: None,
            staged: BTreeSet::new(),
            staged_at: None,
            done: HashMap::new(),
            working: None,
            down: None,
            is_gone: false,
            boots: 1,
            effects: Vec::new(),
            network,
            actions: Vec::new(),
            acts_fail: None,
            acts: Vec::new(),
            serves_until: None,
            dies: None,
        }
    }

    /// A bundle was made live long ago.
    pub(super) fn had(&mut self, bundle: Sha256) {
        let number = self.newest() + 1;
        self.generations.insert(number, bundle);
        self.live = Some(number);
    }

    pub(super) fn rest(&mut self) {
        self.down = None;
        self.is_gone |= self.dies.take().is_some();
    }

    fn newest(&self) -> u64 {
        self.generations.last_key_value().map_or(0, |(number, _)| *number)
    }

    fn bundle(&self) -> Option<Sha256> {
        self.live.and_then(|live| self.generations.get(&live).copied())
    }

    pub(super) fn look(&self) -> Look {
        Look {
            mishap: self.mishap,
            live: self.live,
            bundle: self.bundle(),
            staged: self.staged.clone(),
            staged_at: self.staged_at,
            effects: self.effects.clone(),
            acts: self.acts.clone(),
            is_working: self.working.is_some(),
            listens: self.network.listening.is_some(),
            is_serving: self.serves_until.is_some(),
        }
    }

    /// What another host finds that wants something of it.
    pub(super) fn found(&self, now: Instant) -> Found {
        let until = self.serves_until.filter(|until| *until > now);
        match until {
            _ if !self.is_reachable(now) || self.mishap == Some(Mishap::Walled) => {
                Err("no answer".to_owned())
            }
            None => Err("connection refused".to_owned()),
            Some(until) => Ok(self.dies.map_or(until, |dies| dies.min(until))),
        }
    }

    /// What was there for the steps of a run is removed.
    pub(super) fn left(&mut self) {
        self.serves_until = None;
        self.network.listening = None;
    }

    pub(super) fn latency(&mut self, least_ms: u64, most_ms: u64) -> Duration {
        let slow = if self.mishap == Some(Mishap::Slow) { SLOW } else { 1 };
        Duration::from_millis(self.chance.between(least_ms, most_ms) * slow)
    }

    /// Whether it can be reached over the network.
    pub(super) fn is_reachable(&self, now: Instant) -> bool {
        let is_down = self.down.is_some_and(|(from, until)| from <= now && now < until);
        self.mishap != Some(Mishap::Dead) && !self.is_gone(now) && !is_down
    }

    fn is_gone(&self, now: Instant) -> bool {
        self.is_gone || self.dies.is_some_and(|dies| dies <= now)
    }

    /// Whether it does its part for the cluster.
    pub(super) fn is_up(&self, now: Instant) -> bool {
        self.is_reachable(now) && self.live.is_some() && !self.is_switching()
    }

    pub(super) fn is_switching(&self) -> bool {
        let request = self.working.as_ref().map(|working| &working.request);
        // Who does something to the cluster goes on as a part of it.
        let changes = |request: &Request| {
            crate::run::changes_host(request) && !matches!(request, Request::Act { .. })
        };
        request.is_some_and(changes)
    }

    /// Somebody connects: which boot it is, or why not; no reason means that nothing is heard.
    pub(super) fn meet(&mut self, now: Instant) -> Result<u64, Option<Fault>> {
        if self.mishap == Some(Mishap::Dead) || self.is_gone(now) {
            return Err(None);
        }
        if !self.is_reachable(now) {
            return Err(Some(Fault::new(FaultKind::Unreachable, "connection refused")));
        }
        match self.mishap {
            Some(Mishap::HostKey) => {
                Err(Some(Fault::new(FaultKind::HostKey, "its key is another one")))
            }
            Some(Mishap::LoginRefused) => {
                Err(Some(Fault::new(FaultKind::Login, "it takes none of the keys")))
            }
            Some(Mishap::Flapping)
                if self.flaps > FLAPS - FLAPS_CONNECTING && self.chance.happens(300_000) =>
            {
                self.flaps -= 1;
                Err(Some(Fault::new(FaultKind::Busy, "too many connections")))
            }
            _ => Ok(self.boots),
        }
    }

    /// Begins a step.
    pub(super) fn begin(
        &mut self,
        order: &Order,
        around: Around,
        now: Instant,
        began: Instant,
    ) -> Fate {
        let takes = match &order.request {
            Request::Stage(_) => self.latency(1_000, 20_000),
            Request::Relay(relay) if relay.from.is_some() => self.latency(500, 5_000),
            Request::Install(_) | Request::Uninstall { .. } => self.latency(5_000, 30_000),
            Request::Rollback { .. } => self.latency(2_000, 8_000),
            Request::Audit { .. } => self.latency(5_000, 60_000),
            _ => self.latency(50, 500),
        };
        let limit = Duration::from_secs(order.limit_seconds);
        let fate = self.mishap.filter(|mishap| self.is_its_time(*mishap, &order.request));
        let takes = if fate == Some(Mishap::HungStage) { limit } else { takes.min(limit) };
        let working = Working {
            id: order.id.clone(),
            request: order.request.clone(),
            cluster: around.cluster,
            unreachable: around.unreachable,
            source: around.source,
            time: time(began),
            begun: now,
            ends: tick(began, now + takes),
            fate,
        };
        match fate {
            Some(Mishap::RebootInSwitch) => {
                let away = Duration::from_secs(self.chance.between(20, 90));
                self.down = Some((working.middle(), working.middle() + away));
                self.is_past = true;
            }
            Some(Mishap::SilentAct) => self.is_past = true,
            Some(Mishap::Flapping) => self.flaps -= 1,
            _ => {}
        }
        let heard = working.heard();
        self.working = Some(working);
        heard
    }

    fn is_its_time(&mut self, mishap: Mishap, request: &Request) -> bool {
        let switches = matches!(request, Request::Install(_));
        match mishap {
            Mishap::Flapping => self.flaps > 0 && self.chance.happens(500_000),
            Mishap::HungStage | Mishap::SilentStage => matches!(request, Request::Stage(_)),
            Mishap::RebootInSwitch => switches && !self.is_past,
            Mishap::SilentAct => matches!(request, Request::Act { .. }) && !self.is_past,
            Mishap::DeadInSwitch
            | Mishap::CutInSwitch
            | Mishap::SilentSwitch
            | Mishap::SilentForward => switches,
            _ => false,
        }
    }

    /// Lets everything happen that has until now; what was live and is, if that changed.
    pub(super) fn settle(&mut self, now: Instant) -> Option<(Option<Sha256>, Option<Sha256>)> {
        let working = self.working.clone()?;
        if self.dies.is_some_and(|dies| dies <= now && dies < working.ends) {
            self.working = None;
            return None;
        }
        let is_half = now >= working.middle();
        match working.fate {
            Some(Mishap::RebootInSwitch) if is_half => {
                // What it was at is lost; asked again, it does it again.
                self.working = None;
                self.serves_until = None;
                self.boots += 1;
                return None;
            }
            Some(Mishap::DeadInSwitch) if is_half => {
                self.is_gone = true;
                self.working = None;
                return None;
            }
            Some(Mishap::CutInSwitch) if is_half => self.is_gone = true,
            _ => {}
        }
        if now < working.ends {
            return None;
        }
        let before = self.bundle();
        let was = self.live;
        let report = self.finish(&working);
        if self.live != was {
            let (step, at) = (working.id.clone(), working.ends);
            self.effects.push(Effect { step, from: was, to: self.live, at });
        }
        self.done.insert(working.id, report);
        self.working = None;
        let after = self.bundle();
        (before != after).then_some((before, after))
    }

    fn finish(&mut self, working: &Working) -> Report {
        match &working.request {
            Request::Status => Report::Status(Box::new(self.status(working.time))),
            Request::Plan(wanted) => self.plan(wanted),
            Request::Removal { purge } => Report::Removal(Box::new(Removal {
                live: self.live,
                generations: self.generations.keys().copied().collect(),
                purge: *purge,
                ..Removal::default()
            })),
            Request::Preflight(_) => Report::Findings { findings: self.unfit() },
            Request::Stage(wanted) => self.stage(wanted, working),
            Request::Relay(relay) => self.relay(relay.seconds, working),
            Request::Install(wanted) => self.install(wanted),
            Request::Rollback { generation, expected, .. } => {
                self.roll_back(*generation, *expected)
            }
            Request::Check { cluster: false } => Report::Findings { findings: self.ailments() },
            Request::Check { cluster: true } => {
                let well = working.cluster.clone().unwrap_or(Ok(()));
                let found = well.err().map(|found| finding("cluster", found));
                Report::Findings { findings: found.into_iter().collect() }
            }
            Request::Uninstall { .. } => {
                let before = self.live.take();
                self.generations.clear();
                self.staged.clear();
                let changed = before.is_some();
                Report::Done(Done { changed, before, live: None, kept: Vec::new() })
            }
            Request::Audit { .. } => Report::Audit(Box::new(Audit {
                generation: self.live.unwrap_or(0),
                digest: self.bundle(),
                ..Audit::default()
            })),
            Request::Act { action, arguments } => self.act(action, arguments, working),
            Request::Reach { .. } => Report::Reached { unreachable: working.unreachable.clone() },
            Request::Listen { ports, seconds } => {
                self.network.listen(ports, working.ends + Duration::from_secs(*seconds));
                Report::Listened { in_use: BTreeSet::new(), failed: Vec::new() }
            }
            Request::Unlisten { .. } => {
                let changed = self.network.is_listening(working.ends);
                self.network.listening = None;
                Report::Done(Done { changed, ..Done::default() })
            }
            Request::Forget { .. } => Report::Done(Done { live: self.live, ..Done::default() }),
            Request::Unknown => Report::Unsupported { newest: ::host::wire::VERSION },
        }
    }

    fn act(&mut self, action: &str, arguments: &[String], working: &Working) -> Report {
        if let Some(why) = &self.acts_fail {
            return self.failed("action_failed", why);
        }
        self.acts.push(Acted {
            step: working.id.clone(),
            action: action.to_owned(),
            arguments: arguments.to_vec(),
            at: working.ends,
        });
        Report::Acted { output: action.to_owned() }
    }

    fn status(&self, time: Timestamp) -> Status {
        let skew = if self.mishap == Some(Mishap::ClockSkew) { SKEW } else { self.network.skew };
        Status {
            machine: Some(self.network.machine),
            detected_address: self.network.detected.map(|address| address.to_string()),
            addresses: [self.network.address.to_string()].into(),
            live: self.live,
            generations: self.generations.keys().copied().collect(),
            bundle: self.bundle(),
            time: time.checked_add(SignedDuration::from_secs(skew)).ok(),
            boot: Some(self.boots.to_string()),
            actions: if self.live.is_some() { self.actions.clone() } else { Vec::new() },
            ..Status::default()
        }
    }

    fn unfit(&self) -> Vec<Finding> {
        let is_unfit = self.mishap == Some(Mishap::Unfit);
        is_unfit.then(|| finding("memory", "1 GB of 4 GB".to_owned())).into_iter().collect()
    }

    /// Checks of what is live that fail.
    fn ailments(&self) -> Vec<Finding> {
        let is_ill = self.ill.is_some()
            && self.ill == self.live
            && self.mishap == Some(Mishap::FailingCheck);
        is_ill.then(|| finding("service", "it does not answer".to_owned())).into_iter().collect()
    }

    fn plan(&self, wanted: &Wanted) -> Report {
        if wanted.upgrade && self.live.is_none() {
            return self.failed("not_installed", "nothing is live that could be upgraded");
        }
        let changes = self.bundle() != Some(wanted.bundle);
        Report::Plan(Box::new(PlanSummary {
            from: self.live,
            changes,
            fetched: if changes { self.lacking() } else { BTreeSet::new() },
            fetch_bytes: if changes { BUNDLE_BYTES } else { 0 },
            findings: self.unfit(),
            digest: self.bundle(),
            switch: self.bundle(),
            ..PlanSummary::default()
        }))
    }

    /// Masters and agents have not the same packages.
    fn lacking(&self) -> BTreeSet<PackageId> {
        let id = if self.is_master { "master--1" } else { "agent--1" };
        id.parse().into_iter().collect()
    }

    /// It has what another host, or the controller, gave it, and serves others.
    fn relay(&mut self, seconds: u64, working: &Working) -> Report {
        let cause = match &working.source {
            _ if self.mishap == Some(Mishap::Cornered) && working.source.is_some() => "no answer",
            Some(Err(cause)) => cause.as_str(),
            Some(Ok(until)) if *until < working.ends => "the connection ended",
            _ => "",
        };
        if !cause.is_empty() {
            return self.failed("source", cause);
        }
        self.serves_until = Some(working.ends + Duration::from_secs(seconds));
        if self.mishap == Some(Mishap::DeadServing) {
            self.dies = Some(working.ends + DIES_AFTER);
        }
        Report::Relaying { port: Some(PORT), bytes: BUNDLE_BYTES }
    }

    fn stage(&mut self, wanted: &Wanted, working: &Working) -> Report {
        match self.mishap {
            Some(Mishap::FullDisk) => {
                self.failed("no_space", "no space for 100 MB where packages lie")
            }
            Some(Mishap::HungStage) => self.failed("timed_out", "it took too long"),
            _ => {
                let changed = self.staged.insert(wanted.bundle);
                self.staged_at = Some(working.ends);
                Report::Done(Done {
                    changed,
                    before: self.live,
                    live: self.live,
                    ..Done::default()
                })
            }
        }
    }

    fn install(&mut self, wanted: &Wanted) -> Report {
        let before = self.live;
        if self.bundle() == Some(wanted.bundle) {
            return Report::Done(Done { before, live: before, ..Done::default() });
        }
        if wanted.planned.is_some() && wanted.planned != self.bundle() {
            return self.failed(CHANGED_SINCE, "this host has changed since");
        }
        match self.mishap {
            Some(Mishap::SwitchRefused) => {
                return self.failed("io", "it cannot be written");
            }
            Some(Mishap::FailingCheck) => {
                // As hosts do: without anything to go back to, what is there is better than nothing.
                if before.is_none() {
                    self.had(wanted.bundle);
                    self.ill = self.live;
                }
                let cause = "a check of what was new failed";
                return self.failed("check_failed", cause);
            }
            _ => {}
        }
        self.had(wanted.bundle);
        Report::Done(Done { changed: true, before, live: self.live, ..Done::default() })
    }

    fn roll_back(&mut self, generation: Option<u64>, expected: Option<u64>) -> Report {
        let before = self.live;
        if matches!(self.mishap, Some(Mishap::StaysForward | Mishap::SilentForward)) {
            return self.failed("no_space", "no space to go back");
        }
        let older = self.generations.range(..before.unwrap_or(0)).next_back();
        let to = generation.or(older.map(|(number, _)| *number));
        match to {
            Some(to) if Some(to) == before => {
                Report::Done(Done { before, live: before, ..Done::default() })
            }
            _ if expected.is_some() && expected != before => {
                self.failed("other_generation", "something else is live than was expected")
            }
            Some(to) if self.generations.contains_key(&to) => {
                self.live = Some(to);
                if self.mishap == Some(Mishap::IllBack) {
                    return self.failed("check_failed", "a check of what was old failed");
                }
                Report::Done(Done { changed: true, before, live: self.live, ..Done::default() })
            }
            _ => self.failed("no_generation", "there is no such generation"),
        }
    }

    fn failed(&self, kind: &str, cause: &str) -> Report {
        Report::Failed(Failed {
            kind: kind.to_owned(),
            causes: vec![cause.to_owned()],
            remedy: None,
            live: self.live,
            findings: Vec::new(),
            log: Vec::new(),
        })
    }
}

fn finding(name: &str, found: String) -> Finding {
    Finding { name: name.to_owned(), level: Level::Error, found, fix: None }
}
