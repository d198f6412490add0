//! `monobloc config diff`: what a new configuration changes.

use camino::{Utf8Path, Utf8PathBuf};
use config::Resolution;
use serde_json::json;

use super::{Declared, TreeArgs};
use crate::failure::{Failure, Outcome};
use crate::render::{self, Output};

/// Show what a new configuration changes; like `diff`, exits with 1 if something does
///
/// Each change says whether it is refused once a cluster is installed, restarts services, or does
/// neither. What follows from a change stands under it. Of secrets, only that they changed is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc config diff installed.yaml genconf/config.yaml
  monobloc config diff old.yaml new.yaml --json | jq '.changes[] | select(.effect == \"immutable\")'")]
pub(crate) struct DiffArgs {
    /// The file to compare with
    old: Utf8PathBuf,
    /// The other file
    new: Utf8PathBuf,

    #[command(flatten)]
    tree: TreeArgs,
}

pub(super) fn run(arguments: &DiffArgs, output: &Output) -> Result<Outcome, Failure> {
    let declared = Declared::load(&arguments.tree)?;
    let old = complete(&declared, &arguments.old)?;
    let new = complete(&declared, &arguments.new)?;
    let changes = declared.definition.diff(&old, &new);
    if output.is_json() {
        let is_equal = changes.is_empty();
        output.json(&json!({
            "schema": "monobloc.config.diff/1",
            "equal": is_equal,
            "changes": changes,
        }))?;
    } else {
        for line in render::config::changes(&changes) {
            output.line(&line)?;
        }
    }
    Ok(if changes.is_empty() { Outcome::Done } else { Outcome::Failed })
}

/// The values of a file that has no mistakes.
fn complete(declared: &Declared, file: &Utf8Path) -> Result<Resolution, Failure> {
    let resolution = declared.resolve(file)?;
    if resolution.is_ok() {
        return Ok(resolution);
    }
    Err(Failure::mistakes_in(&format!("`{file}`"), resolution.diagnostics))
}
