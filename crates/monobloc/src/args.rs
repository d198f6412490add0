//! The arguments of every command; the doc comments are the help.

use clap::{Parser, Subcommand};

use crate::commands::{build, compat, completions, config, host, keys, local, package};

/// A tree of components becomes one signed file that every host of a cluster runs
#[derive(Debug, Parser)]
#[command(name = "monobloc", version, propagate_version = true, max_term_width = 100)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Write one JSON document to standard output instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Hash a password for a configuration, with SHA-512-crypt; without one, ask for it
    #[arg(long, value_name = "PASSWORD")]
    #[expect(clippy::option_option, reason = "the flag, and its value, may be left out")]
    pub(crate) hash_password: Option<Option<String>>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Build(build::BuildArgs),
    #[command(subcommand)]
    Package(package::PackageCommand),
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Host(host::HostArgs),
    Local(local::LocalArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Mkpanda(compat::mkpanda::MkpandaArgs),
}
