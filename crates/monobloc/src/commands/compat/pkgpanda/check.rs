//! `pkgpanda check`: what packages bring to tell whether they work, run in the order of their ids.

use host::check::{self, Check, Verdict};

use super::Work;
use super::problem::Problems;
use crate::render::whole_seconds;

impl Work<'_> {
    /// Lists or runs the checks. Where the reference gives up at one that cannot be started, this
    /// goes on, and fails in the end.
    pub(super) fn check(&self, list: bool) -> Result<(), Problems> {
        let mut checks = self.host.checks()?;
        checks.sort_by_cached_key(|check| (check.package.to_string(), check.name.clone()));
        checks.retain(|check| {
            let is_left_out = check.is_no_program();
            if is_left_out {
                self.output.note(&format!("WARNING: `{}` is not executable", check.name));
            }
            !is_left_out
        });
        if list { self.list_checks(&checks) } else { self.run_checks(&checks) }
    }

    fn list_checks(&self, checks: &[Check]) -> Result<(), Problems> {
        for group in checks.chunk_by(|one, other| one.package == other.package) {
            self.output.line(&group[0].package.to_string())?;
            for check in group {
                self.output.line(&format!(" - {}", check.name))?;
            }
        }
        Ok(())
    }

    fn run_checks(&self, checks: &[Check]) -> Result<(), Problems> {
        if checks.is_empty() {
            return Ok(());
        }
        let environment = self.host.check_environment()?;
        let mut is_well = true;
        for check in checks {
            let verdict = check::run_inherited(check, &environment, &self.context.cancel)?.verdict;
            match &verdict {
                Verdict::Passed => continue,
                Verdict::NotStarted { reason } => self.output.note(&format!("ERROR: {reason}")),
                Verdict::TimedOut => {
                    let limit = whole_seconds(check.timeout);
                    let program = &check.program;
                    self.output.note(&format!("ERROR: `{program}` took longer than {limit}"));
                }
                Verdict::Failed { .. } | Verdict::Killed { .. } => {}
            }
            self.output.note(&format!("Check failed: {}", check.name));
            is_well = false;
        }
        if is_well { Ok(()) } else { Err(Problems::told()) }
    }
}
