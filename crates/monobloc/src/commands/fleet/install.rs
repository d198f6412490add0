//! `monobloc deploy`, `monobloc upgrade`: hosts become what was configured.

use std::collections::BTreeSet;

use fleet::run::{Operation, PauseAfter, RunSpec, Size, Waves};
use host::wire::Wanted;
use package::id::RoleName;

use super::cluster::Opened;
use super::way::{new_id, parse_batch, parse_size, target};
use super::{ClusterArgs, WayArgs, account, membership};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Install what was configured on hosts that have nothing yet
///
/// Looks at every host, gets everything there and verifies it, and then makes it live: masters, then all
/// others. Hosts that have it already are left alone, so new hosts are added by running it again; a master that
/// joins others goes alone, and what the distribution has to do to the cluster first is done on one of them. Hosts
/// on which something else is live are for `upgrade`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc deploy                                  hosts are in the lists of genconf/config.yaml
  monobloc deploy --inventory hosts.yaml           hosts are in a file
  monobloc deploy --role slave --push              only agents, and send them the bundle
  monobloc deploy --relay                          hosts that have the bundle hand it to others
  monobloc plan deploy                             what it would do")]
pub(crate) struct DeployArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    waves: WaveArgs,
    #[command(flatten)]
    way: WayArgs,
}

/// Make hosts what was configured, some at a time
///
/// Everything is fetched and verified on all hosts while they go on as they are. Then masters switch, one at
/// a time, and the cluster must be well before and after each; then the first agents; then the others, a
/// part at a time. A wave that fails is rolled back on all of its hosts, and the upgrade stops.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc upgrade
  monobloc upgrade --canaries 5 --batch 20% --max-failures 2%
  monobloc upgrade --pause-after canaries          and `monobloc resume` to go on
  monobloc plan upgrade --save plan.json           then `monobloc apply plan.json`")]
pub(crate) struct UpgradeArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    waves: WaveArgs,
    #[command(flatten)]
    way: WayArgs,

    /// Upgrade even if what is there fails its checks, or the cluster is ill: it must be well after the last master
    #[arg(long)]
    skip_checks: bool,

    /// Take what is older than what hosts have
    #[arg(long)]
    allow_older: bool,
}

/// How many at a time, and when it is enough.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "How many at a time")]
pub(crate) struct WaveArgs {
    /// How many agents go first
    #[arg(long, value_name = "COUNT|PERCENT%", value_parser = parse_size)]
    canaries: Option<Size>,

    /// How many agents go at once after that
    #[arg(long, value_name = "COUNT|PERCENT%", value_parser = parse_batch)]
    batch: Option<Size>,

    /// How many hosts may fail or be out of reach before it stops by itself
    #[arg(long, value_name = "COUNT|PERCENT%", value_parser = parse_size, default_value = "10%")]
    pub(super) max_failures: Size,

    /// Wait for `monobloc resume` after this: `stage`, `masters`, `canaries`, `each`, or the number of a wave
    #[arg(long, value_name = "WHEN", value_parser = parse_pause)]
    pause_after: Vec<PauseAfter>,

    /// Do not look at what hosts are before they change
    #[arg(long)]
    disable_preflight: bool,
}

impl WaveArgs {
    /// The waves that were asked for: an upgrade is careful, a deployment has nobody to be careful with.
    pub(super) fn waves(&self, operation: Operation) -> Waves {
        let careful = Waves::careful();
        let (canaries, batch) = match operation {
            Operation::Upgrade => (careful.canaries, careful.batch),
            _ => (Size::Count(0), Size::Percent(100)),
        };
        Waves {
            canaries: self.canaries.unwrap_or(canaries),
            batch: self.batch.unwrap_or(batch),
            pause_after: self.pause_after.clone(),
            ..careful
        }
    }
}

/// What is installed, and how.
pub(super) struct Install<'a> {
    pub(super) operation: Operation,
    pub(super) cluster: &'a ClusterArgs,
    pub(super) waves: &'a WaveArgs,
    pub(super) way: &'a WayArgs,
    skip_checks: bool,
    allow_older: bool,
}

impl DeployArgs {
    pub(super) fn install(&self) -> Install<'_> {
        let Self { cluster, waves, way } = self;
        let operation = Operation::Deploy;
        Install { operation, cluster, waves, way, skip_checks: false, allow_older: false }
    }
}

impl UpgradeArgs {
    pub(super) fn install(&self) -> Install<'_> {
        let Self { cluster, waves, way, skip_checks, allow_older } = self;
        let (skip_checks, allow_older) = (*skip_checks, *allow_older);
        Install { operation: Operation::Upgrade, cluster, waves, way, skip_checks, allow_older }
    }
}

impl Install<'_> {
    /// The run that does it.
    pub(super) fn spec(&self, context: &Context, opened: &Opened) -> Result<RunSpec, Failure> {
        let kit = opened.kit(self.way.is_pushed())?;
        let name = &opened.cluster.bundle.distribution.name;
        let mut spec = RunSpec::new(new_id()?, name, self.operation);
        let mut sets: Vec<BTreeSet<RoleName>> = Vec::new();
        for host in &opened.chosen.hosts {
            let at = sets.iter().position(|roles| *roles == host.roles);
            let at = at.unwrap_or_else(|| {
                sets.push(host.roles.clone());
                sets.len() - 1
            });
            spec.hosts.push(target(host, Some(at)));
        }
        membership::add_witnesses(&mut spec, opened);
        spec.wanted = sets.iter().filter_map(|roles| self.wanted(&kit, roles)).collect();
        spec.budget = self.waves.max_failures;
        let waves = Waves { heals: self.skip_checks, ..self.waves.waves(self.operation) };
        let waves = self.way.gated(waves);
        let mut spec = spec.installing(self.way.push, waves);
        if let Some(fan) = self.way.relay {
            spec = spec.relayed(fan);
        }
        self.way.lead(context, opened, spec)
    }

    fn wanted(
        &self,
        kit: &fleet::transport::kit::Kit,
        roles: &BTreeSet<RoleName>,
    ) -> Option<Wanted> {
        let supply = kit.bundle.as_ref()?;
        Some(Wanted {
            upgrade: self.operation == Operation::Upgrade,
            allow_older: self.allow_older,
            skip_checks: self.skip_checks || self.way.folders.is_some(),
            disable_preflight: self.waves.disable_preflight || self.way.folders.is_some(),
            ..supply.wanted(roles)
        })
    }
}

pub(crate) fn deploy(
    context: &Context,
    arguments: &DeployArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    run(context, &arguments.install(), output)
}

pub(crate) fn upgrade(
    context: &Context,
    arguments: &UpgradeArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    run(context, &arguments.install(), output)
}

fn run(context: &Context, install: &Install<'_>, output: &Output) -> Result<Outcome, Failure> {
    let opened = install.cluster.open()?;
    let login = &install.way.login;
    let mut spec = install.spec(context, &opened)?;
    membership::find_actions(context, &opened, login, &mut spec)?;
    let id = spec.id.clone();
    let finished = login.begin(context, &opened, spec, output)?;
    account::tell(&finished, &id, &install.operation.to_string(), output)
}

fn parse_pause(text: &str) -> Result<PauseAfter, String> {
    Ok(match text {
        "stage" => PauseAfter::Stage,
        "masters" => PauseAfter::Masters,
        "canaries" => PauseAfter::Canaries,
        "each" => PauseAfter::EachWave,
        number => PauseAfter::Wave(number.parse().map_err(|_| {
            "expected `stage`, `masters`, `canaries`, `each`, or the number of a wave".to_owned()
        })?),
    })
}
