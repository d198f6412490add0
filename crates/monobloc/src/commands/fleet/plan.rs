//! `monobloc plan`, `monobloc apply`: exactly what would be done, and that and nothing else.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use fleet::journal::Journal;
use fleet::run::{End, Finished, Group, Operation, RunId, RunSpec, Target, Task};
use host::wire::{PlanSummary, Removal, Report, Request};
use package::{Sha256, durable, json as canonical, versioned};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cluster::Opened;
use super::install::{DeployArgs, Install, UpgradeArgs};
use super::summary::{Fate, Planned, Removed, Same, Sum, fate, is_there, removal_lines, show};
use super::undo::UninstallArgs;
use super::way::new_id;
use super::{ConfigArgs, LoginArgs, account, membership};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::fleet::some;
use crate::render::{Output, plural};

/// The version of a saved plan that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// Show exactly what would be done to each host, and change nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc plan upgrade
  monobloc plan upgrade --save plan.json     then `monobloc apply plan.json`")]
pub(crate) struct PlanArgs {
    /// Keep the plan in a file, for `monobloc apply`
    #[arg(long, value_name = "FILE", global = true)]
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
///
/// What is done is done to the hosts that the plan has, as they were reached then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc plan upgrade --relay --save plan.json
  monobloc apply plan.json")]
pub(crate) struct ApplyArgs {
    /// The file that `monobloc plan --save` wrote
    file: Utf8PathBuf,

    #[command(flatten)]
    place: ConfigArgs,
    #[command(flatten)]
    login: LoginArgs,
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
    let login = &install.way.login;
    let mut spec = install.spec(context, &opened)?;
    let masters = membership::find_actions(context, &opened, login, &mut spec)?;
    let mut look = RunSpec { id: new_id()?, operation: Operation::Plan, ..spec.clone() };
    look = look.asking(Task::Plan);
    let id = look.id.clone();
    let finished = login.look(context, &opened, look, output)?;
    is_whole(&finished)?;
    let plans = plans(&finished.journal, &id)?;
    let (mut named, mut actions) = (Vec::new(), Vec::new());
    for (at, plan) in plans {
        // Only for who comes something is done to the cluster.
        let joins = plan.from.is_none() && plan.changes;
        actions.push(Some(at).filter(|_| joins));
        let target = &mut spec.hosts[at];
        let fate = fate(&plan, install.operation);
        // Of what will fail there is nothing to do.
        target.planned = plan.digest.filter(|_| fate != Fate::Fails);
        named.push((target.host.name.clone(), fate, plan));
    }
    let failures = finished.journal.failures(&id)?;
    let (bundle, sum) = (opened.cluster.latest.bundle, Sum::of(&named));
    if let Some(path) = &arguments.save {
        let mut spec = spec.clone();
        let left_out = keep_planned(&mut spec);
        // What the others have to be told of is less without them.
        spec.find_actions(&masters);
        let had = BTreeMap::new();
        save(path, &Saved { format: FORMAT, bundle, had, spec }, &left_out, output)?;
    }
    if output.is_json() {
        let document = |((name, fate, plan), at): (&Planned, &Option<usize>)| {
            let actions = at.map(|at| membership::documents(&spec, at)).unwrap_or_default();
            json!({ "name": name, "does": fate, "plan": plan, "actions": actions })
        };
        let hosts: Vec<_> = named.iter().zip(&actions).map(document).collect();
        output.json(&json!({
            "schema": "monobloc.plan/1",
            "operation": install.operation,
            "bundle": bundle,
            "sum": sum,
            "hosts": hosts,
            "failures": failures,
        }))?;
    } else {
        let of = |at: &Option<usize>| at.map(|at| membership::lines(&spec, at)).unwrap_or_default();
        let actions: Vec<Vec<String>> = actions.iter().map(of).collect();
        show(&named, &actions, &sum, output)?;
        account::causes(&failures, output)?;
    }
    let is_well = failures.is_empty() && named.iter().all(|(_, fate, _)| *fate != Fate::Fails);
    Ok(if is_well { Outcome::Done } else { Outcome::Failed })
}

/// A plan that knows only some hosts is none.
fn is_whole(finished: &Finished) -> Result<(), Failure> {
    match finished.end {
        End::Done => Ok(()),
        _ => Err(Failure::new("it was interrupted: nothing is planned")),
    }
}

/// Leaves hosts out of which nothing is known, so that nothing is done to them that nobody saw; masters
/// among them are still asked how the cluster is. Returns their names.
fn keep_planned(spec: &mut RunSpec) -> Vec<String> {
    let is_out = |target: &Target| target.group != Group::Witness && target.planned.is_none();
    let out = spec.hosts.iter().filter(|target| is_out(target));
    let names = out.map(|target| target.host.name.clone()).collect();
    for target in spec.hosts.iter_mut().filter(|target| is_out(target)) {
        if target.group == Group::Master {
            (target.group, target.wanted) = (Group::Witness, None);
        }
    }
    spec.keep(|target| !is_out(target));
    names
}

fn plans(journal: &Journal, run: &RunId) -> Result<Vec<(usize, PlanSummary)>, Failure> {
    let plans = journal.reports(run, "plan")?.into_iter().filter_map(|(at, report)| match report {
        Report::Plan(plan) => Some((at, *plan)),
        _ => None,
    });
    Ok(plans.collect())
}

fn removing(
    context: &Context,
    arguments: &PlanArgs,
    uninstall: &UninstallArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let (cluster, way) = uninstall.cluster();
    let opened = cluster.open_as_configured()?;
    let spec = uninstall.spec(context, &opened)?;
    let leaving: Vec<Target> =
        spec.hosts.iter().filter(|target| target.group != Group::Witness).cloned().collect();
    // Who is gone is not asked.
    let (had, failures) = if uninstall.is_gone() {
        (BTreeMap::new(), Vec::new())
    } else {
        look(context, &opened, &way.login, (&spec, leaving), output)?
    };
    let concerned = || {
        let hosts = spec.hosts.iter().enumerate();
        hosts.filter(|(_, target)| !target.membership.actions.is_empty())
    };
    let sum = Removed::of(had.values());
    let bundle = opened.cluster.latest.bundle;
    if let Some(path) = &arguments.save {
        let mut spec = spec.clone();
        let left_out = keep_seen(&mut spec, &had);
        let had = had.iter().map(|(name, removal)| (name.clone(), digest(removal))).collect();
        save(path, &Saved { format: FORMAT, bundle, had, spec }, &left_out, output)?;
    }
    if output.is_json() {
        output.json(&json!({
            "schema": "monobloc.plan/1",
            "operation": "uninstall",
            "bundle": bundle,
            "sum": sum,
            "hosts": leaving_documents(&spec, &had),
            "failures": failures,
        }))?;
    } else {
        for (at, target) in concerned() {
            for line in membership::lines(&spec, at) {
                output.line(&format!("{}: {line}", target.host.name))?;
            }
        }
        let mut same = Same::default();
        for (name, removal) in &had {
            let free = Some(removal.disk_bytes).filter(|_| is_there(removal));
            same.add(name, removal_lines(removal), free);
        }
        same.show("comes free there", output)?;
        sum.show(output)?;
        account::causes(&failures, output)?;
    }
    Ok(if failures.is_empty() { Outcome::Done } else { Outcome::Failed })
}

/// What becomes of each host that leaves, for programs.
fn leaving_documents(spec: &RunSpec, had: &BTreeMap<String, Removal>) -> Vec<Value> {
    let hosts = spec.hosts.iter().enumerate();
    let leaving = hosts.filter(|(_, target)| target.group != Group::Witness);
    let document = |(at, target): (usize, &Target)| {
        let removal = had.get(&target.host.name);
        let changes = removal.is_some_and(is_there);
        json!({
            "name": target.host.name,
            "does": if changes { Fate::Changes } else { Fate::Unchanged },
            "plan": removal,
            "actions": membership::documents(spec, at),
        })
    };
    leaving.map(document).collect()
}

/// Leaves hosts out of which nobody saw what they have. Returns their names.
fn keep_seen(spec: &mut RunSpec, had: &BTreeMap<String, Removal>) -> Vec<String> {
    let is_out = |target: &Target| {
        let is_asked = target.group != Group::Witness && !target.membership.is_gone;
        is_asked && !had.contains_key(&target.host.name)
    };
    let out = spec.hosts.iter().filter(|target| is_out(target));
    let names = out.map(|target| target.host.name.clone()).collect();
    spec.keep(|target| !is_out(target));
    names
}

/// What would be removed from hosts of a run.
fn look(
    context: &Context,
    opened: &Opened,
    login: &LoginArgs,
    (of, hosts): (&RunSpec, Vec<Target>),
    output: &Output,
) -> Result<(BTreeMap<String, Removal>, Vec<fleet::journal::Cause>), Failure> {
    let request = Request::Removal { purge: of.purges() };
    let spec = of.looking_at(new_id()?, hosts).asking(Task::Request(request));
    let asked = spec.clone();
    let finished = login.look(context, opened, spec, output)?;
    is_whole(&finished)?;
    let mut had = BTreeMap::new();
    for (at, report) in finished.journal.reports(&asked.id, "removal")? {
        if let (Report::Removal(removal), Some(target)) = (report, asked.hosts.get(at)) {
            had.insert(target.host.name.clone(), *removal);
        }
    }
    Ok((had, finished.journal.failures(&asked.id)?))
}

/// Of what decides what is removed; which units happen to run does not.
fn digest(removal: &Removal) -> Sha256 {
    let Removal { live, generations, packages, state, purge, .. } = removal;
    Sha256::of(json!([live, generations, packages, state, purge]).to_string().as_bytes())
}

fn save(
    path: &Utf8Path,
    saved: &Saved,
    left_out: &[String],
    output: &Output,
) -> Result<(), Failure> {
    if saved.spec.worked_on() == 0 {
        return Err(Failure::new(format!("no host can be planned: `{path}` is not written")));
    }
    durable::write(path, canonical::pretty(saved).as_bytes())?;
    if !left_out.is_empty() {
        let hosts = plural(saved.spec.worked_on(), "host");
        output.warning(&format!("`{path}` is about {hosts}, and not about {}", some(left_out)));
    }
    Ok(())
}

pub(crate) fn apply(
    context: &Context,
    arguments: &ApplyArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let ApplyArgs { file, place, login } = arguments;
    let opened = place.configured()?.whole()?;
    let Saved { bundle, had, mut spec, .. } = versioned::parse(file, &fs_err::read(file)?, FORMAT)?;
    login.patience().limit(&mut spec.limits);
    if let Some(known_hosts) = login.known_hosts(context)? {
        spec.way.known_hosts = Some(known_hosts);
    }
    let again = "make a new plan: `monobloc plan`";
    if bundle != opened.cluster.latest.bundle {
        let published = opened.cluster.latest.bundle;
        return Err(Failure::new(format!(
            "the plan is about bundle {bundle}, and {published} is published by now"
        ))
        .hint(again));
    }
    if !had.is_empty() {
        let leaving = spec.hosts.iter().filter(|target| had.contains_key(&target.host.name));
        let leaving: Vec<Target> = leaving.cloned().collect();
        let (has, _) = look(context, &opened, login, (&spec, leaving), output)?;
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
    if !membership::is_as_planned(context, &opened, login, &spec)? {
        let changed = "what has to be done to the cluster is not what was planned any more";
        return Err(Failure::new(changed).hint(again));
    }
    spec.id = new_id()?;
    // Nothing is moved if a single host is not what it was.
    if let Some(phase) = spec.phases.first_mut().filter(|phase| phase.name == "plan") {
        phase.strict = true;
    }
    let (id, operation) = (spec.id.clone(), spec.operation.to_string());
    let finished = login.begin(context, &opened, spec, output)?;
    account::tell(&finished, &id, &operation, output)
}
