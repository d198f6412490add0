//! A whole run in virtual time, with controllers that are killed and others that take over.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::host::time;
use super::{Simulation, World};
use crate::chance::Chance;
use crate::event::{Counts, Event, What};
use crate::journal::{Journal, JournalError, Moment};
use crate::run::{Control, End, Patience, Run, RunError, RunId, RunSpec};

/// How long hosts go on afterwards that nobody hears of any more.
const AFTERWARDS: Duration = Duration::from_hours(24);

/// When controllers are killed.
#[derive(Debug, Clone, Copy)]
pub struct Kills {
    /// Makes the moments.
    pub seed: u64,
    /// How many controllers are killed at most.
    pub most: usize,
    /// The longest that one lives, in commits.
    pub within: u64,
}

/// How a simulated run ended.
#[derive(Debug)]
pub struct Simulated {
    /// How.
    pub end: End,
    /// How many hosts are in which state.
    pub counts: Counts,
    /// What is written down.
    pub journal: Journal,
    /// How many controllers were killed.
    pub killed: usize,
    /// How long it would have taken.
    pub took: Duration,
}

/// Why there is no simulation.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SimulationError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("cannot make a runtime")]
    Runtime(#[from] std::io::Error),
}

/// Does a run on the hosts of `world`, which takes as long as it takes to compute. `journal` opens the
/// journal, again after each kill; pauses are gone on from at once. Must not be called on a runtime.
pub fn simulate(
    world: &Arc<World>,
    spec: RunSpec,
    kills: Option<Kills>,
    mut journal: impl FnMut() -> Result<Journal, JournalError>,
    watch: &mut (dyn FnMut(&Event) + Send),
) -> Result<Simulated, SimulationError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let began = Instant::now();
        let transport = Arc::new(Simulation::new(world));
        // The sender must live, or nobody could ever be asked to stop.
        let (_control, controlled) = watch::channel(Control::GoOn);
        let mut chance = kills.map(|kills| Chance::new(kills.seed, 0));
        let (mut killed, id) = (0, spec.id.clone());
        let settled = async || {
            let took = began.elapsed();
            sleep(AFTERWARDS).await;
            world.rest();
            took
        };
        let (mut fresh, mut paused) = (Some(spec), None);
        loop {
            let mut opened = match paused.take() {
                Some(journal) => journal,
                None => journal().map_err(RunError::from)?,
            };
            if let (Some(chance), Some(kills)) = (&mut chance, kills)
                && killed < kills.most
            {
                let moment = if chance.happens(500_000) { Moment::Before } else { Moment::After };
                opened.break_at(chance.between(1, kills.within), moment);
            }
            let run = match fresh.take() {
                Some(spec) => Run::begin(opened, spec, "simulation", time(began))?,
                None => match Run::resume(opened, &id, Patience::default(), time(began)) {
                    // It was killed when all was written down.
                    Err(RunError::Over { .. }) => {
                        let journal = journal().map_err(RunError::from)?;
                        let (end, counts) = ended(&journal, &id)?;
                        return Ok(Simulated {
                            end,
                            counts,
                            journal,
                            killed,
                            took: settled().await,
                        });
                    }
                    run => run?,
                },
            };
            let gone = run.go(Arc::clone(&transport), controlled.clone(), watch).await;
            match gone {
                Err(RunError::Journal(JournalError::Broken)) => killed += 1,
                Err(error) => return Err(error.into()),
                Ok(finished) if finished.end == End::Paused => {
                    paused = Some(finished.journal);
                    continue;
                }
                Ok(finished) => {
                    let (end, counts, journal) = (finished.end, finished.counts, finished.journal);
                    return Ok(Simulated { end, counts, journal, killed, took: settled().await });
                }
            }
            // Somebody notices.
            let away = chance.as_mut().map_or(0, |chance| chance.between(0, 60_000));
            sleep(Duration::from_millis(away)).await;
        }
    })
}

/// How a run ended, by its journal.
fn ended(journal: &Journal, run: &RunId) -> Result<(End, Counts), RunError> {
    let last = journal.events(run, 0)?.pop().map(|event| event.what);
    Ok(match last {
        Some(What::Ended { stopped, counts }) => (stopped.map_or(End::Done, End::Stopped), counts),
        _ => (End::Interrupted, Counts::default()),
    })
}
