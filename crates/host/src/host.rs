//! One installation on this machine, and everything that can be done to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use package::distribution::Distribution;
use package::lock::{Lock, LockError};
use package::{Cancel, Cancelled, PackageId, durable};

use crate::derived::{ReconcileError, missing};
use crate::event::{Event, Observer};
use crate::execute::ExecuteError;
use crate::generation::{self, Generation, GenerationError, Layout};
use crate::history::{By, Entry, History, What};
use crate::machine::{Machine, Services, State};
use crate::observe::{ObserveError, Observed};
use crate::paths::Paths;
use crate::plan::{self, MachineObserved, Plan, PlanError, Wanted};
use crate::platform;
use crate::receipt::{Receipt, ReceiptError};
use crate::roles;
use crate::store::{Store, StoreError};

/// One installation.
#[derive(Debug, Clone)]
pub struct Host {
    pub(crate) distribution: Distribution,
    /// Whether it lies where its distribution does.
    pub(crate) is_at_home: bool,
    /// Where everything lies.
    pub paths: Paths,
    /// Its packages.
    pub store: Store,
    /// What it derives outside the generations; `None`: nothing.
    pub machine: Option<Machine>,
    /// How it switches.
    pub switching: Switching,
}

/// How a host switches between generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switching {
    /// Goes back over state that the old packages cannot read.
    pub force: bool,
    /// Waits for services to start, and tries the new generation.
    pub wait: bool,
    /// How long a trial may take.
    pub limit: Duration,
}

impl Default for Switching {
    fn default() -> Self {
        Self { force: false, wait: true, limit: Duration::from_mins(10) }
    }
}

/// Tells the time.
pub trait Clock: Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The time of the machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Who changes a host, why, and whom to tell.
#[derive(Clone)]
pub struct Job<'a> {
    /// Who.
    pub by: By,
    /// Why, for the history.
    pub reason: String,
    /// Tells the time.
    pub clock: &'a dyn Clock,
    /// Stops the work, up to the commit point.
    pub cancel: &'a Cancel,
    /// Hears what happens.
    pub observer: &'a dyn Observer,
}

impl Job<'_> {
    /// Tells something that stops nothing.
    pub(crate) fn warn(&self, message: &str) {
        self.observer.event(&Event::Warning { message });
    }
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("by", &self.by)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

/// Held by the one who changes the host.
#[derive(Debug)]
pub struct HostLock {
    _lock: Lock,
}

/// Why a host was not changed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum HostError {
    #[error("nothing is active in `{0}`: it was not bootstrapped")]
    NotBootstrapped(Utf8PathBuf),
    #[error(
        "`{0}` was left broken by a deploy of another program: there is no `active`, but `{1}`"
    )]
    BrokenDeploy(Utf8PathBuf, String),
    #[error("no active package is called `{}`", .0.name())]
    NotActive(PackageId),
    #[error("there is no generation to go back to: generation {0} is the first")]
    First(u64),
    #[error("package `{id}` is active")]
    Active { id: PackageId },
    #[error("package `{id}` is used by generation {generation}")]
    Used { id: PackageId, generation: u64 },
    #[error("generation {generation} failed its trial, generation {live} is live again: {reason}")]
    Returned { generation: u64, live: u64, reason: String, log: Vec<String> },
    #[error(
        "generation {generation} is live and failed its trial, with none to go back to: {reason}"
    )]
    Failed { generation: u64, reason: String, log: Vec<String> },
    #[error("{}, expected generation {expected}", .live.map_or("nothing is live".to_owned(), |live| format!("generation {live} is live")))]
    OtherLive { live: Option<u64>, expected: u64 },
    #[error("this installation is being removed; finish that with `uninstall`")]
    Removing,
    #[error(
        "a switch was begun and not confirmed; it can be ended only with the services that it began with"
    )]
    NeedsServices,
    #[error("not everything could be removed; run it again when that is put right:\n{}", .0.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n"))]
    Unremoved(Vec<String>),
    #[error("this host is being changed again and again; audit it when that has ended")]
    Changing,
    #[error("the service manager did not do what was asked")]
    Services(#[source] io::Error),
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
    #[error(transparent)]
    Receipt(#[from] ReceiptError),
    #[error(transparent)]
    Observe(#[from] ObserveError),
    #[error(transparent)]
    Generation(#[from] GenerationError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot change the install root")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl From<LockError> for HostError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Io(error) => Self::Io(error),
            LockError::Cancelled(cancelled) => Self::Cancelled(cancelled),
        }
    }
}

/// What was removed because nothing used it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected {
    /// Generations.
    pub generations: Vec<u64>,
    /// Packages.
    pub packages: Vec<PackageId>,
}

impl Host {
    /// The installation of `distribution` at `paths`. The environment that services get names the
    /// install root of `paths`.
    pub fn new(distribution: Distribution, paths: Paths) -> Self {
        let is_at_home = distribution.install_root == paths.root;
        let distribution = Distribution { install_root: paths.root.clone(), ..distribution };
        let (store, switching) = (Store::new(paths.repository.clone()), Switching::default());
        Self { distribution, is_at_home, paths, store, machine: None, switching }
    }

    /// Who runs services here.
    pub(crate) fn services(&self) -> Option<&dyn Services> {
        self.machine.as_ref()?.services.as_deref()
    }

    /// The log of what was done.
    pub fn history(&self) -> History {
        History::new(self.paths.history())
    }

    /// Waits until nobody else changes the host, and puts right what was interrupted.
    pub fn lock(&self, job: &Job<'_>) -> Result<HostLock, HostError> {
        let wait =
            || job.observer.event(&Event::Waiting { what: "somebody else who changes this host" });
        let made = missing(&self.paths.root)?;
        platform::create_folders(&self.paths.root)?;
        let lock = HostLock { _lock: Lock::take(&self.paths.lock(), job.cancel, &wait)? };
        if self.machine.is_some() {
            let mut receipt = Receipt::read(&self.paths)?;
            receipt.update(&self.paths, |receipt| {
                receipt.folders.extend(made);
                // Whoever added packages first made it, without a word.
                receipt.folders.insert(self.paths.root.clone());
            })?;
            if receipt.removing.is_some() {
                return Err(HostError::Removing);
            }
        }
        self.recover(job)?;
        Ok(lock)
    }

    /// Removes what interrupted work left, and ends its story in the history.
    fn recover(&self, job: &Job<'_>) -> Result<(), HostError> {
        for folder in [&self.paths.root, &self.paths.generations()] {
            durable::sweep(folder)?;
        }
        self.store.sweep()?;
        if let Some((from, to)) = self.history().unfinished()? {
            let what = if generation::live(&self.paths)? == Some(to) {
                What::Switched { from, to }
            } else {
                What::Abandoned { to, reason: "it was interrupted".to_owned() }
            };
            self.note(what, job);
        }
        match &self.machine {
            Some(machine) => self.recover_trial(machine, job),
            None => Ok(()),
        }
    }

    /// Adds a line to the history about what is done already: on a full disk it must be possible to
    /// make room.
    pub(crate) fn note(&self, what: What, job: &Job<'_>) {
        let entry = Entry::new(job.clock.now(), job.by.clone(), what);
        if let Err(error) = self.history().append(&entry) {
            job.warn(&format!("the history could not be written: {error}"));
        }
    }

    /// Plans what makes `wanted` live.
    pub fn plan(&self, wanted: &Wanted, clock: &dyn Clock) -> Result<Plan, HostError> {
        let observed = self.observe(wanted, clock.now())?;
        self.plan_observed(&observed, wanted)
    }

    /// Plans what makes `wanted` live on a host of which this was observed.
    pub(crate) fn plan_observed(
        &self,
        observed: &Observed,
        wanted: &Wanted,
    ) -> Result<Plan, HostError> {
        let mut plan = plan::plan(self, observed, wanted)?;
        let Some(machine) = &self.machine else {
            return Ok(plan);
        };
        let from = observed.live.and_then(|live| observed.generations.get(&live));
        let made = plan.layout().map(|layout| (layout.generation.clone(), self.texts_of(layout)));
        let (to, texts) = match (made, plan.switches_to().or(observed.live)) {
            (Some(made), _) => made,
            (None, Some(number)) => {
                let to = observed.generations[&number].clone();
                let texts = self.unit_texts(&to)?;
                (to, texts)
            }
            (None, None) => return Ok(plan),
        };
        let found = self.observe_machine(machine, &to, &texts)?;
        plan::with_machine(self, &mut plan, wanted, (from, &to), found)?;
        Ok(plan)
    }

    /// The texts of the units of a generation that is not written yet.
    pub(crate) fn texts_of(&self, layout: &Layout) -> BTreeMap<String, String> {
        let folder = format!("{}/", self.distribution.units_folder());
        let files = layout.files.iter();
        let units = files.filter_map(|(path, text)| {
            Some((path.as_str().strip_prefix(&folder)?.to_owned(), text.clone()))
        });
        units.collect()
    }

    fn observe_machine(
        &self,
        machine: &Machine,
        to: &Generation,
        texts: &BTreeMap<String, String>,
    ) -> Result<MachineObserved, HostError> {
        let target = self.distribution.target();
        let mut units = to.running.startable();
        units.push(target.clone());
        let states = match &machine.services {
            Some(services) => services.states(&units).map_err(HostError::Services)?,
            None => BTreeMap::new(),
        };
        let with = |state: State| -> Vec<String> {
            let found =
                states.iter().filter(|(name, unit)| unit.state == state && **name != target);
            found.map(|(name, _)| name.clone()).collect()
        };
        Ok(MachineObserved {
            changes: self.differences(machine, to, texts)?,
            has_services: machine.services.is_some(),
            is_target_up: states.get(&target).is_some_and(|found| found.state == State::Up),
            running: with(State::Up),
            failing: with(State::Failed),
        })
    }

    /// Makes `wanted` live.
    pub fn activate(&self, wanted: &Wanted, job: &Job<'_>) -> Result<Plan, HostError> {
        self.activate_with(|_| Ok(wanted.clone()), job)
    }

    /// Makes live what `wanted` says when nobody else changes the host any more: what follows from
    /// what is live must be told under the lock.
    pub fn activate_with(
        &self,
        wanted: impl FnOnce(&Self) -> Result<Wanted, HostError>,
        job: &Job<'_>,
    ) -> Result<Plan, HostError> {
        let lock = self.lock(job)?;
        self.activate_locked(&wanted(self)?, &lock, job)
    }

    pub(crate) fn activate_locked(
        &self,
        wanted: &Wanted,
        lock: &HostLock,
        job: &Job<'_>,
    ) -> Result<Plan, HostError> {
        self.take_over(lock, job)?;
        let plan = self.plan(wanted, job.clock)?;
        if let Wanted::Packages(ids) = wanted {
            self.adopt(ids, job)?;
        }
        let concluded = match wanted {
            Wanted::Generation(to) if plan.base.live != Some(*to) => self.go_to(&plan, lock, job),
            _ => self.conclude(&plan, self.execute(&plan, lock, job), job),
        };
        concluded.map(|()| plan)
    }

    /// Makes a generation live that was so before, with the roles of then.
    fn go_to(&self, plan: &Plan, lock: &HostLock, job: &Job<'_>) -> Result<(), HostError> {
        let before = roles::read(&self.paths.roles()).map_err(ObserveError::from)?;
        let concluded = self
            .write_roles(&plan.base.roles)
            .and_then(|()| self.conclude(plan, self.execute(plan, lock, job), job));
        if concluded.is_err()
            && generation::live(&self.paths).is_ok_and(|live| live == plan.base.live)
            && let Err(error) = self.write_roles(&before)
        {
            job.warn(&package::causes(&error).join(": "));
        }
        concluded
    }

    /// Makes the first generation of what the reference had made active, so that there is something
    /// to go back to.
    fn take_over(&self, lock: &HostLock, job: &Job<'_>) -> Result<(), HostError> {
        let (None, Some(ids)) =
            (generation::live(&self.paths)?, self.foreign().map_err(ObserveError::from)?)
        else {
            return match self.active() {
                Err(error @ HostError::BrokenDeploy(..)) => Err(error),
                _ => Ok(()),
            };
        };
        let job = Job { reason: "what was active before".to_owned(), ..job.clone() };
        // It runs already: nothing is tried.
        let taking =
            Self { switching: Switching { wait: false, ..self.switching }, ..self.clone() };
        let plan = taking.plan(&Wanted::Packages(ids.clone()), job.clock)?;
        self.adopt(&ids, &job)?;
        Ok(taking.execute(&plan, lock, &job)?)
    }

    /// Makes manifests for those packages that another program unpacked without one.
    fn adopt(&self, ids: &BTreeSet<PackageId>, job: &Job<'_>) -> Result<(), HostError> {
        for id in ids {
            if let Err(StoreError::NoManifest(_)) = self.store.digest(id) {
                self.store.adopt(id, job.cancel)?;
            }
        }
        Ok(())
    }

    /// The packages that are active, in order.
    pub fn active(&self) -> Result<BTreeSet<PackageId>, HostError> {
        if let Some(live) = generation::live(&self.paths)? {
            return Ok(Generation::read(&self.paths, live)?.packages.into_keys().collect());
        }
        if let Some(foreign) = self.foreign().map_err(ObserveError::from)? {
            return Ok(foreign);
        }
        let root = self.paths.root.clone();
        for left in ["active.new", "active.old"] {
            if fs_err::exists(self.paths.root.join(left))? {
                return Err(HostError::BrokenDeploy(root, left.to_owned()));
            }
        }
        Err(HostError::NotBootstrapped(root))
    }

    /// The set in which `id` takes the place of the active package of its name.
    pub fn swapped(&self, id: &PackageId) -> Result<Wanted, HostError> {
        let mut ids = self.active()?;
        let before = ids.len();
        ids.retain(|active| active.name() != id.name());
        if ids.len() == before {
            return Err(HostError::NotActive(id.clone()));
        }
        ids.insert(id.clone());
        Ok(Wanted::Packages(ids))
    }

    /// The generation that was live when the live one was made.
    pub fn previous(&self) -> Result<u64, HostError> {
        let live = self.live()?;
        live.from.ok_or(HostError::First(live.number))
    }

    /// The live generation.
    pub fn live(&self) -> Result<Generation, HostError> {
        match generation::live(&self.paths)? {
            Some(live) => Ok(Generation::read(&self.paths, live)?),
            None => Err(HostError::NotBootstrapped(self.paths.root.clone())),
        }
    }

    /// All generations that are complete, the oldest first.
    pub fn generations(&self) -> Result<Vec<Generation>, HostError> {
        let mut generations = Vec::new();
        for number in generation::numbers(&self.paths)? {
            match Generation::read(&self.paths, number) {
                Ok(found) => generations.push(found),
                // Damaged, or just collected: it is only not there to go back to.
                Err(error) if error.is_of_one() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(generations)
    }

    /// Removes a package that nothing uses. With `give_up_generations` those that use it go too,
    /// but never the live one.
    pub fn remove(
        &self,
        id: &PackageId,
        give_up_generations: bool,
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        let _lock = self.lock(job)?;
        if !self.store.contains(id)? {
            return Err(StoreError::NotFound(id.clone()).into());
        }
        match self.active() {
            Ok(active) if active.contains(id) => {
                return Err(HostError::Active { id: id.clone() });
            }
            Ok(_) | Err(HostError::NotBootstrapped(_)) => {}
            Err(error) => return Err(error),
        }
        let users: Vec<u64> = self
            .generations()?
            .into_iter()
            .filter(|generation| generation.packages.contains_key(id))
            .map(|generation| generation.number)
            .collect();
        match users.first() {
            Some(generation) if !give_up_generations => {
                return Err(HostError::Used { id: id.clone(), generation: *generation });
            }
            _ => {}
        }
        for number in &users {
            generation::discard(&self.paths, *number)?;
        }
        self.store.remove(id)?;
        self.forget_inputs(id)?;
        if !users.is_empty() {
            self.note(What::Collected { generations: users, packages: vec![id.clone()] }, job);
        }
        Ok(())
    }

    /// Removes all generations but the newest `keep`, the live one and the one before it, and every
    /// package that none of those uses.
    pub fn collect(&self, keep: usize, job: &Job<'_>) -> Result<Collected, HostError> {
        let _lock = self.lock(job)?;
        let generations = self.generations()?;
        let live = generation::live(&self.paths)?;
        if let Some(live) = live {
            // What cannot be told to be unused is not removed.
            Generation::read(&self.paths, live)?;
        }
        let before = generations
            .iter()
            .find(|generation| Some(generation.number) == live)
            .and_then(|generation| generation.from);
        let mut kept: BTreeSet<u64> =
            generations.iter().rev().take(keep).map(|generation| generation.number).collect();
        kept.extend(live.into_iter().chain(before));
        kept.retain(|number| generations.iter().any(|found| found.number == *number));
        let mut used: BTreeSet<PackageId> = BTreeSet::new();
        if live.is_none() {
            used.extend(self.foreign().map_err(ObserveError::from)?.unwrap_or_default());
        }
        let mut collected = Collected::default();
        for generation in generations {
            if kept.contains(&generation.number) {
                used.extend(generation.packages.into_keys());
            }
        }
        for number in generation::numbers(&self.paths)? {
            if !kept.contains(&number) {
                job.cancel.check()?;
                generation::discard(&self.paths, number)?;
                collected.generations.push(number);
            }
        }
        for id in self.store.list()? {
            if !used.contains(&id) {
                job.cancel.check()?;
                self.store.remove(&id)?;
                self.forget_inputs(&id)?;
                collected.packages.push(id);
            }
        }
        self.store.forget_downloads()?;
        if collected != Collected::default() {
            let Collected { generations, packages } = collected.clone();
            self.note(What::Collected { generations, packages }, job);
        }
        Ok(collected)
    }
}
