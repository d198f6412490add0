//! The steps that this host did, or is at: a folder for each, outside the install root, so that it is
//! there before anything is installed and tells how a removal ended.
//!
//! ```text
//! STEPS/ID/begun.json     which request it is, and what was live before
//!          lines.jsonl    what is told while it is done
//!          errors         what the process said that was not asked
//!          report.json    how it ended; nothing is done any more once it is there
//!          lock           held by the process that is at it
//!          listening.json what a listener listens on; it ends when somebody removes this
//!          relay          of one that serves others: when this is gone, so is whoever serves
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::{Duration, Instant, SystemTime};

use camino::Utf8PathBuf;
use package::lock::Lock;
use package::{Sha256, durable, json};
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::paths::is_absence;
use crate::platform;
use crate::store::entries;
use crate::wire::{Report, Request, StepId};
use package::versioned;

/// The version of the files that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// The steps of how many runs are kept.
const RUNS_MAX: usize = 20;
/// Room that is kept so that there is some for how a step ended, on a disk that it filled.
const RESERVE_BYTES: usize = 64 << 10;
/// What a step that serves others does so as long as it is there.
pub(super) const RELAY: &str = "relay";
/// How long whoever serves others may take to end.
const RELAY_END_MAX: Duration = Duration::from_secs(20);
/// How often somebody looks at whether it did.
const POLL: Duration = Duration::from_millis(20);
/// All runs.
const ALL: &str = "*";

/// The steps of a host.
#[derive(Debug, Clone)]
pub struct Steps {
    folder: Utf8PathBuf,
}

/// What is written down before a step is begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) format: u32,
    /// Of the request, without keys.
    pub(super) request: Sha256,
    /// The generation that was live then.
    pub(super) before: Option<u64>,
    /// The generation to go back to, once that is known.
    #[serde(default)]
    pub(super) target: Option<u64>,
    /// What is done was compared with what was planned: from then on the host changes.
    #[serde(default)]
    pub(super) is_agreed: bool,
}

impl Begun {
    pub(super) fn new(request: Sha256, before: Option<u64>) -> Self {
        Self { format: FORMAT, request, before, target: None, is_agreed: false }
    }
}

#[derive(Serialize, Deserialize)]
struct Ended {
    format: u32,
    #[serde(flatten)]
    report: Report,
}

/// What tells two requests apart. Keys do not: the same step may come with others.
pub(super) fn digest(request: &Request) -> Sha256 {
    Sha256::of(json::pretty(&request.without_keys()).as_bytes())
}

impl Steps {
    /// The steps of this installation.
    pub fn of(host: &Host) -> Self {
        // State is outside the install root on every real machine, in a folder that is always there.
        let state = host.machine.as_ref().map(|machine| &machine.state);
        let beside = state.filter(|state| !state.starts_with(&host.paths.root));
        let beside = beside.unwrap_or(&host.paths.root);
        let name = beside.file_name().unwrap_or_default();
        Self { folder: beside.with_file_name(format!("{name}-steps")) }
    }

    /// The folder of all steps.
    pub fn folder(&self) -> &camino::Utf8Path {
        &self.folder
    }

    pub(super) fn path(&self, id: &StepId, name: &str) -> Utf8PathBuf {
        self.folder.join(id.as_str()).join(name)
    }

    /// Makes the folder of a step, for nobody else to look into.
    pub(super) fn make(&self, id: &StepId) -> io::Result<()> {
        for folder in [self.folder.clone(), self.folder.join(id.as_str())] {
            durable::create_folders(&folder)?;
            platform::set_mode(&folder, 0o700)?;
        }
        Ok(())
    }

    /// What was written down when a step was begun.
    pub(super) fn begun(&self, id: &StepId) -> io::Result<Option<Begun>> {
        let path = self.path(id, "begun.json");
        let Some(bytes) = read(&path)? else { return Ok(None) };
        versioned::parse(&path, &bytes, FORMAT).map(Some).map_err(io::Error::other)
    }

    /// Writes down that a step is begun, and keeps room for how it ends.
    pub(super) fn begin(&self, id: &StepId, begun: &Begun) -> io::Result<()> {
        durable::write(&self.path(id, "begun.json"), json::pretty(begun).as_bytes())?;
        let mut reserve = fs_err::File::create(self.path(id, "reserve"))?;
        reserve.write_all(&vec![b'.'; RESERVE_BYTES])?;
        reserve.sync_all()
    }

    /// How a step ended.
    pub(super) fn report(&self, id: &StepId) -> io::Result<Option<Report>> {
        let path = self.path(id, "report.json");
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let ended: Ended = versioned::parse(&path, &bytes, FORMAT).map_err(io::Error::other)?;
        Ok(Some(ended.report))
    }

    /// Writes down how a step ended; when this returns it lasts.
    pub(super) fn end(&self, id: &StepId, report: &Report) -> io::Result<()> {
        if let Err(error) = fs_err::remove_file(self.path(id, "reserve"))
            && !is_absence(&error)
        {
            return Err(error);
        }
        let ended = Ended { format: FORMAT, report: report.clone() };
        durable::write(&self.path(id, "report.json"), &serde_json::to_vec(&ended)?)
    }

    /// Takes a step, unless somebody is at it.
    pub(super) fn take(&self, id: &StepId) -> io::Result<Option<Lock>> {
        Lock::try_take(&self.path(id, "lock"))
    }

    /// Whether somebody is at a step.
    pub(super) fn is_running(&self, id: &StepId) -> io::Result<bool> {
        Lock::is_held(&self.path(id, "lock"))
    }

    /// All steps that are known.
    pub fn list(&self) -> io::Result<Vec<StepId>> {
        let names = entries(&self.folder)?;
        Ok(names.into_iter().filter_map(|name| StepId::try_from(name).ok()).collect())
    }

    /// The steps of a run, or of all.
    pub(super) fn of_run(&self, run: &str) -> io::Result<impl Iterator<Item = StepId>> {
        Ok(self.list()?.into_iter().filter(move |id| run == ALL || id.run() == run))
    }

    /// Forgets the steps of a run, or of all, that nobody is at; whoever serves others is ended first.
    /// Returns how many.
    pub fn forget(&self, run: &str) -> io::Result<usize> {
        self.remove(self.of_run(run)?)
    }

    /// Forgets a step that its caller is at, and no other.
    pub(super) fn discard(&self, id: &StepId) -> io::Result<()> {
        durable::remove_tree(&self.folder.join(id.as_str()))?;
        self.remove_folder()
    }

    /// Forgets the steps of all runs but the newest.
    pub(super) fn collect(&self) -> io::Result<()> {
        let mut runs: BTreeMap<String, (SystemTime, Vec<StepId>)> = BTreeMap::new();
        for id in self.list()? {
            let begun = fs_err::metadata(self.path(&id, "begun.json"));
            // One of which nothing is written yet was never begun, or is just being.
            let Ok(time) = begun.and_then(|found| found.modified()) else { continue };
            let (newest, ids) = runs.entry(id.run().to_owned()).or_insert((time, Vec::new()));
            *newest = time.max(*newest);
            ids.push(id);
        }
        let mut runs: Vec<_> = runs.into_values().collect();
        runs.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        self.remove(runs.into_iter().skip(RUNS_MAX).flat_map(|(_, ids)| ids)).map(drop)
    }

    /// Ends whoever serves others for a step, and waits for that.
    fn end_relay(&self, id: &StepId) -> io::Result<()> {
        match fs_err::remove_file(self.path(id, RELAY)) {
            Err(error) if is_absence(&error) => return Ok(()),
            removed => removed?,
        }
        let begun = Instant::now();
        while self.is_running(id)? && begun.elapsed() < RELAY_END_MAX {
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn remove(&self, ids: impl Iterator<Item = StepId>) -> io::Result<usize> {
        let mut count = 0;
        for id in ids {
            self.end_relay(&id)?;
            if let Some(_alone) = self.take(&id)? {
                durable::remove_tree(&self.folder.join(id.as_str()))?;
                count += 1;
            }
        }
        self.remove_folder()?;
        Ok(count)
    }

    /// Removes the folder of all steps when the last one is gone.
    fn remove_folder(&self) -> io::Result<()> {
        match fs_err::remove_dir(&self.folder) {
            Err(error)
                if !is_absence(&error) && error.kind() != io::ErrorKind::DirectoryNotEmpty =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn read(path: &camino::Utf8Path) -> io::Result<Option<Vec<u8>>> {
    match fs_err::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
