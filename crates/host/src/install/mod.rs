//! `install`: from what somebody published to a generation that is live.
//!
//! First everything small is read and verified, and nothing of the host is changed; then packages come,
//! each verified; then the roles and what this host trusts are written, and the set goes live as any
//! other does.

mod ahead;
mod error;
mod offer;
mod trust;
mod upgrade;

use std::collections::BTreeSet;

use package::Sha256;
use package::bundle::Latest;
use package::id::RoleName;
use package::lock::Lock;
use package::secret::RoleKey;
use package::sign::PublicKey;

use crate::event::Event;
use crate::host::{Host, HostError, HostLock, Job};
use crate::plan::{Plan, Wanted};
use crate::preflight::{Facts, Finding, Level, Report};
use crate::roles;
use crate::store::Repository;
use offer::{Glance, Offer};

pub use ahead::Ahead;
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
    /// The bundle that must be the published one.
    pub bundle: Option<Sha256>,
    /// Takes a publication that is older than one that was live, or another one of the same number.
    pub allow_older: bool,
    /// Takes a publication that has expired.
    pub allow_expired: bool,
    /// The machine to look at before anything of it is changed; `None`: nobody looks.
    pub preflight: Option<Facts>,
    /// What must hold before, if this is an upgrade.
    pub upgrade: Option<Upgrade>,
}

/// What an upgrade asks for, besides what every installation does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Upgrade {
    /// The version that must be installed, unless the new one is.
    pub from_version: Option<String>,
    /// Upgrades also what fails its checks.
    pub skip_checks: bool,
}

/// What somebody agreed to.
#[derive(Clone, Copy)]
pub(crate) struct Planned<'a> {
    /// What is done to make it live, and to what ([`Ahead::switch`]).
    pub(crate) switch: Sha256,
    /// Is called when that is still so, before anything is changed.
    pub(crate) agreed: &'a dyn Fn() -> std::io::Result<()>,
}

/// What is on the host, and not live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// What was published.
    pub latest: Latest,
    /// What this host shall be.
    pub roles: BTreeSet<RoleName>,
    /// The version of the distribution.
    pub version: String,
    /// What was found before anything was changed.
    pub preflight: Option<Report>,
}

/// Everything but the switch.
struct Prepared {
    offer: Offer,
    pinned: Option<Pinned>,
    preflight: Option<Report>,
    lock: HostLock,
    /// Keeps the sweeper away from what is not live yet.
    in_use: Lock,
}

/// What was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// What was published.
    pub latest: Latest,
    /// What this host is.
    pub roles: BTreeSet<RoleName>,
    /// The version of the distribution.
    pub version: String,
    /// What was found before anything was changed.
    pub preflight: Option<Report>,
    /// What was done to make it live; empty: it was live already.
    pub plan: Plan,
}

impl Host {
    /// Gets, verifies and unpacks what the latest publication has for this host, and makes none of it
    /// live: who installs it later need not wait for anything but the switch. Safe to repeat.
    pub fn stage(&self, request: &Install, job: &Job<'_>) -> Result<Staged, InstallError> {
        let Prepared { offer, preflight, .. } = self.prepare(request, job)?;
        let version = offer.glance.distribution().version.clone();
        let Glance { latest, roles, .. } = offer.glance;
        Ok(Staged { latest, roles, version, preflight })
    }

    /// Makes live what the latest publication has for this host. Safe to repeat.
    pub fn install(&self, request: &Install, job: &Job<'_>) -> Result<Installed, InstallError> {
        self.install_planned(request, None, job)
    }

    /// The same if what is done is still what somebody agreed to.
    pub(crate) fn install_planned(
        &self,
        request: &Install,
        planned: Option<Planned<'_>>,
        job: &Job<'_>,
    ) -> Result<Installed, InstallError> {
        let Prepared { offer, pinned, preflight, lock, in_use } = self.prepare(request, job)?;
        if let Some(planned) = planned {
            let (plan, _) = self.foresee(&offer, request, job)?;
            let switch = plan.map(|plan| ahead::switch_of(&plan, &offer.glance.latest.bundle));
            if switch != Some(planned.switch) {
                return Err(InstallError::OtherPlan);
            }
            (planned.agreed)().map_err(HostError::from)?;
        }
        let plan = self.go_live(&offer, pinned.as_ref(), &lock, job)?;
        drop(in_use);
        if let Some(machine) = &self.machine {
            self.take_tool(machine, job);
        }
        let version = offer.glance.distribution().version.clone();
        let Glance { latest, roles, .. } = offer.glance;
        Ok(Installed { latest, roles, version, preflight, plan })
    }

    /// Does everything but the switch.
    fn prepare(&self, request: &Install, job: &Job<'_>) -> Result<Prepared, InstallError> {
        if request.upgrade.is_some() && !self.has_live()? {
            return Err(InstallError::NotInstalled);
        }
        let mut offer = self.offer(request, Pinned::read(&self.paths)?.as_ref(), job)?;
        self.check_version(&offer.glance, request)?;
        let preflight = self.look_before(&offer, request, job)?;
        let lock = self.lock(job)?;
        // Somebody else may have installed in the meantime.
        let pinned = Pinned::read(&self.paths)?;
        self.trusted_key(request, pinned.as_ref())?;
        self.believe(&offer.glance.latest, request, pinned.as_ref(), job)?;
        // Or what was interrupted was undone, and with it the roles.
        if self.roles_for(request)? != offer.glance.roles {
            offer = self.offer(request, pinned.as_ref(), job)?;
        }
        self.check_version(&offer.glance, request)?;
        if request.upgrade.as_ref().is_some_and(|upgrade| !upgrade.skip_checks) {
            self.check_health(job)?;
        }
        let in_use = self.store.in_use(job.cancel, job.observer)?;
        let (packages, bytes) = self.lacks(&offer)?;
        job.observer.event(&Event::Lacking { packages: packages.len(), bytes });
        let Install { repository, .. } = request;
        self.store.fetch_each(repository, &offer.archives, job.cancel, job.observer)?;
        if let Some((template, config)) = &offer.late {
            self.add_late(template, config, job)?;
        }
        self.keep_keys(&offer.secrets)?;
        for opened in &offer.secrets {
            self.add_secrets(opened, job)?;
        }
        Ok(Prepared { offer, pinned, preflight, lock, in_use })
    }

    /// Lets nobody install on a machine that cannot be what it shall become.
    fn look_before(
        &self,
        offer: &Offer,
        request: &Install,
        job: &Job<'_>,
    ) -> Result<Option<Report>, InstallError> {
        let Some(facts) = &request.preflight else { return Ok(None) };
        let report =
            self.look(&offer.glance.subject(request), facts, job).map_err(HostError::from)?;
        if !report.is_good() {
            return Err(InstallError::Preflight(Box::new(report)));
        }
        for Finding { name, found, .. } in
            report.findings.iter().filter(|finding| finding.level == Level::Warning)
        {
            job.warn(&format!("preflight: {name}: {found}"));
        }
        Ok(Some(report))
    }

    /// Makes the set live for its roles; if it does not stay so, the roles and the trust are what they
    /// were.
    fn go_live(
        &self,
        offer: &Offer,
        pinned: Option<&Pinned>,
        lock: &HostLock,
        job: &Job<'_>,
    ) -> Result<Plan, InstallError> {
        let before = roles::read(&self.paths.roles())?;
        let Glance { key, latest, roles, .. } = &offer.glance;
        let Latest { sequence, bundle, .. } = latest;
        let unseen = if job.reason.is_empty() { "" } else { ", " };
        let reason = format!("publication {sequence}, bundle {bundle}{unseen}{}", job.reason);
        let job = Job { reason, ..job.clone() };
        let trusted = Pinned::after(pinned, key, latest);
        let is_new = pinned != Some(&trusted);
        let activate = || {
            // Killed at any moment, what is live is never newer than what was seen.
            if is_new {
                Pinned::write(Some(&trusted), &self.paths)?;
            }
            self.write_roles(roles)?;
            self.activate_locked(&Wanted::Packages(offer.ids.clone()), lock, &job)
        };
        let activated = activate().map_err(InstallError::from);
        // What failed its first trial has nothing to go back to.
        let is_live = activated.is_ok()
            || self.live().is_ok_and(|live| {
                live.roles == *roles && live.packages.keys().eq(offer.ids.iter())
            });
        let mut settled = vec![];
        if !is_live {
            settled.push(self.write_roles(&before));
            if is_new {
                settled.push(Pinned::write(pinned, &self.paths).map_err(HostError::from));
            }
        } else if activated.is_ok() {
            settled.push(self.forget_keys().map_err(HostError::from));
        }
        for error in settled.into_iter().filter_map(Result::err) {
            // What is live is live; the next install does the rest.
            job.warn(&package::causes(&error).join(": "));
        }
        activated
    }
}
