//! `monobloc local`: hosts on this machine, to try and to test with.

mod cluster;
mod host;

use local::{Cluster, Job, LocalError, Machine};

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{LocalProgress, Output};

/// Make hosts on this machine to try and test with
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc local up --hosts 3                      h1, h2 and h3, each with systemd and sshd
  monobloc local up --image bookworm,noble         hosts with different systems, in turn
  monobloc local exec h1 -- systemctl --failed     run something in a host
  monobloc local ssh h1                            log in
  monobloc local kill h2                           take the power away
  monobloc local start h2                          and give it back
  monobloc local down                              remove all of it")]
pub(crate) struct LocalArgs {
    #[command(subcommand)]
    command: LocalCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LocalCommand {
    Up(cluster::UpArgs),
    Status(cluster::StatusArgs),
    Exec(host::ExecArgs),
    Ssh(host::SshArgs),
    Kill(host::KillArgs),
    Start(host::StartArgs),
    Reboot(host::RebootArgs),
    Down(cluster::DownArgs),
    #[command(hide = true)]
    Supervise(host::SuperviseArgs),
}

/// Which cluster is meant.
#[derive(Debug, clap::Args)]
struct Which {
    /// The name of the cluster
    #[arg(long, value_name = "NAME", default_value = "local")]
    name: String,
}

pub(crate) fn run(
    context: &Context,
    arguments: &LocalArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let progress = LocalProgress::new(output);
    let job = Job { observer: &progress, cancel: &context.cancel };
    let call = Call { context, output, machine: Machine::default(), job };
    match &arguments.command {
        LocalCommand::Up(arguments) => cluster::up(call, arguments),
        LocalCommand::Status(arguments) => cluster::status(&call, arguments),
        LocalCommand::Exec(arguments) => host::exec(&call, arguments),
        LocalCommand::Ssh(arguments) => host::ssh(&call, arguments),
        LocalCommand::Kill(arguments) => host::kill(&call, arguments),
        LocalCommand::Start(arguments) => host::start(&call, arguments),
        LocalCommand::Reboot(arguments) => host::reboot(&call, arguments),
        LocalCommand::Down(arguments) => cluster::down(&call, arguments),
        LocalCommand::Supervise(arguments) => host::supervise(arguments),
    }
}

/// Everything a command of this group works with.
struct Call<'a> {
    context: &'a Context,
    output: &'a Output,
    machine: Machine,
    job: Job<'a>,
}

impl Call<'_> {
    fn open(&self, which: &Which) -> Result<Cluster, Failure> {
        Cluster::open(&self.machine, &which.name).map_err(|error| failure(&error))
    }
}

/// What went wrong, with what to do about it.
fn failure(error: &LocalError) -> Failure {
    let failure = match error {
        LocalError::Name { .. }
        | LocalError::Suite(_)
        | LocalError::Subnet(_)
        | LocalError::HostCount { .. } => Failure::usage(error.to_string()),
        _ => Failure::of(error),
    };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
