//! The cache of sources, shared by all trees, threads and processes of a machine.
//!
//! ```text
//! sha256/ab/HEX   files by digest           git/HEX    mirrors by the digest of their URL
//! sha1/ab/HEX     files of old trees        crate/HEX  lock files of crates that are complete
//! locks/NAME      one for each item         work/       where clients work
//! ```

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::Cancel;
use package::durable::{self, Staging};
use package::lock::{Lock, LockError};

use super::context::SourceContext;
use super::error::{Action, SourceError, SourceFault};
use super::spec::SourceSpec;
use super::{cargo, deb, git, npm, pypi, url};
use crate::cache::{LOCK, sweep_each};
use crate::platform;

/// The lock that everybody shares who has an item.
const IN_USE: &str = "in-use";

/// The cache of sources below one folder.
#[derive(Debug, Clone)]
pub struct SourceCache {
    pub(super) root: Utf8PathBuf,
}

impl SourceCache {
    /// The cache below `root`, which need not exist.
    pub fn new(root: Utf8PathBuf) -> Self {
        Self { root }
    }

    /// Brings everything that a checkout needs into the cache. What is there already is not looked
    /// for anywhere else.
    pub fn fetch(&self, spec: &SourceSpec, context: &SourceContext<'_>) -> Result<(), SourceError> {
        let result = match spec {
            SourceSpec::Git { url, commit, ref_origin } => {
                git::fetch(self, url, commit, ref_origin, context)
            }
            SourceSpec::GitLocal { rel_path } => git::local_commit(rel_path, context).map(|_| ()),
            SourceSpec::Url { url, checksum } | SourceSpec::UrlExtract { url, checksum } => {
                url::fetch(self, url, *checksum, context)
            }
            SourceSpec::Crate(package) => cargo::fetch(self, package, context),
            SourceSpec::Pypi(package) => pypi::fetch(self, package, context),
            SourceSpec::Npm(package) => npm::fetch(self, package, context),
            SourceSpec::Deb { package, architecture } => {
                deb::fetch(self, package, architecture.as_ref(), context)
            }
        };
        result.map_err(|fault| SourceError::new(Action::Fetch, spec, fault))
    }

    /// Lays the source out as the new folder `target`, from the cache alone. On failure nothing is
    /// left there.
    pub fn checkout(
        &self,
        spec: &SourceSpec,
        context: &SourceContext<'_>,
        target: &Utf8Path,
    ) -> Result<(), SourceError> {
        let result = match fs_err::symlink_metadata(target) {
            Ok(_) => Err(SourceFault::TargetExists(target.to_owned())),
            Err(_) => self.checkout_new(spec, context, target),
        };
        result.map_err(|fault| SourceError::new(Action::CheckOut, spec, fault))
    }

    /// Fetches the source and lays it out as the folder `target`, unless it is there. One caller does
    /// it, others wait.
    pub(crate) fn checkout_once(
        &self,
        spec: &SourceSpec,
        context: &SourceContext<'_>,
        target: &Utf8Path,
    ) -> Result<(), SourceError> {
        if target.exists() {
            return Ok(());
        }
        let lock = target.with_file_name(LOCK);
        let _lock = wait_for(Lock::take(&lock, context.cancel, &|| {}))
            .map_err(|fault| SourceError::new(Action::CheckOut, spec, fault))?;
        if target.exists() {
            return Ok(());
        }
        self.fetch(spec, context)?;
        self.checkout(spec, context, target)
    }

    fn checkout_new(
        &self,
        spec: &SourceSpec,
        context: &SourceContext<'_>,
        target: &Utf8Path,
    ) -> Result<(), SourceFault> {
        match spec {
            SourceSpec::Git { url, commit, .. } => {
                git::checkout(self, url, commit, context, target)
            }
            SourceSpec::GitLocal { rel_path } => git::checkout_local(rel_path, context, target),
            SourceSpec::Url { url, checksum } => {
                url::checkout(self, url, *checksum, context, target)
            }
            SourceSpec::UrlExtract { url, checksum } => {
                url::checkout_extracted(self, url, *checksum, context, target)
            }
            SourceSpec::Crate(package) => cargo::checkout(self, package, context, target),
            SourceSpec::Pypi(package) => pypi::checkout(self, package, context, target),
            SourceSpec::Npm(package) => npm::checkout(self, package, context, target),
            SourceSpec::Deb { package, .. } => deb::checkout(self, package, context, target),
        }
    }

    /// A new folder for a client to work in, closed to others: `cargo` and `npm` read their
    /// configuration from every folder above, so none of them may be open to everybody.
    pub(super) fn work_folder(&self) -> io::Result<Staging> {
        let parent = self.root.join("work");
        fs_err::create_dir_all(&parent)?;
        platform::set_mode(&parent, 0o700)?;
        Staging::within(&parent)
    }

    /// Waits until nobody else has the item, and keeps it until the result is dropped. Whatever is
    /// written into the cache is written by somebody who has an item.
    pub(super) fn lock(&self, item: &str, cancel: &Cancel) -> Result<Held, SourceFault> {
        let locks = self.root.join("locks");
        Ok(Held {
            _cache: wait_for(Lock::share(&locks.join(IN_USE), cancel, &|| {}))?,
            _item: wait_for(Lock::take(&locks.join(item), cancel, &|| {}))?,
        })
    }

    /// Removes what fetches that were killed left half done, unless somebody is fetching.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let lock = self.root.join("locks").join(IN_USE);
        // Without the lock nobody ever fetched anything.
        if !lock.exists() {
            return Ok(());
        }
        let Some(_alone) = Lock::try_take(&lock)? else {
            return Ok(());
        };
        for name in ["work", "git", "crate"] {
            durable::sweep(&self.root.join(name))?;
        }
        sweep_each(&self.root.join("sha256"))?;
        sweep_each(&self.root.join("sha1"))
    }
}

/// An item of the cache, and with it the cache itself, which nobody sweeps meanwhile.
#[derive(Debug)]
pub(super) struct Held {
    _cache: Lock,
    _item: Lock,
}

fn wait_for(lock: Result<Lock, LockError>) -> Result<Lock, SourceFault> {
    lock.map_err(|error| match error {
        LockError::Io(error) => error.into(),
        LockError::Cancelled(cancelled) => cancelled.into(),
    })
}
