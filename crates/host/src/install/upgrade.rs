//! Whether what is installed may become what is published, and whether it is well enough to.

use std::collections::BTreeMap;
use std::io;

use package::distribution::Distribution;
use serde::Deserialize;

use super::{InstallError, Upgrade};
use crate::check;
use crate::host::{Host, HostError, Job};
use crate::paths::is_absence;

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
        new: &Distribution,
        upgrade: Option<&Upgrade>,
    ) -> Result<(), InstallError> {
        let installed = self.installed_version()?;
        if upgrade.is_some() && installed.is_none() && !self.has_live()? {
            return Err(InstallError::NotInstalled);
        }
        let Some(installed) = installed.filter(|installed| *installed != new.version) else {
            return Ok(());
        };
        if !new.upgrades_from(&installed) {
            let (allowed, new) = (new.upgrade_from.clone(), new.version.clone());
            return Err(InstallError::NoWay { installed, new, allowed });
        }
        match upgrade.and_then(|upgrade| upgrade.from_version.as_ref()) {
            Some(expected) if *expected != installed => {
                let (expected, new) = (expected.clone(), new.version.clone());
                Err(InstallError::OtherVersion { installed, expected, new })
            }
            _ => Ok(()),
        }
    }

    fn has_live(&self) -> Result<bool, InstallError> {
        Ok(crate::generation::live(&self.paths).map_err(HostError::from)?.is_some())
    }

    /// Runs the checks of what is live: what is ill is not upgraded.
    pub(super) fn check_health(&self, job: &Job<'_>) -> Result<(), InstallError> {
        let checks = self.checks()?;
        let environment =
            if checks.is_empty() { BTreeMap::new() } else { self.check_environment()? };
        let mut failed = Vec::new();
        for checked in &checks {
            let ended = check::run(checked, &environment, job.cancel).map_err(HostError::from)?;
            if !ended.verdict.passed() {
                failed.push(format!("{} of {}: {}", checked.name, checked.package, ended.verdict));
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(InstallError::Ill(failed)) }
    }
}
