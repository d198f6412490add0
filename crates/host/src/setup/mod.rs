//! `setup`: what boot runs. It puts right what was interrupted, does what an installer left to do,
//! and moves the host to the roles that it has now.

mod error;
pub mod flags;
pub mod late;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use camino::Utf8Path;
use package::{PackageId, durable};

use crate::generation;
use crate::host::{Host, HostError, HostLock, Job};
use crate::plan::{Plan, Wanted};
use crate::store::{Repository, StoreError, Trust};
use late::LateConfig;

pub use error::SetupError;

/// How many packages are fetched at a time.
const FETCHES: usize = 4;

impl Host {
    /// Makes the host what it should be. Safe to repeat, at any time, after anything.
    ///
    /// `working_directory` is where a repository that is a relative path starts.
    pub fn setup(
        &self,
        working_directory: &Utf8Path,
        job: &Job<'_>,
    ) -> Result<Option<Plan>, SetupError> {
        let lock = self.lock(job)?;
        if self.paths.bootstrap_marker().exists() {
            let plan = self.bootstrap(working_directory, &lock, job)?;
            fs_err::remove_file(self.paths.bootstrap_marker())?;
            durable::sync_directory(&self.paths.root)?;
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
        Ok(Some(self.activate_locked(&wanted, &lock, job)?))
    }

    /// The first setup of an install root that came as an archive.
    fn bootstrap(
        &self,
        working_directory: &Utf8Path,
        lock: &HostLock,
        job: &Job<'_>,
    ) -> Result<Plan, SetupError> {
        let removed = self.paths.config.join("setup-packages");
        if removed.exists() {
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
            ids.insert(self.add_late(remote()?, &config, job)?);
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
        let missing: Vec<PackageId> =
            ids.iter().filter(|id| !self.store.contains(id)).cloned().collect();
        if !missing.is_empty() {
            self.fetch_all(remote()?, &missing, &Trust::default(), job)?;
        }
        Ok(self.activate_locked(&Wanted::Packages(ids), lock, job)?)
    }

    /// Gets packages, several at a time; the first failure lets the others that began end.
    pub fn fetch_all(
        &self,
        repository: &Repository,
        ids: &[PackageId],
        trust: &Trust,
        job: &Job<'_>,
    ) -> Result<(), StoreError> {
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<StoreError>> = Mutex::default();
        let work = || {
            while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) =
                    self.store.fetch(repository, id, trust, job.cancel, job.observer)
                {
                    next.store(ids.len(), Ordering::Relaxed);
                    failed.lock().expect("nothing panics while it holds this").get_or_insert(error);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..FETCHES.min(ids.len()) {
                scope.spawn(work);
            }
            work();
        });
        failed.into_inner().expect("nothing panics while it holds this").map_or(Ok(()), Err)
    }

    /// Makes the package whose values are known only on this host.
    fn add_late(
        &self,
        repository: &Repository,
        config: &LateConfig,
        job: &Job<'_>,
    ) -> Result<PackageId, SetupError> {
        let id = &config.late_bound_package_id;
        let path = format!("packages/{}/{id}.dcos_config", id.name());
        let bytes = repository.text(&path, &self.store.scratch()?, job.cancel)?;
        let files = late::bind(&bytes, config)
            .map_err(|source| SetupError::Late { path: path.into(), source })?;
        let staging = self.store.stage()?;
        let folder = staging.path().join(id.to_string());
        late::write(&folder, &files)?;
        self.store.adopt_at(&folder, id, job.cancel)?;
        if self.store.contains(id) {
            let (made, known) = (self.store.digest_at(&folder, id)?, self.store.digest(id)?);
            if made == known {
                return Ok(id.clone());
            }
            let used = self.generations()?.iter().any(|found| found.packages.contains_key(id));
            if used {
                return Err(SetupError::LateChanged(id.clone()));
            }
            self.store.remove(id)?;
        }
        self.store.publish(id, &folder)?;
        Ok(id.clone())
    }
}
