//! The arguments of every command; the doc comments are the help.

use clap::{Parser, Subcommand};

use crate::commands::{
    artifact, build, compat, completions, config, configure, fleet, host, keys, local, package,
    serve,
};

/// A tree of components becomes one signed file that every host of a cluster runs
#[derive(Debug, Parser)]
#[command(name = "monobloc", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Write one JSON document to standard output instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Build(build::BuildArgs),
    #[command(subcommand)]
    Artifact(artifact::ArtifactCommand),
    #[command(subcommand)]
    Package(package::PackageCommand),
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Configure(configure::ConfigureArgs),
    Serve(serve::ServeArgs),
    Plan(fleet::plan::PlanArgs),
    Apply(fleet::plan::ApplyArgs),
    Preflight(fleet::look::PreflightArgs),
    Deploy(fleet::install::DeployArgs),
    Postflight(fleet::look::PostflightArgs),
    Upgrade(fleet::install::UpgradeArgs),
    Rollback(fleet::undo::RollbackArgs),
    Status(fleet::look::StatusArgs),
    Audit(fleet::audit::AuditArgs),
    Uninstall(fleet::undo::UninstallArgs),
    Resume(fleet::runs::ResumeArgs),
    Logs(fleet::runs::LogsArgs),
    Export(fleet::runs::ExportArgs),
    Simulate(fleet::simulate::SimulateArgs),
    Host(host::HostArgs),
    Local(local::LocalArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Mkpanda(compat::mkpanda::MkpandaArgs),
}

/// The bytes of a size such as `650M`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    ::package::quantity::bytes_of(text)
        .ok_or_else(|| "expected a size such as `4G`, `650M` or `1048576`".to_owned())
}
