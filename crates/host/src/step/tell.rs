//! What happens, as a controller hears it: a line for what people would want to know, and how many bytes
//! are done, now and then.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use package::PackageId;

use super::Say;
use crate::event::{Event, Observer};
use crate::wire::Said;

/// How often progress is told at the most.
const EVERY: Duration = Duration::from_millis(500);

/// Tells what happens.
pub(super) struct Teller<'a> {
    say: &'a Say<'a>,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    total_bytes: u64,
    done: BTreeMap<PackageId, u64>,
    told: Option<Instant>,
}

impl<'a> Teller<'a> {
    pub(super) fn new(say: &'a Say<'a>) -> Self {
        Self { say, progress: Mutex::default() }
    }

    fn line(&self, text: String) {
        (self.say)(&Said::Line { text });
    }

    /// Tells progress, unless it was told a moment ago.
    fn progress(&self, change: impl FnOnce(&mut Progress) -> (u64, u64)) {
        // Whoever panicked while it told progress left numbers that are still numbers.
        let mut progress = self.progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (done_bytes, total_bytes) = change(&mut progress);
        let is_over = done_bytes >= total_bytes;
        if !is_over && progress.told.is_some_and(|told| told.elapsed() < EVERY) {
            return;
        }
        progress.told = Some(Instant::now());
        (self.say)(&Said::Progress { done_bytes, total_bytes });
    }
}

impl Observer for Teller<'_> {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Waiting { what } => self.line(format!("waiting for {what}")),
            Event::Lacking { packages, bytes } if *packages > 0 => {
                self.line(format!("fetching {packages} packages"));
                self.progress(|progress| {
                    progress.total_bytes = *bytes;
                    (0, *bytes)
                });
            }
            Event::Fetching { id, done_bytes, .. } => self.progress(|progress| {
                progress.done.insert((*id).clone(), *done_bytes);
                let total_bytes = progress.total_bytes;
                (progress.done.values().sum::<u64>().min(total_bytes), total_bytes)
            }),
            Event::Auditing { done_bytes, total_bytes } => {
                self.progress(|_| (*done_bytes, *total_bytes));
            }
            Event::Lacking { .. }
            | Event::Stored { already: true, .. }
            | Event::Building { .. }
            | Event::Syncing => {}
            Event::Stored { id, already: false } => self.line(format!("added {id}")),
            Event::Stopping { units } => self.line(format!("stopping {}", units.join(", "))),
            Event::Starting { units } => self.line(format!("starting {}", units.join(", "))),
            Event::Live { generation } => self.line(format!("generation {generation} is live")),
            Event::Trying { generation, checks, units } => self.line(format!(
                "generation {generation} is on trial: {checks} checks, {units} units"
            )),
            Event::Confirmed { generation } => {
                self.line(format!("generation {generation} is confirmed"));
            }
            Event::StartByHand { units } => {
                self.line(format!("nobody runs services here: start {}", units.join(", ")));
            }
            Event::Warning { message } => self.line(format!("warning: {message}")),
        }
    }
}
