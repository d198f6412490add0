//! What has to be done so that an audit finds nothing any more, and the doing.
//!
//! Whatever is in place and right stays as it is: programs that run keep running. Each thing is made
//! aside and put into its place in one step, so that a crash leaves what was there or what should be.

use std::collections::BTreeSet;

use ::package::sign::PublicKey;
use ::package::{PackageId, causes};
use camino::Utf8Path;
use serde::Serialize;

use super::run::{Audited, How};
use super::{Depth, Difference, Fix, Report, one_line};
use crate::history::What;
use crate::host::{Host, HostError, Job};
use crate::platform;
use crate::setup::{SetupError, flags};
use crate::store::{Repository, Trust};

/// Audits and repairs in turns: packages first, then what follows from them, then the proof.
const ROUNDS_MAX: usize = 4;

/// Where packages come from whose content changed.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The place; without one such packages cannot be repaired.
    pub repository: Option<Repository>,
    /// The key that must have signed them, besides their being those that the generation was made of.
    pub key: Option<PublicKey>,
}

impl Source {
    /// The repository at the URL that is given, or the one that an installer left in the flags; a
    /// relative path starts at `working_directory`.
    pub fn find(
        host: &Host,
        given: Option<&str>,
        working_directory: &Utf8Path,
        key: Option<PublicKey>,
    ) -> Result<Self, SetupError> {
        let url = match given {
            Some(url) => Some(url.to_owned()),
            None => flags::read_text(&host.paths.setup_flag("repository-url"))?,
        };
        let repository = url.map(|url| Repository::parse(&url, working_directory)).transpose()?;
        Ok(Self { repository, key })
    }
}

/// What will be done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Repair {
    /// In words, in this order.
    pub steps: Vec<String>,
    /// What cannot be done, and why.
    pub cannot: Vec<Unrepaired>,
    /// What will be compared only when that is done.
    pub unchecked: Vec<String>,
    #[serde(skip)]
    todo: Vec<Step>,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// In words, in this order.
    pub done: Vec<String>,
    /// What was not, and why.
    pub cannot: Vec<Unrepaired>,
    /// The host as it is now.
    pub report: Report,
}

/// Something that cannot be repaired.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unrepaired {
    /// What.
    pub what: String,
    /// Why not, and what to do.
    pub why: String,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Put a package in the place of a damaged one, from where it came or from its inputs.
    Package { id: PackageId, made_here: bool },
    /// Put one entry right.
    Entry(Fix),
    /// Make the machine what the live generation asks for.
    Machine,
}

impl Host {
    /// Says what a repair would do. Changes nothing.
    pub fn plan_repair(&self, source: &Source, job: &Job<'_>) -> Result<Repair, HostError> {
        let audited = self.audit_now(CLOSELY, job)?;
        let mut repair = self.plan_of(&audited, source);
        if repair.todo.contains(&Step::Machine) {
            let (steps, problems) = self.plan_machine(&audited)?;
            repair.steps.retain(|step| *step != self.words(&Step::Machine));
            repair.steps.extend(steps);
            repair.cannot.extend(problems.into_iter().map(machine_cannot));
        }
        Ok(repair)
    }

    /// Puts right what differs, as far as that can be done here, and audits the result.
    pub fn repair(&self, source: &Source, job: &Job<'_>) -> Result<Repaired, HostError> {
        let _lock = self.lock(job)?;
        let _in_use = self.store.in_use(job.cancel, job.observer)?;
        let (mut done, mut failed, mut given_up) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let mut audited = self.audit_now(CLOSELY, job)?;
        for _ in 1..ROUNDS_MAX {
            let mut plan = self.plan_of(&audited, source);
            plan.todo.retain(|step| !given_up.contains(&self.words(step)));
            if plan.todo.is_empty() {
                break;
            }
            for step in plan.todo {
                job.cancel.check()?;
                match self.take(&step, &audited, source, job) {
                    Ok((lines, problems)) => {
                        if lines.is_empty() && !problems.is_empty() {
                            given_up.insert(self.words(&step));
                        }
                        done.extend(lines);
                        failed.extend(problems.into_iter().map(machine_cannot));
                    }
                    Err(HostError::Cancelled(cancelled)) => return Err(cancelled.into()),
                    Err(error) => {
                        let (what, why) = (self.words(&step), causes(&error).join(": "));
                        given_up.insert(what.clone());
                        failed.insert(Unrepaired { what, why });
                    }
                }
            }
            platform::sync_file_system(&self.paths.root)?;
            audited = self.audit_now(CLOSELY, job)?;
        }
        if !done.is_empty() {
            self.note(What::Repaired { what: done.clone() }, job);
        }
        let mut cannot = self.plan_of(&audited, source).cannot;
        cannot.extend(failed);
        Ok(Repaired { done, cannot, report: audited.report })
    }

    /// What to do about differences, decided from them alone.
    fn plan_of(&self, audited: &Audited, source: &Source) -> Repair {
        let differences = &audited.report.differences;
        let broken: BTreeSet<&PackageId> = differences
            .iter()
            .filter(|difference| difference.fix == Fix::Content)
            .filter_map(|difference| difference.package.as_ref())
            .collect();
        let mut repair =
            Repair { unchecked: audited.report.unchecked.clone(), ..Repair::default() };
        for id in broken {
            let made_here =
                audited.digest(id).is_some_and(|digest| self.recorded(id, digest).is_some());
            if made_here || source.repository.is_some() {
                repair.todo.push(Step::Package { id: id.clone(), made_here });
            }
        }
        let renewed: BTreeSet<PackageId> =
            repair.todo.iter().filter_map(Step::package).cloned().collect();
        let mut entries = Vec::new();
        for difference in differences {
            let of = difference.package.as_ref();
            match &difference.fix {
                Fix::Content | Fix::Nobody { .. } => {
                    let is_renewed = of.is_some_and(|id| renewed.contains(id));
                    if !is_renewed {
                        repair.cannot.push(cannot(difference));
                    }
                }
                _ if of.is_some_and(|id| renewed.contains(id)) => {}
                Fix::Machine => entries.push(Step::Machine),
                fix => entries.push(Step::Entry(fix.clone())),
            }
        }
        // Owners before modes, as a change of the owner can change the mode, and folders before
        // what is in them; the machine when everything that it follows from is right.
        entries.sort_by_key(Step::rank);
        entries.dedup();
        repair.todo.extend(entries);
        repair.steps = repair.todo.iter().map(|step| self.words(step)).collect();
        repair
    }

    /// Does one thing, and says what was done, and what was in the way of parts of it.
    fn take(
        &self,
        step: &Step,
        audited: &Audited,
        source: &Source,
        job: &Job<'_>,
    ) -> Result<(Vec<String>, Vec<String>), HostError> {
        let words = vec![self.words(step)];
        match step {
            Step::Package { id, made_here: true } => {
                let recorded = audited.digest(id).and_then(|digest| self.recorded(id, digest));
                let files = recorded.map(|recorded| recorded.files).unwrap_or_default();
                self.make_again(id, &files, audited, job)?;
            }
            Step::Package { id, .. } => {
                let (digest, key) = (audited.digest(id), source.key.clone());
                let trust = Trust { digest, key, archive: None };
                if let Some(repository) = &source.repository {
                    self.store.renew(repository, id, &trust, job.cancel, job.observer)?;
                }
            }
            Step::Entry(fix) => self.restore(fix, audited, job)?,
            Step::Machine => return self.restore_machine(audited, job),
        }
        Ok((words, Vec::new()))
    }

    fn words(&self, step: &Step) -> String {
        match step {
            Step::Package { id, made_here: true } => {
                format!("make package `{id}` again from its recorded inputs")
            }
            Step::Package { id, .. } => format!("unpack package `{id}` again from the repository"),
            Step::Machine => "make this machine what the live generation asks for".to_owned(),
            Step::Entry(fix) => match fix {
                Fix::Mode { path, mode } => format!("give `{path}` mode {mode:04o}"),
                Fix::Owner { path, uid } => format!("give `{path}` to user {uid}"),
                Fix::Time { path, .. } => format!("give `{path}` the time of its package"),
                Fix::Remove { path } => {
                    format!("remove `{}`", one_line(&platform::tree::shown(path.as_os_str())))
                }
                Fix::Link { path, target } => format!("make the link `{path}` to `{target}`"),
                Fix::Text { path, .. } => format!("write `{path}`"),
                Fix::Subtree { path } => format!("make the folder `{path}` of the generation"),
                Fix::Current { generation } => format!("make generation {generation} live"),
                Fix::Tool => format!("renew `{}`", self.paths.tool()),
                Fix::Content | Fix::Machine | Fix::Nobody { .. } => String::new(),
            },
        }
    }
}

/// Every byte, and times too: what a fast audit tells must be put right as well.
const CLOSELY: How = How { depth: Depth::Full, times: true };

fn machine_cannot(problem: String) -> Unrepaired {
    Unrepaired { what: "this machine".to_owned(), why: problem }
}

fn cannot(difference: &Difference) -> Unrepaired {
    let why = match (&difference.fix, &difference.package) {
        (Fix::Nobody { advice }, _) => advice.clone(),
        (_, Some(_)) => {
            "no repository to get its package from: name one with `--repository-url`".to_owned()
        }
        (_, None) => "its packages must be what they should be first".to_owned(),
    };
    Unrepaired { what: difference.to_string(), why }
}

impl Step {
    fn package(&self) -> Option<&PackageId> {
        match self {
            Self::Package { id, .. } => Some(id),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Package { .. } => 0,
            Self::Entry(Fix::Owner { .. }) => 1,
            Self::Entry(Fix::Mode { .. }) => 2,
            Self::Entry(Fix::Time { .. }) => 3,
            Self::Entry(Fix::Current { .. }) => 5,
            Self::Entry(Fix::Tool) => 6,
            Self::Entry(_) => 4,
            Self::Machine => 7,
        }
    }
}
