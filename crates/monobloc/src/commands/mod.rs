//! One file for each command. A command turns arguments into one call of a library crate and hands
//! the answer to `render`.

pub(crate) mod artifact;
pub(crate) mod build;
pub(crate) mod compat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod configure;
pub(crate) mod fleet;
pub(crate) mod host;
pub(crate) mod keys;
pub(crate) mod local;
pub(crate) mod package;
mod password;
mod release;
pub(crate) mod serve;

use std::ffi::OsStr;
use std::process::ExitCode;

use camino::Utf8Path;
use clap::Parser as _;

use compat::installer::is_action;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Runs the command that the arguments name, and reports how it ended.
pub(crate) fn run(context: &Context) -> ExitCode {
    let called = context.arguments.first().and_then(|name| name.to_str()).map(Utf8Path::new);
    match called.and_then(Utf8Path::file_stem) {
        Some("mkpanda") => {
            let arguments = compat::mkpanda::MkpandaArgs::parse_from(&context.arguments);
            return compat::mkpanda::run(context, &arguments);
        }
        Some("pkgpanda") => return compat::pkgpanda::run(context, &context.arguments[1..]),
        _ => {}
    }
    let first = context.arguments.iter().skip(1).find(|word| *word != "--json");
    let first = first.and_then(|word| word.to_str());
    let named = called.and_then(Utf8Path::file_name).and_then(compat::installer::variant);
    // In an artifact the program is the installer, unless the first word is a command of its own.
    let in_artifact = context.artifact().and_then(Utf8Path::file_name);
    let in_artifact = in_artifact.map(|name| compat::installer::variant(name).unwrap_or_default());
    let in_artifact = in_artifact.filter(|_| first.is_none_or(|word| word.starts_with('-')));
    let by_flag = first.filter(|word| is_action(word)).map(|_| "");
    if let Some(variant) = named.or(in_artifact).or(by_flag) {
        let arguments = compat::installer::InstallerArgs::parse_from(&context.arguments);
        return compat::installer::run(context, &arguments, variant);
    }
    // It reads its arguments itself: what it answers to wrong ones is part of what it is.
    if context.arguments.get(1).is_some_and(|word| word == "pkgpanda") {
        return compat::pkgpanda::run(context, &context.arguments[2..]);
    }
    let cli = match Cli::try_parse_from(&context.arguments) {
        Ok(cli) => cli,
        Err(error) => return wrong_use(context, &error),
    };
    let output = Output::new(cli.json);
    if let Command::Mkpanda(arguments) = &cli.command {
        return compat::mkpanda::run(context, arguments);
    }
    match dispatch(context, &cli.command, &output) {
        Ok(outcome) => outcome.into(),
        Err(failure) => output.failure(&failure),
    }
}

/// Runs one command.
fn dispatch(context: &Context, command: &Command, output: &Output) -> Result<Outcome, Failure> {
    match command {
        Command::Build(arguments) => build::run(context, arguments, output),
        Command::Artifact(command) => artifact::run(context, command, output),
        Command::Package(command) => package::run(context, command, output),
        Command::Keys(command) => keys::run(context, command, output),
        Command::Config(command) => config::run(context, command, output),
        Command::Configure(arguments) => configure::run(context, arguments, output),
        Command::Serve(arguments) => serve::run(context, arguments, output),
        Command::Plan(arguments) => fleet::plan::plan(context, arguments, output),
        Command::Apply(arguments) => fleet::plan::apply(context, arguments, output),
        Command::Preflight(arguments) => fleet::look::preflight(context, arguments, output),
        Command::Deploy(arguments) => fleet::install::deploy(context, arguments, output),
        Command::Postflight(arguments) => fleet::look::postflight(context, arguments, output),
        Command::Upgrade(arguments) => fleet::install::upgrade(context, arguments, output),
        Command::Rollback(arguments) => fleet::undo::rollback(context, arguments, output),
        Command::Status(arguments) => fleet::look::status(context, arguments, output),
        Command::Audit(arguments) => fleet::audit::run(context, arguments, output),
        Command::Uninstall(arguments) => fleet::undo::uninstall(context, arguments, output),
        Command::Resume(arguments) => fleet::runs::resume(context, arguments, output),
        Command::Logs(arguments) => fleet::runs::logs(arguments, output),
        Command::Export(arguments) => fleet::runs::export(arguments, output),
        Command::Simulate(arguments) => fleet::simulate::run(context, arguments, output),
        Command::Host(arguments) => host::run(context, arguments, output),
        Command::Local(arguments) => local::run(context, arguments, output),
        Command::Completions(arguments) => completions::run(arguments, output),
        Command::Mkpanda(_) => unreachable!("it answers with codes of its own"),
    }
}

/// Help and version are answers; anything else is wrong use, in JSON for those who asked for it.
fn wrong_use(context: &Context, error: &clap::Error) -> ExitCode {
    let wants_json = context.arguments.iter().any(|argument| argument == OsStr::new("--json"));
    if wants_json && error.use_stderr() {
        let text = error.render().to_string();
        let message = text.trim().trim_start_matches("error: ").to_owned();
        return Output::new(true).failure(&Failure::usage(message));
    }
    // Whoever closed the pipe does not want to read it.
    drop(error.print());
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}
