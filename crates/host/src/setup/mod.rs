//! `setup`: what boot runs. It puts right what was interrupted, does what an installer left to do,
//! and moves the host to the roles that it has now.

mod error;
pub mod flags;
pub mod late;
pub mod make;
pub(crate) mod sealed;

use std::collections::BTreeSet;

use camino::Utf8Path;
use package::bundle::late_path;
use package::{PackageId, durable};

use crate::generation;
use crate::host::{Host, HostError, HostLock, Job};
use crate::plan::{Plan, Wanted};
use crate::store::{self, Repository, Trust};
use late::{Inputs, LateConfig};

pub use error::SetupError;
pub use sealed::SealedError;

impl Host {
    /// Makes the host what it should be. Safe to repeat, at any time, after anything.
    ///
    /// `working_directory` is where a repository that is a relative path starts.
    pub fn setup(
        &self,
        working_directory: &Utf8Path,
        job: &Job<'_>,
    ) -> Result<Option<Plan>, SetupError> {
        let lock = match self.lock(job) {
            // The machine stopped in the midst of it.
            Err(HostError::Removing) => {
                self.uninstall(false, job)?;
                return Ok(None);
            }
            lock => lock?,
        };
        if fs_err::exists(self.paths.bootstrap_marker())? {
            let plan = self.bootstrap(working_directory, &lock, job)?;
            store::remove_any(&self.paths.bootstrap_marker())?;
            durable::sync_directory(&self.paths.root)?;
            self.settle_setup(job)?;
            return Ok(Some(plan));
        }
        let live = generation::live(&self.paths).map_err(HostError::from)?;
        let wanted = match live {
            Some(live) => Wanted::Generation(live),
            None => match self.active() {
                Ok(ids) => Wanted::Packages(ids),
                Err(HostError::NotBootstrapped(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        };
        let plan = self.activate_locked(&wanted, &lock, job)?;
        self.settle_setup(job)?;
        Ok(Some(plan))
    }

    /// Boot starts nothing but setup: the rest is made right first, then started.
    fn settle_setup(&self, job: &Job<'_>) -> Result<(), HostError> {
        match &self.machine {
            Some(machine) => self.settle(machine, false, job),
            None => Ok(()),
        }
    }

    /// The first setup of an install root that came as an archive.
    fn bootstrap(
        &self,
        working_directory: &Utf8Path,
        lock: &HostLock,
        job: &Job<'_>,
    ) -> Result<Plan, SetupError> {
        let _in_use = self.store.in_use(job.cancel, job.observer)?;
        let removed = self.paths.config.join("setup-packages");
        if fs_err::exists(&removed)? {
            return Err(SetupError::SetupPackages(removed));
        }
        let repository = match flags::read_text(&self.paths.setup_flag("repository-url"))? {
            Some(url) => Some(Repository::parse(&url, working_directory)?),
            None => None,
        };
        let remote = || {
            let flag = self.paths.setup_flag("repository-url");
            repository.as_ref().ok_or(SetupError::NoRepository(flag))
        };
        let mut ids = BTreeSet::new();
        let late = self.paths.setup_flag("late-config.yaml");
        if let Some(bytes) = flags::read(&late)? {
            let config = LateConfig::parse(&bytes)
                .map_err(|source| SetupError::Late { path: late.clone(), source })?;
            let path = late_path(&config.late_bound_package_id);
            let template = remote()?.text(&path, &self.store.scratch()?, job.cancel)?;
            ids.insert(self.add_late(&template, &config, job)?);
        }
        let active = self.paths.setup_flag("active.json");
        if let Some(bytes) = flags::read(&active)? {
            let listed = flags::parse_ids(&bytes)
                .map_err(|source| SetupError::Ids { place: active.into_string(), source })?;
            ids.extend(listed);
        } else {
            // A list that adds to what is active; a root with nothing active has only the list.
            match self.active() {
                Ok(active) => ids.extend(active),
                Err(HostError::NotBootstrapped(_)) => {}
                Err(error) => return Err(error.into()),
            }
            let flag = self.paths.setup_flag("cluster-package-list");
            if let Some(list) = flags::read_text(&flag)? {
                let list = flags::parse_list_id(&list)
                    .map_err(|source| SetupError::ListId { path: flag, source })?;
                let path = format!("package_lists/{list}.package_list.json");
                let bytes = remote()?.text(&path, &self.store.scratch()?, job.cancel)?;
                let listed = flags::parse_ids(&bytes)
                    .map_err(|source| SetupError::Ids { place: path, source })?;
                ids.extend(listed);
            }
        }
        let mut missing = Vec::new();
        for id in &ids {
            if !self.store.contains(id)? {
                missing.push(id.clone());
            }
        }
        if !missing.is_empty() {
            let trust = Trust::default();
            self.store.fetch_all(remote()?, &missing, &trust, job.cancel, job.observer)?;
        }
        Ok(self.activate_locked(&Wanted::Packages(ids), lock, job)?)
    }

    /// Makes the package whose values are known only on this host.
    pub(crate) fn add_late(
        &self,
        template: &[u8],
        config: &LateConfig,
        job: &Job<'_>,
    ) -> Result<PackageId, SetupError> {
        let id = &config.late_bound_package_id;
        let unusable = |source| SetupError::Late { path: late_path(id).into(), source };
        let files = late::bind(template, config).map_err(unusable)?;
        let inputs = Inputs::new(template, config).map_err(unusable)?;
        let _locks = self.store.work_on(id, job.cancel, job.observer)?;
        let (staging, made) = self.make_aside(id, &files)?;
        if self.store.contains(id)? {
            if made.digest == self.store.digest(id)? {
                self.record_inputs(&inputs)?;
                return Ok(id.clone());
            }
            let used = self.generations()?.iter().any(|found| found.packages.contains_key(id));
            if used {
                return Err(SetupError::LateChanged(id.clone()));
            }
            self.store.remove(id)?;
        }
        // First: there is no package of which nobody knows what it was made of.
        self.record_inputs(&inputs)?;
        self.store.publish(id, &staging)?;
        Ok(id.clone())
    }
}
