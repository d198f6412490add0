//! `monobloc config schema`: what can be set, for editors.

use super::{Declared, TreeArgs};
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Write the JSON Schema of the configuration, for editors
///
/// An editor that knows it completes keys, explains them and marks mistakes. With the YAML language
/// server, the first line of the configuration names it:
///
///   # yaml-language-server: $schema=config.schema.json
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  monobloc config schema --tree atoll > genconf/config.schema.json"
)]
pub(crate) struct SchemaArgs {
    #[command(flatten)]
    tree: TreeArgs,
}

pub(super) fn run(arguments: &SchemaArgs, output: &Output) -> Result<Outcome, Failure> {
    let Declared { definition, distribution, .. } = Declared::load(&arguments.tree)?;
    output.json(&definition.schema(&format!("Configuration of {}", distribution.name)))?;
    Ok(Outcome::Done)
}
