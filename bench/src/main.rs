//! Measures both sides of every figure that the project states, side by side in one run.

#![expect(clippy::print_stdout, reason = "the figures are the output")]
#![expect(clippy::print_stderr, reason = "why a measurement failed")]

mod activate;
mod archive;
mod audit;
mod configure;
mod hosts;
mod install;
mod measure;
mod noop;
mod serve;
mod ssh;

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use clap::Parser;

/// Measures both sides of every figure that the project states
#[derive(Debug, Parser)]
#[command(name = "bench")]
enum Bench {
    /// Activating 80 packages with 20,000 files, against the reference's way
    Activate(Sides),
    /// Packing and unpacking, against tar and zstd
    Archive(archive::Args),
    /// Auditing 30,000 files and a gigabyte, against `sha256sum`
    Audit(Sides),
    /// Configuring a cluster of 5,000 agents with 120 files
    Configure(Sides),
    /// Reading and simulating 50,000 hosts, against Ansible
    Hosts(Sides),
    /// Installing a bundle of about a gigabyte, against `tar` and `sync`
    Install(Sides),
    /// A build that has nothing to do, over a tree of 81 packages
    Noop(noop::Args),
    /// Serving a large file to many, against nginx
    Serve(serve::Args),
    /// Commands and files on hundreds of SSH servers, against pssh, clush and Ansible
    Ssh(ssh::Args),
}

/// What is run against something else.
#[derive(Debug, clap::Args)]
struct Sides {
    /// The program [default: `monobloc` beside this one]
    #[arg(long, value_name = "PATH")]
    program: Option<Utf8PathBuf>,
    /// How often each side does its work
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

fn main() -> ExitCode {
    let result = match Bench::parse() {
        Bench::Activate(args) => activate::run(&args),
        Bench::Archive(args) => archive::run(&args),
        Bench::Audit(args) => audit::run(&args),
        Bench::Configure(args) => configure::run(&args),
        Bench::Hosts(args) => hosts::run(&args),
        Bench::Install(args) => install::run(&args),
        Bench::Noop(args) => noop::run(&args),
        Bench::Serve(args) => serve::run(&args),
        Bench::Ssh(args) => ssh::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder that this program and the others of the workspace are built in.
fn program_folder() -> anyhow::Result<Utf8PathBuf> {
    let own = Utf8PathBuf::try_from(std::env::current_exe()?)?;
    Ok(own.parent().context("a program lies in a folder")?.to_owned())
}

/// The program that is measured: the one asked for, or the one beside this.
fn monobloc(asked: Option<&Utf8PathBuf>) -> anyhow::Result<Utf8PathBuf> {
    let program = match asked {
        Some(program) => program.clone(),
        None => program_folder()?.join("monobloc"),
    };
    ensure!(
        program.is_file(),
        "`{program}` is missing: make it with `cargo build --release --package monobloc`"
    );
    Ok(program)
}

/// A folder to work in, below `target` and so on a real disk; it goes with the returned value.
fn work_folder() -> anyhow::Result<(tempfile::TempDir, Utf8PathBuf)> {
    let near = program_folder()?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(&near)?;
    let path = Utf8PathBuf::try_from(folder.path().to_owned())?;
    println!("folder {path} ({})", file_system(&path));
    Ok((folder, path))
}

/// The kind of file system that `path` is on.
fn file_system(path: &Utf8Path) -> String {
    let mounts = fs_err::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let holding = mounts.filter(|(place, _)| path.starts_with(place));
    let nearest = holding.max_by_key(|(place, _)| place.len());
    nearest.map_or("unknown file system", |(_, kind)| kind).to_owned()
}
