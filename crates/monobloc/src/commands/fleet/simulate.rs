//! `monobloc simulate`: a run on hosts that are not there.

use camino::Utf8PathBuf;
use fleet::inventory::{Host, Inventory};
use fleet::journal::{Durability, Journal};
use fleet::run::{End, Operation, RunId, RunSpec, Size};
use fleet::transport::simulated::{Faults, Kills, Mishap, World, simulate};
use host::wire::Wanted;
use package::Sha256;
use serde_json::json;

use super::cluster::read_inventory;
use super::install::WaveArgs;
use super::way::{is_master, parse_fan, parse_size, target};
use super::{ConfigArgs, account};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::fleet::{counted, stopped};
use crate::render::{FleetProgress, Output, plural, seconds};

/// Try waves and limits on hosts that are not there
///
/// The same engine that deploys and upgrades does it to virtual hosts, of which some are slow, dead, full,
/// cut off or fail their checks. The same seed gives the same run. Nobody is connected to.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc simulate --inventory hosts.yaml upgrade
  monobloc simulate --config genconf/config.yaml --canaries 2 upgrade
  monobloc simulate --agents 50000 --faulty 2% --batch 5% upgrade
  monobloc simulate --agents 500 --faulty 1% --kills 10 --seed 7 deploy")]
pub(crate) struct SimulateArgs {
    /// What to simulate
    #[arg(value_enum)]
    operation: Simulated,

    /// Your hosts, in a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["masters", "agents"])]
    inventory: Option<Utf8PathBuf>,

    /// Your hosts, in the lists of a configuration of which `monobloc configure` made a bundle
    #[arg(long, value_name = "FILE", conflicts_with_all = ["inventory", "masters", "agents"])]
    config: Option<Utf8PathBuf>,

    /// How many masters there are
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    masters: usize,

    /// How many agents there are
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    agents: usize,

    /// With how many agents something goes wrong
    #[arg(long, value_name = "COUNT|PERCENT%", value_parser = parse_size, default_value = "1%")]
    faulty: Size,

    /// With how many masters something goes wrong
    #[arg(long, value_name = "COUNT|PERCENT%", value_parser = parse_size, default_value = "0")]
    faulty_masters: Size,

    /// How often the controller is killed, and another one goes on
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    kills: usize,

    /// Decides what goes wrong
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Hosts that have the bundle hand it to others, so many at once
    #[arg(long, value_name = "COUNT", num_args = 0..=1, require_equals = true,
          default_missing_value = "4", value_parser = parse_fan)]
    relay: Option<usize>,

    #[command(flatten)]
    waves: WaveArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Simulated {
    Deploy,
    Upgrade,
}

pub(crate) fn run(
    context: &Context,
    arguments: &SimulateArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let inventory = inventory(arguments)?;
    let (old, new) = (Sha256::of(b"old"), Sha256::of(b"new"));
    let masters = inventory.hosts.iter().filter(|host| is_master(host)).count();
    let faults = Faults {
        agents: of_a_million(arguments.faulty, inventory.hosts.len() - masters),
        masters: of_a_million(arguments.faulty_masters, masters),
        mishaps: match arguments.relay {
            Some(_) => [&Mishap::ALL[..], &Mishap::RELAYING].concat(),
            None => Mishap::ALL.to_vec(),
        },
    };
    let world = World::new(&inventory.hosts, is_master, arguments.seed, &faults);
    let operation = match arguments.operation {
        Simulated::Deploy => Operation::Deploy,
        Simulated::Upgrade => Operation::Upgrade,
    };
    if operation == Operation::Upgrade {
        world.install(old);
    }
    // Its id decides how long hosts are waited for: the same seed gives the same run.
    let id = RunId::try_from(format!("simulation-{}", arguments.seed))?;
    let mut spec = RunSpec::new(id, "simulation", operation);
    spec.hosts = inventory.hosts.iter().map(|host| target(host, Some(0))).collect();
    spec.wanted = vec![wanted(new)];
    spec.budget = arguments.waves.max_failures;
    let mut spec = spec.installing(false, arguments.waves.waves(operation));
    if let Some(fan) = arguments.relay {
        spec = spec.relayed(fan);
    }
    let id = spec.id.clone();
    let folder = package::durable::Staging::temporary()?;
    let journal = || Journal::open(folder.path(), "simulation", Durability::Off);
    let kills = Kills { seed: arguments.seed, most: arguments.kills, within: 40 };
    let kills = Some(kills).filter(|kills| kills.most > 0);
    let progress = FleetProgress::new(context, output, &spec, false);
    let began = std::time::Instant::now();
    let simulated = simulate(&world, spec, kills, journal, &mut |event| progress.event(event))?;
    progress.finish();
    let failures = simulated.journal.failures(&id)?;
    let stop = simulated.journal.stop(&id)?;
    if output.is_json() {
        output.json(&json!({
            "schema": "monobloc.simulate/1",
            "seed": arguments.seed,
            "end": account::end_name(&simulated.end),
            "stopped": match &simulated.end { End::Stopped(why) => Some(stopped(why)), _ => None },
            "evidence": stop.map(|stop| stop.evidence).unwrap_or_default(),
            "counts": simulated.counts,
            "would_take_seconds": simulated.took.as_secs(),
            "controllers_killed": simulated.killed,
            "supply": account::supply(&simulated.journal, &id)?,
            "hosts": account::hosts(&simulated.journal, &id)?,
            "failures": failures,
        }))?;
    } else {
        account::evidence(stop.as_ref(), output)?;
        account::causes(&failures, output)?;
        let why = match &simulated.end {
            End::Stopped(why) => format!(" stopped, {}", stopped(why)),
            _ => String::new(),
        };
        account::supplied(&simulated.journal, &id, output)?;
        let counted = counted(&simulated.counts);
        output.line(&format!("{operation}{why}: {counted}"))?;
        let killed = plural(simulated.killed, "controller");
        output.line(&format!("it would take {}; {killed} killed", seconds(simulated.took)))?;
        output.note(&format!("simulated in {}", seconds(began.elapsed())));
    }
    let is_well = simulated.end == End::Done && failures.is_empty();
    Ok(if is_well { Outcome::Done } else { Outcome::Failed })
}

/// The hosts that are meant.
fn inventory(arguments: &SimulateArgs) -> Result<Inventory, Failure> {
    match (&arguments.inventory, &arguments.config) {
        (Some(path), _) => read_inventory(path),
        (None, Some(config)) => {
            let place = ConfigArgs { config: config.clone() };
            place.listed(&place.configured()?.cluster.controller)
        }
        (None, None) => made_up(arguments.masters, arguments.agents),
    }
}

/// Hosts with nothing but a name.
fn made_up(masters: usize, agents: usize) -> Result<Inventory, Failure> {
    let host = |name: String, role: &str| {
        Ok(Host {
            address: name.clone(),
            name,
            port: None,
            user: None,
            key: None,
            jump: None,
            roles: [role.parse()?].into(),
            rack: None,
            labels: std::collections::BTreeMap::new(),
        })
    };
    if masters + agents == 0 {
        return Err(Failure::usage("there are no hosts").hint("say `--masters` and `--agents`"));
    }
    let masters = (1..=masters).map(|number| host(format!("m{number}"), "master"));
    let agents = (1..=agents).map(|number| host(format!("a{number}"), "slave"));
    let hosts = masters.chain(agents).collect::<Result<_, package::id::ParseIdError>>();
    Ok(Inventory { hosts: hosts?, known_hosts: None })
}

fn wanted(bundle: Sha256) -> Wanted {
    Wanted {
        from: "http://simulated".to_owned(),
        bundle,
        roles: std::collections::BTreeSet::new(),
        public_key: None,
        role_keys: Vec::new(),
        upgrade: false,
        allow_older: false,
        allow_expired: false,
        disable_preflight: false,
        skip_checks: false,
        planned: None,
    }
}

/// How many of a million that is.
fn of_a_million(size: Size, all: usize) -> u32 {
    match size {
        Size::Percent(percent) => u32::from(percent) * 10_000,
        Size::Count(_) if all == 0 => 0,
        Size::Count(count) => u32::try_from(count.min(all) * 1_000_000 / all).unwrap_or(1_000_000),
    }
}
