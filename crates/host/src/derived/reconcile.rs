//! Makes the machine what the live generation says.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};

use camino::{Utf8Path, Utf8PathBuf};
use package::durable;
use package::id::UserName;

use super::found::setting_path;
use super::{Change, DeriveError, Derived, Found, possible, setup_unit};
use crate::generation::Generation;
use crate::host::{Host, Job};
use crate::machine::{Machine, NewUser};
use crate::paths::is_absence;
use crate::platform::{self, tree::Folder};
use crate::receipt::{Before, Receipt, ReceiptError};
use crate::store;

/// What grows beside the files that are written, one at a time.
pub(crate) const ASIDE: &str = ".tmp-monobloc";

/// Why the machine is not what the live generation says.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ReconcileError {
    #[error("this machine cannot be what the packages ask for:\n{}", .0.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n"))]
    Derive(Vec<DeriveError>),
    #[error(transparent)]
    Receipt(#[from] ReceiptError),
    #[error("cannot {what}")]
    Io { what: String, source: io::Error },
}

impl ReconcileError {
    fn of(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl Host {
    /// What differs between the machine and what `generation` asks of it.
    pub(crate) fn differences(
        &self,
        machine: &Machine,
        generation: &Generation,
        texts: &BTreeMap<String, String>,
    ) -> Result<Vec<Change>, ReconcileError> {
        match self.possible(machine, generation, texts)? {
            (changes, problems) if problems.is_empty() => Ok(changes),
            (_, problems) => Err(ReconcileError::Derive(problems)),
        }
    }

    /// The same, without what is in the way, which is told apart.
    pub(crate) fn possible(
        &self,
        machine: &Machine,
        generation: &Generation,
        texts: &BTreeMap<String, String>,
    ) -> Result<(Vec<Change>, Vec<DeriveError>), ReconcileError> {
        let receipt = Receipt::read(&self.paths)?;
        let derived = Derived::of(self, machine, generation, texts);
        let found = Found::look(&derived, &receipt, machine, &self.paths)
            .map_err(ReconcileError::of("look at the machine"))?;
        Ok(possible(&derived, &found, &receipt, &self.paths.manual_users()))
    }

    /// The texts of the unit files of a generation on disk.
    pub(crate) fn unit_texts(
        &self,
        generation: &Generation,
    ) -> io::Result<BTreeMap<String, String>> {
        let folder =
            self.paths.generation(generation.number).join(self.distribution.units_folder());
        let mut texts = BTreeMap::new();
        for name in generation.running.units.keys() {
            texts.insert(name.clone(), fs_err::read_to_string(folder.join(name))?);
        }
        Ok(texts)
    }

    /// Makes the machine what `generation`, which is on disk, asks for.
    pub(crate) fn reconcile(
        &self,
        machine: &Machine,
        generation: &Generation,
        job: &Job<'_>,
    ) -> Result<(), ReconcileError> {
        let texts = self
            .unit_texts(generation)
            .map_err(ReconcileError::of("read the units of the live generation"))?;
        let changes = self.differences(machine, generation, &texts)?;
        self.apply(machine, &changes, job)
    }

    /// Gives what `generation` is made of the labels that the machine wants there, before units start.
    pub(crate) fn label_generation(&self, generation: &Generation, job: &Job<'_>) {
        let Some(machine) = &self.machine else { return };
        let mut paths = vec![self.paths.generation(generation.number), self.paths.tool()];
        paths.extend(generation.packages.keys().map(|id| self.store.path(id)));
        self.label(machine, &paths, job);
    }

    fn label(&self, machine: &Machine, paths: &[Utf8PathBuf], job: &Job<'_>) {
        let Some(labels) = &machine.labels else { return };
        if paths.is_empty() {
            return;
        }
        if let Err(error) = labels.restore(paths) {
            // A permissive machine runs it all the same; the log of another one says what it refused.
            job.warn(&format!("files have no SELinux labels of their own: {error}"));
        }
    }

    /// Does what `changes` say, after it is in the receipt.
    pub(crate) fn apply(
        &self,
        machine: &Machine,
        changes: &[Change],
        job: &Job<'_>,
    ) -> Result<(), ReconcileError> {
        let mut receipt = Receipt::read(&self.paths)?;
        self.announce(machine, changes, &mut receipt)
            .map_err(ReconcileError::of("write the receipt"))?;
        let (mut folders, mut written) = (BTreeSet::new(), Vec::new());
        for change in changes {
            if let Change::File { path, .. } = change {
                written.push(path.clone());
            }
            if let Change::Remove { path } | Change::File { path, .. } | Change::Link { path, .. } =
                change
            {
                folders.extend(path.parent().map(Utf8Path::to_owned));
            }
            self.make(machine, change, &receipt, job)?;
        }
        for folder in folders {
            durable::sync_directory(&folder)
                .map_err(ReconcileError::of("sync what was written"))?;
        }
        self.label(machine, &written, job);
        Ok(())
    }

    /// Takes out of the receipt what is not there any more. Only once nobody goes back: what would
    /// have to be written again needs room, which there may be none of then.
    pub(crate) fn prune_receipt(
        &self,
        machine: &Machine,
        live: &Generation,
    ) -> Result<(), ReconcileError> {
        let mut receipt = Receipt::read(&self.paths)?;
        let texts = self
            .unit_texts(live)
            .map_err(ReconcileError::of("read the units of the live generation"))?;
        let derived = Derived::of(self, machine, live, &texts);
        let pruned = receipt.update(&self.paths, |receipt| {
            receipt.files.retain(|path| {
                derived.files.contains_key(path)
                    || derived.links.contains_key(path)
                    || fs_err::symlink_metadata(path).is_ok()
            });
            receipt.sysctl.retain(|setting, _| derived.sysctl.contains_key(setting));
        });
        pruned.map_err(ReconcileError::of("write the receipt"))
    }

    /// Writes down what will be made.
    fn announce(
        &self,
        machine: &Machine,
        changes: &[Change],
        receipt: &mut Receipt,
    ) -> io::Result<()> {
        let mut folders = Vec::new();
        for change in changes {
            match change {
                Change::Folder { path } | Change::State { path, is_new: true, .. } => {
                    folders.extend(missing(path)?);
                }
                _ => {}
            }
        }
        let boot = platform::boot_id();
        let mut settings = BTreeMap::new();
        for change in changes {
            if let (Change::Sysctl { setting, .. }, Some(kernel)) = (change, &machine.kernel)
                && receipt.sysctl.get(setting).is_none_or(|before| before.boot != boot)
                && let Ok(value) = fs_err::read_to_string(setting_path(kernel, setting))
            {
                let value = value.trim().to_owned();
                settings.insert(setting.clone(), Before { value, boot: boot.clone() });
            }
        }
        // What is in the install root goes with it.
        let is_outside = |path: &Utf8Path| !path.starts_with(&self.paths.root);
        receipt.update(&self.paths, |receipt| {
            receipt.folders.extend(folders.into_iter().filter(|path| is_outside(path)));
            receipt.sysctl.extend(settings);
            for change in changes {
                match change {
                    Change::File { path, .. } | Change::Link { path, .. } if is_outside(path) => {
                        receipt.files.insert(path.clone());
                    }
                    Change::State { path, is_new: true, .. } if is_outside(path) => {
                        receipt.folders.remove(path);
                        receipt.state.insert(path.clone());
                    }
                    Change::User { name, .. } => drop(receipt.users.insert(name.to_string())),
                    _ => {}
                }
            }
        })
    }

    fn make(
        &self,
        machine: &Machine,
        change: &Change,
        receipt: &Receipt,
        job: &Job<'_>,
    ) -> Result<(), ReconcileError> {
        match change {
            Change::Remove { path } => {
                remove_file(path).map_err(ReconcileError::of(format!("remove `{path}`")))
            }
            Change::Folder { path } => {
                platform::create_folders(path).map_err(ReconcileError::of(format!("make `{path}`")))
            }
            Change::File { path, text } => {
                let is_setup = path.file_name() == Some(&setup_unit(&self.distribution));
                write(path, text, is_setup).map_err(ReconcileError::of(format!("write `{path}`")))
            }
            Change::Link { path, target } => {
                link(path, target).map_err(ReconcileError::of(format!("make the link `{path}`")))
            }
            Change::User { name, group } => {
                let user = NewUser {
                    name: name.as_str(),
                    group: group.as_ref().map(package::id::GroupName::as_str),
                    home: &self.paths.root,
                    comment: &format!("{} system user", self.distribution.name),
                };
                let accounts = machine.accounts.as_ref().map_or(Ok(()), |known| known.add(&user));
                accounts.map_err(ReconcileError::of(format!("make the user `{name}`")))
            }
            Change::State { path, user, .. } => keep_state(machine, path, user.as_ref())
                .map_err(ReconcileError::of(format!("make `{path}`"))),
            Change::Owner { path, user } => self
                .give(machine, path, user)
                .map_err(ReconcileError::of(format!("give `{path}` to `{user}`"))),
            Change::Sysctl { setting, value } => {
                set(machine, setting, value, job);
                Ok(())
            }
            Change::Restore { setting } => {
                if let Some(before) = receipt.sysctl.get(setting)
                    && before.boot == platform::boot_id()
                {
                    set(machine, setting, &before.value, job);
                }
                Ok(())
            }
        }
    }
}

impl Host {
    /// Gives a file of a package to its user, through no link.
    fn give(&self, machine: &Machine, path: &Utf8Path, user: &UserName) -> io::Result<()> {
        let Some(accounts) = &machine.accounts else {
            return Ok(());
        };
        let account = accounts.user(user.as_str())?;
        let account = account.ok_or_else(|| io::Error::other("there is no such user"))?;
        let below = path.strip_prefix(self.store.folder()).map_err(io::Error::other)?;
        Folder::open(self.store.folder())?.set_owner(below.as_str(), account.uid)
    }
}

/// The folders that must be made so that there is one at `path`.
pub(crate) fn missing(path: &Utf8Path) -> io::Result<Vec<Utf8PathBuf>> {
    let mut missing = Vec::new();
    for above in path.ancestors() {
        if fs_err::exists(above)? {
            break;
        }
        missing.push(above.to_owned());
    }
    Ok(missing)
}

/// Removes a file or link, if it is there.
pub(crate) fn remove_file(path: &Utf8Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if is_absence(&error) => Ok(()),
        result => result,
    }
}

/// A path beside `path` at which nothing is.
fn aside(path: &Utf8Path) -> io::Result<Utf8PathBuf> {
    let aside = path.with_file_name(ASIDE);
    if fs_err::symlink_metadata(&aside).is_ok() {
        store::remove_any(&aside)?;
    }
    Ok(aside)
}

/// Writes a file whole. Only what boot needs is synced: the rest follows from the live generation.
fn write(path: &Utf8Path, text: &str, sync: bool) -> io::Result<()> {
    let aside = aside(path)?;
    let mut file = fs_err::File::create_new(&aside)?;
    platform::set_mode(&aside, 0o644)?;
    file.write_all(text.as_bytes())?;
    if sync {
        file.sync_all()?;
    }
    fs_err::rename(&aside, path)
}

fn link(path: &Utf8Path, target: &Utf8Path) -> io::Result<()> {
    let aside = aside(path)?;
    platform::symlink(target, &aside)?;
    fs_err::rename(&aside, path)
}

fn keep_state(machine: &Machine, path: &Utf8Path, user: Option<&UserName>) -> io::Result<()> {
    platform::create_folders(path)?;
    let (Some(user), Some(accounts)) = (user, &machine.accounts) else {
        return Ok(());
    };
    match accounts.user(user.as_str())? {
        Some(account) => platform::give_to(path, account.uid),
        None => Err(io::Error::other(format!("there is no user `{user}`"))),
    }
}

/// Changes a kernel setting. One that this kernel does not let us change stops nothing.
pub(crate) fn set(machine: &Machine, setting: &str, value: &str, job: &Job<'_>) {
    let Some(kernel) = &machine.kernel else { return };
    if let Err(error) = fs_err::write(setting_path(kernel, setting), value) {
        job.warn(&format!("the kernel setting `{setting}` could not be set: {error}"));
    }
}
