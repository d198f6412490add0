//! Failures by cause: a thousand hosts that failed for one reason are one thing to do.

use std::collections::{BTreeMap, HashMap};

use host::wire::{Finding, Report};

use super::{Journal, JournalError};
use crate::run::{Change, HostState, Operation, RunId, Trouble};

/// Hosts that failed for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Cause {
    /// What was being done.
    pub during: String,
    /// What kind of thing went wrong.
    pub kind: String,
    /// Why, as one of them said it.
    pub causes: Vec<String>,
    /// What checks of one of them found.
    pub findings: Vec<Finding>,
    /// The last lines of what failed on one of them.
    pub log: Vec<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// In which state they are: `failed`, `unreachable`, `in_doubt`; `done` if they went back, and are ill there.
    pub state: String,
    /// Their names.
    pub hosts: Vec<String>,
}

impl Journal {
    /// The failures of a run by cause, the one with the most hosts first.
    pub fn failures(&self, run: &RunId) -> Result<Vec<Cause>, JournalError> {
        let rows = self.hosts(run)?;
        let spec = self.spec(run)?;
        let ill =
            if spec.operation == Operation::Rollback { self.ill(run)? } else { HashMap::new() };
        let mut causes: BTreeMap<(String, String, String, String), Cause> = BTreeMap::new();
        for row in rows {
            let is_done = row.state == HostState::Done;
            let ill = ill.get(&row.host).filter(|_| is_done);
            let Some(trouble) = row.state.trouble().or(ill) else { continue };
            let own = spec.hosts.get(row.host).map(|target| &target.host);
            let names = own.map(|host| [host.name.as_str(), host.address.as_str()]);
            let sameness = trouble
                .causes
                .iter()
                .map(|cause| normal(cause, names.as_ref().map_or(&[][..], |names| &names[..])));
            let state = row.state.name().to_owned();
            let key = (
                state.clone(),
                trouble.during.clone(),
                trouble.kind.clone(),
                sameness.collect::<Vec<_>>().join("\n"),
            );
            let cause = causes.entry(key).or_insert_with(|| cause_of(trouble, state));
            cause.hosts.push(row.name);
        }
        let mut causes: Vec<Cause> = causes.into_values().collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.hosts.len()));
        Ok(causes)
    }

    /// Hosts that said last that they failed to go back. Those that are back nevertheless are ill there.
    fn ill(&self, run: &RunId) -> Result<HashMap<usize, Trouble>, JournalError> {
        let during = Change::Rollback.name();
        let mut ill = HashMap::new();
        self.each_report(run, during, |host, report| {
            match report {
                Report::Failed(failed) => ill.insert(host, Trouble::said(during, &failed)),
                _ => ill.remove(&host),
            };
        })?;
        Ok(ill)
    }
}

fn cause_of(trouble: &Trouble, state: String) -> Cause {
    Cause {
        during: trouble.during.clone(),
        kind: trouble.kind.clone(),
        causes: trouble.causes.clone(),
        findings: trouble.findings.clone(),
        log: trouble.log.clone(),
        remedy: trouble.remedy.clone(),
        state,
        hosts: Vec::new(),
    }
}

impl HostState {
    /// Whether nothing is left to be said about it.
    pub fn is_well(&self) -> bool {
        matches!(self, Self::Done | Self::Unchanged | Self::Answered | Self::Staged)
    }
}

/// What is the same on every host that fails for one reason: without its names, and without numbers,
/// which are sizes, ports, times, and digests.
fn normal(text: &str, names: &[&str]) -> String {
    let mut text = text.to_owned();
    for name in names.iter().filter(|name| !name.is_empty()) {
        text = text.replace(name, "HOST");
    }
    let mut normal = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        let is_digest = word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit());
        if is_digest && word.contains(|c: char| c.is_ascii_digit()) {
            normal.push('#');
        } else {
            let mut was_digit = false;
            for c in word.chars() {
                if !c.is_ascii_digit() {
                    normal.push(c);
                } else if !was_digit {
                    normal.push('#');
                }
                was_digit = c.is_ascii_digit();
            }
        }
        word.clear();
        normal.push(c);
    }
    normal.truncate(normal.trim_end().len());
    normal
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn a_cause_is_the_same_whatever_host_size_and_digest_it_names() {
        let one = normal("no space on h1: 15 MB of `0badc0de77`", &["h1", "10.0.0.1"]);
        let other = normal("no space on h22: 7 MB of `1234567890ab`", &["h22", "10.0.0.2"]);
        assert_eq!(one, "no space on HOST: # MB of `#`");
        assert_eq!(one, other);
        assert_ne!(one, normal("no space on h22: 7 GB of `1234567890ab`", &["h22"]));
    }
}
