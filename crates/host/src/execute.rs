//! Does what a plan says, under the lock, and decides nothing.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::durable;

use crate::derived::{Change, ReconcileError};
use crate::event::Event;
use crate::generation::{self, Generation, GenerationError, Layout};
use crate::history::{Entry, What};
use crate::host::{Host, HostLock, Job};
use crate::machine::{Services, stop_all};
use crate::observe::ObserveError;
use crate::paths;
use crate::plan::{Base, Plan, Step};
use crate::roles;
use crate::trial::{Returns, Trial};
use crate::{platform, store};

/// Why a plan was not executed. The live generation is the one that was live before.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ExecuteError {
    #[error("this host changed since the plan was made ({0}); make a new plan")]
    Stale(&'static str),
    #[error("the plan changes `{}`, which is not its business", .0.escape_debug())]
    Name(String),
    #[error(transparent)]
    Observe(#[from] ObserveError),
    #[error("cannot write generation {number}; nothing changed")]
    Build { number: u64, source: io::Error },
    #[error("cannot make generation {to} live; nothing changed")]
    Switch { to: u64, source: io::Error },
    #[error("cannot prepare the install root; nothing changed")]
    Prepare(#[source] io::Error),
    #[error("cannot write the history; nothing changed")]
    History(#[source] io::Error),
    #[error("cannot write down what is tried; nothing changed")]
    Try(#[source] io::Error),
    #[error("cannot stop the units that change; nothing changed")]
    Stop(#[source] io::Error),
    #[error("the service manager cannot read the new units")]
    Reload(#[source] io::Error),
    #[error("cannot start the units that changed")]
    Start(#[source] io::Error),
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
    #[error("generation {generation} is live, but this machine is not what it asks for")]
    Unsettled { generation: u64, source: Box<ExecuteError> },
    #[error(transparent)]
    Cancelled(#[from] package::Cancelled),
}

impl Host {
    /// Does what the plan says, if the host is still the one that it was made for.
    pub fn execute(
        &self,
        plan: &Plan,
        _lock: &HostLock,
        job: &Job<'_>,
    ) -> Result<(), ExecuteError> {
        self.check_base(&plan.base)?;
        self.check_steps(plan)?;
        if plan.is_empty() {
            return Ok(());
        }
        job.cancel.check()?;
        if let Some(machine) = &self.machine {
            // Boot must be able to end whatever is begun here.
            self.ensure_tool(machine).map_err(ExecuteError::Prepare)?;
        }
        let switch = plan.switches_to().map(|to| (plan.base.live, to));
        if let Some((from, to)) = switch {
            let what = What::Begun { from, to, reason: job.reason.clone() };
            let entry = Entry::new(job.clock.now(), job.by.clone(), what);
            self.history().append(&entry).map_err(ExecuteError::History)?;
        }
        let mut is_live = false;
        for step in &plan.steps {
            let done = self.step(step, job);
            if let Err(error) = done {
                if let (true, Some((_, generation)), Step::Derive { .. } | Step::Start { .. }) =
                    (is_live, switch, step)
                {
                    return Err(ExecuteError::Unsettled { generation, source: Box::new(error) });
                }
                if is_live {
                    // It is made and durable; what is left is done by the next one who comes.
                    job.warn(&package::causes(&error).join(": "));
                    continue;
                }
                self.give_up(plan, &error, job);
                return Err(error);
            }
            if let Step::Switch { from, to } = *step {
                is_live = true;
                self.note(What::Switched { from, to }, job);
                job.observer.event(&Event::Live { generation: to });
            }
        }
        Ok(())
    }

    fn step(&self, step: &Step, job: &Job<'_>) -> Result<(), ExecuteError> {
        match step {
            Step::Link { name } => self.fixed_link(name).map_err(ExecuteError::Prepare),
            Step::Replace { name } => self.replace(name, job).map_err(ExecuteError::Prepare),
            Step::Build(layout) => {
                let number = layout.generation.number;
                let (generation, links) = (number, layout.links.len());
                job.observer.event(&Event::Building { generation, links });
                let syncing = || job.observer.event(&Event::Syncing);
                generation::write(&self.paths, layout, syncing)
                    .map_err(|source| ExecuteError::Build { number, source })?;
                self.label_generation(&layout.generation, job);
                // From here on it is the switch or nothing.
                Ok(job.cancel.check()?)
            }
            Step::Try { from, to, returns, .. } => {
                self.begin_trial(*from, *to, *returns, job).map_err(ExecuteError::Try)
            }
            Step::Stop { units } => {
                job.observer.event(&Event::Stopping { units });
                self.services()
                    .map_or(Ok(()), |services| {
                        stop_all(services, units, self.switching.limit, job.cancel)
                    })
                    .map_err(ExecuteError::Stop)
            }
            Step::Derive { changes } => self.derive(changes, job),
            Step::Start { units, kept } => {
                if !units.is_empty() {
                    job.observer.event(&Event::Starting { units });
                }
                self.start(units, kept).map_err(ExecuteError::Start)
            }
            Step::Switch { from, to } => generation::switch(&self.paths, *from, *to)
                .map_err(|source| ExecuteError::Switch { to: *to, source }),
        }
    }

    /// Writes down that a switch begins, and sees to it that it ends whatever happens to us.
    fn begin_trial(
        &self,
        from: Option<u64>,
        to: u64,
        returns: Returns,
        job: &Job<'_>,
    ) -> io::Result<()> {
        let (limit, Some(machine)) = (self.switching.limit, &self.machine) else {
            return Ok(());
        };
        let deadline = job.clock.now() + limit;
        Trial::new(from, to, deadline, returns).write(&self.paths)?;
        match &machine.services {
            Some(services) if from.is_some() => {
                services.schedule(&self.trial_timer(to), limit, &self.boot_command(machine))
            }
            _ => Ok(()),
        }
    }

    fn derive(&self, changes: &[Change], job: &Job<'_>) -> Result<(), ExecuteError> {
        let Some(machine) = &self.machine else {
            return Ok(());
        };
        self.apply(machine, changes, job)?;
        let reloaded = self.services().map_or(Ok(()), Services::reload);
        reloaded.map_err(ExecuteError::Reload)
    }

    fn start(&self, units: &[String], kept: &[String]) -> io::Result<()> {
        let Some(services) = self.services() else {
            return Ok(());
        };
        if let Some(trial) = Trial::read(&self.paths)? {
            trial.started().write(&self.paths)?;
        }
        // What another one took down with it comes back.
        let states = services.states(kept)?;
        let down = states.into_iter().filter(|(_, unit)| unit.is_down()).map(|(name, _)| name);
        services.start(&units.iter().cloned().chain(down).collect::<Vec<_>>())
    }

    fn check_base(&self, base: &Base) -> Result<(), ExecuteError> {
        let live = generation::live(&self.paths).map_err(ObserveError::from)?;
        if live != base.live {
            return Err(ExecuteError::Stale("another generation is live"));
        }
        if self.highest().map_err(ObserveError::from)? != base.highest {
            return Err(ExecuteError::Stale("a generation was added or removed"));
        }
        if roles::read(&self.paths.roles()).map_err(ObserveError::from)? != base.roles {
            return Err(ExecuteError::Stale("its roles are others"));
        }
        if self.digests(&base.packages.keys().cloned().collect())? != base.packages {
            return Err(ExecuteError::Stale("a package was removed or changed"));
        }
        Ok(())
    }

    /// Makes sure that only the fixed names are changed, and that the generation that shall be live
    /// is there, or is made first.
    fn check_steps(&self, plan: &Plan) -> Result<(), ExecuteError> {
        let fixed = paths::fixed_names(&self.distribution);
        for step in &plan.steps {
            if let Step::Link { name } | Step::Replace { name } = step
                && !fixed.contains(name)
            {
                return Err(ExecuteError::Name(name.clone()));
            }
        }
        if let Some(path) = plan.layout().and_then(Layout::misplaced) {
            return Err(ExecuteError::Name(path.to_string()));
        }
        let Some(to) = plan.switches_to() else {
            return Ok(());
        };
        if plan.layout().is_some_and(|layout| layout.generation.number == to) {
            return Ok(());
        }
        match Generation::read(&self.paths, to) {
            Ok(_) => Ok(()),
            Err(GenerationError::NotFound(_) | GenerationError::Incomplete { .. }) => {
                Err(ExecuteError::Stale("the generation was removed"))
            }
            Err(error) => Err(ObserveError::from(error).into()),
        }
    }

    /// Leaves nothing of a plan that failed, and says why it did.
    fn give_up(&self, plan: &Plan, error: &ExecuteError, job: &Job<'_>) {
        if let Some(layout) = plan.layout()
            && package::durable::is_folder(&self.paths.generation(layout.generation.number))
                .unwrap_or(true)
            && let Err(error) = generation::discard(&self.paths, layout.generation.number)
        {
            // The next one who comes cleans up.
            job.warn(&format!("while giving up: {error}"));
        }
        if let Err(error) = self.start_again(plan) {
            job.warn(&format!("while starting what was stopped: {error}"));
        }
        if let Some(to) = plan.switches_to() {
            let reason = package::causes(error).join(": ");
            self.note(What::Abandoned { to, reason }, job);
        }
    }

    /// Starts what was stopped for a switch that was not made.
    fn start_again(&self, plan: &Plan) -> io::Result<()> {
        let (Some(services), true) = (self.services(), Trial::read(&self.paths)?.is_some()) else {
            return Ok(());
        };
        let (mut stopped, kept) = (plan.restarts().0.to_vec(), plan.left_alone().0);
        stopped.extend(kept.iter().cloned());
        services.start(&stopped)?;
        services.unschedule(&self.trial_timer(plan.switches_to().unwrap_or_default()));
        Trial::forget(&self.paths)
    }

    /// Makes the link `NAME -> current/NAME`.
    pub(crate) fn fixed_link(&self, name: &str) -> io::Result<()> {
        platform::symlink(&paths::fixed_target(name), &self.paths.root.join(name))?;
        durable::sync_directory(&self.paths.root)
    }

    /// Puts the link `NAME -> current/NAME` where something else is, in one step where the file
    /// system can do that. What the reference made is removed; what somebody put there is kept, from
    /// the first moment under a name that nothing cleans up.
    pub(crate) fn replace(&self, name: &str, job: &Job<'_>) -> io::Result<()> {
        let root: &Utf8Path = &self.paths.root;
        let place = root.join(name);
        let is_made = self.is_made(name, &place)?;
        let aside = if is_made {
            root.join(format!("{}{name}", durable::TEMPORARY))
        } else {
            self.name_to_keep(name)?
        };
        platform::symlink(&paths::fixed_target(name), &aside)?;
        if !durable::exchange(&aside, &place)? {
            fs_err::remove_file(&aside)?;
            fs_err::rename(&place, &aside)?;
            platform::symlink(&paths::fixed_target(name), &place)?;
        }
        durable::sync_directory(root)?;
        if is_made {
            return store::remove_any(&aside);
        }
        let message = format!("`{place}` was not only what a program made; it is now `{aside}`");
        job.warn(&message);
        Ok(())
    }

    /// A path for what stands at `name` and is not ours.
    pub(crate) fn name_to_keep(&self, name: &str) -> io::Result<Utf8PathBuf> {
        let mut number = 1;
        loop {
            let ending = if number == 1 { String::new() } else { format!("-{number}") };
            let path = self.paths.root.join(format!("{name}.replaced{ending}"));
            match fs_err::read_link(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
                // Left by somebody who was interrupted before anything was kept there.
                Ok(target) if target == paths::fixed_target(name) => {
                    fs_err::remove_file(&path)?;
                    return Ok(path);
                }
                _ => number += 1,
            }
        }
    }

    /// Whether everything at `path` can be made again: folders, links, and files that activation
    /// writes.
    fn is_made(&self, name: &str, path: &Utf8Path) -> io::Result<bool> {
        let found = fs_err::symlink_metadata(path)?;
        if found.is_dir() {
            for entry in store::entries(path)? {
                if !self.is_made(&format!("{name}/{entry}"), &path.join(&entry))? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let units = format!("{}/", self.distribution.units_folder());
        let is_written = !name.contains('/')
            || name == self.distribution.service_configuration().as_str()
            || name.starts_with(&units);
        Ok(found.is_symlink() || is_written)
    }
}
