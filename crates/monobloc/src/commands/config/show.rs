//! `monobloc config show`: what was set, or every value.

use config::explain::{Source, Status};
use serde_json::{Value, json};

use super::{FileArgs, load};
use crate::failure::{Failure, Outcome};
use crate::render::{self, Output};

/// Show what was set, or every value
///
/// Secrets are shown as `**HIDDEN**`. Exits with 1 if the file has mistakes; what has a value is shown
/// nevertheless.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc config show                         what the file sets
  monobloc config show --expanded              every value, and where it came from
  monobloc config show --expanded --json | jq .values.cluster_name")]
pub(crate) struct ShowArgs {
    /// Also defaults and what is calculated, each with where it came from
    #[arg(long)]
    expanded: bool,

    #[command(flatten)]
    file: FileArgs,
}

pub(super) fn run(arguments: &ShowArgs, output: &Output) -> Result<Outcome, Failure> {
    let (declared, resolution) = load(&arguments.file)?;
    let mut values = declared.definition.values(&resolution);
    if !arguments.expanded {
        values.retain(|cause| {
            cause.status == Status::Late || matches!(cause.source, Some(Source::File { .. }))
        });
    }
    if output.is_json() {
        let values: serde_json::Map<String, Value> = values
            .iter()
            .map(|cause| {
                let mut value = json!(cause);
                value.as_object_mut().map(|fields| fields.shift_remove("name"));
                (cause.name.clone(), value)
            })
            .collect();
        output.json(&json!({
            "schema": "monobloc.config.show/1",
            "values": values,
            "diagnostics": resolution.diagnostics,
        }))?;
    } else {
        for cause in &values {
            if arguments.expanded {
                output.line(&format!("# {}", render::config::source(cause)))?;
            }
            if cause.status == Status::Known {
                output.part(&cause.to_yaml())?;
            } else {
                output.line(&format!("# {}: late", cause.name))?;
            }
        }
        output.diagnostics(&resolution.diagnostics);
    }
    Ok(if resolution.is_ok() { Outcome::Done } else { Outcome::Failed })
}
