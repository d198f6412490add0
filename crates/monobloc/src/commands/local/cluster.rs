//! The commands about a whole cluster: up, status, down.

use local::{Cluster, HostSpec, Options, Power, Role, Status, Subnet, Suite};
use serde_json::json;

use super::{Call, Which, failure};
use crate::args::parse_size;
use crate::failure::{Failure, Outcome};
use crate::render::plural;

/// Make a cluster of hosts and boot it
///
/// Masters are called m1, m2, …, agents a1, public agents p1, and hosts without a role h1; all know each
/// other by name. Each has its own root file system and address, a real systemd and a real sshd. They
/// reach each other and this machine, and nothing else. The first use of an image builds it from the
/// packages of this machine's mirror.
///
/// For hosts with roles a `config.yaml` is written that `monobloc configure --config` takes as it is, and
/// for all of them an inventory; `status` tells where. Both go with the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  monobloc local up --masters 3 --agents 2 --public-agents 1
  monobloc local up --hosts 4 --image bookworm,noble --name mixed

Images: bullseye, bookworm, trixie (Debian 11 to 13); jammy, noble, resolute (Ubuntu 22.04 to 26.04).
Users of every host: root; deploy (sudo without password); admin (sudo asks for the password `admin`);
plain (no sudo).")]
pub(super) struct UpArgs {
    /// How many masters
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=200))]
    masters: u16,

    /// How many agents
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=200))]
    agents: u16,

    /// How many public agents
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=200))]
    public_agents: u16,

    /// How many hosts without a role [default: 3 if there are no others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=200))]
    hosts: Option<u16>,

    /// The system on them; of several, each host gets the next
    #[arg(long, value_name = "SUITE", value_delimiter = ',', default_value = "bookworm")]
    image: Vec<String>,

    #[command(flatten)]
    which: Which,

    /// The network of the hosts [default: a free one]
    #[arg(long, value_name = "ADDRESS/BITS")]
    subnet: Option<String>,

    /// Where packages for images come from [default: where apt on this machine gets them]
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,

    /// Give each host a disk of this size, in memory, which can be filled; without it hosts share the disk
    /// of this machine
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    disk: Option<u64>,

    /// Let hosts sync files to the disk of this machine; without it syncing costs nothing
    #[arg(long)]
    fsync: bool,
}

/// Show the hosts of a cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  monobloc local status --json")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    which: Which,
}

/// Remove a cluster and everything that was made for it
///
/// Works whatever became of the programs that made it. Images are kept for the next one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  monobloc local down --name mixed")]
pub(super) struct DownArgs {
    #[command(flatten)]
    which: Which,
}

pub(super) fn up(mut call: Call<'_>, arguments: &UpArgs) -> Result<Outcome, Failure> {
    let images = arguments.image.iter().map(|name| name.parse::<Suite>());
    let images: Vec<Suite> = images.collect::<Result<_, _>>().map_err(|error| failure(&error))?;
    let program = call.context.program()?;
    let mut options = Options::new(&arguments.which.name, hosts(arguments, &images), program);
    let subnet = arguments.subnet.as_ref().map(|text| text.parse::<Subnet>());
    options.subnet = subnet.transpose().map_err(|error| failure(&error))?;
    options.fsync = arguments.fsync;
    options.disk = arguments.disk;
    call.machine.mirror.clone_from(&arguments.mirror);
    let cluster =
        Cluster::up(&call.machine, &options, &call.job).map_err(|error| failure(&error))?;
    if !call.output.is_json() {
        let hosts = plural(cluster.hosts().len(), "host");
        call.output.note(&format!("cluster {}: {hosts} in {}", cluster.name(), cluster.subnet()));
    }
    show(&call, &cluster)
}

/// The hosts that are wanted, each with the next image.
fn hosts(arguments: &UpArgs, images: &[Suite]) -> Vec<HostSpec> {
    let with_role = arguments.masters + arguments.agents + arguments.public_agents;
    let without = arguments.hosts.unwrap_or(if with_role == 0 { 3 } else { 0 });
    let kinds = [
        (arguments.masters, "m", Some(Role::Master)),
        (arguments.agents, "a", Some(Role::Slave)),
        (arguments.public_agents, "p", Some(Role::SlavePublic)),
        (without, "h", None),
    ];
    let mut images = images.iter().cycle();
    let mut hosts = Vec::new();
    for (count, letter, role) in kinds {
        for (number, image) in (1..=count).zip(images.by_ref()) {
            let host = HostSpec::new(format!("{letter}{number}"), *image);
            hosts.push(HostSpec { role, ..host });
        }
    }
    hosts
}

pub(super) fn status(call: &Call<'_>, arguments: &StatusArgs) -> Result<Outcome, Failure> {
    show(call, &call.open(&arguments.which)?)
}

pub(super) fn down(call: &Call<'_>, arguments: &DownArgs) -> Result<Outcome, Failure> {
    let name = &arguments.which.name;
    Cluster::remove(&call.machine, name, &call.job).map_err(|error| failure(&error))?;
    if call.output.is_json() {
        call.output.json(&json!({ "schema": "monobloc.local.down/1", "removed": name }))?;
    } else {
        call.output.note(&format!("removed the cluster {name}"));
    }
    Ok(Outcome::Done)
}

fn show(call: &Call<'_>, cluster: &Cluster) -> Result<Outcome, Failure> {
    let hosts: Vec<Status> = cluster.hosts().iter().map(local::Host::status).collect();
    call.job.cancel.check().map_err(|cancelled| failure(&cancelled.into()))?;
    let name = cluster.name();
    let hint =
        (!cluster.is_made()).then(|| format!("`monobloc local down --name {name}` removes it"));
    if call.output.is_json() {
        call.output.json(&json!({
            "schema": "monobloc.local.status/1",
            "name": name,
            "made": cluster.is_made(),
            "hint": hint,
            "subnet": cluster.subnet(),
            "ssh_config": cluster.ssh_config(),
            "ssh_key": cluster.ssh_key(),
            "known_hosts": cluster.known_hosts(),
            "machine": cluster.machine_address(),
            "config": cluster.config(),
            "inventory": cluster.inventory(),
            "hosts": hosts,
        }))?;
        return Ok(Outcome::Done);
    }
    for host in &hosts {
        let system = match host.power {
            Power::Off => "off",
            Power::On => host.system.as_deref().unwrap_or("silent"),
        };
        let mut rest = vec![plural(host.boots as usize, "boot")];
        rest.extend(host.faults.iter().cloned());
        let (name, address) = (host.name.as_str(), host.address.to_string());
        let (role, rest) = (host.role.map_or("-", Role::as_str), rest.join(", "));
        call.output.line(&format!(
            "{name:<8} {address:<15} {:<9} {role:<12} {system:<9} {rest}",
            host.image
        ))?;
    }
    if let Some(config) = cluster.config() {
        call.output.line(&format!("config     {config}"))?;
    }
    call.output.line(&format!("inventory  {}", cluster.inventory()))?;
    if let Some(hint) = hint {
        let line = format!("not whole  `up` is still at work, or it was interrupted; then {hint}");
        call.output.line(&line)?;
    }
    Ok(Outcome::Done)
}
