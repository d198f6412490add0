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
/// How long a generation that started units is watched at least: what is broken dies at once.
const WATCH: Duration = Duration::from_secs(3);
/// How long an undeclared unit may take to start before nobody waits for it any more.
const SETTLE: Duration = Duration::from_secs(10);
/// How much longer than it must stay up a unit may take until it does.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many lines of a log are kept.
const LOG_LINES: usize = 20;

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
    /// Decides whether `generation`, of whose units `started` just were, is good.
    pub(crate) fn judge(
        &self,
        services: &dyn Services,
        generation: &Generation,
        started: &[String],
        limit: Duration,
        job: &Job<'_>,
    ) -> Result<(), Failed> {
        let begun = Instant::now();
        let checks =
            self.checks().map_err(|error| Failed::new(package::causes(&error).join(": ")))?;
        let units: Vec<String> = generation.running.units.keys().cloned().collect();
        job.observer.event(&Event::Trying {
            generation: generation.number,
            checks: checks.len(),
            units: units.len(),
        });
        let mut waiting: Vec<&Check> = checks.iter().collect();
        let mut watched = watched(generation);
        let watch = if started.is_empty() { Duration::ZERO } else { WATCH };
        loop {
            let states = services.states(&units).map_err(|error| Failed::new(error.to_string()))?;
            fail_on_failed_units(services, &states)?;
            watched.retain_mut(|unit| !unit.stayed_up(states.get(&unit.name)));
            self.try_checks(&mut waiting, begun, job)?;
            let elapsed = begun.elapsed();
            let is_starting = states.values().any(|unit| unit.state == State::Starting);
            let is_settled = elapsed >= watch && (!is_starting || elapsed >= SETTLE);
            if waiting.is_empty() && watched.is_empty() && is_settled {
                return fail_on_closed_units(services, started, &states);
            }
            if let Some(unit) = watched.iter().find(|unit| elapsed > unit.needed + PATIENCE) {
                let (name, seconds) = (&unit.name, unit.needed.as_secs());
                let words = states.get(name).map_or("unknown", |state| &state.words);
                let reason = format!("unit `{name}` did not stay up for {seconds} s: {words}");
                return Err(Failed { reason, log: services.log(name, LOG_LINES) });
            }
            if elapsed >= limit {
                let reason = format!("it was not confirmed within {} s", limit.as_secs());
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
        job: &Job<'_>,
    ) -> Result<(), Failed> {
        let environment =
            self.check_environment().map_err(|error| Failed::new(error.to_string()))?;
        let results: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = waiting
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
            Some((invocation, since)) if *invocation == state.invocation => {
                since.elapsed() >= self.needed
            }
            _ => {
                self.run = Some((state.invocation.clone(), Instant::now()));
                self.needed.is_zero()
            }
        }
    }
}

fn fail_on_failed_units(
    services: &dyn Services,
    states: &BTreeMap<String, UnitState>,
) -> Result<(), Failed> {
    match states.iter().find(|(_, unit)| unit.state == State::Failed) {
        None => Ok(()),
        Some((name, unit)) => {
            let reason = format!("unit `{name}` is {}", unit.words);
            Err(Failed { reason, log: services.log(name, LOG_LINES) })
        }
    }
}

/// What only waits for others, a socket or a timer, does not end by itself: one that was started and
/// is not up could not be.
fn fail_on_closed_units(
    services: &dyn Services,
    started: &[String],
    states: &BTreeMap<String, UnitState>,
) -> Result<(), Failed> {
    let waits = |name: &str| {
        [".socket", ".timer", ".path"].iter().any(|ending| name.ends_with(ending)) && !is_own(name)
    };
    for name in started.iter().filter(|name| waits(name)) {
        if let Some(unit) = states.get(name).filter(|unit| unit.state == State::Down) {
            let reason = format!("unit `{name}` is {}", unit.words);
            return Err(Failed { reason, log: services.log(name, LOG_LINES) });
        }
    }
    Ok(())
}
