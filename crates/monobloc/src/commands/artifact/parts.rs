//! `monobloc artifact split` and `join`: for media that are smaller than the file.

use std::num::NonZeroU64;

use camino::{Utf8Path, Utf8PathBuf};
use package::artifact::{self, PARTS};
use serde_json::json;

use crate::args::parse_size;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{Output, plural};

/// Cut a file into parts that can each be verified
///
/// Writes FILE.001, FILE.002, … with FILE.parts.sha256, the list of their digests, and FILE.sha256, that of
/// the whole: put a copy of these two on every medium. `sha256sum -c --ignore-missing FILE.parts.sha256`
/// verifies those that are there; `monobloc artifact join` verifies and joins them, and
/// `cat FILE.[0-9][0-9][0-9] > FILE` joins them where there is no monobloc.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc artifact split dcos_generate_config.sh --size 4G -o parts
  monobloc artifact join parts/dcos_generate_config.sh.parts.sha256 -o dcos_generate_config.sh")]
pub(crate) struct SplitArgs {
    /// The file
    file: Utf8PathBuf,

    /// How large a part may be, such as `650M` or `4G`
    #[arg(long, value_parser = parse_part_size)]
    size: NonZeroU64,

    /// The folder to put the parts into [default: that of the file]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<Utf8PathBuf>,
}

/// Join the parts of a file, each verified
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc artifact join parts/dcos_generate_config.sh.parts.sha256 -o dcos_generate_config.sh")]
pub(crate) struct JoinArgs {
    /// The list of the parts, which lie beside it
    list: Utf8PathBuf,

    /// The file to make [default: in the folder of the list]
    #[arg(short, long, value_name = "FILE")]
    output: Option<Utf8PathBuf>,
}

pub(super) fn split(
    context: &Context,
    arguments: &SplitArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let own = arguments.file.parent().filter(|folder| *folder != "").unwrap_or(".".into());
    let folder = arguments.output.as_deref().unwrap_or(own);
    let split = artifact::split(&arguments.file, folder, arguments.size, &context.cancel)?;
    if output.is_json() {
        output.json(&json!({
            "schema": "monobloc.artifact.split/1",
            "parts": split.parts,
            "list": split.list,
        }))?;
        return Ok(Outcome::Done);
    }
    for part in &split.parts {
        output.line(part.as_str())?;
    }
    output.line(&format!("{}: {}", split.list, plural(split.parts.len(), "part")))?;
    Ok(Outcome::Done)
}

pub(super) fn join(
    context: &Context,
    arguments: &JoinArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let target = match &arguments.output {
        Some(target) => target.clone(),
        None => match arguments.list.as_str().strip_suffix(PARTS) {
            Some(target) => target.into(),
            None => {
                return Err(Failure::usage(format!("`{}` is no list of parts", arguments.list))
                    .hint(format!("expected a file that ends in `{PARTS}`")));
            }
        },
    };
    let sha256 = artifact::join(&arguments.list, &target, &context.cancel)?;
    if output.is_json() {
        output.json(&json!({
            "schema": "monobloc.artifact.join/1",
            "file": target,
            "sha256": sha256,
        }))?;
    } else {
        output.line(&format!("{sha256}  {}", Utf8Path::new(&target)))?;
    }
    Ok(Outcome::Done)
}

fn parse_part_size(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(parse_size(text)?).ok_or_else(|| "a part has at least one byte".to_owned())
}
