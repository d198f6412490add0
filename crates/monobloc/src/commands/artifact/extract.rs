//! `monobloc artifact extract`: files of the artifact as files.

use camino::Utf8PathBuf;
use package::durable;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{Output, bytes, plural};

/// Copy files out of an artifact, each verified
///
/// Nothing needs this to work: packages are read and served where they lie.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc artifact extract dcos_generate_config.sh -o out                      everything
  monobloc artifact extract dcos_generate_config.sh -o out packages/etcd/       a folder
  monobloc artifact extract dcos_generate_config.sh -o out program/linux-x86_64/monobloc")]
pub(crate) struct ExtractArgs {
    /// The file
    file: Utf8PathBuf,

    /// Paths in it; with a slash at the end: all that is below [default: everything]
    paths: Vec<String>,

    /// The folder to put them into
    #[arg(short, long, value_name = "FOLDER")]
    output: Utf8PathBuf,
}

pub(super) fn run(
    context: &Context,
    arguments: &ExtractArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let artifact = super::open(context, Some(&arguments.file))?;
    for wanted in &arguments.paths {
        if !artifact.files().keys().any(|path| is_wanted(path.as_str(), wanted)) {
            return Err(Failure::new(format!("`{}` has no `{wanted}`", artifact.path()))
                .hint("`monobloc artifact inspect` lists what is in it"));
        }
    }
    let (mut written, mut size) = (Vec::new(), 0);
    for (path, file) in artifact.files() {
        let mut wanted = arguments.paths.iter();
        if !arguments.paths.is_empty() && !wanted.any(|wanted| is_wanted(path.as_str(), wanted)) {
            continue;
        }
        context.cancel.check()?;
        let target = arguments.output.join(path.as_str());
        let mut copy = durable::create_beside(&target)?;
        let piece = artifact.piece(path.as_str()).expect("it is listed");
        let (_, found) = piece.copy_to(&mut copy)?;
        if found != file.sha256 {
            return Err(Failure::new(format!(
                "`{}` is damaged: `{path}` has the SHA-256 {found}, expected {}",
                artifact.path(),
                file.sha256
            )));
        }
        let mode = if path.as_str().starts_with("program/") { 0o755 } else { 0o644 };
        durable::persist_with_mode(copy, &target, mode)?;
        written.push(path);
        size += file.size;
    }
    if output.is_json() {
        output.json(&json!({
            "schema": "monobloc.artifact.extract/1",
            "folder": arguments.output,
            "files": written,
        }))?;
    } else {
        let count = plural(written.len(), "file");
        output.line(&format!("{count}, {} in {}", bytes(size), arguments.output))?;
    }
    Ok(Outcome::Done)
}

fn is_wanted(path: &str, wanted: &str) -> bool {
    path == wanted || wanted.ends_with('/') && path.starts_with(wanted)
}
