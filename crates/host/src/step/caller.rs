//! The process that was called: it answers what only looks, and for the rest sees to it that somebody does
//! it, and tells what that one tells.

use std::io::{self, Read as _};
use std::time::Duration;

use package::Cancelled;

use super::launch::Launcher;
use super::store::digest;
use super::{Doer, Say, Steps, failed, listener, look, report};
use crate::generation;
use crate::host::HostError;
use crate::wire::{Failed, Order, Report, Request, Said};

/// How often a process that dies without a word is followed by another one.
const STARTS_MAX: usize = 3;
/// How often a caller looks at whether there is more to tell.
const POLL: Duration = Duration::from_millis(50);
/// How much of what a process said by itself is told when it dies.
const ERRORS_MAX_LINES: usize = 5;

/// Does what an order says, or follows whoever does; the last thing that is said is a report, unless
/// this is cancelled: then whoever does it goes on.
pub fn call(
    doer: &Doer<'_>,
    order: &Order,
    launcher: &Launcher,
    say: &Say<'_>,
) -> Result<(), Cancelled> {
    let said = if let Request::Listen { .. } = order.request {
        listener::call(doer, order, launcher).map(|listened| report(listened, false))
    } else if order.request.changes() {
        Call { doer, order, steps: Steps::of(doer.host), launcher, say }.carry_out()
    } else {
        Ok(report(look(doer, order, say), false))
    };
    say(&match said {
        Ok(said) => said,
        Err(HostError::Cancelled(cancelled)) => return Err(cancelled),
        Err(error) => report(Report::Failed(*Box::<Failed>::from(error)), false),
    });
    Ok(())
}

struct Call<'a> {
    doer: &'a Doer<'a>,
    order: &'a Order,
    steps: Steps,
    launcher: &'a Launcher,
    say: &'a Say<'a>,
}

impl Call<'_> {
    fn carry_out(&self) -> Result<Said, HostError> {
        let id = &self.order.id;
        let mut lines = Lines::default();
        let (mut starts, mut has_followed) = (0, false);
        loop {
            if let Some(begun) = self.steps.begun(id)?
                && begun.request != digest(&self.order.request)
            {
                let reason = format!("step `{id}` was asked for before, with another request");
                return Ok(report(
                    Report::Failed(failed("other_request", vec![reason], None)),
                    false,
                ));
            }
            // First who is at it, then how it ended: it ends before nobody is at it.
            let is_running = self.steps.is_running(id)?;
            if let Some(ended) = self.steps.report(id)? {
                // Also to who did not follow it: the connection of who did may have been lost.
                lines.tell(self)?;
                return Ok(report(ended, !has_followed));
            }
            if is_running {
                has_followed = true;
                lines.tell(self)?;
                self.doer.cancel.check()?;
                std::thread::sleep(POLL);
            } else if starts < STARTS_MAX {
                starts += 1;
                has_followed = true;
                self.launcher.start(&self.steps, self.order)?;
            } else {
                return Ok(report(Report::Failed(self.died()), false));
            }
        }
    }

    /// What is known of a process that ends again and again, and says nothing.
    fn died(&self) -> Failed {
        let path = self.steps.path(&self.order.id, "errors");
        let text = fs_err::read_to_string(path).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let log = lines[lines.len().saturating_sub(ERRORS_MAX_LINES)..].to_vec();
        let reason =
            format!("the process that does it ended {STARTS_MAX} times before it was done");
        let live = generation::live(&self.doer.host.paths).ok().flatten();
        Failed { live, log, ..failed("interrupted", vec![reason], None) }
    }
}

/// What was told of the lines of a step.
#[derive(Default)]
struct Lines {
    file: Option<fs_err::File>,
    /// A line that is not complete yet.
    rest: Vec<u8>,
}

impl Lines {
    /// Tells what is new.
    fn tell(&mut self, call: &Call<'_>) -> io::Result<()> {
        if self.file.is_none() {
            let path = call.steps.path(&call.order.id, "lines.jsonl");
            match fs_err::File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                file => self.file = Some(file?),
            }
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.read_to_end(&mut self.rest)?;
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            // One that a crash cut short is nothing to tell.
            if let Ok(said) = serde_json::from_slice::<Said>(&line) {
                (call.say)(&said);
            }
        }
        Ok(())
    }
}
