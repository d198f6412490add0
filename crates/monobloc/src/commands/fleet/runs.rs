//! `monobloc resume`, `monobloc logs`, and what runs did.

use camino::Utf8PathBuf;
use fleet::across::Account;
use fleet::journal::{HostRow, Journal, RunRow, Standing};
use fleet::run::{Run, RunId};
use jiff::Timestamp;
use serde_json::json;

use super::cluster::Opened;
use super::undo::parse_run;
use super::{ConfigArgs, LoginArgs, account, across};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::fleet::{counted, kind_words, stopped, words};
use crate::render::{Output, plain, plural};

/// Go on with a run that was interrupted, or is paused
///
/// Nothing is done twice: hosts know the steps that they did, and answer what they answered.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc resume
  monobloc resume --abandon                  give it up: hosts stay as they are")]
pub(crate) struct ResumeArgs {
    /// The run [default: the one that is not at its end]
    #[arg(value_parser = parse_run)]
    run: Option<RunId>,

    #[command(flatten)]
    place: ConfigArgs,

    /// Give it up, so that another one can begin; hosts stay as they are
    #[arg(long)]
    abandon: bool,

    #[command(flatten)]
    login: LoginArgs,
}

/// What changes nothing.
const LOOKS: [&str; 5] = ["audit", "plan", "postflight", "preflight", "status"];

/// Show all that a host said in a run
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc logs m1
  monobloc logs 10.0.0.1 --json
  monobloc logs m1 --run 20261116185209-5d0c5a31")]
pub(crate) struct LogsArgs {
    /// The host, by name or address
    host: String,

    #[command(flatten)]
    place: ConfigArgs,

    /// The run [default: the last one that changed the host, or else looked at it]
    #[arg(long, value_parser = parse_run)]
    run: Option<RunId>,
}

/// Write what a run did as the reference's installer did, or all of its events
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc export -o deploy.json             the last run, as a state file of the reference's
  monobloc export --events                   everything that happened in it, one JSON document a line")]
pub(crate) struct ExportArgs {
    /// The run [default: the last one]
    #[arg(value_parser = parse_run)]
    run: Option<RunId>,

    #[command(flatten)]
    place: ConfigArgs,

    /// All that happened, in order, one JSON document a line
    #[arg(long)]
    events: bool,

    /// Where to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<Utf8PathBuf>,
}

pub(crate) fn resume(
    context: &Context,
    arguments: &ResumeArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let opened = arguments.place.configured()?;
    let mut journal = LoginArgs::journal(&opened)?;
    let run = if let Some(run) = &arguments.run {
        run.clone()
    } else {
        let open = journal.runs()?.into_iter().find(|run| run.ended.is_none());
        open.map(|run| run.id).ok_or_else(|| Failure::usage("every run is at its end"))?
    };
    if arguments.abandon {
        Run::abandon(&mut journal, &run, Timestamp::now())?;
        if output.is_json() {
            output.json(&json!({
                "schema": "monobloc.resume/1", "run": run, "end": "abandoned",
            }))?;
        } else {
            output.line(&format!("{run} is given up; hosts stay as they are"))?;
        }
        return Ok(Outcome::Done);
    }
    let opened = opened.whole()?;
    let spec = journal.spec(&run)?;
    let other = spec.wanted.iter().find(|wanted| wanted.bundle != opened.cluster.latest.bundle);
    if let Some(wanted) = other {
        return Err(Failure::new(format!(
            "run {run} is about bundle {}, and {} is published by now",
            wanted.bundle, opened.cluster.latest.bundle
        ))
        .hint(format!(
            "publish that one again, or give the run up: `monobloc resume --abandon {run}`"
        )));
    }
    let operation = spec.operation.to_string();
    let finished = arguments.login.resume(context, &opened, journal, &run, output)?;
    account::tell(&finished, &run, &operation, output)
}

pub(crate) fn logs(arguments: &LogsArgs, output: &Output) -> Result<Outcome, Failure> {
    let opened = arguments.place.configured()?;
    let journal = read(&opened)?;
    let runs = journal.runs()?;
    let is_wanted = |run: &&RunRow| arguments.run.as_ref().is_none_or(|id| *id == run.id);
    // What changed hosts says more than who only looked.
    let (looks, changes): (Vec<&RunRow>, Vec<&RunRow>) = runs
        .iter()
        .rev()
        .filter(is_wanted)
        .partition(|run| LOOKS.contains(&run.operation.as_str()));
    for run in changes.into_iter().chain(looks) {
        let Some(host) = find(&journal, &run.id, &arguments.host)? else { continue };
        let lines = journal.lines(&run.id, host.host)?;
        let steps = journal.steps(&run.id, Some(host.host))?;
        if output.is_json() {
            let lines: Vec<_> = lines
                .iter()
                .map(|line| json!({"step": line.tag, "at": line.at, "text": line.text}))
                .collect();
            let steps: Vec<_> = steps
                .iter()
                .map(|step| {
                    json!({
                        "step": step.tag,
                        "name": step.name,
                        "begun": step.intended,
                        "ended": step.answered,
                        "outcome": step.outcome,
                        "lines_dropped": step.dropped,
                    })
                })
                .collect();
            output.json(&json!({
                "schema": "monobloc.logs/1",
                "run": run.id,
                "host": host.name,
                "state": host.state.name(),
                "trouble": host.state.trouble(),
                "steps": steps,
                "lines": lines,
            }))?;
            return Ok(Outcome::Done);
        }
        output.line(&format!("{} {}: {}", run.operation, run.id, words(&host.state)))?;
        for step in steps {
            let took = step.answered.map(|at| at.duration_since(step.intended));
            let took = took.map_or_else(
                || "no answer".to_owned(),
                |took| format!("{:.1} s", took.as_secs_f64()),
            );
            output.line(&format!("-- {} at {}, {took}", step.name, step.intended))?;
            for line in lines.iter().filter(|line| line.tag == step.tag) {
                output.line(&format!("   {}", plain(&line.text)))?;
            }
            if step.dropped > 0 {
                let dropped = usize::try_from(step.dropped).unwrap_or(usize::MAX);
                output.line(&format!("   ({} were not kept)", plural(dropped, "line")))?;
            }
        }
        if let Some(trouble) = host.state.trouble() {
            let (kind, causes) = (kind_words(&trouble.kind), trouble.causes.join(": "));
            output.line(&format!("{kind}: {}", plain(&causes)))?;
            output.hint(trouble.remedy.as_deref());
        }
        return Ok(Outcome::Done);
    }
    Err(Failure::usage(format!("no such run has a host `{}`", arguments.host))
        .hint("`monobloc status --runs` lists all runs"))
}

/// A host in a run, by its name or else by its address.
fn find(journal: &Journal, run: &RunId, host: &str) -> Result<Option<HostRow>, Failure> {
    let mut hosts = journal.hosts(run)?;
    let mut at = hosts.iter().position(|row| row.name == host);
    if at.is_none() {
        let spec = journal.spec(run)?;
        at = spec.hosts.iter().position(|target| target.host.address == host);
    }
    Ok(at.filter(|at| *at < hosts.len()).map(|at| hosts.swap_remove(at)))
}

pub(crate) fn export(arguments: &ExportArgs, output: &Output) -> Result<Outcome, Failure> {
    let opened = arguments.place.configured()?;
    let journal = read(&opened)?;
    let run = last(&journal, arguments.run.as_ref())?;
    let text = if arguments.events {
        let mut lines = String::new();
        for event in journal.events(&run.id, 0)? {
            lines.push_str(&serde_json::to_string(&event)?);
            lines.push('\n');
        }
        lines
    } else {
        serde_json::to_string_pretty(&journal.export(&run.id)?)? + "\n"
    };
    match &arguments.output {
        Some(path) => package::durable::write(path, text.as_bytes())?,
        None => output.raw(text.as_bytes())?,
    }
    Ok(Outcome::Done)
}

/// All runs, the last one first.
pub(super) fn list(opened: &Opened, output: &Output) -> Result<Outcome, Failure> {
    let journal = read(opened)?;
    let runs = journal.runs()?;
    if output.is_json() {
        let runs = runs.iter().rev().map(|run| document(&journal, run));
        let runs = runs.collect::<Result<Vec<_>, Failure>>()?;
        output.json(&json!({ "schema": "monobloc.runs/1", "runs": runs }))?;
        return Ok(Outcome::Done);
    }
    for run in runs.iter().rev() {
        let RunRow { id, operation, who, hosts, begun, ended, .. } = run;
        let outcome = how_it_is(&journal, run)?;
        let took = ended.map(|ended| ended.duration_since(*begun).as_secs_f64());
        let took = took.map_or_else(String::new, |took| format!(" in {took:.0} s"));
        let hosts = plural(*hosts, "host");
        // What ended is told with what became of hosts, unless that is the same.
        let counts = journal.counts(run)?;
        let counts = if counts.done + counts.unchanged == run.hosts {
            String::new()
        } else {
            format!(" ({})", counted(&counts))
        };
        output
            .line(&format!("{id}  {operation:10} {hosts:12} {outcome}{counts}{took}, by {who}"))?;
    }
    Ok(Outcome::Done)
}

/// What became of every host in a run.
pub(super) fn show(
    opened: &Opened,
    run: Option<&RunId>,
    output: &Output,
) -> Result<Outcome, Failure> {
    let journal = read(opened)?;
    let run = last(&journal, run)?;
    let failures = journal.failures(&run.id)?;
    let stop = journal.stop(&run.id)?;
    if output.is_json() {
        let mut shown = document(&journal, &run)?;
        shown["schema"] = json!("monobloc.run/1");
        if let Some(stop) = &stop {
            shown["stopped"] = json!(stopped(&stop.why));
            shown["evidence"] = json!(stop.evidence);
        }
        shown["hosts"] = json!(account::hosts(&journal, &run.id)?);
        shown["failures"] = json!(failures);
        if let Some(together) = Account::read(&journal, &run.id)? {
            shown["across"] = json!(together);
        }
        output.json(&shown)?;
        return Ok(Outcome::Done);
    }
    let outcome = how_it_is(&journal, &run)?;
    let why = stop.as_ref().map(|stop| format!(": {}", stopped(&stop.why))).unwrap_or_default();
    output.line(&format!("{} {}, {outcome}{why}", run.operation, run.id))?;
    for host in journal.hosts(&run.id)? {
        let doing = host.doing.map(|doing| format!(", {doing}")).unwrap_or_default();
        output.line(&format!("  {:16} {}{doing}", host.name, words(&host.state)))?;
    }
    account::evidence(stop.as_ref(), output)?;
    account::causes(&failures, output)?;
    if let Some(together) = Account::read(&journal, &run.id)? {
        across::tell(&together, output)?;
    }
    output.line(&counted(&journal.counts(&run)?))?;
    Ok(Outcome::Done)
}

fn document(journal: &Journal, run: &RunRow) -> Result<serde_json::Value, Failure> {
    let RunRow { id, operation, who, hosts, begun, ended, outcome } = run;
    let standing = match outcome {
        Some(_) => None,
        None => Some(match journal.standing(id)? {
            Standing::AtWork => "at_work",
            Standing::Paused => "paused",
            Standing::Interrupted => "interrupted",
        }),
    };
    Ok(json!({
        "run": id, "operation": operation, "who": who, "host_count": hosts, "begun": begun,
        "ended": ended, "outcome": outcome, "standing": standing,
    }))
}

/// How a run ended, or how it is with it.
fn how_it_is(journal: &Journal, run: &RunRow) -> Result<String, Failure> {
    if let Some(outcome) = &run.outcome {
        return Ok(outcome.clone());
    }
    Ok(match journal.standing(&run.id)? {
        Standing::AtWork => "at work",
        Standing::Paused => "paused, `monobloc resume` goes on",
        Standing::Interrupted => "interrupted, `monobloc resume` goes on",
    }
    .to_owned())
}

fn last(journal: &Journal, run: Option<&RunId>) -> Result<RunRow, Failure> {
    let runs = journal.runs()?;
    let found = runs.into_iter().rev().find(|row| run.is_none_or(|run| *run == row.id));
    found.ok_or_else(|| Failure::usage("there is no such run"))
}

fn read(opened: &Opened) -> Result<Journal, Failure> {
    let name = &opened.cluster.bundle.distribution.name;
    Journal::read(&opened.folder.join("runs"), name)?
        .ok_or_else(|| Failure::usage("nothing was done to this cluster from here yet"))
}
