//! Whether what is installed may become what is published, and whether it is well enough to.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::offer::Glance;
use super::{Install, InstallError};
use crate::check;
use crate::host::{Host, HostError, Job};
use crate::paths::is_absence;

/// The longest that a host is asked again whether it is well.
const PATIENCE_MAX: Duration = Duration::from_secs(10);
/// The time between two questions.
const PAUSE: Duration = Duration::from_millis(500);

/// The part of `etc/NAME-version.json` that counts.
#[derive(Deserialize)]
struct Version {
    version: String,
}

impl Host {
    /// The version that is live, as the metadata of its bundle, or of the reference's, says it.
    pub fn installed_version(&self) -> io::Result<Option<String>> {
        let path = self.paths.root.join(format!("etc/{}-version.json", self.distribution.name));
        match fs_err::read(&path) {
            Ok(bytes) => {
                let version: Version = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
                Ok(Some(version.version))
            }
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Refuses what the distribution does not allow, and what was not asked for.
    pub(super) fn check_version(
        &self,
        glance: &Glance,
        request: &Install,
    ) -> Result<(), InstallError> {
        let (new, upgrade) = (glance.distribution(), request.upgrade.as_ref());
        if let Some(expected) = request.bundle
            && expected != glance.latest.bundle
        {
            let (version, found) = (new.version.clone(), glance.latest.bundle);
            return Err(InstallError::OtherTarget { version, found, expected });
        }
        let installed = self.installed_version()?;
        let Some(installed) = installed.filter(|installed| *installed != new.version) else {
            return Ok(());
        };
        // Who takes what is older knows that it does not follow what is there.
        if !new.upgrades_from(&installed) && !request.allow_older {
            let allowed = new.upgrade_from.clone().unwrap_or_default();
            return Err(InstallError::NoWay { installed, new: new.version.clone(), allowed });
        }
        match upgrade.and_then(|upgrade| upgrade.from_version.as_ref()) {
            Some(expected) if *expected != installed => {
                let (expected, new) = (expected.clone(), new.version.clone());
                Err(InstallError::OtherVersion { installed, expected, new })
            }
            _ => Ok(()),
        }
    }

    /// Whether something is installed, by this program or by the reference's.
    pub(super) fn has_live(&self) -> Result<bool, InstallError> {
        let live = crate::generation::live(&self.paths).map_err(HostError::from)?;
        Ok(live.is_some() || self.installed_version()?.is_some())
    }

    /// Runs the checks of what is live: what is ill is not upgraded. One that fails is asked again for a
    /// moment, within the time that it would have on trial: a neighbour may just be switching.
    pub(super) fn check_health(&self, job: &Job<'_>) -> Result<(), InstallError> {
        let failed = self.ailments(PATIENCE_MAX, job)?;
        if failed.is_empty() { Ok(()) } else { Err(InstallError::Ill(failed)) }
    }

    /// The checks of what is live that fail, and go on failing for as long as that is waited for.
    pub(super) fn ailments(
        &self,
        patience: Duration,
        job: &Job<'_>,
    ) -> Result<Vec<String>, InstallError> {
        let checks = self.checks()?;
        let environment =
            if checks.is_empty() { BTreeMap::new() } else { self.check_environment()? };
        let mut failed = Vec::new();
        let begun = Instant::now();
        for checked in &checks {
            let run = || check::run(checked, &environment, job.cancel).map_err(HostError::from);
            let mut ended = run()?;
            while !ended.verdict.passed() && begun.elapsed() < checked.within.min(patience) {
                std::thread::sleep(PAUSE);
                ended = run()?;
            }
            if !ended.verdict.passed() {
                failed.push(format!("{} of {}: {}", checked.name, checked.package, ended.verdict));
            }
        }
        Ok(failed)
    }
}
