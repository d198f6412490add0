//! Puts single things back to what they should be: aside first, then into their place in one step.

use std::io::{self, Write as _};
use std::path::Path;

use ::package::durable;
use ::package::path::PackagePath;
use ::package::{PackageId, Sha256, causes};

use camino::{Utf8Path, Utf8PathBuf};

use super::Fix;
use super::run::Audited;
use crate::derived::Change;
use crate::event::Event;
use crate::generation::{self, Layout};
use crate::host::{Host, HostError, Job};
use crate::machine::{Machine, STOP_MAX, Services, State, stop_all};
use crate::paths;
use crate::platform::{self, tree::Folder};
use crate::setup::make::MadeFiles;
use crate::store::{self, StoreError};

impl Audited {
    /// The digest that a package should have.
    pub(super) fn digest(&self, id: &PackageId) -> Option<Sha256> {
        self.wanted.get(id).copied()
    }
}

impl Host {
    /// Makes a package again that was made on this host.
    pub(super) fn make_again(
        &self,
        id: &PackageId,
        files: &MadeFiles,
        audited: &Audited,
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        let _locks = self.store.work_on(id, job.cancel, job.observer)?;
        let (staging, made) = self.make_aside(id, files)?;
        let found = made.digest;
        match audited.digest(id) {
            Some(expected) if expected == found => Ok(self.store.publish(id, &staging)?),
            Some(expected) => Err(StoreError::Other { id: id.clone(), found, expected }.into()),
            None => Ok(()),
        }
    }

    /// Puts one entry right.
    pub(super) fn restore(
        &self,
        fix: &Fix,
        audited: &Audited,
        job: &Job<'_>,
    ) -> Result<(), HostError> {
        match fix {
            Fix::Mode { path, mode } => {
                let (folder, below) = self.reach(path)?;
                folder.set_mode(&below, *mode)?;
            }
            Fix::Owner { path, uid } => {
                let (folder, below) = self.reach(path)?;
                folder.set_owner(&below, *uid)?;
            }
            Fix::Time { path, time } => {
                let (folder, below) = self.reach(path)?;
                folder.set_modified(&below, *time)?;
            }
            Fix::Remove { path } => self.take_away(path)?,
            Fix::Link { path, target } => match self.fixed_name(path) {
                Some(name) if fs_err::symlink_metadata(path).is_ok() => self.replace(name, job)?,
                Some(name) => self.fixed_link(name)?,
                None => {
                    let aside = self.aside(path.as_std_path())?;
                    platform::symlink(Utf8Path::new(target), &aside)?;
                    put(&aside, path)?;
                }
            },
            Fix::Text { path, text } => {
                let aside = self.aside(path.as_std_path())?;
                write(&aside, text)?;
                put(&aside, path)?;
            }
            Fix::Subtree { path } => {
                if let Some((layout, _)) = &audited.layout {
                    self.put_subtree(layout, path)?;
                }
            }
            Fix::Current { generation } => self.point_again(*generation)?,
            Fix::Tool => self.renew_tool(audited, job)?,
            Fix::Content | Fix::Machine | Fix::Nobody { .. } => {}
        }
        Ok(())
    }

    /// The folder from which the way to `path` must lead through no link, and that way.
    fn reach(&self, path: &Utf8Path) -> io::Result<(Folder, String)> {
        let parent = path.parent().unwrap_or(path);
        let tops = [self.store.folder(), self.paths.root.as_path(), parent];
        let top = tops.into_iter().find(|top| path.starts_with(top) && path != *top);
        let top = top.unwrap_or(parent);
        let below = path.strip_prefix(top).map(Utf8Path::to_string).unwrap_or_default();
        Ok((Folder::open(top)?, below))
    }

    fn fixed_name<'a>(&self, path: &'a Utf8Path) -> Option<&'a str> {
        let name = path.file_name()?;
        let is_fixed = path.parent() == Some(&self.paths.root)
            && paths::fixed_names(&self.distribution).iter().any(|fixed| fixed == name);
        is_fixed.then_some(name)
    }

    /// A free path on the file system of `path`, which is cleaned up after a crash.
    fn aside(&self, path: &Path) -> io::Result<Utf8PathBuf> {
        let is_stored = path.starts_with(self.store.folder());
        let folder = if is_stored { self.store.folder() } else { self.paths.root.as_path() };
        let aside = folder.join(format!("{}repair", durable::TEMPORARY));
        if fs_err::symlink_metadata(&aside).is_ok() {
            store::remove_any(&aside)?;
        }
        Ok(aside)
    }

    /// Takes something away at once, then from the disk.
    fn take_away(&self, path: &Path) -> io::Result<()> {
        let aside = self.aside(path)?;
        match fs_err::rename(path, &aside) {
            Err(error) if paths::is_absence(&error) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => store::remove_any(&aside),
        }
    }

    fn put_subtree(&self, layout: &Layout, top: &PackagePath) -> io::Result<()> {
        let place = self.paths.generation(layout.generation.number);
        let aside = self.aside(place.as_std_path())?;
        let inside = |path: &PackagePath| {
            let rest = path.as_str().strip_prefix(top.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{aside}{rest}"))
        };
        for folder in layout.folders.iter().filter_map(inside) {
            fs_err::create_dir(&folder)?;
            platform::set_mode(Utf8Path::new(&folder), 0o755)?;
        }
        for (path, target) in &layout.links {
            if let Some(path) = inside(path) {
                platform::symlink(target, Utf8Path::new(&path))?;
            }
        }
        for (path, text) in &layout.files {
            if let Some(path) = inside(path) {
                write(Utf8Path::new(&path), text)?;
            }
        }
        put(&aside, &place.join(top.as_str()))
    }

    /// Makes `current` lead to a generation again, whatever is there.
    fn point_again(&self, number: u64) -> io::Result<()> {
        let current = self.paths.current();
        if fs_err::symlink_metadata(&current).is_ok_and(|found| found.is_dir()) {
            fs_err::rename(&current, self.name_to_keep(paths::CURRENT)?)?;
        }
        generation::switch(&self.paths, None, number)
    }

    fn renew_tool(&self, audited: &Audited, job: &Job<'_>) -> io::Result<()> {
        let Some(machine) = &self.machine else {
            return Ok(());
        };
        let tool = self.paths.tool();
        if fs_err::symlink_metadata(&tool).is_ok_and(|found| !found.is_file()) {
            store::remove_any(&tool)?;
        }
        self.ensure_tool(machine)?;
        self.update_tool(machine, &audited.live, job);
        Ok(())
    }

    /// Makes the machine what the live generation asks for, one thing after the other, so that one
    /// that cannot be done keeps no other from being done.
    pub(super) fn restore_machine(
        &self,
        audited: &Audited,
        job: &Job<'_>,
    ) -> Result<(Vec<String>, Vec<String>), HostError> {
        let (Some(machine), Some((layout, _))) = (&self.machine, &audited.layout) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let texts = self.texts_of(layout);
        let (changes, problems) = self.possible(machine, &layout.generation, &texts)?;
        let mut failed: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let mut done = Vec::new();
        for change in &changes {
            match self.apply(machine, std::slice::from_ref(change), job) {
                Ok(()) => done.push(words(change)),
                Err(error) => failed.push(causes(&error).join(": ")),
            }
        }
        if let Some(services) = &machine.services {
            done.extend(restart(machine, &**services, &changes, job)?);
        }
        Ok((done, failed))
    }

    /// What `restore_machine` would do, and what is in the way.
    pub(super) fn plan_machine(
        &self,
        audited: &Audited,
    ) -> Result<(Vec<String>, Vec<String>), HostError> {
        let (Some(machine), Some((layout, _))) = (&self.machine, &audited.layout) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let texts = self.texts_of(layout);
        let (changes, problems) = self.possible(machine, &layout.generation, &texts)?;
        let mut steps: Vec<String> = changes.iter().map(words).collect();
        let (units, _) = units_in(machine, &changes);
        steps.extend(units.iter().map(|unit| format!("restart `{unit}` if it runs")));
        Ok((steps, problems.iter().map(ToString::to_string).collect()))
    }
}

/// Lets the service manager see unit files that changed, and starts those units anew that run with
/// another text; all others keep running.
fn restart(
    machine: &Machine,
    services: &dyn Services,
    changes: &[Change],
    job: &Job<'_>,
) -> Result<Vec<String>, HostError> {
    let (mut written, is_changed) = units_in(machine, changes);
    if !is_changed {
        return Ok(Vec::new());
    }
    services.reload().map_err(HostError::Services)?;
    let states = services.states(&written).map_err(HostError::Services)?;
    let is_running = |unit: &String| {
        let state = states.get(unit).map(|found| found.state);
        matches!(state, Some(State::Up | State::Starting))
    };
    written.retain(is_running);
    if written.is_empty() {
        return Ok(Vec::new());
    }
    job.observer.event(&Event::Stopping { units: &written });
    stop_all(services, &written, STOP_MAX, job.cancel).map_err(HostError::Services)?;
    job.observer.event(&Event::Starting { units: &written });
    services.start(&written).map_err(HostError::Services)?;
    let line = |unit: &String| format!("restart `{unit}`, whose unit had another text");
    Ok(written.iter().map(line).collect())
}

/// The units whose files are written, and whether any unit file changes.
fn units_in(machine: &Machine, changes: &[Change]) -> (Vec<String>, bool) {
    let is_unit = |path: &Utf8Path| path.starts_with(&machine.units);
    let mut written = Vec::new();
    let mut is_changed = false;
    for change in changes {
        match change {
            Change::File { path, .. } if is_unit(path) => {
                is_changed = true;
                written.extend(path.file_name().map(str::to_owned));
            }
            Change::Link { path, .. } | Change::Remove { path } => is_changed |= is_unit(path),
            _ => {}
        }
    }
    // The target and setup are no programs: nothing of theirs runs with another text.
    written.retain(|unit| !unit.ends_with(".target") && !unit.ends_with("-setup.service"));
    (written, is_changed)
}

fn words(change: &Change) -> String {
    match change {
        Change::Remove { path } => format!("remove `{path}`"),
        Change::Folder { path } => format!("make the folder `{path}`"),
        Change::File { path, .. } => format!("write `{path}`"),
        Change::Link { path, target } => format!("make the link `{path}` to `{target}`"),
        Change::User { name, .. } => format!("make the user `{name}`"),
        Change::State { path, is_new: true, .. } => format!("make the state folder `{path}`"),
        Change::State { path, .. } => format!("give `{path}` to its user"),
        Change::Owner { path, user } => format!("give `{path}` to `{user}`"),
        Change::Sysctl { setting, value } => format!("set `{setting}` to `{value}`"),
        Change::Restore { setting } => format!("set `{setting}` back to what it was"),
    }
}

fn write(path: &Utf8Path, text: &str) -> io::Result<()> {
    let mut file = fs_err::File::create_new(path)?;
    platform::set_mode(path, 0o644)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Puts what is at `aside` to `place`, and removes what is there.
fn put(aside: &Utf8Path, place: &Utf8Path) -> io::Result<()> {
    let is_folder = |path: &Utf8Path| fs_err::symlink_metadata(path).map(|found| found.is_dir());
    match (is_folder(aside)?, is_folder(place)) {
        (false, Ok(false)) | (_, Err(_)) => {}
        _ => {
            if !durable::exchange(aside, place)? {
                store::remove_any(place)?;
                fs_err::rename(aside, place)?;
                return durable::sync_directory(place.parent().unwrap_or(place));
            }
            durable::sync_directory(place.parent().unwrap_or(place))?;
            return store::remove_any(aside);
        }
    }
    durable::rename(aside, place)
}
