//! The commands about generations: activate, swap, rollback, active, generations.

use std::time::Duration;

use host::plan::{Plan, Wanted};
use host::{Host, HostError};
use package::PackageId;
use serde_json::json;

use super::{Call, failure};
use crate::failure::{Failure, Outcome};
use crate::render::plural;

/// Make a set of packages live, all at once
///
/// Everything is checked before anything is written; what is live changes by the rename of one link.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  monobloc host activate --plan etcd--3f1a caddy--09bc
  monobloc host activate etcd--3f1a caddy--09bc")]
pub(super) struct ActivateArgs {
    /// The packages, all of which must be in the store
    #[arg(required = true, value_name = "ID")]
    ids: Vec<PackageId>,

    #[command(flatten)]
    how: How,
}

/// Put a package in the place of the active one of its name
#[derive(Debug, clap::Args)]
pub(super) struct SwapArgs {
    /// The package
    #[arg(value_name = "ID")]
    id: PackageId,

    #[command(flatten)]
    how: How,
}

/// Go back to an older generation
#[derive(Debug, clap::Args)]
pub(super) struct RollbackArgs {
    /// The generation; without it the one that was live when the live one was made
    #[arg(value_name = "NUMBER")]
    generation: Option<u64>,

    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
struct How {
    /// Only show what would be done
    #[arg(long)]
    plan: bool,

    /// Why, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,

    /// Go back although the older packages cannot read the state of the newer ones
    #[arg(long)]
    force: bool,

    /// How long what goes live may take until its checks and units confirm it
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    deadline: u32,
}

/// List the packages that are active
#[derive(Debug, clap::Args)]
pub(super) struct ActiveArgs {}

/// List the generations of this host
#[derive(Debug, clap::Args)]
pub(super) struct GenerationsArgs {}

pub(super) fn activate(call: &Call<'_>, arguments: &ActivateArgs) -> Result<Outcome, Failure> {
    let wanted = Wanted::Packages(arguments.ids.iter().cloned().collect());
    go(call, "activate", |_| Ok(wanted), &arguments.how)
}

pub(super) fn swap(call: &Call<'_>, arguments: &SwapArgs) -> Result<Outcome, Failure> {
    go(call, "swap", |host| host.swapped(&arguments.id), &arguments.how)
}

pub(super) fn rollback(call: &Call<'_>, arguments: &RollbackArgs) -> Result<Outcome, Failure> {
    let wanted = |host: &Host| {
        arguments.generation.map_or_else(|| host.previous(), Ok).map(Wanted::Generation)
    };
    go(call, "rollback", wanted, &arguments.how)
}

fn go(
    call: &Call<'_>,
    command: &str,
    wanted: impl FnOnce(&Host) -> Result<Wanted, HostError>,
    how: &How,
) -> Result<Outcome, Failure> {
    let job = call.job(command, &how.reason);
    let mut host = call.host.clone();
    host.switching.force = how.force;
    host.switching.limit = Duration::from_secs(how.deadline.into());
    let plan = if how.plan {
        wanted(&host).and_then(|wanted| host.plan(&wanted, job.clock))
    } else {
        host.activate_with(wanted, &job)
    };
    let plan = plan.map_err(|error: HostError| failure(&error))?;
    if call.output.is_json() {
        call.output.json(
            &json!({ "schema": "monobloc.host.plan/1", "executed": !how.plan, "plan": plan }),
        )?;
    } else if how.plan {
        for line in describe(&plan) {
            call.output.line(&line)?;
        }
    } else if plan.is_empty() {
        call.output.note("nothing to do: all is as wanted");
    }
    Ok(Outcome::Done)
}

/// A plan as people read it.
fn describe(plan: &Plan) -> Vec<String> {
    if plan.is_empty() {
        return vec!["nothing to do: all is as wanted".to_owned()];
    }
    let mut lines = Vec::new();
    let changes = &plan.changes;
    for id in &changes.added {
        match changes.removed.iter().find(|old| old.name() == id.name()) {
            Some(old) => lines.push(format!("~ {old} -> {}", id.version())),
            None => lines.push(format!("+ {id}")),
        }
    }
    for id in &changes.removed {
        if !changes.added.iter().any(|new| new.name() == id.name()) {
            lines.push(format!("- {id}"));
        }
    }
    for id in &changes.unverified {
        lines.push(format!("! {id} is unverified: it came without a manifest"));
    }
    if let Some(old) = &changes.old_roles {
        let names = |roles: &std::collections::BTreeSet<package::id::RoleName>| {
            let names: Vec<&str> = roles.iter().map(package::id::RoleName::as_str).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        lines.push(format!("roles: {} -> {}", names(old), names(&plan.base.roles)));
    }
    lines.extend(plan.steps.iter().flat_map(step));
    lines
}

fn step(step: &host::plan::Step) -> Vec<String> {
    use host::plan::Step;
    use host::trial::Returns;
    let line = match step {
        Step::Try { returns: Returns::Always, .. } => {
            "begin a trial: what is live comes back unless it is confirmed".to_owned()
        }
        Step::Try { returns: Returns::UntilStarted, .. } => {
            "begin a trial: once units were started there is no way back, as the old packages cannot \
             read the new state"
                .to_owned()
        }
        Step::Try { returns: Returns::Never, .. } => {
            "begin a trial: what it says is told, and nothing goes back".to_owned()
        }
        Step::Stop { units } => format!("stop {}", units.join(", ")),
        Step::Start { units, .. } if units.is_empty() => return Vec::new(),
        Step::Start { units, .. } => format!("start {}", units.join(", ")),
        Step::Derive { changes } => return changes.iter().map(change).collect(),
        Step::Link { name } => format!("make the link `{name}`"),
        Step::Replace { name } => format!("put a link in the place of `{name}`"),
        Step::Build(layout) => format!(
            "write generation {}: {}, {}, {}",
            layout.generation.number,
            plural(layout.folders.len(), "folder"),
            plural(layout.links.len(), "link"),
            plural(layout.files.len(), "file"),
        ),
        Step::Switch { from: Some(from), to } => format!("switch from generation {from} to {to}"),
        Step::Switch { from: None, to } => format!("make generation {to} live"),
    };
    vec![line]
}

fn change(change: &host::derived::Change) -> String {
    use host::derived::Change;
    match change {
        Change::Remove { path } => format!("remove `{path}`"),
        Change::Folder { path } => format!("make the folder `{path}`"),
        Change::File { path, .. } => format!("write `{path}`"),
        Change::Link { path, target } => format!("make the link `{path}` to `{target}`"),
        Change::User { name, group: None } => format!("make the user `{name}`"),
        Change::User { name, group: Some(group) } => {
            format!("make the user `{name}` in the group `{group}`")
        }
        Change::State { path, is_new: true, .. } => format!("make the state folder `{path}`"),
        Change::State { path, user: Some(user), .. } | Change::Owner { path, user } => {
            format!("give `{path}` to `{user}`")
        }
        Change::State { path, user: None, .. } => format!("keep `{path}`"),
        Change::Sysctl { setting, value } => format!("set `{setting}` to `{value}`"),
        Change::Restore { setting } => format!("set `{setting}` back to what it was"),
    }
}

pub(super) fn active(call: &Call<'_>, _: &ActiveArgs) -> Result<Outcome, Failure> {
    let ids = call.host.active().map_err(|error| failure(&error))?;
    if call.output.is_json() {
        call.output.json(&json!({ "schema": "monobloc.host.active/1", "packages": ids }))?;
    } else {
        for id in &ids {
            call.output.line(&id.to_string())?;
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn list(call: &Call<'_>, _: &GenerationsArgs) -> Result<Outcome, Failure> {
    let generations = call.host.generations().map_err(|error| failure(&error))?;
    let live = call.host.live().ok().map(|live| live.number);
    if call.output.is_json() {
        call.output.json(&json!({ "schema": "monobloc.host.generations/1", "live": live, "generations": generations }))?;
        return Ok(Outcome::Done);
    }
    for generation in &generations {
        let mark = if live == Some(generation.number) { "*" } else { " " };
        let roles: Vec<&str> = generation.roles.iter().map(package::id::RoleName::as_str).collect();
        let shown = format!(
            "{mark} {:>4}  {}  {}  {}",
            generation.number,
            generation.created.strftime("%Y-%m-%d %H:%M:%S"),
            plural(generation.packages.len(), "package"),
            roles.join(", ")
        );
        call.output.line(shown.trim_end())?;
    }
    Ok(Outcome::Done)
}
