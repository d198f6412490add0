//! `monobloc plan`, `monobloc apply`: exactly what would be done, and that and nothing else.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use fleet::journal::Journal;
use fleet::run::{Operation, RunId, RunSpec, Task};
use host::wire::{Level, PlanSummary, Report, Request, Status};
use package::{Sha256, durable, json as canonical, versioned};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cluster::Opened;
use super::install::{DeployArgs, Install, UpgradeArgs};
use super::look::asking;
use super::undo::UninstallArgs;
use super::way::new_id;
use super::{ClusterArgs, WayArgs, account};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::fleet::some;
use crate::render::{Output, bytes, plain, plural};

/// The version of a saved plan that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// Show exactly what would be done to each host, and change nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc plan upgrade
  monobloc plan --save plan.json upgrade     then `monobloc apply plan.json`")]
pub(crate) struct PlanArgs {
    /// Keep the plan in a file, for `monobloc apply`
    #[arg(long, value_name = "FILE")]
    save: Option<Utf8PathBuf>,

    #[command(subcommand)]
    operation: PlanOperation,
}

#[derive(Debug, clap::Subcommand)]
enum PlanOperation {
    Deploy(DeployArgs),
    Upgrade(UpgradeArgs),
    Uninstall(UninstallArgs),
}

/// Do what a saved plan says, or nothing if hosts are not any more what they were
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// The file that `monobloc plan --save` wrote
    file: Utf8PathBuf,

    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    way: WayArgs,
}

/// A plan as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    format: u32,
    /// What was published when it was made.
    bundle: Sha256,
    /// What each host had, if what is done to it does not follow from a plan of its own.
    had: BTreeMap<String, Sha256>,
    spec: RunSpec,
}

pub(crate) fn plan(
    context: &Context,
    arguments: &PlanArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    match &arguments.operation {
        PlanOperation::Deploy(deploy) => installing(context, arguments, &deploy.install(), output),
        PlanOperation::Upgrade(upgrade) => {
            installing(context, arguments, &upgrade.install(), output)
        }
        PlanOperation::Uninstall(uninstall) => removing(context, arguments, uninstall, output),
    }
}

fn installing(
    context: &Context,
    arguments: &PlanArgs,
    install: &Install<'_>,
    output: &Output,
) -> Result<Outcome, Failure> {
    let opened = install.cluster.open()?;
    let mut spec = install.spec(&opened)?;
    let mut look = RunSpec { id: new_id()?, operation: Operation::Plan, ..spec.clone() };
    look = look.asking(Task::Plan);
    let id = look.id.clone();
    let finished = install.way.execute(context, &opened, look, output)?;
    let plans = plans(&finished.journal, &id)?;
    for (at, plan) in &plans {
        spec.hosts[*at].planned = plan.digest;
    }
    let had = BTreeMap::new();
    let saved = Saved { format: FORMAT, bundle: opened.cluster.latest.bundle, had, spec };
    save(arguments.save.as_deref(), &saved)?;
    let named: Vec<(&str, &PlanSummary)> =
        plans.iter().map(|(at, plan)| (saved.spec.hosts[*at].host.name.as_str(), plan)).collect();
    let failures = finished.journal.failures(&id)?;
    if output.is_json() {
        let hosts: Vec<_> =
            named.iter().map(|(name, plan)| json!({ "name": name, "plan": plan })).collect();
        output.json(&json!({
            "schema": "monobloc.plan/1",
            "operation": install.operation,
            "bundle": saved.bundle,
            "hosts": hosts,
            "failures": failures,
        }))?;
    } else {
        show(&named, output)?;
        account::causes(&failures, output)?;
    }
    let is_fine =
        |plan: &PlanSummary| plan.findings.iter().all(|found| found.level != Level::Error);
    let is_well = failures.is_empty() && named.iter().all(|(_, plan)| is_fine(plan));
    Ok(if is_well { Outcome::Done } else { Outcome::Failed })
}

fn plans(journal: &Journal, run: &RunId) -> Result<Vec<(usize, PlanSummary)>, Failure> {
    let plans = journal.reports(run, "plan")?.into_iter().filter_map(|(at, report)| match report {
        Report::Plan(plan) => Some((at, *plan)),
        _ => None,
    });
    Ok(plans.collect())
}

/// Hosts to which the same is done are one line.
fn show(plans: &[(&str, &PlanSummary)], output: &Output) -> Result<(), Failure> {
    let mut same: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for (name, plan) in plans {
        let lines = lines(plan);
        match same.iter_mut().find(|(_, known)| *known == lines) {
            Some((names, _)) => names.push((*name).to_owned()),
            None => same.push((vec![(*name).to_owned()], lines)),
        }
    }
    for (names, lines) in same {
        output.line(&format!("{}:", some(&names)))?;
        for line in lines {
            output.line(&format!("    {line}"))?;
        }
    }
    let changing: Vec<_> = plans.iter().filter(|(_, plan)| plan.changes).collect();
    let moved: u64 = changing.iter().map(|(_, plan)| plan.fetch_bytes).sum();
    let restarts: usize = changing.iter().map(|(_, plan)| plan.stops.len()).sum();
    output.line(&format!(
        "{} of {} change, {} to move, {} of units",
        changing.len(),
        plural(plans.len(), "host"),
        bytes(moved),
        plural(restarts, "stop"),
    ))
}

/// What is done to a host.
fn lines(plan: &PlanSummary) -> Vec<String> {
    if !plan.changes {
        return vec!["nothing changes".to_owned()];
    }
    let mut lines = vec![format!(
        "fetch {}, {}; {} on disk{}",
        plural(plan.fetched.len(), "package"),
        bytes(plan.fetch_bytes),
        bytes(plan.disk_bytes),
        plan.free_bytes.map(|free| format!(" of {} free", bytes(free))).unwrap_or_default(),
    )];
    let names = |ids: &std::collections::BTreeSet<package::PackageId>| {
        ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let listed = [("add", names(&plan.added)), ("remove", names(&plan.removed))];
    lines.extend(
        listed.iter().filter(|(_, ids)| !ids.is_empty()).map(|(what, ids)| format!("{what} {ids}")),
    );
    for (what, units) in [("stop", &plan.stops), ("start", &plan.starts)] {
        if !units.is_empty() {
            lines.push(format!("{what} {}", units.join(" ")));
        }
    }
    for found in plan.findings.iter().filter(|found| found.level == Level::Error) {
        lines.push(format!("will fail: {}: {}", found.name, plain(&found.found)));
    }
    lines
}

fn removing(
    context: &Context,
    arguments: &PlanArgs,
    uninstall: &UninstallArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let (cluster, way) = uninstall.cluster();
    let opened = cluster.open()?;
    let (had, failures) = look(context, &opened, way, output)?;
    let spec = uninstall.spec(&opened)?;
    let digests = had.iter().map(|(name, status)| (name.clone(), digest(status))).collect();
    let saved = Saved { format: FORMAT, bundle: opened.cluster.latest.bundle, had: digests, spec };
    save(arguments.save.as_deref(), &saved)?;
    if output.is_json() {
        output.json(&json!({
            "schema": "monobloc.plan/1", "operation": "uninstall", "hosts": had, "failures": failures,
        }))?;
    } else {
        for (name, status) in &had {
            let packages = plural(status.packages.len(), "package");
            let generations = plural(status.generations.len(), "generation");
            output.line(&match status.live {
                Some(_) => format!("{name}: remove {packages}, {generations}"),
                None => format!("{name}: nothing is installed"),
            })?;
        }
        account::causes(&failures, output)?;
    }
    Ok(if failures.is_empty() { Outcome::Done } else { Outcome::Failed })
}

/// What hosts have.
fn look(
    context: &Context,
    opened: &Opened,
    way: &WayArgs,
    output: &Output,
) -> Result<(BTreeMap<String, Status>, Vec<fleet::journal::Cause>), Failure> {
    let spec = asking(opened, Operation::Plan)?.asking(Task::Request(Request::Status));
    let id = spec.id.clone();
    let finished = way.execute(context, opened, spec, output)?;
    let mut had = BTreeMap::new();
    for (at, report) in finished.journal.reports(&id, "status")? {
        if let (Report::Status(status), Some(host)) = (report, opened.chosen.hosts.get(at)) {
            had.insert(host.name.clone(), *status);
        }
    }
    Ok((had, finished.journal.failures(&id)?))
}

/// Of what decides what is removed.
fn digest(status: &Status) -> Sha256 {
    let Status { roles, live, generations, packages, .. } = status;
    Sha256::of(json!([roles, live, generations, packages]).to_string().as_bytes())
}

fn save(path: Option<&Utf8Path>, saved: &Saved) -> Result<(), Failure> {
    match path {
        Some(path) => Ok(durable::write(path, canonical::pretty(saved).as_bytes())?),
        None => Ok(()),
    }
}

pub(crate) fn apply(
    context: &Context,
    arguments: &ApplyArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let ApplyArgs { file, cluster, way } = arguments;
    let opened = cluster.open()?;
    let Saved { bundle, had, mut spec, .. } = versioned::parse(file, &fs_err::read(file)?, FORMAT)?;
    let again = "make a new plan: `monobloc plan`";
    if bundle != opened.cluster.latest.bundle {
        let published = opened.cluster.latest.bundle;
        return Err(Failure::new(format!(
            "the plan is about bundle {bundle}, and {published} is published by now"
        ))
        .hint(again));
    }
    if !had.is_empty() {
        let (has, _) = look(context, &opened, way, output)?;
        let changed: Vec<String> = had
            .iter()
            .filter(|(name, known)| has.get(*name).map(digest).as_ref() != Some(*known))
            .map(|(name, _)| name.clone())
            .collect();
        if !changed.is_empty() {
            return Err(Failure::new(format!("not what they were any more: {}", some(&changed)))
                .hint(again));
        }
    }
    spec.id = new_id()?;
    if let Some(fan) = way.relay {
        spec = spec.relayed(fan);
    }
    // Nothing is moved if a single host is not what it was.
    if let Some(phase) = spec.phases.first_mut().filter(|phase| phase.name == "plan") {
        phase.strict = true;
    }
    let (id, operation) = (spec.id.clone(), spec.operation.to_string());
    let finished = way.execute(context, &opened, spec, output)?;
    account::tell(&finished, &id, &operation, output)
}
