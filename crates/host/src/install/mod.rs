//! `install`: from what somebody published to a generation that is live.
//!
//! First everything small is read and verified, and nothing of the host is changed; then packages come,
//! each verified; then the roles are written and the set goes live as any other does. What this host
//! trusts is written down when that is done.

mod error;
mod offer;
mod trust;

use std::collections::BTreeSet;

use package::bundle::Latest;
use package::durable;
use package::id::RoleName;
use package::secret::RoleKey;
use package::sign::PublicKey;

use crate::derived::{missing, remove_file};
use crate::host::{Host, HostLock, Job};
use crate::plan::{Plan, Wanted};
use crate::platform;
use crate::receipt::Receipt;
use crate::roles;
use crate::store::Repository;
use offer::Offer;

pub use error::InstallError;
pub use trust::Pinned;

/// What to install, and what makes it trusted.
#[derive(Debug, Clone)]
pub struct Install {
    /// Where it was published.
    pub repository: Repository,
    /// What this host shall be; none: what it is.
    pub roles: BTreeSet<RoleName>,
    /// The key of the publisher; needed the first time.
    pub key: Option<PublicKey>,
    /// Keys that open secrets, besides those that the host got before.
    pub role_keys: Vec<RoleKey>,
    /// Takes a publication that is older than one that was live, or another one of the same number.
    pub allow_older: bool,
    /// Takes a publication that has expired.
    pub allow_expired: bool,
}

/// What was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// What was published.
    pub latest: Latest,
    /// What this host is.
    pub roles: BTreeSet<RoleName>,
    /// What was done to make it live; empty: it was live already.
    pub plan: Plan,
}

impl Host {
    /// Makes live what the latest publication has for this host. Safe to repeat.
    pub fn install(&self, request: &Install, job: &Job<'_>) -> Result<Installed, InstallError> {
        let offer = self.offer(request, Pinned::read(&self.paths)?.as_ref(), job)?;
        let lock = self.lock(job)?;
        // Somebody else may have installed in the meantime.
        let pinned = Pinned::read(&self.paths)?;
        self.trusted_key(request, pinned.as_ref())?;
        self.believe(&offer.latest, request, pinned.as_ref(), job)?;
        let plan = {
            let _in_use = self.store.in_use(job.cancel, job.observer)?;
            let Install { repository, .. } = request;
            self.store.fetch_each(repository, &offer.archives, job.cancel, job.observer)?;
            if let Some((template, config)) = &offer.late {
                self.add_late(template, config, job)?;
            }
            self.keep_keys(&offer.secrets)?;
            for opened in &offer.secrets {
                self.add_secrets(opened, job)?;
            }
            self.go_live(&offer, pinned, &lock, job)?
        };
        Ok(Installed { latest: offer.latest, roles: offer.roles, plan })
    }

    /// Makes the set live for its roles; if it does not stay so, the roles are what they were.
    fn go_live(
        &self,
        offer: &Offer,
        pinned: Option<Pinned>,
        lock: &HostLock,
        job: &Job<'_>,
    ) -> Result<Plan, InstallError> {
        let before = roles::read(&self.paths.roles())?;
        let Latest { sequence, bundle, .. } = &offer.latest;
        let reason = format!("publication {sequence}, bundle {bundle}");
        let job = Job { reason, ..job.clone() };
        let activated = self.write_roles(&offer.roles).and_then(|()| {
            let wanted = Wanted::Packages(offer.ids.clone());
            Ok(self.activate_locked(&wanted, lock, &job)?)
        });
        // What failed its first trial has nothing to go back to.
        let is_live = activated.is_ok()
            || self.live().is_ok_and(|live| {
                live.roles == offer.roles && live.packages.keys().eq(offer.ids.iter())
            });
        let settled = if is_live {
            let trusted = Pinned::after(pinned, &offer.key, offer.latest.clone());
            trusted.write(&self.paths).map_err(InstallError::from)
        } else {
            self.write_roles(&before)
        };
        if let Err(error) = settled {
            // What is live is live; the next install does the rest.
            job.warn(&package::causes(&error).join(": "));
        }
        if activated.is_ok()
            && let Err(error) = self.forget_keys()
        {
            job.warn(&error.to_string());
        }
        activated
    }

    /// Makes these the roles of the machine; each is in the receipt while it is ours.
    fn write_roles(&self, wanted: &BTreeSet<RoleName>) -> Result<(), InstallError> {
        let folder = self.paths.roles();
        let found = roles::read(&folder)?;
        if found == *wanted {
            return Ok(());
        }
        let mut receipt = Receipt::read(&self.paths)?;
        let made = missing(&folder)?;
        receipt.update(&self.paths, |receipt| {
            receipt.folders.extend(made);
            receipt.roles.extend(wanted.difference(&found).cloned());
        })?;
        platform::create_folders(&folder)?;
        for role in wanted.difference(&found) {
            // An empty file is whole at once; one aside would be taken for a role.
            let path = folder.join(role.as_str());
            fs_err::File::create(&path)?.sync_all()?;
            platform::set_mode(&path, 0o644)?;
        }
        for role in found.difference(wanted) {
            remove_file(&folder.join(role.as_str()))?;
        }
        durable::sync_directory(&folder)?;
        receipt
            .update(&self.paths, |receipt| receipt.roles.retain(|role| wanted.contains(role)))?;
        Ok(())
    }
}
