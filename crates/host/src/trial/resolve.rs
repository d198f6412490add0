//! Ends a trial: confirmed, undone, or left by somebody who died.

use std::io;
use std::time::Duration;

use package::{Cancel, durable};

use super::judge::Switched;
use super::{Failed, Returns, Trial};
use crate::event::Event;
use crate::execute::ExecuteError;
use crate::generation::{self, Generation};
use crate::history::What;
use crate::host::{Host, HostError, Job};
use crate::machine::{Machine, STOP_MAX, Services, is_own, stop_all, wait_until_idle};
use crate::plan::{Plan, Step};

/// How long what was killed may take to be gone.
const KILL_MAX: Duration = Duration::from_secs(10);
/// How long units may take to start before nobody waits for them any more.
const START_MAX: Duration = Duration::from_mins(1);

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
            job.warn(&package::causes(&error).join(": "));
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
        let (kept, failing) = plan.left_alone();
        let switched = Switched {
            started,
            kept,
            failing,
            has_way_back: trial.way_back().is_some(),
            limit: self.switching.limit,
        };
        let judged = match Generation::read(&self.paths, trial.to) {
            Ok(live) => self.judge(&**services, &live, &switched, job),
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
        self.prune_receipt(machine, &live)?;
        self.update_tool(machine, &live, job);
        match &machine.services {
            Some(services) => {
                services.forget(plan.restarts().0);
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
    pub(crate) fn trial_timer(&self, to: u64) -> String {
        format!("{}-trial-{to}", self.distribution.name)
    }

    /// The generation on trial is good.
    fn confirm(&self, machine: &Machine, generation: u64, job: &Job<'_>) -> Result<(), HostError> {
        Trial::forget(&self.paths)?;
        self.unschedule(machine, generation);
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
            self.unschedule(machine, bad);
            return HostError::Failed { generation: bad, reason, log };
        };
        if let Err(error) = self.go_back(machine, bad, good, &reason, &log, job) {
            return error;
        }
        HostError::Returned { generation: bad, live: good, reason, log }
    }

    /// Somebody died before the verdict: the switch is undone, or what they stopped is started.
    pub(crate) fn recover_trial(&self, machine: &Machine, job: &Job<'_>) -> Result<(), HostError> {
        let trial = match Trial::read(&self.paths) {
            Ok(None) => return Ok(()),
            Ok(Some(trial)) => trial,
            // Nobody can tell what was tried; what is live is put right.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                job.warn(&package::causes(&error).join(": "));
                self.settle(machine, true, job)?;
                return Ok(Trial::forget(&self.paths)?);
            }
            Err(error) => return Err(error.into()),
        };
        if machine.services.is_none() {
            return Err(HostError::NeedsServices);
        }
        let live = generation::live(&self.paths)?;
        let reason = "whoever tried it died, or the machine stopped, before it was confirmed";
        if let Some(good) = trial.way_back().filter(|_| live == Some(trial.to)) {
            let bad = trial.to;
            job.warn(&format!("generation {bad} was not confirmed: going back to {good}"));
            return self.go_back(machine, bad, good, reason, &[], job);
        }
        self.restore_roles(job);
        self.settle(machine, true, job)?;
        Trial::forget(&self.paths)?;
        self.unschedule(machine, trial.to);
        Ok(())
    }

    /// Makes `good` live again. Nothing but the switch itself may keep that from being done.
    fn go_back(
        &self,
        machine: &Machine,
        bad: u64,
        good: u64,
        reason: &str,
        log: &[String],
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        let old = Generation::read(&self.paths, good)?;
        let stop = match Generation::read(&self.paths, bad) {
            Ok(new) => new.running.units_not_in(&old.running),
            Err(_) => old.running.startable(),
        };
        if let Some(services) = &machine.services {
            self.force_down(&**services, &stop, job);
        }
        generation::switch(&self.paths, Some(bad), good)?;
        self.restore_roles(job);
        let (reason, log) = (reason.to_owned(), log.to_vec());
        self.note(What::Returned { from: bad, to: good, reason, log }, job);
        self.settle(machine, true, job)?;
        if let Some(services) = &machine.services {
            services.forget(&stop);
        }
        Trial::forget(&self.paths)?;
        self.unschedule(machine, bad);
        job.observer.event(&Event::Live { generation: good });
        Ok(())
    }

    /// Stops units; those that do not stop in time are killed, and those that cannot be stopped are
    /// told.
    pub(crate) fn force_down(&self, services: &dyn Services, units: &[String], job: &Job<'_>) {
        // Who is told to stop must still bring this to its end.
        let never = Cancel::new();
        let stopped = stop_all(services, units, STOP_MAX, &never).or_else(|_| {
            services.kill(units);
            stop_all(services, units, KILL_MAX, &never)
        });
        if let Err(error) = stopped {
            job.warn(&error.to_string());
        }
    }

    /// Makes the machine what the live generation says, and starts it: the target, and with `all` each
    /// unit, as those that a target wants do not come back with it while it is up.
    pub(crate) fn settle(
        &self,
        machine: &Machine,
        all: bool,
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
        let mut start = if all { live.running.startable() } else { Vec::new() };
        start.push(self.distribution.target());
        services.start(&start).map_err(HostError::Services)?;
        if self.switching.wait {
            let never = Cancel::new();
            let failed = wait_until_idle(&**services, &start, START_MAX, &never);
            for failed in failed.map_err(HostError::Services)? {
                job.warn(&failed);
            }
        }
        Ok(())
    }

    fn unschedule(&self, machine: &Machine, to: u64) {
        if let Some(services) = &machine.services {
            services.unschedule(&self.trial_timer(to));
        }
    }

    /// Where nobody runs services, somebody must.
    pub(crate) fn tell_what_to_start(&self, live: &Generation, job: &Job<'_>) {
        let units = live.running.startable();
        let units: Vec<&str> = units.iter().map(String::as_str).collect();
        if !units.is_empty() && self.machine.as_ref().is_some_and(Machine::is_real) {
            job.observer.event(&Event::StartByHand { units: &units });
        }
    }
}
