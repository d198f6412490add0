//! Takes the installation away: everything in the receipt, then the install root.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use package::id::UnitName;
use package::lock::Lock;
use package::{Cancel, PackageId, durable};

use crate::derived::{self, remove_file, set};
use crate::event::Event;
use crate::generation::{self, is_template};
use crate::host::{Host, HostError, Job};
use crate::machine::{Machine, State, stop_all};
use crate::paths;
use crate::platform;
use crate::platform::tree::{Folder, Kind};
use crate::receipt::{Receipt, Removing};
use crate::step::Steps;
use crate::store;
use crate::trial::Trial;
use crate::wire::Removal;

/// What became of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Uninstalled {
    /// Whether there was one.
    pub was_there: bool,
    /// State and users that were kept.
    pub kept: Vec<String>,
    /// Folders that the installation made and that others use by now.
    pub in_use: Vec<Utf8PathBuf>,
}

impl Host {
    /// Removes everything that the installation made. State and the users who own it stay unless
    /// `purge` is asked for. After an interruption it can be called again.
    pub fn uninstall(&self, purge: bool, job: &Job<'_>) -> Result<Uninstalled, HostError> {
        for path in [&self.paths.root, &self.paths.repository, &self.paths.config] {
            if path.components().count() < 2 {
                let problem = format!("`{path}` is not a folder that can be removed");
                return Err(io::Error::other(problem).into());
            }
        }
        if !durable::is_folder(&self.paths.root)? {
            Steps::of(self).forget("*")?;
            return Ok(Uninstalled::default());
        }
        let wait =
            || job.observer.event(&Event::Waiting { what: "somebody else who changes this host" });
        let _lock = Lock::take(&self.paths.lock(), job.cancel, &wait)?;
        let mut receipt = Receipt::read(&self.paths)?;
        let is_purge = purge || receipt.removing == Some(Removing::Purge);
        let removing = if is_purge { Removing::Purge } else { Removing::KeepState };
        receipt.update(&self.paths, |receipt| receipt.removing = Some(removing))?;
        let mut problems = Vec::new();
        if let Some(machine) = &self.machine {
            self.remove_services(machine, &receipt, job)?;
            for (setting, before) in &receipt.sysctl {
                if before.boot == platform::boot_id() {
                    set(machine, setting, &before.value, job);
                }
            }
            if is_purge {
                problems = remove_state(machine, &receipt);
            }
        }
        if !problems.is_empty() {
            // Boot comes again, and so may people: all that is needed for that is still there.
            return Err(HostError::Unremoved(problems));
        }
        // All but the one that does this, which must tell how it ended.
        Steps::of(self).forget("*")?;
        self.remove_root(receipt, is_purge)
    }

    /// What [`Host::uninstall`] would take away. Changes nothing, and waits for nobody.
    pub fn plan_uninstall(&self, purge: bool) -> Result<Removal, HostError> {
        let receipt = Receipt::read(&self.paths)?;
        let is_outside = !self.paths.repository.starts_with(&self.paths.root);
        let mut packages: BTreeSet<PackageId> = self.store.list()?.into_iter().collect();
        if is_outside && !purge {
            packages.retain(|id| fs_err::exists(self.paths.sealed(id)).unwrap_or_default());
        }
        let mut disk_bytes = size(&self.paths.root)?;
        for id in packages.iter().filter(|_| is_outside) {
            disk_bytes += size(&self.store.path(id))?;
        }
        let mut stops = Vec::new();
        if let Some((machine, services)) = self.machine.as_ref().zip(self.services()) {
            let states = services.states(&self.units_of_all(machine)?);
            let states = states.map_err(HostError::Services)?.into_iter();
            let runs = |state| matches!(state, State::Up | State::Starting);
            stops = states.filter(|(_, unit)| runs(unit.state)).map(|(name, _)| name).collect();
        }
        Ok(Removal {
            live: generation::live(&self.paths)?,
            generations: self.generations()?.into_iter().map(|found| found.number).collect(),
            packages,
            stops,
            disk_bytes,
            state: state(&receipt),
            purge: purge || receipt.removing == Some(Removing::Purge),
        })
    }

    /// Where the target of this installation is, or would be.
    pub fn target_file(&self) -> Utf8PathBuf {
        let units = self.machine.as_ref().map_or(&self.paths.root, |machine| &machine.units);
        units.join(self.distribution.target())
    }

    /// Stops everything and removes what was made outside, but not what boot needs to come again.
    fn remove_services(
        &self,
        machine: &Machine,
        receipt: &Receipt,
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        let mut units = self.units_of_all(machine)?;
        units.push(self.distribution.target());
        if let Some(services) = &machine.services {
            if let Ok(Some(trial)) = Trial::read(&self.paths) {
                services.unschedule(&self.trial_timer(trial.to));
            }
            self.force_down(&**services, &units, job);
        }
        let boot = self.boot_files(machine);
        for path in receipt.files.iter().rev().filter(|path| !boot.contains(path)) {
            remove_file(path)?;
        }
        let folders = receipt.files.iter().filter_map(|path| path.parent());
        for folder in folders.collect::<BTreeSet<_>>() {
            remove_file(&folder.join(derived::ASIDE))?;
        }
        if let Some(services) = &machine.services {
            services.reload().map_err(HostError::Services)?;
            services.forget(&units);
        }
        Ok(())
    }

    /// Units of every generation, and of whatever was made for them.
    fn units_of_all(&self, machine: &Machine) -> Result<Vec<String>, HostError> {
        let wants = machine.units.join(self.distribution.units_folder());
        let mut units = store::entries(&wants)?;
        for generation in self.generations()? {
            units.extend(generation.running.startable());
        }
        units.retain(|unit| unit.parse::<UnitName>().is_ok() && !is_template(unit));
        units.sort();
        units.dedup();
        Ok(units)
    }

    /// The unit that boot starts, and the link that makes it do so.
    fn boot_files(&self, machine: &Machine) -> [Utf8PathBuf; 2] {
        let setup = derived::setup_unit(&self.distribution);
        let link = machine.units.join("multi-user.target.wants").join(&setup);
        [link, machine.units.join(setup)]
    }

    /// Nothing comes back after this.
    fn remove_boot(&self, receipt: &Receipt) -> Result<(), HostError> {
        let Some(machine) = &self.machine else {
            return Ok(());
        };
        let setup = [derived::setup_unit(&self.distribution)];
        if let Some(services) = &machine.services {
            // It ended long ago, and is only remembered; if it is what runs this, it ends soon.
            drop(stop_all(&**services, &setup, Duration::from_secs(10), &Cancel::new()));
        }
        for path in self.boot_files(machine).iter().filter(|path| receipt.files.contains(*path)) {
            remove_file(path)?;
        }
        if let Some(services) = &machine.services {
            services.reload().map_err(HostError::Services)?;
            services.forget(&setup);
        }
        Ok(())
    }

    fn remove_root(&self, mut receipt: Receipt, is_purge: bool) -> Result<Uninstalled, HostError> {
        let mut removed = Uninstalled { was_there: true, ..Uninstalled::default() };
        let has_state = !receipt.state.is_empty() || !receipt.users.is_empty();
        let keeps = !is_purge && has_state;
        if !self.paths.repository.starts_with(&self.paths.root) {
            for id in self.store.list()? {
                // No secret outlives the installation.
                if is_purge || fs_err::exists(self.paths.sealed(&id))? {
                    self.store.remove(&id)?;
                }
            }
        }
        for role in &receipt.roles {
            remove_file(&self.paths.roles().join(role.as_str()))?;
        }
        let tool = self.paths.tool().parent().map(Utf8Path::to_owned).unwrap_or_default();
        let [receipt_path, lock_path] = [self.paths.receipt(), self.paths.lock()];
        let names = store::entries(&self.paths.root)?;
        let paths = names.into_iter().map(|name| self.paths.root.join(name));
        for path in paths.filter(|path| ![&receipt_path, &lock_path, &tool].contains(&path)) {
            store::remove_any(&path)?;
        }
        self.remove_boot(&receipt)?;
        durable::remove_tree(&tool)?;
        let is_root = |folder: &Utf8Path| self.paths.root.starts_with(folder);
        for folder in receipt.folders.iter().rev().filter(|folder| !is_root(folder)) {
            removed.in_use.extend(remove_folder(folder)?);
        }
        if keeps {
            removed.kept = state(&receipt);
            // Whoever installs again, or purges later, must know that these are ours.
            let in_use = removed.in_use.clone();
            receipt.update(&self.paths, |receipt| {
                receipt.files.clear();
                receipt.roles.clear();
                receipt.sysctl.clear();
                receipt.folders.retain(|folder| is_root(folder) || in_use.contains(folder));
                receipt.removing = None;
            })?;
            return Ok(removed);
        }
        // Without a receipt the root is still ours: so whoever was interrupted here can come again.
        receipt.folders.insert(self.paths.root.clone());
        remove_file(&lock_path)?;
        remove_file(&receipt_path)?;
        for folder in receipt.folders.iter().rev().filter(|folder| is_root(folder)) {
            removed.in_use.extend(remove_folder(folder)?);
        }
        Ok(removed)
    }
}

/// State and users that are on a receipt, for people.
fn state(receipt: &Receipt) -> Vec<String> {
    let users = receipt.users.iter().map(|user| format!("user {user}"));
    receipt.state.iter().map(ToString::to_string).chain(users).collect()
}

/// The bytes of all files in a folder, which may not be there.
fn size(folder: &Utf8Path) -> io::Result<u64> {
    match Folder::open(folder) {
        Ok(folder) => size_of(&folder),
        Err(error) if paths::is_absence(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

fn size_of(folder: &Folder) -> io::Result<u64> {
    let mut bytes = 0;
    for name in folder.names()? {
        match folder.look(&name)? {
            Some(seen) if seen.kind == Kind::Folder => bytes += size_of(&folder.inner(&name)?)?,
            Some(seen) if seen.kind == Kind::File => bytes += seen.size,
            _ => {}
        }
    }
    Ok(bytes)
}

/// Removes state and users; what cannot be removed keeps nothing else from being so.
fn remove_state(machine: &Machine, receipt: &Receipt) -> Vec<String> {
    let mut problems = Vec::new();
    for folder in &receipt.state {
        if let Err(error) = durable::remove_tree(folder) {
            problems.push(error.to_string());
        }
    }
    for user in &receipt.users {
        if let Some(accounts) = &machine.accounts
            && let Err(error) = accounts.remove(user)
        {
            problems.push(format!("user `{user}`: {error}"));
        }
    }
    problems
}

/// Removes a folder that is empty; one that is not is returned.
fn remove_folder(path: &Utf8Path) -> io::Result<Option<Utf8PathBuf>> {
    match fs_err::remove_dir(path) {
        Ok(()) => Ok(None),
        Err(error) if paths::is_absence(&error) => Ok(None),
        Err(error) => match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::ResourceBusy => {
                Ok(Some(path.to_owned()))
            }
            _ => Err(error),
        },
    }
}
