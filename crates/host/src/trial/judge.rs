//! Watches a generation that just went live until it is clear whether it is good.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::check::{self, Check};
use crate::event::Event;
use crate::generation::Generation;
use crate::host::{Host, Job};
use crate::machine::{Services, State, UnitState, is_own};

/// How often units are looked at.
const POLL: Duration = Duration::from_millis(250);
/// How long units that were started must be quiet: what is broken dies at once.
const QUIET: Duration = Duration::from_secs(3);
/// How long what was started may take until it is quiet, and until it begins to stay up.
const PATIENCE: Duration = Duration::from_mins(1);
/// The same where there is nothing to go back to: the first host of a cluster waits for the others.
const SHORT_PATIENCE: Duration = Duration::from_secs(10);
/// How many lines of a log are kept.
const LOG_LINES: usize = 20;

/// What is known of the units of a generation that went live.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switched<'a> {
    /// Those that were started.
    pub(crate) started: &'a [String],
    /// Those that ran before and need no restart.
    pub(crate) kept: &'a [String],
    /// Those that had failed before.
    pub(crate) failing: &'a [String],
    /// Whether there is a generation to go back to.
    pub(crate) has_way_back: bool,
    /// How long the trial may take.
    pub(crate) limit: Duration,
}

/// Why a generation is not good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) reason: String,
    /// The last lines of what failed.
    pub(crate) log: Vec<String>,
}

impl Failed {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), log: Vec::new() }
    }
}

/// A unit that must stay up.
struct Watched {
    name: String,
    needed: Duration,
    /// The run that is watched, and since when.
    run: Option<(String, Instant)>,
}

impl Host {
    /// Decides whether `generation`, which just went live, is good.
    pub(crate) fn judge(
        &self,
        services: &dyn Services,
        generation: &Generation,
        switched: &Switched<'_>,
        job: &Job<'_>,
    ) -> Result<(), Failed> {
        let begun = Instant::now();
        let checks =
            self.checks().map_err(|error| Failed::new(package::causes(&error).join(": ")))?;
        let units = generation.running.startable();
        job.observer.event(&Event::Trying {
            generation: generation.number,
            checks: checks.len(),
            units: units.len(),
        });
        let mut waiting: Vec<&Check> = checks.iter().collect();
        let mut watched = watched(generation);
        let mut quiet = Quiet::default();
        loop {
            let states = services.states(&units).map_err(|error| Failed::new(error.to_string()))?;
            let is_new = |name: &String| !switched.failing.contains(name);
            let failed =
                states.iter().find(|(name, unit)| unit.state == State::Failed && is_new(name));
            if let Some((name, unit)) = failed {
                return Err(of_unit(services, name, &format!("is {}", unit.words)));
            }
            watched.retain_mut(|unit| !unit.stayed_up(states.get(&unit.name)));
            self.try_checks(&mut waiting, begun, switched.limit, job)?;
            let loud = quiet.look(switched.started, &states);
            if waiting.is_empty() && watched.is_empty() && loud.is_none() {
                return fail_on_closed_units(services, switched, &states);
            }
            let elapsed = begun.elapsed();
            let patience = if switched.has_way_back { PATIENCE } else { SHORT_PATIENCE };
            match loud {
                Some(name) if elapsed >= patience && switched.has_way_back => {
                    let words = states.get(&name).map_or("unknown", |unit| &unit.words);
                    return Err(of_unit(services, &name, &format!("does not settle: {words}")));
                }
                Some(_) if elapsed >= patience && waiting.is_empty() && watched.is_empty() => {
                    return Ok(());
                }
                _ => {}
            }
            if let Some(unit) = watched.iter().find(|unit| elapsed > unit.needed + PATIENCE) {
                let seconds = unit.needed.as_secs();
                let words = states.get(&unit.name).map_or("unknown", |state| &state.words);
                let problem = format!("did not stay up for {seconds} s: {words}");
                return Err(of_unit(services, &unit.name, &problem));
            }
            if elapsed >= switched.limit {
                let reason = format!("it was not confirmed within {} s", switched.limit.as_secs());
                return Err(Failed::new(reason));
            }
            if job.cancel.is_cancelled() {
                return Err(Failed::new("the trial was cancelled"));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Runs the checks that have not passed yet, all at once; a check that may not fail any longer
    /// decides.
    fn try_checks(
        &self,
        waiting: &mut Vec<&Check>,
        begun: Instant,
        limit: Duration,
        job: &Job<'_>,
    ) -> Result<(), Failed> {
        // No check outlasts the trial.
        let left = limit.saturating_sub(begun.elapsed()).max(POLL);
        let bounded: Vec<Check> = waiting
            .iter()
            .map(|check| Check { timeout: check.timeout.min(left), ..(*check).clone() })
            .collect();
        let environment =
            self.check_environment().map_err(|error| Failed::new(error.to_string()))?;
        let results: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = bounded
                .iter()
                .map(|check| scope.spawn(|| check::run(check, &environment, job.cancel)))
                .collect();
            let joined = running.into_iter().map(|run| run.join().expect("a check does not panic"));
            joined.collect()
        });
        let mut still = Vec::new();
        for (check, result) in waiting.drain(..).zip(results) {
            let outcome = result.map_err(|_| Failed::new("the trial was cancelled"))?;
            if outcome.verdict.passed() {
                continue;
            }
            if begun.elapsed() >= check.within {
                let reason =
                    format!("check `{}` of {}: {}", check.name, check.package, outcome.verdict);
                let lines: Vec<&str> = outcome.output.lines().collect();
                let from = lines.len().saturating_sub(LOG_LINES);
                let log = lines[from..].iter().map(|&line| line.to_owned()).collect();
                return Err(Failed { reason, log });
            }
            still.push(check);
        }
        *waiting = still;
        Ok(())
    }
}

fn watched(generation: &Generation) -> Vec<Watched> {
    let units = generation.running.units.iter();
    let asked = units.filter_map(|(name, unit)| {
        let needed = Duration::from_secs(unit.stays_up_seconds?.into());
        Some(Watched { name: name.clone(), needed, run: None })
    });
    asked.collect()
}

impl Watched {
    /// Whether the unit was up long enough in one run.
    fn stayed_up(&mut self, state: Option<&UnitState>) -> bool {
        let Some(state) = state.filter(|state| state.state == State::Up) else {
            self.run = None;
            return false;
        };
        match &self.run {
            Some((run, since)) if *run == state.run => since.elapsed() >= self.needed,
            _ => {
                self.run = Some((state.run.clone(), Instant::now()));
                self.needed.is_zero()
            }
        }
    }
}

/// Since when nothing happened to the units that were started.
#[derive(Default)]
struct Quiet {
    runs: BTreeMap<String, String>,
    since: Option<Instant>,
}

impl Quiet {
    /// A unit that was not quiet for long enough yet.
    fn look(&mut self, started: &[String], states: &BTreeMap<String, UnitState>) -> Option<String> {
        let mut loud = None;
        let started = started.iter().filter(|name| !is_own(name));
        for (name, unit) in started.filter_map(|name| states.get_key_value(name)) {
            let before = self.runs.insert(name.clone(), unit.run.clone());
            let is_restarted = before.is_some_and(|before| before != unit.run);
            if is_restarted || unit.is_busy || unit.state == State::Starting {
                loud = Some(name.clone());
            }
        }
        let first = self.runs.keys().next()?.clone();
        if loud.is_some() {
            self.since = None;
            return loud;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        (since.elapsed() < QUIET).then_some(first)
    }
}

/// A unit is the reason, and its log tells more.
fn of_unit(services: &dyn Services, name: &str, problem: &str) -> Failed {
    Failed { reason: format!("unit `{name}` {problem}"), log: services.log(name, LOG_LINES) }
}

/// What only waits for others, a socket or a timer, does not end by itself: one that was started and
/// is not up could not be. What ran before and needs no restart must run.
fn fail_on_closed_units(
    services: &dyn Services,
    switched: &Switched<'_>,
    states: &BTreeMap<String, UnitState>,
) -> Result<(), Failed> {
    let waits =
        |name: &&String| [".socket", ".timer", ".path"].iter().any(|ending| name.ends_with(ending));
    let must_be_up = switched.started.iter().filter(waits).chain(switched.kept);
    for name in must_be_up.filter(|name| !is_own(name)) {
        if let Some(unit) = states.get(name).filter(|unit| unit.is_down()) {
            return Err(of_unit(services, name, &format!("is {}", unit.words)));
        }
    }
    Ok(())
}
