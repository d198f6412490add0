//! `monobloc config validate`: all that is wrong with a configuration.

use serde_json::{Map, Value, json};

use super::{FileArgs, load};
use crate::commands::configure::preflight;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Say all that is wrong with a configuration
///
/// Every mistake is shown at once, with the line it stands in and what to do; warnings are no
/// mistakes. With `--json`, the answer has the status object of the reference in it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc config validate                              genconf/config.yaml, for the tree here
  monobloc config validate --tree atoll --config a.yaml
  monobloc config validate --json | jq .errors          for programs")]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    file: FileArgs,
}

pub(super) fn run(arguments: &ValidateArgs, output: &Output) -> Result<Outcome, Failure> {
    check(&arguments.file, output)
}

/// Says all that is wrong with the file.
pub(crate) fn check(arguments: &FileArgs, output: &Output) -> Result<Outcome, Failure> {
    let (declared, resolution) = load(arguments)?;
    let file = &arguments.config;
    let is_ok = resolution.is_ok();
    if is_ok {
        preflight(&declared, &resolution)?;
    }
    if output.is_json() {
        output.json(&status(&resolution))?;
        return Ok(if is_ok { Outcome::Done } else { Outcome::Failed });
    }
    if !is_ok {
        return Err(Failure::mistakes_in(&format!("`{file}`"), resolution.diagnostics));
    }
    output.diagnostics(&resolution.diagnostics);
    output.line(&format!("`{file}` has no mistakes"))?;
    Ok(Outcome::Done)
}

/// The reference's status object, and all that it leaves out.
pub(crate) fn status(resolution: &config::Resolution) -> Value {
    let mut status = Map::new();
    status.insert("schema".to_owned(), json!("monobloc.config.validate/1"));
    if resolution.is_ok() {
        status.insert("status".to_owned(), json!("ok"));
    } else {
        let errors = resolution.errors().into_iter();
        let errors: Map<String, Value> =
            errors.map(|(key, text)| (key.to_owned(), json!({ "message": text }))).collect();
        status.insert("status".to_owned(), json!("errors"));
        status.insert("errors".to_owned(), json!(errors));
        status.insert("unset".to_owned(), json!(resolution.unset));
    }
    status.insert("diagnostics".to_owned(), json!(resolution.diagnostics));
    Value::Object(status)
}
