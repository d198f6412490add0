//! What a run does next: decided from its [`RunSpec`] and from what hosts answered, and from nothing else.
//! No clock, no chance, no I/O: the same answers in the same order lead to the same orders, which is how a
//! run that was interrupted goes on.

mod across;
mod acts;
mod meaning;
mod relay;
mod waves;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use host::wire::{Failed, Report, Request};
use package::Sha256;
use serde::{Deserialize, Serialize};

use self::acts::Acts;
use self::relay::{InRelay, Kinds};
use super::spec::{Change, Group, PauseAfter, RunSpec, Work, changes_host};
use super::state::{Happening, HostState, Told};
use super::wave::{Fact, Wave, partition};
use crate::across::{Matrix, phase_of};
use crate::event::{Counts, Evidence, What};
use crate::fault::Fault;

/// How something that a host was told ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The host answered.
    Answered {
        /// What.
        report: Report,
        /// Whether it had done the step before.
        already: bool,
    },
    /// It is done; there was nothing to answer.
    Silent,
    /// There was no answer.
    Faulted {
        /// Why.
        fault: Fault,
        /// Whether the host may have heard of it.
        sent: bool,
    },
}

/// Why a run stopped by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum Stopped {
    /// More hosts failed or were out of reach than may.
    Budget {
        /// So many.
        failed: usize,
        /// So many may.
        allowed: usize,
    },
    /// The cluster is not well.
    Gate {
        /// The number of the wave, from 1.
        wave: usize,
        /// Before the wave, or after it.
        before: bool,
    },
    /// More hosts of a wave failed than may.
    Wave {
        /// Its number, from 1.
        wave: usize,
        /// How many.
        failed: usize,
    },
    /// Something failed in a phase that must not.
    Phase {
        /// Its name.
        phase: String,
    },
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run) enum Effect {
    /// Have a host do something.
    Do(Todo),
    /// A host came to a state, which is told as it is now: what follows may bring it to the next one.
    State { host: usize, state: HostState, before: Option<u64>, live: Option<u64> },
    /// Tell whoever watches.
    Tell(What),
}

/// Something that a host is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run) struct Todo {
    pub(in crate::run) host: usize,
    /// Names the step within the run and the host.
    pub(in crate::run) tag: String,
    pub(in crate::run) name: &'static str,
    pub(in crate::run) action: Action,
    /// Seconds that it may take.
    pub(in crate::run) limit: u64,
    /// Seconds to wait first.
    pub(in crate::run) wait: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run) enum Action {
    Push,
    Leave,
    Order(Request),
}

impl Action {
    /// Whether nobody knows what is live if nothing is heard of it any more.
    pub(in crate::run) fn changes_host(&self) -> bool {
        matches!(self, Self::Order(request) if changes_host(request))
    }

    /// Whether a report is one that answers it.
    fn is_answered_by(&self, report: &Report) -> bool {
        matches!(self, Self::Order(request) if request.is_answered_by(report))
    }
}

#[derive(Debug)]
pub(in crate::run) struct Machine {
    spec: Arc<RunSpec>,
    hosts: Vec<Entry>,
    phase: usize,
    at: At,
    queue: VecDeque<(usize, Doing)>,
    /// What hosts lack, if that matters.
    kinds: Kinds,
    running: usize,
    troubled: usize,
    allowed: usize,
    stopped: Option<Stopped>,
    /// The cluster was not well before a change that is to heal it: nobody is asked any more, in an upgrade
    /// until all masters have changed, or somebody else would.
    is_ungated: bool,
    /// There was no cluster when a master came: until there are enough, nobody is asked about it.
    is_forming: bool,
    /// Who tries to reach whom, if anybody does.
    matrix: Option<Matrix>,
}

/// What is known of one host.
#[derive(Debug)]
pub(in crate::run) struct Entry {
    pub(in crate::run) state: HostState,
    /// The generation that was live before the run.
    pub(in crate::run) from: Option<u64>,
    /// The generation that was live before its switch.
    pub(in crate::run) before: Option<u64>,
    /// The one since.
    pub(in crate::run) live: Option<u64>,
    /// What it lacks, by its place in [`Machine::kinds`].
    kind: usize,
    /// What its switch would do ([`host::wire::PlanSummary::switch`]).
    switch: Option<Sha256>,
    is_looked_at: bool,
    is_reached: bool,
    is_counted: bool,
    doing: Option<Doing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Task(usize),
    Own(usize),
    /// It is sent what it lacks.
    Send,
    /// It gets what it lacks from another host.
    Fetch,
    /// It has what it lacked, and is to serve others.
    Serve,
    /// It stages what it got.
    Stage,
    Switch,
    Undo,
    Ask,
    Across,
    /// Something for another host.
    Act,
}

#[derive(Debug)]
enum At {
    Each,
    Across,
    Relay(Box<InRelay>),
    Waves(InWaves),
    Ended,
}

#[derive(Debug)]
struct InWaves {
    waves: Vec<Wave>,
    index: usize,
    part: Part,
    /// Who found the cluster well when it was last asked for.
    well: BTreeSet<usize>,
    /// For whom something was done to the cluster that must be taken back if they do not come.
    announced: BTreeSet<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Paused,
    Begin,
    Gate(Asking),
    Act(Box<Acts>),
    Switch,
    Undo,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Asking {
    before: bool,
    attempt: u32,
    asked: usize,
    well: BTreeSet<usize>,
    evidence: Vec<Evidence>,
}

type Effects = Vec<Effect>;

/// What a host said that failed.
fn failure_of(outcome: &Outcome) -> Option<&Failed> {
    match outcome {
        Outcome::Answered { report: Report::Failed(failed), .. } => Some(failed),
        _ => None,
    }
}

impl Machine {
    pub(in crate::run) fn new(spec: Arc<RunSpec>) -> Self {
        let entry = || Entry {
            state: HostState::Pending,
            from: None,
            before: None,
            live: None,
            kind: 0,
            switch: None,
            is_looked_at: false,
            is_reached: false,
            is_counted: false,
            doing: None,
        };
        Self {
            hosts: spec.hosts.iter().map(|_| entry()).collect(),
            phase: 0,
            at: At::Each,
            queue: VecDeque::new(),
            kinds: Kinds::default(),
            running: 0,
            troubled: 0,
            allowed: spec.budget.of(spec.worked_on()),
            stopped: None,
            is_ungated: false,
            is_forming: false,
            matrix: phase_of(&spec).map(|(_, across)| Matrix::new(&spec, across)),
            spec,
        }
    }

    pub(in crate::run) fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    pub(in crate::run) fn stopped(&self) -> Option<&Stopped> {
        self.stopped.as_ref()
    }

    pub(in crate::run) fn is_ended(&self) -> bool {
        matches!(self.at, At::Ended)
    }

    pub(in crate::run) fn is_paused(&self) -> bool {
        matches!(&self.at, At::Waves(InWaves { part: Part::Paused, .. }))
    }

    pub(in crate::run) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        let is_going_on = !self.is_ended() && self.spec.has_waves();
        let all = self.spec.hosts.iter().zip(&self.hosts);
        all.filter(|(target, _)| target.group != Group::Witness)
            .for_each(|(_, entry)| counts.add(&entry.state, is_going_on));
        counts
    }

    /// Begins.
    pub(in crate::run) fn start(&mut self, out: &mut Effects) {
        out.push(Effect::Tell(What::Began {
            run: self.spec.id.clone(),
            operation: self.spec.operation,
            hosts: self.spec.worked_on(),
        }));
        self.enter(0, out);
        self.settle(out);
    }

    /// Goes on after a pause.
    pub(in crate::run) fn go_on(&mut self, out: &mut Effects) {
        if let At::Waves(at) = &mut self.at
            && at.part == Part::Paused
        {
            at.part = Part::Begin;
            out.push(Effect::Tell(What::Continued));
            self.settle(out);
        }
    }

    /// A host answered.
    pub(in crate::run) fn answer(&mut self, host: usize, outcome: &Outcome, out: &mut Effects) {
        let doing = self.hosts[host].doing.take().expect("only who was told answers");
        self.running -= 1;
        self.hosts[host].is_reached |= !matches!(outcome, Outcome::Faulted { sent: false, .. });
        let during = self.name_of(host, doing);
        self.learn(host, doing, outcome);
        if doing == Doing::Ask {
            self.heard(host, outcome);
        } else if doing == Doing::Act {
            self.heard_of_act(outcome);
        } else if doing == Doing::Across || self.spec.phases[self.phase].always {
            self.tell_aside(host, during, outcome, out);
        } else if matches!(doing, Doing::Send | Doing::Fetch | Doing::Serve | Doing::Stage) {
            self.relayed(host, doing, during, outcome, out);
        } else {
            self.judged(host, doing, during, outcome, out);
        }
        self.settle(out);
    }

    /// Tells where a host is.
    fn state_of(&self, host: usize) -> Effect {
        let Entry { state, before, live, .. } = &self.hosts[host];
        Effect::State { host, state: state.clone(), before: *before, live: *live }
    }

    /// Tells of a failure that is no host's.
    fn tell_aside(&self, host: usize, during: &str, outcome: &Outcome, out: &mut Effects) {
        if let Outcome::Faulted { fault, .. } = outcome {
            let host = self.spec.hosts[host].host.name.clone();
            let cause = fault.to_string();
            out.push(Effect::Tell(What::Aside { host, during: during.to_owned(), cause }));
        }
    }

    /// What an answer means for its host, and for the run.
    fn judged(
        &mut self,
        host: usize,
        doing: Doing,
        during: &str,
        outcome: &Outcome,
        out: &mut Effects,
    ) {
        let happened = self.judge(host, doing, during, outcome);
        self.happens(host, happened);
        if let (HostState::Switched, Some(why)) = (&self.hosts[host].state, failure_of(outcome)) {
            let host = self.spec.hosts[host].host.name.clone();
            let cause = why.causes.join(": ");
            out.push(Effect::Tell(What::Aside { host, during: during.to_owned(), cause }));
        }
        out.push(self.state_of(host));
        self.consider(host, doing, out);
    }

    /// What follows for the run from what became of a host.
    fn consider(&mut self, host: usize, doing: Doing, out: &mut Effects) {
        if self.hosts[host].state.is_trouble() {
            if !std::mem::replace(&mut self.hosts[host].is_counted, true) {
                self.troubled += 1;
            }
            if self.spec.phases[self.phase].strict {
                let phase = self.spec.phases[self.phase].name.clone();
                self.stop(Stopped::Phase { phase }, out);
            }
            if self.troubled > self.allowed {
                let (failed, allowed) = (self.troubled, self.allowed);
                self.stop(Stopped::Budget { failed, allowed }, out);
            }
        } else if let Doing::Task(task) = doing
            && let Work::Each(tasks) = &self.spec.phases[self.phase].work
            && task + 1 < tasks.len()
            && self.hosts[host].state.can_go_on()
            && self.stopped.is_none()
        {
            // Before all others: its connection is there.
            self.queue.push_front((host, Doing::Task(task + 1)));
        }
    }

    fn stop(&mut self, why: Stopped, out: &mut Effects) {
        if self.stopped.is_none() {
            out.push(Effect::Tell(What::Stopping { why: why.clone() }));
            self.stopped = Some(why);
            self.queue.clear();
        }
    }

    fn happens(&mut self, host: usize, happened: Happening) {
        let state = self.hosts[host].state.after(happened);
        self.hosts[host].state = state.unwrap_or_else(|mistake| panic!("{mistake}"));
    }

    /// Has hosts begin as long as there is room, and when nothing is left to wait for goes on.
    fn settle(&mut self, out: &mut Effects) {
        loop {
            while self.running < self.spec.limits.parallel.max(1)
                && let Some((host, doing)) = self.queue.pop_front().or_else(|| self.supplied())
            {
                self.tell(host, doing, out);
            }
            if self.running > 0 || self.is_ended() || self.is_paused() {
                return;
            }
            match self.at {
                At::Each | At::Relay(_) => self.enter(self.phase + 1, out),
                At::Waves(_) => self.advance(out),
                At::Across => self.try_on(out),
                At::Ended => {}
            }
        }
    }

    fn tell(&mut self, host: usize, doing: Doing, out: &mut Effects) {
        let todo = self.todo(host, doing);
        let told = match (doing, &todo.action) {
            (Doing::Switch, _) => Some(Told::Switch),
            (Doing::Undo, _) => Some(Told::Undo),
            (Doing::Ask | Doing::Across | Doing::Act, _) | (_, Action::Leave) => None,
            (_, Action::Push | Action::Order(Request::Stage(_) | Request::Relay(_))) => {
                Some(Told::Stage)
            }
            (_, Action::Order(_)) => Some(Told::Answer),
        };
        if let Some(told) = told
            && !self.spec.phases[self.phase].always
        {
            self.happens(host, Happening::Told(told));
        }
        self.hosts[host].doing = Some(doing);
        self.running += 1;
        out.push(Effect::Do(todo));
    }

    /// Enters the next phase from `phase` on that there is something to do in.
    fn enter(&mut self, phase: usize, out: &mut Effects) {
        let spec = Arc::clone(&self.spec);
        let mut left = spec.phases.iter().enumerate().skip(phase);
        let Some((place, phase)) = left.find(|(_, phase)| phase.always || self.stopped.is_none())
        else {
            return self.end(out);
        };
        self.phase = place;
        self.at = At::Each;
        match &phase.work {
            Work::Each(_) => {
                let takes_part = |(target, entry): (&super::Target, &Entry)| {
                    let is_its_turn = match entry.state {
                        HostState::Unchanged => phase.of_unchanged,
                        _ => !phase.of_unchanged && entry.state.can_go_on(),
                    };
                    let can_go_on =
                        target.group != Group::Witness && !target.membership.is_gone && is_its_turn;
                    if phase.always { entry.is_reached } else { can_go_on }
                };
                let all = spec.hosts.iter().zip(&self.hosts);
                let places = all.enumerate().filter(|(_, of)| takes_part(*of));
                self.queue = places.map(|(host, _)| (host, Doing::Task(0))).collect();
            }
            Work::Own(own) => {
                let able = own
                    .iter()
                    .enumerate()
                    .filter(|(_, (host, _))| phase.always || self.hosts[*host].state.can_go_on());
                self.queue = able.map(|(index, (host, _))| (*host, Doing::Own(index))).collect();
            }
            Work::Across(_) => {
                self.at = At::Across;
                return;
            }
            Work::Relay { fan } => {
                let hosts = self.begin_relay(*fan);
                let name = phase.name.clone();
                return out.push(Effect::Tell(What::Phase { phase: place, name, hosts }));
            }
            Work::Waves(waves) => {
                let waves_made = partition(&spec.hosts, waves, &self.facts(waves.change));
                let sizes: Vec<usize> = waves_made.iter().map(|wave| wave.hosts.len()).collect();
                let hosts = sizes.iter().sum();
                let is_paused = waves.pause_after.contains(&PauseAfter::Stage) && hosts > 0;
                let part = if is_paused { Part::Paused } else { Part::Begin };
                let (well, announced) = (BTreeSet::new(), BTreeSet::new());
                let waves = waves_made;
                self.at = At::Waves(InWaves { waves, index: 0, part, well, announced });
                out.push(Effect::Tell(What::Phase {
                    phase: place,
                    name: phase.name.clone(),
                    hosts,
                }));
                out.push(Effect::Tell(What::Waves { sizes }));
                if is_paused {
                    out.push(Effect::Tell(What::Paused { wave: 0 }));
                }
                return;
            }
        }
        let hosts = self.queue.len();
        if hosts > 0 || !phase.of_unchanged {
            out.push(Effect::Tell(What::Phase { phase: place, name: phase.name.clone(), hosts }));
        }
    }

    fn end(&mut self, out: &mut Effects) {
        self.at = At::Ended;
        if self.spec.has_waves() || self.stopped.is_some() {
            for host in 0..self.hosts.len() {
                let is_witness = self.spec.hosts[host].group == Group::Witness;
                if !is_witness && self.hosts[host].state.can_go_on() {
                    self.happens(host, Happening::Over);
                    out.push(self.state_of(host));
                }
            }
        }
        let (stopped, counts) = (self.stopped.clone(), self.counts());
        out.push(Effect::Tell(What::Ended { stopped, counts }));
    }

    /// What is known of each host before the first wave.
    fn facts(&self, change: Change) -> Vec<Fact> {
        let both = || self.spec.hosts.iter().zip(&self.hosts);
        // An agent that has something tells of masters that nobody reached.
        let is_there = change != Change::Install
            || !self.hosts.iter().any(|entry| entry.is_looked_at)
            || both().any(|(target, entry)| {
                let is_witness = target.group == Group::Witness && !target.membership.is_absent;
                entry.from.is_some() || is_witness
            });
        both()
            .map(|(target, entry)| Fact {
                takes_part: target.group != Group::Witness
                    && entry.state.can_go_on()
                    && (change != Change::Rollback || target.back.is_some()),
                member: is_there
                    && target.group != Group::Agent
                    && !target.membership.is_absent
                    && (change != Change::Install || !entry.is_looked_at || entry.from.is_some()),
                has_wanted: entry.state == HostState::Unchanged || target.membership.has_wanted,
            })
            .collect()
    }
}
