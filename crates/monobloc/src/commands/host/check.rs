//! `monobloc host check`: whether what is live works.

use std::collections::BTreeMap;

use host::check::{self, Check, Outcome as Ended, Verdict};
use package::pkginfo::Scope;
use serde_json::{Value, json};

use super::{Call, failure};
use crate::failure::{Failure, Outcome};
use crate::render::{plain, plural, seconds, whole_seconds};

/// Run the checks of the packages that are active
///
/// A check passes if it ends with status 0 in its time. One that cannot be started has failed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  monobloc host check --list
  monobloc host check quorum")]
pub(super) struct CheckArgs {
    /// The checks; all of them if none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Only show which there are
    #[arg(long)]
    list: bool,

    /// Those that are about the cluster, rather than about this host
    #[arg(long)]
    cluster: bool,
}

pub(super) fn run(call: &Call<'_>, arguments: &CheckArgs) -> Result<Outcome, Failure> {
    let scope = if arguments.cluster { Scope::Cluster } else { Scope::Host };
    let mut checks = call.host.checks_about(scope).map_err(|error| failure(&error))?;
    let is_known = |name: &&String| checks.iter().any(|check| check.name == **name);
    let unknown: Vec<String> = arguments
        .names
        .iter()
        .filter(|name| !is_known(name))
        .map(|name| format!("`{name}`"))
        .collect();
    if !unknown.is_empty() {
        let message = format!("no active package has a check called {}", unknown.join(" or "));
        return Err(Failure::new(message).hint("`monobloc host check --list` shows all of them"));
    }
    if !arguments.names.is_empty() {
        checks.retain(|check| arguments.names.contains(&check.name));
    }
    if arguments.list { list(call, &checks) } else { run_all(call, &checks) }
}

fn list(call: &Call<'_>, checks: &[Check]) -> Result<Outcome, Failure> {
    if call.output.is_json() {
        let checks: Vec<Value> = checks.iter().map(described).collect();
        call.output.json(&json!({ "schema": "monobloc.host.checks/1", "checks": checks }))?;
        return Ok(Outcome::Done);
    }
    for Check { package, name, .. } in checks {
        call.output.line(&format!("{package}  {}", plain(name)))?;
    }
    Ok(Outcome::Done)
}

fn described(check: &Check) -> Value {
    json!({
        "package": check.package,
        "name": check.name,
        "program": check.program,
        "arguments": check.arguments,
        "timeout_seconds": check.timeout.as_secs(),
        "within_seconds": check.within.as_secs(),
    })
}

fn run_all(call: &Call<'_>, checks: &[Check]) -> Result<Outcome, Failure> {
    // Where nothing is to be run, the file may be missing.
    let environment = match checks {
        [] => BTreeMap::new(),
        _ => call.host.check_environment().map_err(|error| failure(&error))?,
    };
    let (mut failed, mut documents) = (0, Vec::new());
    for check in checks {
        let ended = check::run(check, &environment, &call.context.cancel)?;
        failed += usize::from(!ended.verdict.passed());
        if call.output.is_json() {
            documents.push(document(check, &ended)?);
        } else {
            show(call, check, &ended)?;
        }
    }
    if call.output.is_json() {
        call.output.json(&json!({ "schema": "monobloc.host.check/1", "checks": documents }))?;
    } else if failed > 0 {
        call.output.note(&format!("{failed} of {} failed", plural(checks.len(), "check")));
    } else if checks.is_empty() {
        call.output.note("the active packages have no checks");
    }
    Ok(if failed == 0 { Outcome::Done } else { Outcome::Failed })
}

fn show(call: &Call<'_>, check: &Check, ended: &Ended) -> Result<(), Failure> {
    let verdict = match &ended.verdict {
        Verdict::TimedOut => format!("took longer than {}", whole_seconds(check.timeout)),
        verdict => verdict.to_string(),
    };
    let (name, took) = (plain(&check.name), seconds(ended.took));
    call.output.line(&format!("{}  {name}  {took}  {verdict}", check.package))?;
    if !ended.verdict.passed() {
        for line in ended.output.lines() {
            call.output.line(format!("    {}", plain(line)).trim_end())?;
        }
    }
    Ok(())
}

fn document(check: &Check, ended: &Ended) -> Result<Value, Failure> {
    let mut document = json!({ "package": check.package, "name": check.name });
    // How it ended, with the status or signal beside it.
    let verdict = serde_json::to_value(&ended.verdict)?;
    let more = json!({ "seconds": ended.took.as_secs_f64(), "output": ended.output });
    for part in [verdict, more] {
        if let (Value::Object(document), Value::Object(part)) = (&mut document, part) {
            document.extend(part);
        }
    }
    Ok(document)
}
