//! What developers run by hand or through `./check`: `cargo xtask tidy`, `dist` and `matrix`.

#![expect(clippy::print_stdout, reason = "what a task found or made")]
#![expect(clippy::print_stderr, reason = "why a task failed")]

mod dist;
mod matrix;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;

/// The rules the code keeps, the release program, and what it ran on
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Check the rules that the compiler and clippy do not know
    Tidy,
    /// Make the release program, static, in `target/dist`
    Dist {
        /// Build with Debian's compiler and zig even if rustup has the target
        #[arg(long)]
        fallback: bool,

        /// One to test with, made in a fraction of the time
        #[arg(long)]
        quick: bool,
    },
    /// Write `docs/matrix.md` from what the tests on every release noted
    Matrix,
}

fn main() -> ExitCode {
    match run(&Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> anyhow::Result<()> {
    // Cargo says where this checkout is; the path it was compiled at may be another one.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = PathBuf::from(own).parent().context("xtask lies in the workspace")?.to_owned();
    match task {
        Task::Tidy => tidy::tidy(&root),
        Task::Dist { fallback, quick } => dist::dist(&root, *fallback, *quick),
        Task::Matrix => matrix::matrix(&root),
    }
}
