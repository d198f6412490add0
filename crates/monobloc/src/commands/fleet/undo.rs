//! `monobloc rollback`, `monobloc uninstall`: back to what was before.

use fleet::run::{Operation, RunId, RunSpec, Size, Waves};

use super::way::{new_id, parse_size, target};
use super::{ClusterArgs, WayArgs, account};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{Output, ask, plural};

/// Undo an upgrade on all hosts that it changed, from what they have on disk
///
/// Masters go back one at a time, and the cluster must be well before and after each; then the others, a part at
/// a time. Hosts need nothing from anywhere.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc rollback                          the last run that changed hosts
  monobloc rollback 20261116185209-5d0c5a31")]
pub(crate) struct RollbackArgs {
    /// The run to undo [default: the last one that changed hosts]
    #[arg(value_parser = parse_run)]
    run: Option<RunId>,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// How many agents go back at once
    #[arg(long, value_name = "COUNT|PERCENT%", value_parser = parse_size, default_value = "25%")]
    batch: Size,

    /// How many hosts may fail or be out of reach before it stops by itself
    #[arg(long, value_name = "COUNT|PERCENT%", value_parser = parse_size, default_value = "10%")]
    max_failures: Size,

    #[command(flatten)]
    way: WayArgs,
}

/// Remove everything from hosts that was installed
///
/// Agents first, masters last. State that services kept, and the users who own it, stay unless `--purge` is
/// given.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc uninstall --hosts a7 --purge      one host
  monobloc uninstall --yes                   all of them, and nobody is asked")]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// Remove state and users, too
    #[arg(long)]
    purge: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    way: WayArgs,
}

pub(crate) fn rollback(
    context: &Context,
    arguments: &RollbackArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let opened = arguments.cluster.open_as_configured()?;
    let journal = WayArgs::journal(&opened)?;
    let run = if let Some(run) = &arguments.run {
        run.clone()
    } else {
        let changing = [Operation::Deploy, Operation::Upgrade, Operation::Rollback]
            .map(|operation| operation.to_string());
        let last = journal.runs()?.into_iter().rev().find(|run| changing.contains(&run.operation));
        last.map(|run| run.id).ok_or_else(|| Failure::usage("no run changed anything yet"))?
    };
    let waves = Waves { canaries: Size::Count(0), batch: arguments.batch, ..Waves::careful() };
    let mut spec = RunSpec::undoing(&journal, &run, new_id()?, waves)?;
    drop(journal);
    spec.budget = arguments.max_failures;
    // Hosts may have other addresses by now; and not all of them may be meant.
    if !opened.is_all {
        let chosen = opened.chosen.by_name();
        spec.hosts.retain(|target| chosen.contains_key(target.host.name.as_str()));
    }
    let known = opened.inventory.by_name();
    for target in &mut spec.hosts {
        if let Some(host) = known.get(target.host.name.as_str()) {
            target.host = (*host).clone();
        }
    }
    if spec.worked_on() == 0 {
        return Err(Failure::new(format!("run {run} left nothing that can be undone"))
            .hint("`monobloc status --runs` lists all runs"));
    }
    let id = spec.id.clone();
    let finished = arguments.way.execute(context, &opened, spec, output)?;
    account::tell(&finished, &id, "rollback", output)
}

impl UninstallArgs {
    /// The run that does it.
    pub(super) fn spec(&self, opened: &super::cluster::Opened) -> Result<RunSpec, Failure> {
        let name = &opened.cluster.bundle.distribution.name;
        let mut spec = RunSpec::new(new_id()?, name, Operation::Uninstall);
        spec.hosts = opened.chosen.hosts.iter().map(|host| target(host, None)).collect();
        spec.budget = Size::Percent(100);
        Ok(spec.uninstalling(self.purge))
    }

    pub(super) fn cluster(&self) -> (&ClusterArgs, &WayArgs) {
        (&self.cluster, &self.way)
    }
}

pub(crate) fn uninstall(
    context: &Context,
    arguments: &UninstallArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let opened = arguments.cluster.open()?;
    let spec = arguments.spec(&opened)?;
    if !arguments.yes {
        let hosts = plural(spec.worked_on(), "host");
        let name = &opened.cluster.bundle.distribution.name;
        let state = if arguments.purge { " with all of its state" } else { "" };
        let question = format!("remove {name}{state} from {hosts}? write `yes`: ");
        let is_sure = context.interactive
            && !output.is_json()
            && ask(&question).is_some_and(|answer| answer.trim() == "yes");
        if !is_sure {
            return Err(Failure::usage(format!("nothing was removed from {hosts}"))
                .hint("say `--yes` if that is what you want"));
        }
    }
    let id = spec.id.clone();
    let finished = arguments.way.execute(context, &opened, spec, output)?;
    account::tell(&finished, &id, "uninstall", output)
}

/// The name of a run.
pub(super) fn parse_run(text: &str) -> Result<RunId, String> {
    RunId::try_from(text.to_owned()).map_err(|error| error.to_string())
}
