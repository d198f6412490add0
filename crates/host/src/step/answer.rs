//! From a request to its report, by calls of [`Host`].

use std::collections::BTreeMap;
use std::time::Duration;

use package::id::RoleName;
use package::pkginfo::Scope;
use package::sign::PublicKey;
use package::{Sha256, causes};
use serde_json::json;

use super::limit::within;
use super::network;
use super::store::Begun;
use super::tell::Teller;
use super::{Doer, Say, Steps, failed, listener};
use crate::audit::Depth;
use crate::check;
use crate::generation;
use crate::host::{Host, HostError, Job};
use crate::install::{Ahead, Install, InstallError, Planned, Upgrade};
use crate::plan::{Plan, Wanted as Live};
use crate::preflight::{self, Report as Preflight};
use crate::store::{OpenError, Repository};
use crate::wire::{
    Audit, Difference, Done, Failed, Finding, Level, Order, PlanSummary, Report, Request, VERSION,
    Wanted,
};

/// How many differences of an audit are told.
const DIFFERENCES_MAX: usize = 1000;

/// How a step ended.
pub(super) enum Answer {
    Report(Report),
    /// Somebody stopped the process: it can be done again.
    Interrupted,
}

/// What is known of earlier attempts to do the same step.
#[derive(Default)]
pub(super) struct Attempt<'a> {
    /// What the first of them wrote down; `None`: this is the first.
    pub(super) earlier: Option<Begun>,
    /// Writes down the generation to go back to.
    pub(super) keep_target: Option<&'a dyn Fn(u64) -> std::io::Result<()>>,
    /// Writes down that what is done is what was planned.
    pub(super) keep_agreed: Option<&'a dyn Fn() -> std::io::Result<()>>,
}

impl Attempt<'_> {
    /// What was live before the first of them, which is now if this is the first.
    fn before(&self, now: Option<u64>) -> Option<u64> {
        self.earlier.as_ref().map_or(now, |earlier| earlier.before)
    }

    /// The generation to go back to, if one of them knew.
    fn target(&self) -> Option<u64> {
        self.earlier.as_ref()?.target
    }
}

/// Does what an order says, in its time.
pub(super) fn answer(
    doer: &Doer<'_>,
    order: &Order,
    attempt: &Attempt<'_>,
    say: &Say<'_>,
) -> Answer {
    let limit = Duration::from_secs(order.limit_seconds);
    let mut host = doer.host.clone();
    host.switching.limit = host.switching.limit.min(limit);
    let teller = Teller::new(say);
    let (answered, is_late) = within(limit, doer.cancel, |cancel| {
        let by = doer.by.clone();
        let reason = format!("step {}", order.id);
        let job = Job { by, reason, clock: doer.clock, cancel, observer: &teller };
        Answering { doer, host: &host, job, attempt }.report(&order.request)
    });
    match answered {
        Ok(report) => Answer::Report(report),
        Err(_) if doer.cancel.is_cancelled() => Answer::Interrupted,
        Err(mut failed) => {
            if is_late {
                "timed_out".clone_into(&mut failed.kind);
                failed.causes.insert(0, format!("it took longer than {limit:?}"));
                failed.remedy = None;
            }
            failed.live = generation::live(&host.paths).ok().flatten();
            Answer::Report(Report::Failed(*failed))
        }
    }
}

struct Answering<'a, 'b> {
    doer: &'a Doer<'a>,
    host: &'a Host,
    job: Job<'a>,
    attempt: &'a Attempt<'b>,
}

impl Answering<'_, '_> {
    fn report(&self, request: &Request) -> Result<Report, Box<Failed>> {
        let Self { doer, host, job, .. } = self;
        match request {
            Request::Status => Ok(Report::Status(Box::new(host.status(doer.facts, job)?))),
            Request::Plan(wanted) => self.plan(wanted),
            Request::Preflight(wanted) => {
                let request = self.install_of(wanted)?;
                let looked = host.preflight(Some(&request), &request.roles, doer.facts, job)?;
                Ok(Report::Findings { findings: findings(&looked) })
            }
            Request::Stage(wanted) => {
                host.stage(&self.install_of(wanted)?, job)?;
                let live = generation::live(&host.paths).map_err(HostError::from)?;
                let done = Done { before: live, live, ..Done::default() };
                Ok(Report::Done(done))
            }
            Request::Install(wanted) => {
                let disabled =
                    if wanted.disable_preflight { ", preflight was disabled" } else { "" };
                let reason = format!("{}{disabled}", job.reason);
                let job = Job { reason, ..job.clone() };
                // An attempt before this one that compared may have changed something since.
                let earlier = self.attempt.earlier.as_ref();
                let is_agreed = earlier.is_some_and(|earlier| earlier.is_agreed);
                let agreed = || self.attempt.keep_agreed.map_or(Ok(()), |keep| keep());
                let planned = wanted.planned.filter(|_| !is_agreed);
                let planned = planned.map(|switch| Planned { switch, agreed: &agreed });
                let installed = host.install_planned(&self.install_of(wanted)?, planned, &job)?;
                self.done(&installed.plan)
            }
            Request::Rollback { generation, expected, reason } => {
                self.rollback(*generation, *expected, reason)
            }
            Request::Check { cluster } => self.check(*cluster),
            Request::Audit { fast } => {
                let depth = if *fast { Depth::Fast } else { Depth::Full };
                Ok(Report::Audit(Box::new(audit(&host.audit(depth, job)?))))
            }
            Request::Removal { purge } => {
                Ok(Report::Removal(Box::new(host.plan_uninstall(*purge)?)))
            }
            Request::Uninstall { purge } => self.uninstall(*purge),
            Request::Act { action, arguments } => self.act(action, arguments),
            Request::Reach { addresses } => {
                let unreachable = network::reach(addresses, job.cancel);
                Ok(Report::Reached { unreachable })
            }
            // Done apart from whoever asks, so it does not come here.
            Request::Listen { .. } | Request::Relay(_) | Request::Unknown => {
                Ok(Report::Unsupported { newest: VERSION })
            }
            Request::Unlisten { run } => {
                let changed = listener::end(&Steps::of(host), run).map_err(HostError::from)?;
                Ok(Report::Done(Done { changed, ..Done::default() }))
            }
            Request::Forget { run } => {
                listener::end(&Steps::of(host), run).map_err(HostError::from)?;
                let count = Steps::of(host).forget(run).map_err(HostError::from)?;
                Ok(Report::Done(Done { changed: count > 0, ..Done::default() }))
            }
        }
    }

    /// What a controller wants, as this host calls it.
    fn install_of(&self, wanted: &Wanted) -> Result<Install, Box<Failed>> {
        let unusable = |error: &(dyn std::error::Error + 'static)| {
            Box::new(failed("bad_order", causes(error), None))
        };
        let repository = Repository::open(&wanted.from, self.doer.here);
        let repository = repository.map_err(|error| match error {
            OpenError::Place(error) => unusable(&error),
            error => Box::new(failed("unreachable_bundle", causes(&error), None)),
        })?;
        let key = wanted.public_key.as_deref().map(PublicKey::parse).transpose();
        let role_keys = wanted.role_keys.iter().map(|key| key.parse()).collect::<Result<_, _>>();
        let upgrade = Upgrade { from_version: None, skip_checks: wanted.skip_checks };
        Ok(Install {
            repository,
            roles: wanted.roles.clone(),
            key: key.map_err(|error| unusable(&error))?,
            role_keys: role_keys.map_err(|error| unusable(&error))?,
            bundle: Some(wanted.bundle),
            allow_older: wanted.allow_older,
            allow_expired: wanted.allow_expired,
            preflight: (!wanted.disable_preflight).then(|| self.doer.facts.clone()),
            upgrade: wanted.upgrade.then_some(upgrade),
        })
    }

    fn plan(&self, wanted: &Wanted) -> Result<Report, Box<Failed>> {
        let ahead = self.host.plan_install(&self.install_of(wanted)?, &self.job)?;
        Ok(Report::Plan(Box::new(summary(self.host, ahead)?)))
    }

    /// What was done, also by an attempt before this one that could not tell any more.
    fn done(&self, plan: &Plan) -> Result<Report, Box<Failed>> {
        let live = generation::live(&self.host.paths).map_err(HostError::from)?;
        let before = self.attempt.before(plan.base.live);
        let changed = !plan.is_empty() || before != live;
        Ok(Report::Done(Done { changed, before, live, kept: Vec::new() }))
    }

    fn rollback(
        &self,
        generation: Option<u64>,
        expected: Option<u64>,
        reason: &str,
    ) -> Result<Report, Box<Failed>> {
        let attempt = self.attempt;
        let wanted = |host: &Host| {
            let live = generation::live(&host.paths)?;
            // An attempt before this one may have been there already, and gone no further.
            let target = match attempt.target().or(generation) {
                Some(target) => target,
                None => host.previous()?,
            };
            if let Some(expected) = expected
                && live != Some(expected)
                && live != Some(target)
            {
                return Err(HostError::OtherLive { live, expected });
            }
            if let Some(keep) = attempt.keep_target {
                keep(target)?;
            }
            Ok(Live::Generation(target))
        };
        let reason = format!("{reason}, {}", self.job.reason);
        let job = Job { reason, ..self.job.clone() };
        let plan = self.host.activate_with(wanted, &job)?;
        self.done(&plan)
    }

    fn check(&self, cluster: bool) -> Result<Report, Box<Failed>> {
        let scope = if cluster { Scope::Cluster } else { Scope::Host };
        let checks = self.host.checks_about(scope)?;
        let environment =
            if checks.is_empty() { BTreeMap::new() } else { self.host.check_environment()? };
        let mut findings = Vec::new();
        for checked in &checks {
            let ended =
                check::run(checked, &environment, self.job.cancel).map_err(HostError::from)?;
            let level = if ended.verdict.passed() { Level::Ok } else { Level::Error };
            let mut found = ended.verdict.to_string();
            if level == Level::Error && !ended.output.trim().is_empty() {
                found = format!("{found}: {}", ended.output.trim());
            }
            let name = format!("{} of {}", checked.name, checked.package.name());
            findings.push(Finding { name, level, found, fix: None });
        }
        Ok(Report::Findings { findings })
    }

    fn uninstall(&self, purge: bool) -> Result<Report, Box<Failed>> {
        let live = generation::live(&self.host.paths).ok().flatten();
        let removed = self.host.uninstall(purge, &self.job)?;
        let in_use = removed.in_use.iter().map(|folder| format!("{folder}: others use it by now"));
        let mut kept = removed.kept.clone();
        kept.extend(in_use);
        let before = self.attempt.before(live);
        let changed = removed.was_there || before.is_some();
        Ok(Report::Done(Done { changed, before, live: None, kept }))
    }

    fn act(&self, action: &str, arguments: &[String]) -> Result<Report, Box<Failed>> {
        let is_named = |name: &str, package: &str| {
            action == name || action.split_once('/') == Some((package, name))
        };
        let mut found = self.host.actions()?;
        found.retain(|one| is_named(&one.action.name, one.action.package.name().as_str()));
        let [one] = &found[..] else {
            let reason = match found.len() {
                0 => format!("no package that is live has an action `{action}`"),
                _ => format!("several packages have an action `{action}`: name it PACKAGE/ACTION"),
            };
            return Err(Box::new(failed("no_action", vec![reason], None)));
        };
        let roles = self.host.live()?.roles;
        if !one.action.from.is_empty() && one.action.from.is_disjoint(&roles) {
            let reason =
                format!("`{action}` is for hosts with the role {}", names(&one.action.from));
            return Err(Box::new(failed("wrong_role", vec![reason], None)));
        }
        if arguments.iter().any(|argument| argument.contains('\0')) {
            let reason = "no argument can hold a NUL character".to_owned();
            return Err(Box::new(failed("bad_order", vec![reason], None)));
        }
        let check = check::Check { arguments: arguments.to_vec(), ..one.check.clone() };
        let environment = self.host.check_environment()?;
        let ended = check::run(&check, &environment, self.job.cancel).map_err(HostError::from)?;
        if ended.verdict.passed() {
            return Ok(Report::Acted { output: ended.output });
        }
        let reason = format!("`{action}` of {}: {}", check.package, ended.verdict);
        let log = ended.output.lines().map(str::to_owned).collect();
        Err(Box::new(Failed { log, ..failed("action_failed", vec![reason], None) }))
    }
}

fn names<'a>(roles: impl IntoIterator<Item = &'a RoleName>) -> String {
    roles.into_iter().map(|role| format!("`{role}`")).collect::<Vec<_>>().join(", ")
}

/// A plan in short.
fn summary(host: &Host, ahead: Ahead) -> Result<PlanSummary, HostError> {
    let live = match generation::live(&host.paths)? {
        Some(_) => Some(host.live()?),
        None => None,
    };
    let before = live.iter().flat_map(|live| live.packages.keys().cloned()).collect();
    let added = ahead.ids.difference(&before).cloned().collect();
    let removed = before.difference(&ahead.ids).cloned().collect();
    let (stops, starts) = match &ahead.plan {
        Some(plan) => {
            let (stops, starts) = plan.restarts();
            (stops.to_vec(), starts.to_vec())
        }
        None => (Vec::new(), Vec::new()),
    };
    let mut found = ahead.preflight.as_ref().map(findings).unwrap_or_default();
    let address = found.iter().find(|found| found.name == "address" && found.level == Level::Ok);
    let detected_address = address.map(|address| address.found.clone());
    found.retain(|found| found.level >= Level::Warning);
    found.extend(ahead.ailments.iter().map(|ailment| Finding {
        name: "check".to_owned(),
        level: Level::Error,
        found: ailment.clone(),
        fix: None,
    }));
    let switch = ahead.switch();
    let mut summary = PlanSummary {
        from: live.map(|live| live.number),
        changes: ahead.plan.as_ref().is_none_or(|plan| !plan.is_empty()),
        added,
        removed,
        fetched: ahead.fetched,
        fetch_bytes: ahead.fetch_bytes,
        disk_bytes: ahead.disk_bytes,
        free_bytes: host.free_bytes(),
        stops,
        starts,
        unknown: ahead.unknown,
        detected_address,
        findings: found,
        digest: None,
        switch,
    };
    summary.digest = Some(world(&summary, &ahead.latest.bundle, ahead.plan.as_ref()));
    Ok(summary)
}

/// Of everything that a plan follows from: what is there, what will be, and what keeps it from being so.
/// Not of what changes by itself, such as the room on a disk.
fn world(summary: &PlanSummary, bundle: &Sha256, plan: Option<&Plan>) -> Sha256 {
    let errors: Vec<&str> = summary
        .findings
        .iter()
        .filter(|found| found.level == Level::Error)
        .map(|found| found.name.as_str())
        .collect();
    let document = json!({
        "bundle": bundle,
        "base": plan.map(|plan| &plan.base),
        "from": summary.from,
        "added": summary.added,
        "removed": summary.removed,
        "fetched": summary.fetched,
        "stops": summary.stops,
        "starts": summary.starts,
        "unknown": summary.unknown,
        "errors": errors,
    });
    Sha256::of(package::json::pretty(&document).as_bytes())
}

fn findings(report: &Preflight) -> Vec<Finding> {
    let one = |found: &preflight::Finding| Finding {
        name: found.name.clone(),
        level: match found.level {
            preflight::Level::Ok => Level::Ok,
            preflight::Level::Notice => Level::Notice,
            preflight::Level::Warning => Level::Warning,
            preflight::Level::Error => Level::Error,
        },
        found: found.found.clone(),
        fix: found.fix.clone(),
    };
    report.findings.iter().map(one).collect()
}

fn audit(report: &crate::audit::Report) -> Audit {
    let told = report.differences.iter().take(DIFFERENCES_MAX);
    let differences: Vec<Difference> = told
        .map(|found| Difference {
            at: found.at.clone(),
            should: found.should.clone(),
            is: found.is.clone(),
        })
        .collect();
    Audit {
        generation: report.generation,
        digest: report.digest,
        entries: report.entries as u64,
        bytes: report.bytes,
        more: (report.differences.len() - differences.len()) as u64,
        differences,
        unchecked: report.unchecked.clone(),
    }
}

impl From<HostError> for Box<Failed> {
    fn from(error: HostError) -> Self {
        InstallError::Host(error).into()
    }
}

impl From<InstallError> for Box<Failed> {
    fn from(error: InstallError) -> Self {
        let mut told = failed(error.kind(), causes(&error), error.remedy());
        if let InstallError::Preflight(report) = &error {
            told.findings = findings(report);
            told.findings.retain(|found| found.level >= Level::Warning);
        }
        told.log = error.log().to_vec();
        Box::new(told)
    }
}
