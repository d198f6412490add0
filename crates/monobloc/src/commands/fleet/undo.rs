//! `monobloc rollback`, `monobloc uninstall`: back to what was before.

use std::collections::BTreeSet;

use fleet::journal::Journal;
use fleet::run::{Group, Operation, RunId, RunSpec, Size, Task, Waves};
use host::wire::Request;
use serde_json::json;

use super::cluster::Opened;
use super::way::{new_id, parse_batch, parse_size, target};
use super::{ClusterArgs, LoginArgs, WayArgs, account, look, membership};
use crate::ask;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::fleet::some;
use crate::render::{Output, plural};

/// How long a host may take to show that it is not gone.
const GONE_CONNECT_SECONDS: u64 = 5;

/// Undo an upgrade on all hosts that it changed, from what they have on disk
///
/// Masters go back one at a time, and the cluster must be well before and after each; then the others, a part at
/// a time. Hosts need nothing from anywhere.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc rollback                          the last deployment or upgrade
  monobloc rollback 20261116185209-5d0c5a31")]
pub(crate) struct RollbackArgs {
    /// The run to undo [default: the last deployment or upgrade]
    #[arg(value_parser = parse_run)]
    run: Option<RunId>,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// How many agents go back at once
    #[arg(long, value_name = "COUNT|PERCENT%", value_parser = parse_batch, default_value = "25%")]
    batch: Size,

    /// How many hosts may fail or be out of reach before it stops by itself
    #[arg(long, value_name = "COUNT|PERCENT%", value_parser = parse_size, default_value = "50%")]
    max_failures: Size,

    #[command(flatten)]
    way: WayArgs,
}

/// Remove everything from hosts that was installed
///
/// Agents first, masters last. State that services kept, and the users who own it, stay unless `--purge` is
/// given. If others stay, what the distribution has to do to the cluster first is done on one of them, and masters
/// go one at a time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc uninstall --hosts a7 --purge      one host
  monobloc uninstall --hosts m3 --gone       a host that is lost: only the others are told
  monobloc uninstall --yes                   all of them, and nobody is asked")]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// Remove state and users, too
    #[arg(long)]
    purge: bool,

    /// The hosts are lost for good: do not reach for them, only tell the cluster that they are gone
    #[arg(long, conflicts_with = "purge")]
    gone: bool,

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
    let journal = LoginArgs::journal(&opened)?;
    let waves = Waves { canaries: Size::Count(0), batch: arguments.batch, ..Waves::careful() };
    let undoing = |run: &RunId| Ok(RunSpec::undoing(&journal, run, new_id()?, waves.clone())?);
    let (run, spec) = match &arguments.run {
        Some(run) => (run.clone(), undoing(run)?),
        None => last_that_changed(&journal, undoing)?,
    };
    let anew = journal.installed_anew_since(&run)?;
    let in_it: BTreeSet<String> = journal
        .hosts(&run)?
        .into_iter()
        .map(|row| row.name)
        .filter(|name| anew.contains(name))
        .collect();
    drop(journal);
    // Hosts are where they were when they changed.
    let (way, mut spec) = (spec.way.clone(), arguments.way.lead(context, &opened, spec)?);
    if way.folders != spec.way.folders && arguments.way.folders.is_some() {
        let hosts = way.folders.map_or("reached over SSH".to_owned(), |at| format!("in `{at}`"));
        return Err(Failure::usage(format!("the hosts of run {run} are {hosts}"))
            .hint("leave `--folders` out, or name another run"));
    }
    spec.way.folders = way.folders;
    spec.way.known_hosts = spec.way.known_hosts.or(way.known_hosts);
    if !output.is_json() {
        output.note(&format!("undoing run {run}"));
        if !in_it.is_empty() {
            let hosts = some(&in_it.into_iter().collect::<Vec<_>>());
            output.warning(&format!(
                "{hosts}: removed or installed anew since, and left as it is; \
                 to have the same on all hosts, configure that version and upgrade"
            ));
        }
    }
    spec.budget = arguments.max_failures;
    // Hosts may have other addresses by now; and not all of them may be meant.
    if !opened.is_all {
        let chosen = opened.chosen.by_name();
        let is_meant = |name: &str| chosen.contains_key(name);
        for target in spec.hosts.iter_mut().filter(|target| !is_meant(&target.host.name)) {
            // Masters among the others are still asked how the cluster is.
            if target.group == Group::Master {
                (target.group, target.back) = (Group::Witness, None);
            }
        }
        spec.hosts.retain(|target| target.group == Group::Witness || is_meant(&target.host.name));
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
    let finished = arguments.way.login.begin(context, &opened, spec, output)?;
    account::tell(&finished, &id, "rollback", output)
}

/// The last run that changed hosts, and the way back from it. An earlier one is undone only for who names it: a
/// rollback that is repeated would take back more each time.
fn last_that_changed(
    journal: &Journal,
    undoing: impl Fn(&RunId) -> Result<RunSpec, Failure>,
) -> Result<(RunId, RunSpec), Failure> {
    let removing = Operation::Uninstall.to_string();
    let changing = [Operation::Deploy, Operation::Upgrade].map(|operation| operation.to_string());
    let mut last = None;
    let runs = journal.runs()?.into_iter().rev();
    for run in runs.filter(|run| changing.contains(&run.operation) || run.operation == removing) {
        if run.operation == removing && last.is_none() {
            let failure = Failure::usage(format!(
                "the last run, {}, uninstalled hosts: that cannot be undone",
                run.id
            ));
            return Err(failure.hint(
                "`monobloc deploy` installs them again; `monobloc status --runs` lists all runs, \
                 and `monobloc rollback RUN` undoes another one",
            ));
        }
        if run.operation == removing {
            continue;
        }
        let spec = undoing(&run.id)?;
        match (spec.worked_on() > 0, last) {
            (true, None) => return Ok((run.id, spec)),
            (true, Some(last)) => {
                return Err(Failure::usage(format!(
                    "run {last}, the last one, left nothing that can be undone"
                ))
                .hint(format!(
                    "the {} of {} did: `monobloc rollback {}` undoes it",
                    run.operation, run.begun, run.id
                )));
            }
            (false, known) => last = known.or(Some(run.id)),
        }
    }
    Err(Failure::usage("no run left anything that can be undone"))
}

impl UninstallArgs {
    /// The run that does it.
    pub(super) fn spec(&self, context: &Context, opened: &Opened) -> Result<RunSpec, Failure> {
        if self.gone && opened.is_all {
            return Err(Failure::usage("nobody is left who could be told that all hosts are gone")
                .hint("name those that are lost: `--hosts HOST,… --gone`"));
        }
        let name = &opened.cluster.bundle.distribution.name;
        let mut spec = RunSpec::new(new_id()?, name, Operation::Uninstall);
        spec.hosts = opened.chosen.hosts.iter().map(|host| target(host, None)).collect();
        for target in &mut spec.hosts {
            target.membership.is_gone = self.gone;
        }
        spec.budget = Size::Percent(100);
        membership::add_witnesses(&mut spec, opened);
        let mut spec = self.way.lead(context, opened, spec)?;
        membership::find_actions(context, opened, &self.way.login, &mut spec)?;
        Ok(spec.uninstalling(self.purge))
    }

    /// Who answers is not gone: nobody would stop what runs there.
    fn check_gone(
        &self,
        context: &Context,
        opened: &Opened,
        spec: &RunSpec,
    ) -> Result<(), Failure> {
        let leaving = spec.hosts.iter().filter(|target| target.group != Group::Witness);
        let look = spec.looking_at(new_id()?, leaving.cloned().collect());
        let mut look = look.asking(Task::Request(Request::Status));
        (look.limits.connect, look.limits.tries) = (GONE_CONNECT_SECONDS, 1);
        let finished = self.way.login.look_quietly(context, opened, look.clone())?;
        let answering: Vec<String> =
            look::statuses(&finished.journal, &look)?.into_keys().collect();
        if answering.is_empty() {
            return Ok(());
        }
        Err(Failure::usage(format!("not gone, for it answers: {}", some(&answering)))
            .hint("uninstall it without `--gone`, or switch the machine off first"))
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone
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
    let opened = arguments.cluster.open_as_configured()?;
    let spec = arguments.spec(context, &opened)?;
    let has_actions = spec.has_actions();
    if arguments.gone && !has_actions {
        if output.is_json() {
            output.json(&json!({ "schema": "monobloc.uninstall/1", "end": "nothing to do" }))?;
        } else {
            output.line(
                "nobody has to be told: no host that stays has an action for those that are gone",
            )?;
        }
        return Ok(Outcome::Done);
    }
    if arguments.gone {
        arguments.check_gone(context, &opened, &spec)?;
    }
    if !arguments.yes {
        let hosts = plural(spec.worked_on(), "host");
        let name = &opened.cluster.bundle.distribution.name;
        let state = if arguments.purge { " with all of its state" } else { "" };
        let worked_on = spec.hosts.iter().filter(|target| target.group != Group::Witness);
        let names: Vec<String> = worked_on.map(|target| target.host.name.clone()).collect();
        let of_them = format!("{hosts}, {},", some(&names));
        let what = if arguments.gone {
            format!("tell the cluster that {of_them} will never be back")
        } else {
            format!("remove {name}{state} from {}", of_them.trim_end_matches(','))
        };
        let question = format!("{what}? write `yes`: ");
        let is_sure = context.can_ask
            && !output.is_json()
            && ask::line(&question, &context.cancel)?.is_ok_and(|answer| answer.trim() == "yes");
        if !is_sure {
            return Err(Failure::usage(format!("nothing was removed from {hosts}"))
                .hint("say `--yes` if that is what you want"));
        }
    }
    let id = spec.id.clone();
    let finished = arguments.way.login.begin(context, &opened, spec, output)?;
    let outcome = account::tell(&finished, &id, "uninstall", output)?;
    if has_actions && finished.counts.unreachable > 0 {
        output.hint(Some("of hosts that are lost for good the others are told with `--gone`"));
    }
    Ok(outcome)
}

/// The name of a run.
pub(super) fn parse_run(text: &str) -> Result<RunId, String> {
    RunId::try_from(text.to_owned()).map_err(|error| error.to_string())
}
