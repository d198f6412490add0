//! What an installation would do, worked out from what the publisher says of packages that are not
//! here: the same plan as the one that is executed later, and nothing of the host is changed.

use std::collections::BTreeSet;
use std::time::Duration;

use package::bundle::Latest;
use package::id::RoleName;
use package::{PackageId, Sha256};
use serde_json::json;

use super::offer::Offer;
use super::{Install, InstallError, Pinned};
use crate::host::{Host, HostError, Job};
use crate::plan::{Plan, PlanError, Wanted};
use crate::preflight::Report;

/// What an installation would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// What is published.
    pub latest: Latest,
    /// What the host would be.
    pub roles: BTreeSet<RoleName>,
    /// The version of the distribution.
    pub version: String,
    /// What would be done to make it live; `None`: nothing says what some package is, or what another
    /// program installed must be taken over first.
    pub plan: Option<Plan>,
    /// All packages that would be live.
    pub ids: BTreeSet<PackageId>,
    /// Packages that must be fetched.
    pub fetched: BTreeSet<PackageId>,
    /// The bytes of their archives.
    pub fetch_bytes: u64,
    /// Bytes on the disk that it takes at the most, until archives are gone again.
    pub disk_bytes: u64,
    /// Packages of which the publisher does not say what they are.
    pub unknown: BTreeSet<PackageId>,
    /// What was found on the machine, if somebody looked.
    pub preflight: Option<Report>,
    /// The checks of what is live that fail, if they must not.
    pub ailments: Vec<String>,
}

impl Host {
    /// Says what [`Host::install`] would do. Changes nothing, and takes no lock.
    pub fn plan_install(&self, request: &Install, job: &Job<'_>) -> Result<Ahead, InstallError> {
        if request.upgrade.is_some() && !self.has_live()? {
            return Err(InstallError::NotInstalled);
        }
        let offer = self.offer(request, Pinned::read(&self.paths)?.as_ref(), job)?;
        self.check_version(&offer.glance, request)?;
        let look = |facts| self.look(&offer.glance.subject(request), facts, job);
        let preflight = request.preflight.as_ref().map(look).transpose();
        let preflight = preflight.map_err(HostError::from)?;
        let ailments = match &request.upgrade {
            Some(upgrade) if !upgrade.skip_checks => self.ailments(Duration::ZERO, job)?,
            _ => Vec::new(),
        };
        let (plan, unknown) = self.foresee(&offer, request, job)?;
        let (fetched, fetch_bytes) = self.lacks(&offer)?;
        let needs = offer.glance.needs;
        Ok(Ahead {
            version: offer.glance.distribution().version.clone(),
            latest: offer.glance.latest,
            roles: offer.glance.roles,
            plan,
            ids: offer.ids,
            fetched,
            fetch_bytes,
            disk_bytes: needs.packages_bytes.saturating_add(needs.downloads_bytes),
            unknown,
            preflight,
            ailments,
        })
    }

    /// What will be done to make an offer live, and the packages of which nobody says what they are: if there are
    /// any, the rest is not known.
    pub(super) fn foresee(
        &self,
        offer: &Offer,
        request: &Install,
        job: &Job<'_>,
    ) -> Result<(Option<Plan>, BTreeSet<PackageId>), InstallError> {
        let (told, unknown) = self.told(offer, request, job)?;
        if !unknown.is_empty() {
            return Ok((None, unknown));
        }
        let wanted = Wanted::Packages(offer.ids.clone());
        let observed = self.observe_with(&wanted, job.clock.now(), Some(&told))?;
        match self.plan_observed(&observed, &wanted) {
            Err(HostError::Plan(PlanError::TakeOver)) => Ok((None, unknown)),
            plan => Ok((Some(plan?), unknown)),
        }
    }
}

impl Ahead {
    /// Of what is done to make it live, if that is known.
    pub fn switch(&self) -> Option<Sha256> {
        self.plan.as_ref().map(|plan| switch_of(plan, &self.latest.bundle))
    }
}

/// Of what a plan does to make a bundle live, and to what.
pub(super) fn switch_of(plan: &Plan, bundle: &Sha256) -> Sha256 {
    let (stops, starts) = plan.restarts();
    let document = json!({
        "bundle": bundle,
        "base": plan.base,
        "added": plan.changes.added,
        "removed": plan.changes.removed,
        "stops": stops,
        "starts": starts,
    });
    Sha256::of(package::json::pretty(&document).as_bytes())
}
