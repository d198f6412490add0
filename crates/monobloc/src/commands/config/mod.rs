//! `monobloc config`: what a cluster is told to be.

mod detect;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Say what a cluster is, and try it before hosts see it
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    Detect(detect::DetectArgs),
}

pub(crate) fn run(
    context: &Context,
    command: &ConfigCommand,
    output: &Output,
) -> Result<Outcome, Failure> {
    match command {
        ConfigCommand::Detect(arguments) => detect::run(context, arguments, output),
    }
}
