//! `monobloc preflight`, `monobloc postflight`, `monobloc status`: how hosts are, and nothing is changed.

use std::collections::BTreeMap;

use fleet::across::Across;
use fleet::inventory::Host;
use fleet::journal::Journal;
use fleet::run::{Operation, RunId, RunSpec, Task};
use host::wire::{Level, Report, Request, Status};
use serde_json::json;

use super::cluster::Opened;
use super::summary::Same;
use super::undo::parse_run;
use super::way::{new_id, target};
use super::{ClusterArgs, WayArgs, account, runs};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{Output, plain, plural};

/// More hosts than this are not listed: those that are alike are told together.
const LISTED_MAX: usize = 100;

/// Look at whether hosts can become what was configured, each by itself and all together
///
/// Each host looks at itself. Then all of them are compared: clocks, machine ids, addresses; and those that must
/// reach others, as the distribution says, try to. Nothing is changed, and nothing is left.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc preflight
  monobloc preflight --role master --json")]
pub(crate) struct PreflightArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    way: WayArgs,
}

/// Look at whether hosts, and the cluster as a whole, are well
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc postflight
  monobloc postflight --hosts m1,a7 --json")]
pub(crate) struct PostflightArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    way: WayArgs,
}

/// Show what hosts have, or what runs did
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc status                  asks every host what it has
  monobloc status --runs           all runs, the last one first
  monobloc status --run            the last run: every host, and failures by cause")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// What became of every host in a run [default: the last one]
    #[arg(long, value_name = "RUN", value_parser = parse_run, num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the flag, and its value, may be left out")]
    run: Option<Option<RunId>>,

    /// All runs
    #[arg(long, conflicts_with = "run")]
    runs: bool,

    #[command(flatten)]
    way: WayArgs,
}

pub(crate) fn preflight(
    context: &Context,
    arguments: &PreflightArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let PreflightArgs { cluster, way } = arguments;
    let opened = cluster.open()?;
    let kit = opened.kit(way.push)?;
    let mut spec = asking(&opened, Operation::Preflight)?;
    for target in &mut spec.hosts {
        let wanted = kit.bundle.as_ref().map(|supply| supply.wanted(&target.host.roles));
        let at = spec.wanted.iter().position(|known| Some(known) == wanted.as_ref());
        target.wanted = Some(at.unwrap_or(spec.wanted.len()));
        if at.is_none() {
            spec.wanted.extend(wanted);
        }
    }
    let spec = match &way.folders {
        // They are on one machine, with one clock, one id and one network.
        Some(_) => spec.asking(Task::Preflight),
        None => spec.looking(Across::of(opened.preflight()?.as_ref())),
    };
    let id = spec.id.clone();
    let finished = way.login.ask(context, &opened, way.lead(context, &opened, spec)?, output)?;
    if !output.is_json() {
        findings(&finished.journal, &id, &opened, output)?;
    }
    account::tell(&finished, &id, "preflight", output)
}

/// What is not an error, and yet worth a look: by check, with who has it.
fn findings(
    journal: &Journal,
    run: &RunId,
    opened: &Opened,
    output: &Output,
) -> Result<(), Failure> {
    let mut warnings = BTreeMap::<(String, String), Vec<String>>::new();
    for (at, report) in journal.reports(run, "preflight")? {
        let Report::Findings { findings } = report else { continue };
        let Some(host) = opened.chosen.hosts.get(at) else { continue };
        for found in findings.into_iter().filter(|found| found.level == Level::Warning) {
            warnings.entry((found.name, found.found)).or_default().push(host.name.clone());
        }
    }
    for ((name, found), hosts) in warnings {
        let hosts = crate::render::fleet::some(&hosts);
        output.warning(&format!("{hosts}: {name}: {}", plain(&found)));
    }
    Ok(())
}

pub(crate) fn postflight(
    context: &Context,
    arguments: &PostflightArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let PostflightArgs { cluster, way } = arguments;
    let opened = cluster.open_as_configured()?;
    let spec = asking(&opened, Operation::Postflight)?;
    let mut spec = spec.asking(Task::Request(Request::Check { cluster: false }));
    // What is about the cluster, one host that knows is asked.
    let is_master = |target: &fleet::run::Target| target.group == fleet::run::Group::Master;
    if let Some(first) = spec.hosts.iter().position(is_master) {
        let work = fleet::run::Work::Own(vec![(first, Request::Check { cluster: true })]);
        spec.phases.insert(1, fleet::run::Phase::new("cluster", work));
    }
    let id = spec.id.clone();
    let finished = way.login.ask(context, &opened, way.lead(context, &opened, spec)?, output)?;
    account::tell(&finished, &id, "postflight", output)
}

pub(crate) fn status(
    context: &Context,
    arguments: &StatusArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let StatusArgs { cluster, run, runs, way } = arguments;
    if *runs {
        return runs::list(&cluster.place.configured()?, output);
    }
    if let Some(run) = run {
        return runs::show(&cluster.place.configured()?, run.as_ref(), output);
    }
    let opened = cluster.open_as_configured()?;
    let spec = asking(&opened, Operation::Status)?.asking(Task::Request(Request::Status));
    let (id, asked) = (spec.id.clone(), spec.clone());
    let finished = way.login.look(context, &opened, way.lead(context, &opened, spec)?, output)?;
    let mut known = statuses(&finished.journal, &asked)?;
    let hosts = opened.chosen.hosts.iter();
    let statuses: Vec<Option<Status>> = hosts.map(|host| known.remove(&host.name)).collect();
    if output.is_json() {
        let hosts: Vec<_> = opened
            .chosen
            .hosts
            .iter()
            .zip(&statuses)
            .map(|(host, status)| json!({"name": host.name, "address": host.address, "status": status}))
            .collect();
        output.json(&json!({
            "schema": "monobloc.status/1",
            "bundle": opened.cluster.latest.bundle,
            "version": opened.cluster.bundle.distribution.version,
            "end": account::end_name(&finished.end),
            "hosts": hosts,
            "failures": finished.journal.failures(&id)?,
        }))?;
    } else {
        let mut counts = BTreeMap::<String, usize>::new();
        let mut same = Same::default();
        for (host, status) in opened.chosen.hosts.iter().zip(&statuses) {
            let (roles, what) = (roles(host), what(status.as_ref(), &opened));
            if statuses.len() <= LISTED_MAX {
                let Host { name, address, .. } = host;
                output.line(&format!("{name:16} {address:16} {roles:14} {what}"))?;
            } else {
                same.add(&host.name, vec![format!("{roles:14} {what}")], None);
            }
            *counts.entry(version(status.as_ref())).or_default() += 1;
        }
        same.show("", output)?;
        let counts: Vec<_> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        output.line(&format!("{}: {}", plural(statuses.len(), "host"), counts.join(", ")))?;
        account::causes(&finished.journal.failures(&id)?, output)?;
    }
    let is_well = |status: &Option<Status>| {
        status.as_ref().is_some_and(|status| status.failed_units.is_empty())
    };
    let is_whole = account::is_whole(&finished, output);
    Ok(if is_whole && statuses.iter().all(is_well) { Outcome::Done } else { Outcome::Failed })
}

/// What hosts said of themselves in a run that asked them.
pub(super) fn statuses(
    journal: &Journal,
    asked: &RunSpec,
) -> Result<BTreeMap<String, Status>, Failure> {
    let mut statuses = BTreeMap::new();
    for (at, report) in journal.reports(&asked.id, "status")? {
        if let (Report::Status(status), Some(target)) = (report, asked.hosts.get(at)) {
            statuses.insert(target.host.name.clone(), *status);
        }
    }
    Ok(statuses)
}

/// What a host has, for the sum.
fn version(status: Option<&Status>) -> String {
    match status {
        None => "not reached".to_owned(),
        Some(status) if status.live.is_none() => "with nothing installed".to_owned(),
        Some(status) => {
            let version = status.distribution_version.as_deref().unwrap_or("something unknown");
            format!("with {version}")
        }
    }
}

fn roles(host: &Host) -> String {
    let roles: Vec<&str> = host.roles.iter().map(package::id::RoleName::as_str).collect();
    roles.join(",")
}

/// What a host has, in one line.
fn what(status: Option<&Status>, opened: &Opened) -> String {
    let Some(status) = status else { return "not reached".to_owned() };
    let what = match (&status.distribution_version, status.live) {
        (Some(version), Some(live)) => format!("{version:10} generation {live}"),
        (None, Some(live)) => format!("{:10} generation {live}", "?"),
        (_, None) => "nothing installed".to_owned(),
    };
    let is_current = status.bundle == Some(opened.cluster.latest.bundle);
    let behind = if status.live.is_some() && !is_current { ", another bundle" } else { "" };
    let failed = if status.failed_units.is_empty() {
        String::new()
    } else {
        format!(", failed: {}", status.failed_units.join(", "))
    };
    format!("{what}{behind}{failed}")
}

/// A run that asks every host something.
pub(super) fn asking(opened: &Opened, operation: Operation) -> Result<RunSpec, Failure> {
    let name = &opened.cluster.bundle.distribution.name;
    let mut spec = RunSpec::new(new_id()?, name, operation);
    spec.hosts = opened.chosen.hosts.iter().map(|host| target(host, None)).collect();
    Ok(spec)
}
