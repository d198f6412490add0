//! Does what can be done about a finding, and writes down how it is undone.

use std::io::{self, Write as _};

use package::Cancel;

use super::facts::Facts;
use super::{Remedy, Report};
use crate::host::Clock;

/// Where it is written down what was done, and how it is undone.
const LOG: &str = "/var/log/monobloc-preflight.log";

/// What came of a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    /// What was done.
    pub remedy: Remedy,
    /// Why it was not.
    pub failed: Option<String>,
}

impl Report {
    /// Everything that can be done, and undone.
    pub fn remedies(&self) -> Vec<&Remedy> {
        self.findings.iter().flat_map(|finding| &finding.remedies).collect()
    }
}

/// Does it. What is done is in the log with how it is undone, before it is done.
pub fn fix(
    remedies: &[&Remedy],
    facts: &Facts,
    clock: &dyn Clock,
    cancel: &Cancel,
) -> io::Result<Vec<Fixed>> {
    let mut done = Vec::new();
    for remedy in remedies {
        let [program, arguments @ ..] = remedy.run.as_slice() else { continue };
        let line =
            format!("{}\t{}\tundo: {}\n", clock.now(), remedy.run.join(" "), remedy.undo.join(" "));
        let path = facts.at(LOG);
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder)?;
        }
        let mut log = fs_err::OpenOptions::new().create(true).append(true).open(path)?;
        log.write_all(line.as_bytes())?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = facts.outside.run(program, &arguments, cancel);
        let failed = match (said.is_there, said.is_good) {
            (true, true) => None,
            (true, false) => Some(said.reason()),
            (false, _) => Some(format!("there is no `{program}`")),
        };
        done.push(Fixed { remedy: (*remedy).clone(), failed });
    }
    Ok(done)
}
