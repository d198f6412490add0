//! Ends a trial: confirmed, undone, or left by somebody who died.

use crate::event::Event;
use crate::generation::{self, Generation};
use crate::history::What;
use crate::host::{Host, HostError, Job};
use crate::machine::Machine;

use super::{Failed, Trial};

impl Host {
    /// What is scheduled so that a trial ends even if whoever holds it dies.
    pub(crate) fn trial_timer(&self) -> String {
        format!("{}-trial", self.distribution.name)
    }

    /// The generation on trial is good.
    pub(crate) fn confirm(
        &self,
        machine: &Machine,
        generation: &Generation,
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        Trial::forget(&self.paths)?;
        self.unschedule(machine);
        self.note(What::Confirmed { generation: generation.number }, job);
        job.observer.event(&Event::Confirmed { generation: generation.number });
        Ok(())
    }

    /// The generation on trial is bad: the one before it comes back, if it may.
    pub(crate) fn undo(
        &self,
        machine: &Machine,
        trial: &Trial,
        failed: Failed,
        job: &Job<'_>,
    ) -> HostError {
        let Failed { reason, log } = failed;
        let bad = trial.to;
        let Some(good) = trial.way_back() else {
            let what = What::Failed { generation: bad, reason: reason.clone(), log: log.clone() };
            self.note(what, job);
            if let Err(error) = Trial::forget(&self.paths) {
                return error.into();
            }
            self.unschedule(machine);
            return HostError::Failed { generation: bad, reason, log };
        };
        if let Err(error) = self.go_back(machine, bad, good, &reason, &log, job) {
            return error;
        }
        HostError::Returned { generation: bad, live: good, reason, log }
    }

    /// Somebody died before the verdict: the switch is undone, or what they stopped is started.
    pub(crate) fn recover_trial(&self, machine: &Machine, job: &Job<'_>) -> Result<(), HostError> {
        let Some(trial) = Trial::read(&self.paths)? else {
            return Ok(());
        };
        let live = generation::live(&self.paths)?;
        let reason = "whoever tried it died, or the machine stopped, before it was confirmed";
        match trial.way_back() {
            Some(good) if live == Some(trial.to) => {
                let message =
                    format!("generation {} was not confirmed: going back to {good}", trial.to);
                job.observer.event(&Event::Warning { message: &message });
                self.go_back(machine, trial.to, good, reason, &[], job)
            }
            _ => {
                self.settle(machine, job)?;
                Trial::forget(&self.paths)?;
                self.unschedule(machine);
                Ok(())
            }
        }
    }

    fn go_back(
        &self,
        machine: &Machine,
        bad: u64,
        good: u64,
        reason: &str,
        log: &[String],
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        let (old, new) =
            (Generation::read(&self.paths, good)?, Generation::read(&self.paths, bad)?);
        if let Some(services) = &machine.services {
            let stop = new.running.units_not_in(&old.running);
            services.stop(&stop).map_err(HostError::Services)?;
        }
        generation::switch(&self.paths, Some(bad), good)?;
        let (reason, log) = (reason.to_owned(), log.to_vec());
        self.note(What::Returned { from: bad, to: good, reason, log }, job);
        self.settle(machine, job)?;
        Trial::forget(&self.paths)?;
        self.unschedule(machine);
        job.observer.event(&Event::Live { generation: good });
        Ok(())
    }

    /// Makes the machine what the live generation says, and starts it.
    pub(crate) fn settle(&self, machine: &Machine, job: &Job<'_>) -> Result<(), HostError> {
        let Some(live) = generation::live(&self.paths)? else {
            return Ok(());
        };
        let live = Generation::read(&self.paths, live)?;
        self.ensure_tool(machine)?;
        self.reconcile(machine, &live, job)?;
        match &machine.services {
            Some(services) => {
                services.reload().map_err(HostError::Services)?;
                let target = [self.distribution.target()];
                services.start(&target, self.switching.wait).map_err(HostError::Services)
            }
            None => {
                self.tell_what_to_start(&live, job);
                Ok(())
            }
        }
    }

    fn unschedule(&self, machine: &Machine) {
        if let Some(services) = &machine.services {
            services.unschedule(&self.trial_timer());
        }
    }

    /// Where nobody runs services, somebody must.
    pub(crate) fn tell_what_to_start(&self, live: &Generation, job: &Job<'_>) {
        let units: Vec<&str> = live.running.units.keys().map(String::as_str).collect();
        if !units.is_empty() && self.machine.as_ref().is_some_and(Machine::is_real) {
            job.observer.event(&Event::StartByHand { units: &units });
        }
    }
}
