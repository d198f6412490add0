//! `monobloc artifact verify`: is every byte the one that was signed?

use camino::Utf8PathBuf;
use serde_json::json;

use crate::commands::host::read_key;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Check every byte of an artifact, and who signed it
///
/// Without `--public-key` this tells that the file is whole, not who made it: a file that somebody else
/// made is whole too. The stock program does the same: `minisign -Vm FILE -p KEY`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc artifact verify dcos_generate_config.sh --public-key vendor.pub")]
pub(crate) struct VerifyArgs {
    /// The file [default: the one that this program came in]
    file: Option<Utf8PathBuf>,

    /// The key that must have signed it: a file, or the key itself
    #[arg(long, value_name = "FILE|KEY")]
    public_key: Option<String>,
}

pub(super) fn run(
    context: &Context,
    arguments: &VerifyArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let artifact = super::open(context, arguments.file.as_deref())?;
    let key = read_key(arguments.public_key.as_deref())?;
    artifact.verify(key.as_ref(), &context.cancel)?;
    if output.is_json() {
        output.json(&json!({
            "schema": "monobloc.artifact.verify/1",
            "id": artifact.id(),
            "key": artifact.key(),
            "trusted": key.is_some(),
            "files": artifact.files().len(),
        }))?;
        return Ok(Outcome::Done);
    }
    let path = artifact.path();
    if key.is_some() {
        output.line(&format!("ok      {path}: every byte is signed by {}", artifact.key()))?;
    } else {
        output.line(&format!("whole   {path}: every byte is as {} signed it", artifact.key()))?;
        output.hint(Some("whether to trust that key is for you to say: `--public-key FILE`"));
    }
    Ok(Outcome::Done)
}
