//! The commands about single hosts: exec, ssh, kill, start, reboot; and the one that hosts live on.

use std::ffi::OsString;

use camino::Utf8PathBuf;
use local::{BOOT_MAX, Host, LocalError};
use serde_json::json;

use super::{Call, Which, failure};
use crate::failure::{Failure, Outcome};

/// Run a program in a host, as root, without the network
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc local exec h1 -- systemctl is-system-running
  monobloc local exec h1                                   a shell")]
pub(super) struct ExecArgs {
    #[command(flatten)]
    which: Which,

    /// The host
    host: String,

    /// The program and its arguments [default: a shell]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Log in to a host, or run a command there, by SSH
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc local ssh h1
  monobloc local ssh --user deploy h1 -- sudo id")]
pub(super) struct SshArgs {
    #[command(flatten)]
    which: Which,

    /// Log in as this user: root, deploy, admin or plain
    #[arg(long, value_name = "USER", default_value = "root")]
    user: String,

    /// The host
    host: String,

    /// The command [default: a shell]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Take the power away from hosts, without a warning
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  monobloc local kill h2 h3")]
pub(super) struct KillArgs {
    #[command(flatten)]
    hosts: Hosts,
}

/// Turn hosts on, and wait until they have booted
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  monobloc local start h2 h3")]
pub(super) struct StartArgs {
    #[command(flatten)]
    hosts: Hosts,
}

/// Boot hosts again in an orderly way, and wait until they have booted
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  monobloc local reboot h1")]
pub(super) struct RebootArgs {
    #[command(flatten)]
    hosts: Hosts,
}

/// Keep a host running
#[derive(Debug, clap::Args)]
pub(super) struct SuperviseArgs {
    /// What to run
    file: Utf8PathBuf,

    /// Become the host
    #[arg(long)]
    boot: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Hosts {
    #[command(flatten)]
    which: Which,

    /// The hosts
    #[arg(required = true, value_name = "HOST")]
    hosts: Vec<String>,
}

pub(super) fn exec(call: &Call<'_>, arguments: &ExecArgs) -> Result<Outcome, Failure> {
    let cluster = call.open(&arguments.which)?;
    let shell = ["/bin/bash".into(), "-l".into()];
    let words = if arguments.command.is_empty() { &shell[..] } else { &arguments.command };
    let command = cluster.host(&arguments.host).and_then(|host| host.command(words));
    Err(local::replace_process(command.map_err(|error| failure(&error))?).into())
}

pub(super) fn ssh(call: &Call<'_>, arguments: &SshArgs) -> Result<Outcome, Failure> {
    let cluster = call.open(&arguments.which)?;
    let host = cluster.host(&arguments.host).map_err(|error| failure(&error))?;
    Err(local::replace_process(host.ssh(&arguments.user, &arguments.command)).into())
}

pub(super) fn kill(call: &Call<'_>, arguments: &KillArgs) -> Result<Outcome, Failure> {
    each(call, &arguments.hosts, "off", &[&Host::kill])
}

pub(super) fn start(call: &Call<'_>, arguments: &StartArgs) -> Result<Outcome, Failure> {
    each(call, &arguments.hosts, "up", &[&Host::start, &|host| host.wait_booted(BOOT_MAX)])
}

pub(super) fn reboot(call: &Call<'_>, arguments: &RebootArgs) -> Result<Outcome, Failure> {
    each(call, &arguments.hosts, "up", &[&Host::reboot, &|host| host.wait_booted(BOOT_MAX)])
}

pub(super) fn supervise(arguments: &SuperviseArgs) -> Result<Outcome, Failure> {
    let run = if arguments.boot { local::boot } else { local::supervise };
    run(&arguments.file).map_err(|error| failure(&error))?;
    Ok(Outcome::Done)
}

pub(super) type Step<'a> = &'a dyn Fn(&Host) -> Result<(), LocalError>;

/// Does each step with all hosts before the next one, so that they boot at the same time.
pub(super) fn each(
    call: &Call<'_>,
    arguments: &Hosts,
    now: &str,
    steps: &[Step<'_>],
) -> Result<Outcome, Failure> {
    let cluster = call.open(&arguments.which)?;
    let mut hosts: Vec<&Host> = Vec::new();
    for name in &arguments.hosts {
        let host = cluster.host(name).map_err(|error| failure(&error))?;
        // Who is named twice is meant once.
        if hosts.iter().all(|known| known.name() != host.name()) {
            hosts.push(host);
        }
    }
    for step in steps {
        for host in &hosts {
            step(host).map_err(|error| failure(&error))?;
        }
    }
    if call.output.is_json() {
        let hosts: Vec<_> = hosts.iter().map(|host| host.status()).collect();
        call.output.json(&json!({ "schema": "monobloc.local.hosts/1", "hosts": hosts }))?;
    } else {
        for host in hosts {
            call.output.note(&format!("{} is {now}", host.name()));
        }
    }
    Ok(Outcome::Done)
}
