//! `monobloc host audit` and `repair`: whether this host is what it should be, and making it so.

use host::audit::{Depth, Report, Source, Unrepaired};
use host::setup::SetupError;
use serde_json::{Value, json};

use super::{Call, failure, read_key};
use crate::failure::{Failure, Outcome};
use crate::render::{bytes, plural};

/// Compare every byte of this host with what its live generation stands for
///
/// Packages, the generation's folder, units, users, state folders, kernel settings. Changes nothing and
/// keeps nobody waiting. Ends with one digest, which is the same on hosts that are the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  monobloc host audit
  monobloc host audit --fast && echo untouched")]
pub(super) struct AuditArgs {
    /// Compare types, modes, sizes, times and links only, and print no digest
    #[arg(long)]
    fast: bool,
}

/// Put right what an audit finds
///
/// What is in place and right stays as it is, and what runs keeps running, unless its unit was changed.
/// Packages whose content changed are unpacked again from a repository.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  monobloc host repair --plan
  monobloc host repair --repository-url https://mirror.example/stable")]
pub(super) struct RepairArgs {
    /// Only show what would be done
    #[arg(long)]
    plan: bool,

    /// Where to get packages from [default: what `setup-flags/repository-url` says]
    #[arg(long, value_name = "URL")]
    repository_url: Option<String>,

    /// Take only packages that this public key signed
    #[arg(long, value_name = "FILE|KEY")]
    public_key: Option<String>,
}

pub(super) fn audit(call: &Call<'_>, arguments: &AuditArgs) -> Result<Outcome, Failure> {
    let depth = if arguments.fast { Depth::Fast } else { Depth::Full };
    let job = call.job("audit", "");
    let report = call.host.audit(depth, &job).map_err(|error| failure(&error))?;
    call.progress.finish();
    if call.output.is_json() {
        let document = json!({ "schema": "monobloc.host.audit/1", "fast": arguments.fast });
        call.output.json(&merged(document, &json!(report)))?;
    } else {
        tell(call, &report)?;
    }
    Ok(outcome(&report))
}

/// A report as people read it.
fn tell(call: &Call<'_>, report: &Report) -> Result<(), Failure> {
    for difference in &report.differences {
        call.output.line(&difference.to_string())?;
    }
    for what in &report.unchecked {
        call.output.line(&format!("not compared: {what}"))?;
    }
    let verdict = match report.differences.len() {
        0 => "all is as it should be".to_owned(),
        count => plural(count, "difference"),
    };
    let (packages, entries) = (plural(report.packages, "package"), report.entries);
    call.output.line(&format!(
        "generation {}, {packages}, {entries} files, links and folders, {} read: {verdict}",
        report.generation,
        bytes(report.bytes)
    ))?;
    call.output.line(&match report.digest {
        Some(digest) => format!("digest {digest}"),
        None => "no digest: a fast audit does not read every byte".to_owned(),
    })
}

fn outcome(report: &Report) -> Outcome {
    if report.is_clean() { Outcome::Done } else { Outcome::Failed }
}

pub(super) fn repair(call: &Call<'_>, arguments: &RepairArgs) -> Result<Outcome, Failure> {
    let here = call.context.absolute(".".into())?;
    let key = read_key(arguments.public_key.as_deref())?;
    let url = arguments.repository_url.as_deref();
    let source = Source::find(&call.host, url, &here, key).map_err(|error| match error {
        SetupError::Repository(error) if url.is_some() => Failure::usage(error.to_string()),
        error => Failure::of(&error),
    })?;
    let job = call.job("repair", "repair");
    let schema = "monobloc.host.repair/1";
    if arguments.plan {
        let plan = call.host.plan_repair(&source, &job).map_err(|error| failure(&error))?;
        call.progress.finish();
        if call.output.is_json() {
            let document = json!({ "schema": schema, "executed": false });
            call.output.json(&merged(document, &json!(plan)))?;
        } else {
            lines(call, &plan.steps, &plan.cannot)?;
            for what in &plan.unchecked {
                call.output.line(&format!("compare afterwards: {what}"))?;
            }
            if plan.steps.is_empty() && plan.cannot.is_empty() {
                call.output.note("nothing to do: all is as it should be");
            }
        }
        return Ok(if plan.cannot.is_empty() { Outcome::Done } else { Outcome::Failed });
    }
    let repaired = call.host.repair(&source, &job).map_err(|error| failure(&error))?;
    call.progress.finish();
    if call.output.is_json() {
        let document = json!({ "schema": schema, "executed": true });
        call.output.json(&merged(document, &json!(repaired)))?;
    } else {
        lines(call, &repaired.done, &repaired.cannot)?;
        let left = repaired.report.differences.len();
        call.output.note(&match (repaired.done.len(), left) {
            (0, 0) => "nothing to do: all is as it should be".to_owned(),
            (_, 0) => "all is as it should be".to_owned(),
            (_, left) => format!("{} left", plural(left, "difference")),
        });
    }
    Ok(outcome(&repaired.report))
}

fn lines(call: &Call<'_>, steps: &[String], cannot: &[Unrepaired]) -> Result<(), Failure> {
    for step in steps {
        call.output.line(step)?;
    }
    for Unrepaired { what, why } in cannot {
        call.output.line(&format!("cannot repair {what}: {why}"))?;
    }
    Ok(())
}

/// Both documents in one.
fn merged(mut one: Value, other: &Value) -> Value {
    if let (Some(one), Some(other)) = (one.as_object_mut(), other.as_object()) {
        one.extend(other.clone());
    }
    one
}
