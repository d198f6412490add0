//! `monobloc host uninstall`: takes everything away that was made on this host.

use serde_json::json;

use super::{Call, failure};
use crate::failure::{Failure, Outcome};

/// Stop all services and remove everything that the installation made on this host
///
/// State folders and the users who own them stay, unless they are to go too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  monobloc host uninstall
  monobloc host uninstall --purge")]
pub(super) struct UninstallArgs {
    /// Remove state and users as well, so that nothing is left
    #[arg(long)]
    purge: bool,
}

pub(super) fn run(call: &Call<'_>, arguments: &UninstallArgs) -> Result<Outcome, Failure> {
    let job = call.job("uninstall", "uninstall");
    let done = call.host.uninstall(arguments.purge, &job).map_err(|error| failure(&error))?;
    if call.output.is_json() {
        call.output.json(&json!({
            "schema": "monobloc.host.uninstall/1",
            "was_there": done.was_there,
            "kept": done.kept,
            "in_use": done.in_use,
        }))?;
        return Ok(Outcome::Done);
    }
    if !done.was_there {
        call.output.note("nothing is installed here");
        return Ok(Outcome::Done);
    }
    for kept in &done.kept {
        call.output.note(&format!("kept {kept}"));
    }
    for folder in &done.in_use {
        call.output.note(&format!("left {folder}: others use it by now"));
    }
    call.output.note("removed");
    Ok(Outcome::Done)
}
