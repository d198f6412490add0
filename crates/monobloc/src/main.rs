//! The command line of Monobloc: arguments in, calls of the library crates, words out.

mod args;
mod ask;
mod commands;
mod context;
mod failure;
mod render;

use std::process::ExitCode;

use context::Context;

fn main() -> ExitCode {
    // Whatever the user's umask is, what this program makes can be read by those who run it.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let context = Context::of_process();
    commands::run(&context)
}
