//! `monobloc local`: hosts on this machine, to try and to test with.

mod cluster;
mod fault;
mod host;

use local::{Cluster, Job, LocalError, Machine};

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{LocalProgress, Output};

/// Make hosts on this machine to try and test with
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc local up --masters 3 --agents 2 --public-agents 1    m1 m2 m3 a1 a2 p1
  monobloc local up --hosts 4 --image bookworm,noble            h1 to h4, of two systems
  monobloc local exec m1 -- systemctl --failed                  run something in a host
  monobloc local ssh m1                                         log in
  monobloc local kill m2                                        take the power away
  monobloc local start m2                                       and give it back
  monobloc local freeze a1; monobloc local cut a2               let one hang, pull a cable
  monobloc local heal a1 a2                                     and undo both
  monobloc local down                                           remove all of it")]
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
    Freeze(fault::FreezeArgs),
    Cut(fault::CutArgs),
    Fill(fault::FillArgs),
    Heal(fault::HealArgs),
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
        LocalCommand::Freeze(arguments) => fault::freeze(&call, arguments),
        LocalCommand::Cut(arguments) => fault::cut(&call, arguments),
        LocalCommand::Fill(arguments) => fault::fill(&call, arguments),
        LocalCommand::Heal(arguments) => fault::heal(&call, arguments),
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
        let cluster = Cluster::open(&self.machine, &which.name).map_err(|error| failure(&error))?;
        Ok(cluster.until(self.job.cancel))
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
