//! Steps: what a controller orders, done once, whatever becomes of the connection that it came over.
//!
//! A step that only looks is answered by the process that was called. One that changes the host is
//! written down and done by a process of its own, which no lost connection ends; whoever calls follows
//! what that one tells. A call for a step that was done is answered with what was answered then; one for
//! a step that is being done follows it from its beginning; one for a step whose process died does it
//! again, which every request allows. Who is at it is told by a lock, never by a number of a process.
//!
//! Who listens for others to connect is a process of its own, too, which is not done once: it is there until
//! its time is over, or until the run leaves the host.
//!
//! Keys go from one process to the other through a pipe, and are written nowhere.

mod answer;
mod caller;
mod launch;
mod limit;
mod listener;
mod network;
mod relay;
mod runner;
mod status;
mod store;
mod tell;

use camino::Utf8Path;
use package::Cancel;

use crate::history::By;
use crate::host::{Clock, Host};
use crate::preflight::Facts;
use crate::wire::{Failed, Order, Report, Request, Said, VERSION};

pub use caller::call;
pub use launch::{Launcher, leave_session};
pub use relay::{Serve, Serving};
pub use runner::run;
pub use store::Steps;

/// The longest order that is read.
pub const ORDER_MAX_BYTES: u64 = 4 << 20;

/// Who does steps.
#[derive(Clone)]
pub struct Doer<'a> {
    /// On which host.
    pub host: &'a Host,
    /// The machine that is looked at.
    pub facts: &'a Facts,
    /// Where places that are not absolute start.
    pub here: &'a Utf8Path,
    /// For the history.
    pub by: By,
    /// Tells the time.
    pub clock: &'a dyn Clock,
    /// Stops the work.
    pub cancel: &'a Cancel,
    /// Serves folders to other hosts.
    pub serve: &'a dyn Serve,
}

impl std::fmt::Debug for Doer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Doer")
            .field("host", self.host)
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

/// Hears what is said, from any thread.
pub type Say<'a> = dyn Fn(&Said) + Sync + 'a;

/// The last line.
fn report(report: Report, already: bool) -> Said {
    Said::Report { version: VERSION, already, report: Box::new(report) }
}

/// What could not be done for a reason that no other operation tells.
fn failed(kind: &str, causes: Vec<String>, remedy: Option<&str>) -> Failed {
    let (kind, remedy) = (kind.to_owned(), remedy.map(str::to_owned));
    Failed { kind, causes, remedy, ..Failed::default() }
}

/// Answers an order whose request only looks.
fn look(doer: &Doer<'_>, order: &Order, say: &Say<'_>) -> Report {
    if order.request == Request::Unknown {
        return Report::Unsupported { newest: VERSION };
    }
    match answer::answer(doer, order, &answer::Attempt::default(), say) {
        answer::Answer::Report(report) => report,
        answer::Answer::Interrupted => {
            Report::Failed(failed("cancelled", vec!["it was told to stop".to_owned()], None))
        }
    }
}
