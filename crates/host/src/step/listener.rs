//! Somebody who listens so that others can try to connect: a process of its own, because the hosts that
//! connect are asked after this one has answered. It ends when its time is over, when the file is removed by
//! which it says what it is at, and leaves nothing. So it ends whatever becomes of the controller.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use package::durable;
use serde::{Deserialize, Serialize};

use super::launch::{Launcher, Word};
use super::network::Ports;
use super::store::read;
use super::{Doer, Steps, failed};
use crate::host::HostError;
use crate::paths::is_absence;
use crate::wire::{Order, Report, StepId};

/// What a listener listens on.
const LISTENING: &str = "listening.json";
/// How long one may take to begin, and to end.
const CHANGE_MAX: Duration = Duration::from_secs(10);
/// How often somebody looks at whether it has.
const POLL: Duration = Duration::from_millis(20);

#[derive(Serialize, Deserialize)]
struct Listening {
    in_use: BTreeSet<u16>,
    failed: Vec<(u16, String)>,
}

/// Sees to it that somebody listens.
pub(super) fn call(
    doer: &Doer<'_>,
    order: &Order,
    launcher: &Launcher,
) -> Result<Report, HostError> {
    let (steps, id, begun) = (Steps::of(doer.host), &order.id, Instant::now());
    while begun.elapsed() < CHANGE_MAX {
        if !steps.is_running(id)? {
            launcher.start(&steps, order)?;
        }
        if let Some(text) = read(&steps.path(id, LISTENING))? {
            let Listening { in_use, failed } =
                serde_json::from_slice(&text).map_err(io::Error::other)?;
            return Ok(Report::Listened { in_use, failed });
        }
        // Another caller started one that has not begun yet.
        doer.cancel.check()?;
        std::thread::sleep(POLL);
    }
    let reason = "the process that listens does not begin".to_owned();
    Ok(Report::Failed(failed("interrupted", vec![reason], None)))
}

/// Listens, unless somebody does for the same step.
pub(super) fn run(
    doer: &Doer<'_>,
    id: &StepId,
    ports: &BTreeSet<u16>,
    time: Duration,
    word: &mut dyn Write,
) -> io::Result<()> {
    let mut say = |said: Word| writeln!(word, "{}", said.as_str()).and_then(|()| word.flush());
    let steps = Steps::of(doer.host);
    steps.make(id)?;
    let Some(_at_it) = steps.take(id)? else {
        return say(Word::Busy);
    };
    let ports = Ports::open(ports);
    let path = steps.path(id, LISTENING);
    let listening = Listening { in_use: ports.in_use.clone(), failed: ports.failed.clone() };
    durable::write(&path, &serde_json::to_vec(&listening)?)?;
    // Whoever waits for the word may be gone.
    drop(say(Word::Begun));
    ports.serve(time, || doer.cancel.is_cancelled() || !fs_err::exists(&path).unwrap_or(false));
    steps.discard(id)
}

/// Ends those who listen for a run, or for all; returns whether somebody did until now.
pub(super) fn end(steps: &Steps, run: &str) -> io::Result<bool> {
    let mut did = false;
    for id in steps.of_run(run)? {
        // One that was killed left the file, and nobody who is at it.
        let is_at_it = steps.is_running(&id)?;
        match fs_err::remove_file(steps.path(&id, LISTENING)) {
            Err(error) if is_absence(&error) => continue,
            removed => removed?,
        }
        did |= is_at_it;
        let told = Instant::now();
        while steps.is_running(&id)? && told.elapsed() < CHANGE_MAX {
            std::thread::sleep(POLL);
        }
    }
    Ok(did)
}
