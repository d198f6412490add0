//! `monobloc config explain`: why a value is what it is.

use serde_json::json;

use super::{FileArgs, load};
use crate::failure::{Failure, Outcome};
use crate::render::{self, Output};

/// Say why a value is what it is
///
/// Where it was set, or what it was calculated from; what it is for, what it may be, and what happens
/// when it changes. Works for files with mistakes, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc config explain cluster_name
  monobloc config explain master_list --config new.yaml")]
pub(crate) struct ExplainArgs {
    /// The name of the value
    key: String,

    #[command(flatten)]
    file: FileArgs,
}

pub(super) fn run(arguments: &ExplainArgs, output: &Output) -> Result<Outcome, Failure> {
    let (declared, resolution) = load(&arguments.file)?;
    let explained = declared.definition.explain(&resolution, &arguments.key).map_err(|error| {
        let hint = match &error.nearest {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`monobloc config show --expanded` lists all values".to_owned(),
        };
        Failure::usage(error.to_string()).hint(hint)
    })?;
    if output.is_json() {
        let mut document = json!({ "schema": "monobloc.config.explain/1" });
        if let (Some(document), serde_json::Value::Object(explained)) =
            (document.as_object_mut(), serde_json::to_value(&explained)?)
        {
            document.extend(explained);
        }
        output.json(&document)?;
        return Ok(Outcome::Done);
    }
    for line in render::config::explanation(&explained) {
        output.line(&line)?;
    }
    output.diagnostics(&explained.diagnostics);
    Ok(Outcome::Done)
}
