//! Ends a trial: confirmed, undone, or left by somebody who died.

use package::durable;

use super::{Failed, Returns, Trial};
use crate::event::Event;
use crate::execute::ExecuteError;
use crate::generation::{self, Generation};
use crate::history::What;
use crate::host::{Host, HostError, Job};
use crate::machine::{Machine, is_own};
use crate::plan::{Plan, Step};

impl Host {
    /// Confirms a switch, or undoes it.
    pub(crate) fn conclude(
        &self,
        plan: &Plan,
        executed: Result<(), ExecuteError>,
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        let (Some(machine), Some(to)) = (&self.machine, plan.switches_to()) else {
            return Ok(executed?);
        };
        let from = plan.base.live;
        let tried = plan.steps.iter().find_map(|step| match step {
            Step::Try { returns, .. } => Some(*returns),
            _ => None,
        });
        let trial = Trial::new(from, to, job.clock.now(), tried.unwrap_or(Returns::Always));
        match executed {
            Err(error @ ExecuteError::Unsettled { .. }) => {
                return Err(self.unsettled(machine, trial, error, job));
            }
            Err(error) => return Err(error.into()),
            Ok(()) if tried.is_some() => self.decide(machine, plan, &trial.started(), job)?,
            Ok(()) => {}
        }
        if let Err(error) = self.finish(machine, plan, to, job) {
            // It is live, and confirmed if that was asked for.
            let message = package::causes(&error).join(": ");
            job.observer.event(&Event::Warning { message: &message });
        }
        Ok(())
    }

    /// The machine could not be made what the new generation asks for.
    fn unsettled(
        &self,
        machine: &Machine,
        trial: Trial,
        error: ExecuteError,
        job: &Job<'_>,
    ) -> HostError {
        let reason = package::causes(&error).join(": ");
        let has_started = matches!(&error, ExecuteError::Unsettled { source, .. } if matches!(**source, ExecuteError::Start(_)));
        let trial = if has_started { trial.started() } else { trial };
        if trial.from.is_some() || trial.started {
            return self.undo(machine, &trial, Failed::new(reason), job);
        }
        // Nothing was live and nothing ran: so it is again.
        let forgotten = fs_err::remove_file(self.paths.current())
            .and_then(|()| durable::sync_directory(&self.paths.root))
            .and_then(|()| Trial::forget(&self.paths));
        self.note(What::Abandoned { to: trial.to, reason }, job);
        match forgotten {
            Ok(()) => error.into(),
            Err(error) => error.into(),
        }
    }

    fn decide(
        &self,
        machine: &Machine,
        plan: &Plan,
        trial: &Trial,
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        let Some(services) = &machine.services else {
            return Ok(());
        };
        let (_, started) = plan.restarts();
        let judged = match Generation::read(&self.paths, trial.to) {
            Ok(live) => self.judge(&**services, &live, started, self.switching.limit, job),
            Err(error) => Err(Failed::new(package::causes(&error).join(": "))),
        };
        match judged {
            Ok(()) => self.confirm(machine, trial.to, job),
            Err(failed) => Err(self.undo(machine, trial, failed, job)),
        }
    }

    /// What is done once a generation is there to stay.
    fn finish(
        &self,
        machine: &Machine,
        plan: &Plan,
        to: u64,
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        let live = Generation::read(&self.paths, to)?;
        self.update_tool(machine, &live, job);
        match &machine.services {
            Some(services) => {
                // What we are a part of ourselves was left alone until now.
                let (stopped, started) = plan.restarts();
                let own = |units: &[String]| -> Vec<String> {
                    units.iter().filter(|unit| is_own(unit)).cloned().collect()
                };
                let (stop, start) = (own(stopped), own(started));
                if !(stop.is_empty() && start.is_empty()) {
                    services.replace_own(&stop, &start).map_err(HostError::Services)?;
                }
            }
            None => self.tell_what_to_start(&live, job),
        }
        Ok(())
    }

    /// What is scheduled so that a trial ends even if whoever holds it dies.
    pub(crate) fn trial_timer(&self) -> String {
        format!("{}-trial", self.distribution.name)
    }

    /// The generation on trial is good.
    fn confirm(&self, machine: &Machine, generation: u64, job: &Job<'_>) -> Result<(), HostError> {
        Trial::forget(&self.paths)?;
        self.unschedule(machine);
        self.note(What::Confirmed { generation }, job);
        job.observer.event(&Event::Confirmed { generation });
        Ok(())
    }

    /// The generation on trial is bad: the one before it comes back, if it may.
    fn undo(&self, machine: &Machine, trial: &Trial, failed: Failed, job: &Job<'_>) -> HostError {
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
                let other = if live == Some(trial.to) { trial.from } else { Some(trial.to) };
                self.settle(machine, other, job)?;
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
        self.settle(machine, Some(bad), job)?;
        Trial::forget(&self.paths)?;
        self.unschedule(machine);
        job.observer.event(&Event::Live { generation: good });
        Ok(())
    }

    /// Makes the machine what the live generation says, and starts it: the target, and the units that
    /// were stopped for `other`.
    pub(crate) fn settle(
        &self,
        machine: &Machine,
        other: Option<u64>,
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        let Some(live) = generation::live(&self.paths)? else {
            return Ok(());
        };
        let live = Generation::read(&self.paths, live)?;
        self.ensure_tool(machine)?;
        self.reconcile(machine, &live, job)?;
        let Some(services) = &machine.services else {
            self.tell_what_to_start(&live, job);
            return Ok(());
        };
        services.reload().map_err(HostError::Services)?;
        let mut start = match other.map(|other| Generation::read(&self.paths, other)) {
            Some(Ok(other)) => live.running.units_not_in(&other.running),
            // It was never written.
            Some(Err(_)) => live.running.units.keys().cloned().collect(),
            None => Vec::new(),
        };
        start.push(self.distribution.target());
        services.start(&start, self.switching.wait).map_err(HostError::Services)
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
