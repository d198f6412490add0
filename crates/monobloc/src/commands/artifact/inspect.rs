//! `monobloc artifact inspect`: what is in it?

use camino::Utf8PathBuf;
use package::artifact::PROGRAM;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{Output, bytes, plural};

/// Say what is in an artifact
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc artifact inspect dcos_generate_config.sh
  monobloc artifact inspect dcos_generate_config.sh --json     every file with offset, size and digest")]
pub(crate) struct InspectArgs {
    /// The file [default: the one that this program came in]
    file: Option<Utf8PathBuf>,
}

pub(super) fn run(
    context: &Context,
    arguments: &InspectArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let artifact = super::open(context, arguments.file.as_deref())?;
    let index = artifact.index();
    if output.is_json() {
        output.json(&json!({
            "schema": "monobloc.artifact.inspect/1",
            "id": artifact.id(),
            "configured": artifact.is_configured(),
            "distribution": index.distribution,
            "key": index.key,
            "variants": index.variants,
            "head": index.head,
            "files": index.files,
        }))?;
        return Ok(Outcome::Done);
    }
    let distribution = &index.distribution;
    let state = if artifact.is_configured() { ", configured" } else { "" };
    output.line(&format!("{} {}{state}", distribution.name, distribution.version))?;
    output.line(&format!("  id       {}", artifact.id()))?;
    output.line(&format!("  key      {}", index.key))?;
    output.line(&format!("  root     {}", distribution.install_root))?;
    if let Some(program) = index.files.get(PROGRAM) {
        output.line(&format!("  program  {} ({})", program.sha256, bytes(program.size)))?;
    }
    for (name, set) in &index.variants {
        output.line(&format!("  variant  {name}: {}", plural(set.packages.len(), "package")))?;
    }
    let size = index.files.values().map(|file| file.size).sum();
    output.line(&format!("  files    {}, {}", index.files.len(), bytes(size)))?;
    for (path, file) in &index.files {
        output.line(&format!("    {:>10}  {path}", bytes(file.size)))?;
    }
    Ok(Outcome::Done)
}
