//! Preflight: whether this machine can be what it shall become, before anything of it is changed.
//!
//! What is looked at is data: the checks that every host has ([`base`]), and those that a distribution
//! declares for its roles, which take the place of the former. Each check reads facts ([`Facts`]) and
//! lets a judge say what they mean; all of them are always run, and every result is told.

mod base;
mod clock;
mod docker;
mod facts;
mod judged;
pub mod listeners;
mod look;
mod network;
mod ports;
mod remains;
mod remedy;
mod script;
mod storage;
mod system;

use std::collections::BTreeSet;

use package::Cancelled;
use package::id::RoleName;
use package::preflight::{Check, Declared, Preflight, Severity};
use serde::Serialize;

use crate::host::{Host, HostError, Job};
use crate::install::{Install, InstallError};
use crate::machine::Machine;
use crate::roles;
use crate::store::StoreError;
use judged::{Judged, bad, good};
use look::Look;

pub use facts::{Facts, Outside, Said, ThisMachine};
pub use judged::{Level, Remedy};
pub use remedy::{Fixed, fix};
pub(crate) use storage::Needs;
pub use storage::{Mount, parse_mounts};

/// What was found on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The roles that the checks were for; none: any.
    pub roles: BTreeSet<RoleName>,
    /// Every result.
    pub findings: Vec<Finding>,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What the check is called.
    pub name: String,
    /// How it ended.
    pub level: Level,
    /// The evidence.
    pub found: String,
    /// What to do about it.
    pub fix: Option<String>,
    /// What can be done about it, and undone, by [`fix`].
    pub remedies: Vec<Remedy>,
}

impl Report {
    /// How many results are of this level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// Whether the machine can become a host.
    pub fn is_good(&self) -> bool {
        self.count(Level::Error) == 0
    }
}

/// What a machine shall become.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subject<'a> {
    pub(crate) roles: BTreeSet<RoleName>,
    /// What the distribution declares.
    pub(crate) declared: Option<&'a Preflight>,
    /// What will be put on its disk, where that is known.
    pub(crate) needs: Option<Needs>,
    /// Whether what was published could be read, and where.
    pub(crate) bundle: Option<Result<String, String>>,
    /// The machine that serves it.
    pub(crate) server: Option<String>,
}

impl Host {
    /// Looks at whether this machine can be a host with these roles; with a request, a host of what is
    /// published there. Changes nothing.
    pub fn preflight(
        &self,
        request: Option<&Install>,
        wanted: &BTreeSet<RoleName>,
        facts: &Facts,
        job: &Job<'_>,
    ) -> Result<Report, InstallError> {
        let look = |subject: &Subject<'_>| self.look(subject, facts, job).map_err(HostError::from);
        let Some(request) = request else {
            let found = roles::read(&self.paths.roles())?;
            let roles = if wanted.is_empty() { found } else { wanted.clone() };
            let subject = Subject { roles, ..Subject::default() };
            return Ok(look(&subject)?);
        };
        match self.glance(request, job) {
            Ok(glance) => Ok(look(&glance.subject(request))?),
            // What cannot be reached keeps nobody from knowing the rest.
            Err(InstallError::Store(error)) if !matches!(error, StoreError::Cancelled(_)) => {
                let reason = package::causes(&error).join(": ");
                let subject = Subject {
                    roles: wanted.clone(),
                    bundle: Some(Err(reason)),
                    server: request.repository.server(),
                    ..Subject::default()
                };
                Ok(look(&subject)?)
            }
            Err(error) => Err(error),
        }
    }

    /// Runs every check that is for this host.
    pub(crate) fn look(
        &self,
        subject: &Subject<'_>,
        facts: &Facts,
        job: &Job<'_>,
    ) -> Result<Report, Cancelled> {
        let look = Look { host: self, facts, subject, job };
        let is_real = self.machine.as_ref().is_some_and(Machine::is_real);
        let mut findings: Vec<Finding> = subject.bundle.iter().map(bundle).collect();
        for declared in select(base::checks(self), subject) {
            // An installation that leaves the machine alone asks nothing of it.
            if !(facts.is_machine || is_real || is_of_folder(&declared.check)) {
                continue;
            }
            job.cancel.check()?;
            let severity = declared.severity.unwrap_or(declared.check.usual_severity());
            for judged in look.at(&declared.check)? {
                let name = declared.check.name();
                findings.push(finding(name, judged, severity, declared.fix.as_ref()));
            }
        }
        Ok(Report { roles: subject.roles.clone(), findings })
    }
}

/// Whether a check is about the places of an installation, whatever machine they are on.
fn is_of_folder(check: &Check) -> bool {
    matches!(
        check,
        Check::Installed | Check::Disk { .. } | Check::Noexec { .. } | Check::Xfs { .. }
    )
}

/// Whether what was published could be read.
fn bundle(read: &Result<String, String>) -> Finding {
    let judged = match read {
        Ok(found) => good(found),
        Err(reason) => bad(
            reason,
            "look at the address, at proxies (`http_proxy`, `https_proxy`, `no_proxy`), and at whether it is served",
        ),
    };
    finding("bundle", judged, Severity::Error, None)
}

fn finding(name: &str, judged: Judged, severity: Severity, fix: Option<&String>) -> Finding {
    let level = judged.level(severity);
    let is_well = level == Level::Ok;
    let fix = fix.cloned().or(judged.fix).filter(|_| !is_well);
    let remedies = if is_well { Vec::new() } else { judged.remedies };
    Finding { name: name.to_owned(), level, found: judged.found, fix, remedies }
}

/// The checks of a host, in their order: those that the distribution declares for its roles, and of
/// every other name the usual one.
fn select(base: Vec<Declared>, subject: &Subject<'_>) -> Vec<Declared> {
    let declared = subject.declared.map_or(&[][..], |declared| declared.checks.as_slice());
    let mine = || declared.iter().filter(|one| one.is_for(&subject.roles));
    let mut all: Vec<Declared> = Vec::new();
    for one in mine() {
        let usual = base.iter().find(|usual| usual.check.name() == one.check.name());
        // Who says only how bad it is means the usual values.
        let check = match usual {
            Some(usual) if is_bare(&one.check) => usual.check.clone(),
            _ => one.check.clone(),
        };
        all.push(Declared { check, ..one.clone() });
    }
    let is_declared = |check: &Check| mine().any(|one| one.check.name() == check.name());
    all.extend(base.into_iter().filter(|usual| !is_declared(&usual.check)));
    all.retain(|one| one.severity != Some(Severity::Off));
    all.sort_by_key(|one| one.check.order());
    all
}

/// Whether a check has no values, though it needs some.
fn is_bare(check: &Check) -> bool {
    match check {
        Check::Noexec { paths } | Check::Xfs { paths } => paths.is_empty(),
        Check::Selinux { policies } => policies.is_empty(),
        Check::Systemd { at_least } => at_least.is_none(),
        Check::Commands { names } => names.is_empty(),
        _ => false,
    }
}
