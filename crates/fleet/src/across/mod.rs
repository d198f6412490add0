//! What only shows when all hosts are looked at together: clocks, machines and addresses that two share,
//! who reaches whom. Hosts are asked in a run like any other; what their answers mean follows from the
//! journal of it alone ([`Account::read`]), so a run that was interrupted is judged like one that was not.
//!
//! Findings are about causes: thousands of hosts with one cause are one finding.

mod clock;
mod identity;
mod matrix;
mod pairs;

use std::collections::{BTreeMap, HashMap};

use host::wire::{Level, Report, Status};
use package::preflight::{Check, Preflight, Reach, Severity};
use serde::{Deserialize, Serialize};

use crate::journal::{Journal, JournalError, StepRow};
use crate::run::{Outcome, RunId, RunSpec, Work, request_name};

use clock::Measured;
pub(crate) use matrix::Matrix;

/// How far apart clocks may be whatever a distribution says, in milliseconds: less is not told apart from the
/// time that an answer takes.
const CLOCK_MEASURED_MS: u64 = 500;

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Across {
    /// How far apart clocks may be, in milliseconds; none: nobody minds.
    pub clock_ms: Option<u64>,
    /// Who must reach whom.
    pub reach: Vec<Reach>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    /// How many hosts told what they are.
    pub hosts: usize,
    /// How many connections hosts must be able to make to others that told it, too.
    pub connections: usize,
    /// How many of them were tried: of very many an even part.
    pub tried: usize,
    /// What is not as it should be, the worst first.
    pub findings: Vec<Finding>,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at: `clock`, `machine_id`, `address`, `reach`.
    pub name: &'static str,
    /// How bad it is.
    pub level: Level,
    /// The hosts that it is about; none: this machine.
    pub hosts: Vec<String>,
    /// The hosts that they do not reach, if it is about that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// The evidence. After "cannot reach … on", if it is about that.
    pub found: String,
    /// What to do about it.
    pub fix: String,
}

impl Across {
    /// What a distribution needs; without one, what every cluster does.
    pub fn of(declared: Option<&Preflight>) -> Self {
        let Some(declared) = declared else {
            return Self { clock_ms: Some(CLOCK_MEASURED_MS), reach: Vec::new() };
        };
        let mut limit = Some(CLOCK_MEASURED_MS);
        for entry in &declared.checks {
            let Check::Clock { max_error_ms } = entry.check else { continue };
            limit = match entry.severity {
                Some(Severity::Off) if entry.roles.is_empty() => {
                    return Self::without_clock(declared);
                }
                Some(Severity::Off) => limit,
                _ => limit.max(Some(max_error_ms)),
            };
        }
        Self { clock_ms: limit, reach: declared.reach.clone() }
    }

    fn without_clock(declared: &Preflight) -> Self {
        Self { clock_ms: None, reach: declared.reach.clone() }
    }
}

impl Account {
    /// What the answers in a run mean; nothing if hosts were not looked at together in it.
    pub fn read(journal: &Journal, run: &RunId) -> Result<Option<Self>, JournalError> {
        let spec = journal.spec(run)?;
        let Some((phase, across)) = phase_of(&spec) else { return Ok(None) };
        let mut matrix = Matrix::new(&spec, across);
        let mut statuses: BTreeMap<usize, Status> = BTreeMap::new();
        let (mut measured, mut answers) = (Vec::new(), HashMap::new());
        journal.each_step(run, None, |row| {
            let StepRow { host, tag, intended, answered, outcome, .. } = row;
            let Some(outcome) = outcome else { return };
            if tag.starts_with(&prefix(phase)) {
                answers.insert((host, tag), outcome);
            } else if let Outcome::Answered { report, .. } = outcome {
                matrix.learn(host, &report);
                if let Report::Status(status) = report {
                    let times = status.time.zip(answered);
                    measured.extend(times.map(|(time, answered)| Measured {
                        host,
                        asked: intended,
                        answered,
                        time,
                    }));
                    statuses.insert(host, *status);
                }
            }
        })?;
        replay(&mut matrix, phase, &answers);

        let name = |host: usize| spec.hosts[host].host.name.clone();
        let mut findings = Vec::new();
        if let Some(limit) = across.clock_ms {
            findings.extend(clock::judge(&measured, limit, &name));
        }
        findings.extend(identity::judge(&spec, &statuses, &matrix));
        findings.extend(pairs::judge(&matrix, &name));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        let (connections, tried) = matrix.counts();
        Ok(Some(Self { hosts: statuses.len(), connections, tried, findings }))
    }

    /// Whether anything keeps hosts from being a cluster.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Error)
    }
}

/// The phase of a run in which hosts try to reach each other.
pub(crate) fn phase_of(spec: &RunSpec) -> Option<(usize, &Across)> {
    let phases = spec.phases.iter().enumerate();
    phases.into_iter().find_map(|(place, phase)| match &phase.work {
        Work::Across(across) => Some((place, across)),
        _ => None,
    })
}

/// What steps of a phase are called.
fn prefix(phase: usize) -> String {
    format!("p{phase}-")
}

/// What a step is called in which hosts try to reach each other.
pub(crate) fn tag(phase: usize, part: usize, name: &str) -> String {
    format!("{}{part}-{name}", prefix(phase))
}

/// Tells what was answered, as far as it was.
fn replay(matrix: &mut Matrix, phase: usize, answers: &HashMap<(usize, String), Outcome>) {
    while matrix.go_on() {
        for (host, request) in matrix.orders().clone() {
            let tag = tag(phase, matrix.part(), request_name(&request));
            let Some(outcome) = answers.get(&(host, tag)) else { return };
            matrix.hear(host, outcome);
        }
    }
}

/// A few words of what is the same for many, with one of them.
fn with_example(what: &str, name: &str, example: &str) -> String {
    format!("{what} ({name}: {example})")
}
