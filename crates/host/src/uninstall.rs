//! Takes the installation away: everything in the receipt, then the install root.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::durable;
use package::lock::Lock;

use crate::derived::{self, set};
use crate::event::Event;
use crate::generation::{self, Generation};
use crate::host::{Host, HostError, Job};
use crate::machine::Machine;
use crate::paths;
use crate::platform;
use crate::receipt::{Receipt, Removing};
use crate::store;

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
        if !store::is_folder(&self.paths.root)? {
            return Ok(Uninstalled::default());
        }
        let wait =
            || job.observer.event(&Event::Waiting { what: "somebody else who changes this host" });
        let _lock = Lock::take(&self.paths.lock(), job.cancel, &wait)?;
        let mut receipt = Receipt::read(&self.paths)?;
        let is_purge = purge || receipt.removing == Some(Removing::Purge);
        let removing = if is_purge { Removing::Purge } else { Removing::KeepState };
        receipt.update(&self.paths, |receipt| receipt.removing = Some(removing))?;
        if let Some(machine) = &self.machine {
            self.remove_services(machine, &receipt)?;
            for (setting, before) in &receipt.sysctl {
                if before.boot == platform::boot_id() {
                    set(machine, setting, &before.value, job);
                }
            }
            if is_purge {
                remove_state(machine, &receipt)?;
            }
        }
        self.remove_root(receipt, is_purge)
    }

    /// Where the target of this installation is, or would be.
    pub fn target_file(&self) -> Utf8PathBuf {
        let units = self.machine.as_ref().map_or(&self.paths.root, |machine| &machine.units);
        units.join(self.distribution.target())
    }

    /// Stops everything and removes the units; what boot starts goes first, so that nothing comes
    /// back.
    fn remove_services(&self, machine: &Machine, receipt: &Receipt) -> Result<(), HostError> {
        let setup = derived::setup_unit(&self.distribution);
        let wants = machine.units.join(self.distribution.units_folder());
        let mut units = store::entries(&wants)?;
        if let Some(live) = generation::live(&self.paths)? {
            let live = Generation::read(&self.paths, live);
            units.extend(live.into_iter().flat_map(|live| live.running.units.into_keys()));
        }
        units.sort();
        units.dedup();
        units.push(self.distribution.target());
        if let Some(services) = &machine.services {
            services.unschedule(&self.trial_timer());
            services.stop(&units).map_err(HostError::Services)?;
            services.stop(std::slice::from_ref(&setup)).map_err(HostError::Services)?;
        }
        let boot = machine.units.join("multi-user.target.wants").join(&setup);
        let is_boot = |path: &&Utf8PathBuf| **path == boot;
        let first = receipt.files.iter().filter(is_boot);
        for path in first.chain(receipt.files.iter().rev().filter(|path| !is_boot(path))) {
            remove_file(path)?;
        }
        if let Some(services) = &machine.services {
            services.reload().map_err(HostError::Services)?;
            units.push(setup);
            services.forget(&units);
        }
        Ok(())
    }

    fn remove_root(&self, mut receipt: Receipt, is_purge: bool) -> Result<Uninstalled, HostError> {
        let mut removed = Uninstalled { was_there: true, ..Uninstalled::default() };
        let has_state = !receipt.state.is_empty() || !receipt.users.is_empty();
        let keeps = !is_purge && has_state;
        if is_purge && !self.paths.repository.starts_with(&self.paths.root) {
            for id in self.store.list()? {
                self.store.remove(&id)?;
            }
        }
        let [receipt_path, lock_path] = [self.paths.receipt(), self.paths.lock()];
        // The program that boot uses goes last, as it may be this one.
        for name in store::entries(&self.paths.root)? {
            let path = self.paths.root.join(name);
            if path != receipt_path && path != lock_path {
                store::remove_any(&path)?;
            }
        }
        let is_root = |folder: &Utf8Path| self.paths.root.starts_with(folder);
        for folder in receipt.folders.iter().rev().filter(|folder| !is_root(folder)) {
            removed.in_use.extend(remove_folder(folder)?);
        }
        if keeps {
            removed.kept.extend(receipt.state.iter().map(ToString::to_string));
            removed.kept.extend(receipt.users.iter().map(|user| format!("user {user}")));
            // Whoever installs again, or purges later, must know that these are ours.
            let in_use = removed.in_use.clone();
            receipt.update(&self.paths, |receipt| {
                receipt.files.clear();
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

fn remove_state(machine: &Machine, receipt: &Receipt) -> Result<(), HostError> {
    for folder in &receipt.state {
        durable::remove_tree(folder)?;
    }
    for user in &receipt.users {
        if let Some(accounts) = &machine.accounts {
            accounts.remove(user)?;
        }
    }
    Ok(())
}

fn remove_file(path: &Utf8Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if paths::is_absence(&error) => Ok(()),
        removed => removed,
    }
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
