//! `monobloc completions`: what a shell needs to complete our commands.

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Print a completion script for a shell
///
/// For bash: `monobloc completions bash > /etc/bash_completion.d/monobloc`
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(arguments: &CompletionsArgs, output: &Output) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "monobloc", &mut script);
    output.raw(&script)?;
    Ok(Outcome::Done)
}
