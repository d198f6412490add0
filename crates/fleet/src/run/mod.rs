//! Runs: one operation on many hosts, from a [`RunSpec`] to an end, whatever happens to the controller.
//!
//! `machine` decides from answers alone, `drive` writes each decision down before hosts hear of it and
//! carries it out, `attempt` is the way to one host and back. A run that was interrupted tells the answers
//! in the journal to a new machine, which comes to the same decisions, and orders those steps again that
//! have no answer, under the same ids.

mod attempt;
mod block;
mod drive;
mod machine;
mod membership;
mod spec;
mod state;
mod wave;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

pub use drive::{Control, End, Finished};
use machine::{Effect, Machine, Todo};
pub use machine::{Outcome, Stopped};
pub use membership::{Acting, Membership};
use spec::UNDO;
pub(crate) use spec::changes_host;
pub use spec::{
    Back, Change, FORMAT, Group, Limits, Operation, Patience, PauseAfter, Phase, RunId, RunIdError,
    RunSpec, Size, SpecError, Target, Task, Waves, Way, Work, request_name,
};
pub use state::{HostState, Trouble};
pub use wave::{Fact, Gate, Wave, WaveKind, partition};

use crate::event::{Event, What};
use crate::journal::{Journal, JournalError};

/// A run that can go on.
#[derive(Debug)]
pub struct Run {
    journal: Journal,
    /// Its number in the journal.
    number: i64,
    machine: Machine,
    /// What is to be done first.
    effects: Vec<Effect>,
    /// Steps that hosts may have heard of.
    heard: HashSet<(usize, String)>,
    /// The place of the last answer.
    place: u64,
    /// The number of the last event.
    event: u64,
    /// Somebody says go on, which has this place among the answers and is not written down yet.
    goes_on: Option<u64>,
    now: Timestamp,
}

/// Why there is no run, or no end of it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RunError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("cannot begin to work")]
    Runtime(#[source] std::io::Error),
    #[error("run `{0}` was interrupted and is not at its end: resume it, or abandon it")]
    Unfinished(RunId),
    #[error("run `{run}` is at its end: {outcome}")]
    Over { run: RunId, outcome: String },
    #[error("run `{0}` is of another version of this program, which alone can resume it")]
    Format(RunId),
    #[error(
        "the journal of run `{run}` tells of `{tag}` on host {host}, which does not follow from it"
    )]
    Diverged { run: RunId, host: usize, tag: String },
}

impl Run {
    /// Begins a run: it is written down, and nothing else. `now` is the time by the controller's clock.
    pub fn begin(
        mut journal: Journal,
        spec: RunSpec,
        who: &str,
        now: Timestamp,
    ) -> Result<Self, RunError> {
        spec.check()?;
        // Whoever made it: from here on this program decides.
        let spec = RunSpec { format: FORMAT, ..spec };
        journal.lock()?;
        for open in journal.runs()?.into_iter().filter(|run| run.ended.is_none()) {
            // Nobody needs the rest of what only looked at hosts.
            if journal.spec(&open.id)?.has_waves() {
                return Err(RunError::Unfinished(open.id));
            }
            Self::abandon(&mut journal, &open.id, now)?;
        }
        let number = journal.begin(&spec, who, now)?;
        let mut machine = Machine::new(Arc::new(spec));
        let mut effects = Vec::new();
        machine.start(&mut effects);
        let heard = HashSet::new();
        let (place, event, goes_on) = (0, 0, None);
        Ok(Self { journal, number, machine, effects, heard, place, event, goes_on, now })
    }

    /// Takes up a run that was interrupted, or goes on with one that is paused.
    pub fn resume(
        mut journal: Journal,
        run: &RunId,
        patience: Patience,
        now: Timestamp,
    ) -> Result<Self, RunError> {
        journal.lock()?;
        let number = journal.number_of(run)?;
        let row = journal.runs()?.into_iter().find(|row| row.id == *run);
        if let Some(outcome) = row.and_then(|row| row.outcome) {
            return Err(RunError::Over { run: run.clone(), outcome });
        }
        let mut spec = journal.spec(run)?;
        if spec.format != FORMAT {
            return Err(RunError::Format(run.clone()));
        }
        spec.check()?;
        patience.limit(&mut spec.limits);

        let mut machine = Machine::new(Arc::new(spec));
        let mut effects = Vec::new();
        machine.start(&mut effects);
        let event = journal.last_event(number)?;
        let mut begun = if event == 0 { effects.clone() } else { Vec::new() };
        begun.retain(|effect| !matches!(effect, Effect::Do(_)));
        let mut open = Open::default();
        let mut place = 0;
        open.note(effects);
        journal.told(number, |told| {
            let mut effects = Vec::new();
            place += 1;
            match told.host {
                None => machine.go_on(&mut effects),
                Some(host) => {
                    if open.todos.remove(&(host, told.tag.clone())).is_none() {
                        return Err(RunError::Diverged { run: run.clone(), host, tag: told.tag });
                    }
                    machine.answer(host, &told.outcome, &mut effects);
                }
            }
            open.note(effects);
            Ok(())
        })??;
        let heard: HashSet<(usize, String)> = journal.open_intents(number)?.into_iter().collect();
        if let Some((host, tag)) = heard.iter().find(|key| !open.todos.contains_key(*key)).cloned()
        {
            return Err(RunError::Diverged { run: run.clone(), host, tag });
        }

        let mut effects = begun;
        effects.push(Effect::Tell(What::Resumed));
        let mut todos: Vec<(u64, Todo)> = open.todos.into_values().collect();
        todos.sort_by_key(|(order, _)| *order);
        effects.extend(todos.into_iter().map(|(_, todo)| Effect::Do(todo)));
        let goes_on = machine.is_paused().then_some(place + 1);
        if let Some(next) = goes_on {
            place = next;
            machine.go_on(&mut effects);
        }
        Ok(Self { journal, number, machine, effects, heard, place, event, goes_on, now })
    }

    /// Says that nobody will resume a run.
    pub fn abandon(journal: &mut Journal, run: &RunId, now: Timestamp) -> Result<(), RunError> {
        journal.lock()?;
        let number = journal.number_of(run)?;
        let row = journal.runs()?.into_iter().find(|row| row.id == *run);
        match row.and_then(|row| row.outcome) {
            Some(outcome) => Err(RunError::Over { run: run.clone(), outcome }),
            None => Ok(journal.end(number, ABANDONED, now)?),
        }
    }

    /// What it is to do.
    pub fn spec(&self) -> &RunSpec {
        self.machine.spec()
    }

    /// What happened before it was interrupted or paused.
    pub fn past(&self) -> Result<Vec<Event>, JournalError> {
        if self.event == 0 {
            return Ok(Vec::new());
        }
        self.journal.events(&self.spec().id, 0)
    }
}

/// How runs end, in the journal.
const DONE: &str = "done";
const STOPPED: &str = "stopped";
const ABANDONED: &str = "abandoned";

/// What hosts were told and have not answered, with its place in the order of all.
#[derive(Debug, Default)]
struct Open {
    todos: HashMap<(usize, String), (u64, Todo)>,
    last: u64,
}

impl Open {
    fn note(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Do(todo) = effect {
                self.last += 1;
                self.todos.insert((todo.host, todo.tag.clone()), (self.last, todo));
            }
        }
    }
}

impl RunSpec {
    /// The way back of a run that changed what is live: every host that switched in it, or may have,
    /// goes back to what was live before; masters that did not are only asked.
    pub fn undoing(
        journal: &Journal,
        run: &RunId,
        id: RunId,
        waves: Waves,
    ) -> Result<Self, JournalError> {
        let before = journal.spec(run)?;
        // Folders, in which no service is started, cannot say how a cluster is.
        let waves = Waves { gates: waves.gates && before.way.folders.is_none(), ..waves };
        let mut spec = Self::new(id, before.cluster.clone(), Operation::Rollback);
        spec.limits = before.limits.clone();
        spec.budget = before.budget;
        spec.way = before.way.clone();
        spec.undoes = Some(run.clone());
        let mut planned: HashMap<usize, Option<u64>> = HashMap::new();
        journal.each_report(run, "plan", |host, report| {
            if let host::wire::Report::Plan(plan) = report {
                planned.insert(host, plan.from);
            }
        })?;
        let from_plan = |host: usize| {
            let generation = planned.get(&host).copied().flatten()?;
            Some(Back { generation, expected: None })
        };
        let anew = journal.installed_anew_since(run)?;
        for (row, target) in journal.hosts(run)?.into_iter().zip(before.hosts) {
            let back = match row.state {
                // The numbers of its generations mean something else by now.
                _ if anew.contains(&row.name) => None,
                HostState::Done | HostState::Switched => {
                    row.before.map(|generation| Back { generation, expected: row.live })
                }
                // It did not go back when its wave did; what it had done nobody may have heard.
                HostState::Failed(why) if why.during == UNDO => row
                    .before
                    .map(|generation| Back { generation, expected: row.live })
                    .or_else(|| from_plan(row.host)),
                HostState::InDoubt(_) => from_plan(row.host),
                // It was told, and the run was given up before it answered.
                _ if row.doing.as_deref() == Some(Change::Install.name()) => from_plan(row.host),
                _ if row.doing.as_deref() == Some(UNDO) => row
                    .before
                    .map(|generation| Back { generation, expected: None })
                    .or_else(|| from_plan(row.host)),
                _ => None,
            };
            let group = match (back, target.group) {
                (Some(_), group) => group,
                (None, Group::Agent) => continue,
                (None, Group::Master | Group::Witness) => Group::Witness,
            };
            let membership = Membership::default();
            spec.hosts.push(Target {
                back,
                group,
                wanted: None,
                planned: None,
                membership,
                ..target
            });
        }
        Ok(spec.going_back(waves))
    }
}
