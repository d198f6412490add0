//! A run as the reference wrote it down: the file that its users' tools read.

use std::collections::BTreeMap;

use host::wire::Report;
use serde_json::{Value, json};

use super::{HostRow, Journal, JournalError, StepRow};
use crate::fault::FaultKind;
use crate::run::{Group, HostState, Outcome, RunId};

/// The port that the reference took for granted.
const SSH: u16 = 22;

impl Journal {
    /// A run in the shape of the reference's state file: `chain_name`, totals, and for each `ADDRESS:PORT`
    /// its status, tags and commands.
    pub fn export(&self, run: &RunId) -> Result<Value, JournalError> {
        let spec = self.spec(run)?;
        let mut steps: BTreeMap<usize, Vec<StepRow>> = BTreeMap::new();
        for step in self.steps(run, None)? {
            steps.entry(step.host).or_default().push(step);
        }
        let mut hosts = serde_json::Map::new();
        for row in self.hosts(run)? {
            let Some(target) = spec.hosts.get(row.host) else { continue };
            if target.group == Group::Witness {
                continue;
            }
            let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for line in self.lines(run, row.host)? {
                lines.entry(line.tag).or_default().push(line.text);
            }
            let own = steps.remove(&row.host).unwrap_or_default();
            let commands: Vec<Value> = own
                .iter()
                .map(|step| command(step, lines.get(&step.tag).map_or(&[], Vec::as_slice)))
                .collect();
            let address = &target.host.address;
            let address =
                if address.contains(':') { format!("[{address}]") } else { address.clone() };
            let key = format!("{address}:{}", target.host.port.unwrap_or(SSH));
            let roles = target.host.roles.iter().map(ToString::to_string);
            let mut tags = json!(target.host.labels);
            // Whoever reads it counts on this one, whatever labels there are.
            tags["role"] = json!(roles.collect::<Vec<_>>().join(","));
            let status = status(&row, own.is_empty());
            hosts.insert(key, json!({ "host_status": status, "tags": tags, "commands": commands }));
        }
        let count = |group| spec.hosts.iter().filter(|target| target.group == group).count();
        Ok(json!({
            "chain_name": spec.operation.to_string(),
            "total_hosts": spec.worked_on(),
            "total_masters": count(Group::Master),
            "total_agents": count(Group::Agent),
            "hosts": hosts,
        }))
    }
}

fn status(row: &HostRow, is_unstarted: bool) -> &'static str {
    match &row.state {
        _ if row.doing.is_some() => "running",
        HostState::Pending | HostState::Skipped if is_unstarted => "unstarted",
        // Its own last step went well, whatever became of its wave.
        HostState::Switched => "success",
        state if state.is_well() => "success",
        HostState::InDoubt(_) => "terminated",
        // As the reference did with a command that it ended.
        state if state.trouble().is_some_and(|why| why.kind == FaultKind::TimedOut.name()) => {
            "terminated"
        }
        HostState::Unreachable(_)
        | HostState::Failed(_)
        | HostState::RolledBack
        | HostState::Skipped => "failed",
        _ => "running",
    }
}

fn command(step: &StepRow, lines: &[String]) -> Value {
    let (code, said) = match &step.outcome {
        None => (None, Vec::new()),
        Some(Outcome::Answered { report: Report::Failed(failed), .. }) => {
            (Some(1), failed.causes.clone())
        }
        Some(Outcome::Silent | Outcome::Answered { .. }) => (Some(0), Vec::new()),
        // As the reference did when its ssh was ended.
        Some(Outcome::Faulted { fault, .. }) => (None, fault.causes.clone()),
    };
    json!({
        "cmd": [step.name],
        "stdout": lines,
        "stderr": said,
        "returncode": code,
        "pid": Value::Null,
        "stage": step.tag,
        "date": step.answered.unwrap_or(step.intended).to_string(),
    })
}
