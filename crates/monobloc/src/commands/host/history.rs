//! `monobloc host history`: what was done to this host.

use host::history::What;
use serde_json::json;

use super::Call;
use crate::failure::{Failure, Outcome};
use crate::render::{plain, plural};

/// Show what was done to this host, by whom and why
#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {}

pub(super) fn run(call: &Call<'_>, _: &HistoryArgs) -> Result<Outcome, Failure> {
    let entries = call.host.history().read()?;
    if call.output.is_json() {
        call.output.json(&json!({ "schema": "monobloc.host.history/1", "entries": entries }))?;
        return Ok(Outcome::Done);
    }
    for entry in &entries {
        let what = match &entry.what {
            What::Begun { from: Some(from), to, reason } if reason.is_empty() => {
                format!("began to switch from generation {from} to {to}")
            }
            What::Begun { from: Some(from), to, reason } => {
                let reason = reason.escape_debug();
                format!("began to switch from generation {from} to {to}: {reason}")
            }
            What::Begun { from: None, to, .. } => format!("began to make generation {to} live"),
            What::Switched { to, .. } => format!("generation {to} is live"),
            What::Abandoned { to, reason } => {
                format!("gave up generation {to}: {}", reason.escape_debug())
            }
            What::Confirmed { generation } => format!("generation {generation} is confirmed"),
            What::Returned { from, to, reason, .. } => {
                let reason = reason.escape_debug();
                format!("went back from generation {from} to {to}: {reason}")
            }
            What::Failed { generation, reason, .. } => {
                format!("generation {generation} failed its trial: {}", reason.escape_debug())
            }
            What::Repaired { what } => format!("repaired {}", plural(what.len(), "difference")),
            What::Collected { generations, packages } => format!(
                "removed {} and {}",
                plural(generations.len(), "generation"),
                plural(packages.len(), "package")
            ),
            What::Unknown => "something that only a newer program can tell".to_owned(),
        };
        let time = entry.time.strftime("%Y-%m-%d %H:%M:%S");
        call.output.line(&format!("{time}  {}  {what}", entry.by.user.escape_debug()))?;
        if let What::Returned { log, .. } | What::Failed { log, .. } = &entry.what {
            for line in log {
                call.output.line(&format!("    | {}", plain(line)))?;
            }
        }
    }
    Ok(Outcome::Done)
}
