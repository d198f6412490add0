//! The commands that let something go wrong on purpose: freeze, cut, fill; and heal, which undoes them.

use local::Host;

use super::Call;
use super::host::{Hosts, each};
use crate::args::parse_size;
use crate::failure::{Failure, Outcome};

/// Let hosts hang: their processes halt, their connections stay open
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  monobloc local freeze a1")]
pub(super) struct FreezeArgs {
    #[command(flatten)]
    hosts: Hosts,
}

/// Pull the cables of hosts, or let them lose packets
///
/// A cable stays as it is when the host boots.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  monobloc local cut m2\n  monobloc local cut --loss 20 a1")]
pub(super) struct CutArgs {
    #[command(flatten)]
    hosts: Hosts,

    /// Lose this part of all packets, each way, instead of all of them; needs nft (Debian: nftables)
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=99))]
    loss: Option<u8>,
}

/// Fill the disks of hosts, which have one of their own if the cluster was made with `--disk`
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  monobloc local fill --leave 10MB a1")]
pub(super) struct FillArgs {
    #[command(flatten)]
    hosts: Hosts,

    /// Leave this much room
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = parse_size)]
    leave: u64,
}

/// Undo what `freeze`, `cut` and `fill` did to hosts
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  monobloc local heal a1 m2")]
pub(super) struct HealArgs {
    #[command(flatten)]
    hosts: Hosts,
}

pub(super) fn freeze(call: &Call<'_>, arguments: &FreezeArgs) -> Result<Outcome, Failure> {
    each(call, &arguments.hosts, "frozen", &[&Host::freeze])
}

pub(super) fn cut(call: &Call<'_>, arguments: &CutArgs) -> Result<Outcome, Failure> {
    match arguments.loss {
        None => each(call, &arguments.hosts, "cut off", &[&Host::cut]),
        Some(loss) => {
            let now = format!("losing {loss} %");
            each(call, &arguments.hosts, &now, &[&|host| host.lose(loss)])
        }
    }
}

pub(super) fn fill(call: &Call<'_>, arguments: &FillArgs) -> Result<Outcome, Failure> {
    each(call, &arguments.hosts, "full", &[&|host| host.fill(arguments.leave)])
}

pub(super) fn heal(call: &Call<'_>, arguments: &HealArgs) -> Result<Outcome, Failure> {
    each(call, &arguments.hosts, "well", &[&Host::heal])
}
