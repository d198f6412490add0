//! `monobloc artifact`: look at the one file, verify it, take it apart and put it together.

mod extract;
mod inspect;
mod parts;
mod verify;

use camino::Utf8Path;
use package::artifact::Artifact;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Look at an artifact, verify it, take it apart and put it together
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ArtifactCommand {
    Inspect(inspect::InspectArgs),
    Verify(verify::VerifyArgs),
    Extract(extract::ExtractArgs),
    Split(parts::SplitArgs),
    Join(parts::JoinArgs),
}

pub(crate) fn run(
    context: &Context,
    command: &ArtifactCommand,
    output: &Output,
) -> Result<Outcome, Failure> {
    match command {
        ArtifactCommand::Inspect(arguments) => inspect::run(context, arguments, output),
        ArtifactCommand::Verify(arguments) => verify::run(context, arguments, output),
        ArtifactCommand::Extract(arguments) => extract::run(context, arguments, output),
        ArtifactCommand::Split(arguments) => parts::split(context, arguments, output),
        ArtifactCommand::Join(arguments) => parts::join(context, arguments, output),
    }
}

/// The artifact that is named, or the one that this program came in.
fn open(context: &Context, file: Option<&Utf8Path>) -> Result<Artifact, Failure> {
    match file.or(context.artifact()) {
        Some(file) => Ok(Artifact::open(file)?),
        None => Err(Failure::usage("name the file").hint("`monobloc build` tells where it put it")),
    }
}
