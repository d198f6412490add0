//! `monobloc host step`: one thing that a controller orders, done once.

use std::ffi::OsString;
use std::io::Read as _;

use camino::Utf8PathBuf;
use host::SystemClock;
use host::step::{self, Doer, Launcher, ORDER_MAX_BYTES};
use host::wire::{Order, Said};

use super::preflight::MachineArgs;
use super::relay::Relays;
use super::{Call, by};
use crate::failure::{Failure, Outcome};

/// What tells the process that does a step from the one that was called.
const DETACHED: &str = "--detached";

/// Do one step that a controller orders
///
/// Reads an order, one JSON document, from standard input, and writes one JSON document a line: what
/// happens, and last a report. A step that changes the host goes on when nobody listens any more; called
/// again with the same id it is followed, or, if it is done, answered as it was then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  echo '{\"version\":1,\"id\":\"look.1\",\"limit_seconds\":30,\"request\":\"status\"}' | monobloc host step

Exit status: 0 there is a report, whatever it says; 1 there is none; 2 what was read is no order.")]
pub(super) struct StepArgs {
    /// Be the process that does it
    #[arg(long, hide = true)]
    detached: bool,

    #[command(flatten)]
    machine: MachineArgs,
}

pub(super) fn run(call: &Call<'_>, arguments: &StepArgs) -> Result<Outcome, Failure> {
    let order = read()?;
    let (facts, here) = (arguments.machine.facts(call)?, call.context.absolute(".".into())?);
    let doer = Doer {
        host: &call.host,
        facts: &facts,
        here: &here,
        by: by(call.context, &format!("monobloc host step {}", order.id)),
        clock: &SystemClock,
        cancel: &call.context.cancel,
        serve: &Relays,
    };
    if arguments.detached {
        step::leave_session();
        step::run(&doer, &order, &mut std::io::stdout())?;
        return Ok(Outcome::Done);
    }
    let launcher = launcher(call)?;
    let say = |said: &Said| {
        let text = serde_json::to_string(said).map_err(Failure::from);
        if text.and_then(|text| call.output.line(&text)).is_err() {
            // Nobody listens any more.
            call.context.cancel.cancel();
        }
    };
    step::call(&doer, &order, &launcher, &say)?;
    Ok(Outcome::Done)
}

fn read() -> Result<Order, Failure> {
    let mut text = Vec::new();
    std::io::stdin().lock().take(ORDER_MAX_BYTES).read_to_end(&mut text)?;
    serde_json::from_slice(&text)
        .map_err(|error| Failure::usage(format!("what was read is no order: {error}")))
}

/// Starts this very program again, with the same arguments.
fn launcher(call: &Call<'_>) -> Result<Launcher, Failure> {
    let mut arguments: Vec<OsString> = call.context.arguments.iter().skip(1).cloned().collect();
    arguments.push(DETACHED.into());
    let program = call.context.program()?;
    // What is only there for itself and its children has this name for others.
    let own = Utf8PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    let program = if program == "/proc/self/exe" { own } else { program };
    let services = call.host.machine.as_ref().and_then(|machine| machine.services.as_ref());
    Ok(Launcher { program, arguments, has_systemd: services.is_some() })
}
