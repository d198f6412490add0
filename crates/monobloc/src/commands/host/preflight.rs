//! `monobloc host preflight`: whether this machine can be what it shall become.

use camino::Utf8PathBuf;
use host::SystemClock;
use host::install::Install;
use host::preflight::{self, Facts, Finding, Level, Remedy, Report};
use package::id::RoleName;
use serde_json::{Value, json};

use super::install::{refused, repository};
use super::{Call, read_key};
use crate::ask;
use crate::failure::{Failure, Outcome};
use crate::render::{plain, plural};

/// Say whether this machine can be what it shall become
///
/// Looks at everything that the distribution asks of machines with these roles, and at what every
/// machine needs; changes nothing. Every result is told with its evidence and how to put it right.
/// Without `--from`, only what needs no bundle is looked at.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  monobloc host preflight
  monobloc host preflight --from https://bootstrap.example --role master --public-key release.pub
  monobloc host preflight --from /media/stick --role slave --public-key release.pub --json
  monobloc host preflight --fix                   # shows what can be done and undone, and asks

Exit status: 0 no check failed, 1 one did, 2 wrong use.")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(super) struct PreflightArgs {
    /// Where the bundle is published: a URL (http, https, file), a folder, or one file
    #[arg(long, value_name = "URL|FOLDER|FILE")]
    from: Option<String>,

    /// What this host shall be; may be repeated [default: what it is]
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<RoleName>,

    /// The key of the publisher; needed the first time
    #[arg(long, value_name = "FILE|KEY", requires = "from")]
    public_key: Option<String>,

    /// Take a publication that is older than one that was live here
    #[arg(long, requires = "from")]
    allow_older: bool,

    /// Take a publication that has expired
    #[arg(long, requires = "from")]
    allow_expired: bool,

    /// Do what can be done about it, and undone: load modules of the kernel, turn swap off, let
    /// systemd keep the clock
    #[arg(long)]
    fix: bool,

    /// Do not ask before that
    #[arg(long, requires = "fix")]
    yes: bool,

    #[command(flatten)]
    machine: MachineArgs,
}

/// Which machine is looked at.
#[derive(Debug, clap::Args)]
pub(super) struct MachineArgs {
    /// Look at this folder as if it were `/`
    #[arg(long, value_name = "FOLDER", hide = true)]
    facts_root: Option<Utf8PathBuf>,
}

impl MachineArgs {
    /// Where facts come from.
    pub(super) fn facts(&self, call: &Call<'_>) -> Result<Facts, Failure> {
        let path = call.context.variable("PATH").unwrap_or_default();
        Ok(match &self.facts_root {
            Some(root) => Facts::of_folder(call.context.absolute(root)?, path),
            None => Facts::this(path),
        })
    }
}

pub(super) fn run(call: &Call<'_>, arguments: &PreflightArgs) -> Result<Outcome, Failure> {
    let facts = arguments.machine.facts(call)?;
    let request = arguments.request(call)?;
    let roles = arguments.roles.iter().cloned().collect();
    let look = || {
        let job = call.job("preflight", "");
        let looked = call.host.preflight(request.as_ref(), &roles, &facts, &job);
        looked.map_err(|error| refused(call, &error))
    };
    let mut report = look()?;
    let mut fixed = Vec::new();
    if arguments.fix {
        let remedies = report.remedies();
        if !call.output.is_json() {
            tell(call, &report)?;
        }
        if agrees(call, arguments, &remedies)? {
            fixed = preflight::fix(&remedies, &facts, &SystemClock, &call.context.cancel)?;
            for done in &fixed {
                show_fixed(call, done);
            }
            report = look()?;
        }
    }
    if call.output.is_json() {
        call.output.json(&document(&report, &fixed))?;
    } else if !arguments.fix || !fixed.is_empty() {
        tell(call, &report)?;
    }
    Ok(if report.is_good() { Outcome::Done } else { Outcome::Failed })
}

impl PreflightArgs {
    /// What is to be looked at, besides the machine.
    fn request(&self, call: &Call<'_>) -> Result<Option<Install>, Failure> {
        let Some(from) = &self.from else { return Ok(None) };
        Ok(Some(Install {
            repository: repository(call, from)?,
            roles: self.roles.iter().cloned().collect(),
            key: read_key(self.public_key.as_deref())?,
            role_keys: Vec::new(),
            bundle: None,
            allow_older: self.allow_older,
            allow_expired: self.allow_expired,
            preflight: None,
            upgrade: None,
        }))
    }
}

/// Shows what would be done, and whether it shall be.
fn agrees(
    call: &Call<'_>,
    arguments: &PreflightArgs,
    remedies: &[&Remedy],
) -> Result<bool, Failure> {
    if remedies.is_empty() {
        call.output.note("there is nothing that this program could do and undo");
        return Ok(false);
    }
    for Remedy { run, undo } in remedies {
        call.output.note(&format!("fix: {}   (undo: {})", run.join(" "), undo.join(" ")));
    }
    if arguments.yes {
        return Ok(true);
    }
    if !call.context.can_ask {
        return Err(Failure::usage("nobody is there to ask").hint("`--yes` does it without asking"));
    }
    let answer = ask::line("do it? [y/N] ", &call.context.cancel)??;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn show_fixed(call: &Call<'_>, fixed: &preflight::Fixed) {
    let Remedy { run, undo } = &fixed.remedy;
    match &fixed.failed {
        None => call.output.note(&format!("did: {}   (undo: {})", run.join(" "), undo.join(" "))),
        Some(reason) => {
            call.output.warning(&format!("`{}` failed: {}", run.join(" "), plain(reason)));
        }
    }
}

/// Every result for people: a line each, and what to do below it.
pub(super) fn tell(call: &Call<'_>, report: &Report) -> Result<(), Failure> {
    let width = report.findings.iter().map(|finding| finding.name.len()).max().unwrap_or_default();
    for Finding { name, level, found, fix, .. } in &report.findings {
        let word = match level {
            Level::Ok => "PASS",
            Level::Notice => "NOTE",
            Level::Warning => "WARN",
            Level::Error => "FAIL",
        };
        call.output.line(&format!("{word}  {name:width$}  {}", plain(found)))?;
        if let Some(fix) = fix {
            call.output.line(&format!("      {:width$}  fix: {}", "", plain(fix)))?;
        }
    }
    let (errors, warnings) = (report.count(Level::Error), report.count(Level::Warning));
    let checks = plural(report.findings.len(), "check");
    call.output.note(&match errors {
        0 => format!("{checks}: none failed, {}", plural(warnings, "warning")),
        _ => format!("{checks}: {errors} failed, {}", plural(warnings, "warning")),
    });
    Ok(())
}

/// Every result for programs.
pub(super) fn document(report: &Report, fixed: &[preflight::Fixed]) -> Value {
    let fixed: Vec<Value> = fixed
        .iter()
        .map(|done| json!({ "run": done.remedy.run, "undo": done.remedy.undo, "failed": done.failed }))
        .collect();
    json!({
        "schema": "monobloc.host.preflight/1",
        "roles": report.roles,
        "passed": report.is_good(),
        "findings": report.findings,
        "fixed": fixed,
    })
}
