//! The audit from its beginning to its end.
//!
//! It takes no lock: whoever switches, or boots, must not wait for somebody who only looks. Instead
//! it waits until nobody changes the host, notes what every change would change, and looks again if
//! it found differences and that changed, or somebody is at work.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ::package::digest::Hasher;
use ::package::lock::Lock;
use ::package::{Cancelled, PackageId, Sha256, causes};
use camino::Utf8Path;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use super::machine::{Comparison, brought};
use super::package::{Checked, Look};
use super::tree::{self, Task, Wanted, unreadable};
use super::{Depth, Difference, Fix, Report, digest, generation};
use crate::derived::{Derived, Found};
use crate::event::Event;
use crate::generation::{Generation, GenerationError, Layout};
use crate::host::{Host, HostError, Job};
use crate::machine::Machine;
use crate::platform::{self, tree::Folder};
use crate::receipt::{Receipt, ReceiptError};
use crate::store::Store;
use package::versioned::FormatError;

/// How often a host is looked at that changes in the meantime.
const ATTEMPTS_MAX: usize = 3;
/// Files are read in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;
/// Progress is told each time that so much more was read.
const TELL_BYTES: u64 = 16 << 20;

/// The bits of a folder that let others than its owner write to it.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// The largest receipt that is read.
const RECEIPT_MAX_BYTES: u64 = 64 << 20;
/// What to do about a receipt that nobody can read.
const LOST_RECEIPT: &str = "take it from a backup, or remove it: what is derived is written down \
                            again, but not which folders and users were made";

/// How closely to look.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) depth: Depth,
    /// Whether a file that was written to is told, even if its content is right.
    pub(super) times: bool,
}

/// What was found, and what it was compared with.
pub(super) struct Audited {
    pub(super) report: Report,
    /// The live generation; its record may have been worked out again.
    pub(super) live: Generation,
    /// The packages of all generations, with the digests they should have.
    pub(super) wanted: BTreeMap<PackageId, Sha256>,
    /// How it should lie on disk, with the digest of the program that it brings. `None`: some package
    /// is not what it should be.
    pub(super) layout: Option<(Layout, Option<Sha256>)>,
}

impl Host {
    /// Compares the host with what its live generation says. Changes nothing, and needs no lock.
    pub fn audit(&self, depth: Depth, job: &Job<'_>) -> Result<Report, HostError> {
        let how = How { depth, times: depth == Depth::Fast };
        let wait =
            || job.observer.event(&Event::Waiting { what: "somebody else who changes this host" });
        for _ in 0..ATTEMPTS_MAX {
            Lock::wait_until_free(&self.paths.lock(), job.cancel, &wait)?;
            let before = self.marks();
            let report = self.audit_now(how, job)?.report;
            if report.is_clean() || (self.marks() == before && !Lock::is_held(&self.paths.lock())?)
            {
                return Ok(report);
            }
        }
        Err(HostError::Changing)
    }

    /// What changes whenever somebody changes the host.
    fn marks(&self) -> Vec<Option<(u64, std::time::SystemTime)>> {
        let paths = &self.paths;
        [paths.current(), paths.history(), paths.receipt(), paths.trial(), paths.generations()]
            .iter()
            .map(|path| {
                let found = fs_err::symlink_metadata(path).ok()?;
                Some((found.len(), found.modified().ok()?))
            })
            .collect()
    }

    /// Looks once.
    pub(super) fn audit_now(&self, how: How, job: &Job<'_>) -> Result<Audited, HostError> {
        let mut differences = Vec::new();
        let number = self.find_live(&mut differences)?;
        let live = self.find_record(number, &mut differences)?;
        // The store that the generation was made with.
        let host = Self { store: Store::new(live.repository.clone()), ..self.clone() };
        host.audit_live(live, how, differences, job)
    }

    /// The record of the live generation, or one that is worked out again.
    fn find_record(
        &self,
        number: u64,
        differences: &mut Vec<Difference>,
    ) -> Result<Generation, HostError> {
        let is = match self.record(number)? {
            Ok(live) => return Ok(live),
            Err(is) => is,
        };
        let Some(live) = self.rebuild(number) else {
            // Nothing can be compared with anything.
            let source = io::Error::other(format!("it is {is}"));
            return Err(GenerationError::Incomplete { number, source }.into());
        };
        differences.push(self.lost_record(number, is, Fix::Content));
        Ok(live)
    }

    fn lost_record(&self, number: u64, is: String, fix: Fix) -> Difference {
        Difference {
            at: self.paths.generation(number).join(crate::generation::RECORD).into_string(),
            should: format!("the record of generation {number}"),
            is,
            package: None,
            fix,
        }
    }

    fn audit_live(
        &self,
        live: Generation,
        how: How,
        mut differences: Vec<Difference>,
        job: &Job<'_>,
    ) -> Result<Audited, HostError> {
        let (mut unchecked, mut templates) = (Vec::new(), BTreeMap::new());
        let owner = self.owner();
        let wanted = self.wanted_packages(&live, &mut differences)?;
        let accounts = self.machine.as_ref().and_then(|machine| machine.accounts.as_deref());
        let (store, live_packages) = (&self.store, &live.packages);
        let look = Look { store, owner, times: how.times, accounts, live: live_packages };
        let (packages, base) = self.audit_packages(look, &wanted, how, job)?;
        let bytes = packages.bytes;
        let mut entries: usize = packages.checked.iter().map(|found| found.found.entries).sum();
        for checked in &packages.checked {
            let told = (&mut differences, &mut unchecked);
            if let Some(template) = self.remake(checked, owner, told) {
                templates.insert(checked.id.clone(), template);
            }
        }
        let layout = base.as_ref().and_then(|base| self.layout_of(&live, &packages.checked, base));
        if let Some((layout, _)) = &layout {
            // Its record is compared with all the rest of it.
            differences.retain(|difference| difference.fix != Fix::Content);
            entries += self.audit_generation(layout, owner, &mut differences, job)?;
        } else {
            unchecked.push(format!(
                "the folder of generation {} and what it asks of this machine: not all packages \
                 are what they should be",
                live.number
            ));
        }
        self.compare_folders(owner, &mut differences);
        self.compare_names(&mut differences)?;
        self.compare_roles(&live, &mut differences);
        let mut derived = None;
        if let Some(machine) = &self.machine {
            derived = self.audit_machine(machine, layout.as_ref(), &mut differences)?;
        }
        let count = packages.checked.len();
        differences.extend(packages.checked.into_iter().flat_map(|found| found.found.differences));
        differences.sort_by(|one, other| (&one.at, &one.should).cmp(&(&other.at, &other.should)));
        let found = digest::Found {
            generation: &live,
            templates: &templates,
            derived: derived.as_ref(),
            differences: &differences,
        };
        let digest = (how.depth == Depth::Full).then(|| digest::of(&found));
        let (generation, packages) = (live.number, count);
        let report =
            Report { generation, differences, unchecked, packages, entries, bytes, digest };
        Ok(Audited { report, live, wanted, layout })
    }

    /// Who should own everything; nobody can tell but root.
    pub(super) fn owner(&self) -> Option<u32> {
        if !platform::tree::is_root() {
            return None;
        }
        if self.machine.as_ref().is_some_and(Machine::is_real) {
            return Some(0);
        }
        // A root that is no machine's own belongs to whoever made it.
        let root = fs_err::metadata(&self.paths.root).ok()?;
        Some(platform::mode_and_owner(&root).1)
    }

    /// The packages of all generations that can be gone back to, with the digests they should have.
    fn wanted_packages(
        &self,
        live: &Generation,
        differences: &mut Vec<Difference>,
    ) -> Result<BTreeMap<PackageId, Sha256>, HostError> {
        let mut wanted = live.packages.clone();
        for number in crate::generation::numbers(&self.paths)?.into_iter().rev() {
            if number == live.number {
                continue;
            }
            let advice = format!("`monobloc host collect` removes generation {number}");
            match self.record(number)? {
                Err(is) => {
                    differences.push(self.lost_record(number, is, Fix::Nobody { advice }));
                }
                Ok(found) if found.repository != live.repository => {}
                Ok(found) => {
                    for (id, digest) in found.packages {
                        let known = *wanted.entry(id.clone()).or_insert(digest);
                        if known != digest {
                            let is = format!("made of another package `{id}`");
                            let fix = Fix::Nobody { advice: advice.clone() };
                            differences.push(self.lost_record(number, is, fix));
                        }
                    }
                }
            }
        }
        Ok(wanted)
    }

    /// Compares packages, and the contents of their files.
    fn audit_packages(
        &self,
        look: Look<'_>,
        wanted: &BTreeMap<PackageId, Sha256>,
        how: How,
        job: &Job<'_>,
    ) -> Result<(Packages, Option<Folder>), HostError> {
        let base = match Folder::open(self.store.folder()) {
            Ok(base) => base,
            Err(error) => {
                let missing = |(id, digest)| Checked::missing(&self.store, id, digest, &error);
                let checked = wanted.iter().map(missing).collect();
                return Ok((Packages { checked, bytes: 0 }, None));
            }
        };
        let wanted: Vec<_> = wanted.iter().collect();
        let mut checked: Vec<Checked> = wanted
            .par_iter()
            .map(|(id, digest)| {
                job.cancel.check()?;
                let mut checked = look.package(&base, id, **digest);
                if how.depth == Depth::Fast {
                    let description = checked.description(&self.distribution.units_folder());
                    checked.found.tasks.retain(|task| description.contains(&task.path));
                }
                Ok(checked)
            })
            .collect::<Result<_, Cancelled>>()?;
        let mut tasks = Vec::new();
        for (at, found) in checked.iter_mut().enumerate() {
            let id = found.id.to_string();
            let own = std::mem::take(&mut found.found.tasks);
            tasks.extend(own.into_iter().map(|task| (at, format!("{id}/{}", task.path), task)));
        }
        let (changed, bytes) = hash(&base, tasks, job)?;
        for (at, difference) in changed {
            let known = &mut checked[at].found.differences;
            // Its time told the same, and must go on telling it.
            known.retain(|earlier| {
                !(earlier.at == difference.at && matches!(earlier.fix, Fix::Time { .. }))
            });
            known.push(difference);
        }
        Ok((Packages { checked, bytes }, Some(base)))
    }

    /// How the live generation should lie on disk.
    fn layout_of(
        &self,
        live: &Generation,
        checked: &[Checked],
        base: &Folder,
    ) -> Option<(Layout, Option<Sha256>)> {
        let units_folder = self.distribution.units_folder();
        let of_live: Vec<&Checked> =
            checked.iter().filter(|found| live.packages.contains_key(&found.id)).collect();
        let loaded: Vec<_> = of_live
            .par_iter()
            .map(|found| found.load(base, &self.store.path(&found.id), &units_folder))
            .collect::<Option<_>>()?;
        let (mut packages, mut units) = (BTreeMap::new(), BTreeMap::new());
        for (package, texts) in loaded {
            packages.insert(package.id.clone(), package);
            units.extend(texts);
        }
        let layout = self.lay_out_again(live, packages, units)?;
        let manifests = of_live
            .iter()
            .filter_map(|found| Some((found.id.name().as_str(), found.manifest.as_ref()?)));
        let brought = brought(&layout, &manifests.collect());
        Some((layout, brought))
    }

    /// Compares the folder of the live generation.
    fn audit_generation(
        &self,
        layout: &Layout,
        owner: Option<u32>,
        differences: &mut Vec<Difference>,
        job: &Job<'_>,
    ) -> Result<usize, HostError> {
        let place = self.paths.generation(layout.generation.number);
        let folder = match Folder::open(&place) {
            Ok(folder) => folder,
            Err(error) => {
                let advice = "make the same set live again".to_owned();
                let (should, is) = ("a folder".to_owned(), unreadable(&error));
                let (at, fix) = (place.into_string(), Fix::Nobody { advice });
                differences.push(Difference { at, should, is, package: None, fix });
                return Ok(0);
            }
        };
        let entries = generation::entries(layout);
        let wanted = Wanted {
            place: &place,
            entries: &entries,
            besides: &[],
            owner,
            newest: None,
            package: None,
            texts: Some(&layout.files),
            owners: &BTreeMap::new(),
            secret: false,
        };
        let found = tree::compare(&folder, &wanted);
        differences.extend(found.differences);
        let seen = folder.seen()?;
        let right = if seen.mode & 0o5777 == 0o755 { seen.mode } else { 0o755 };
        compare_folder(&place, [seen.mode, right], (seen.uid, owner), differences);
        let tasks = found.tasks.into_iter().map(|task| (0, task.path.to_string(), task)).collect();
        let (changed, _) = hash(&folder, tasks, job)?;
        differences.extend(changed.into_iter().map(|(_, difference)| difference));
        Ok(found.entries)
    }

    /// Whoever can write to the folders that all of it lies in can replace what was compared.
    fn compare_folders(&self, owner: Option<u32>, differences: &mut Vec<Difference>) {
        for place in [&*self.paths.root, self.store.folder(), &self.paths.generations()] {
            // What is not there is told by what should be in it.
            let Ok(seen) = Folder::open(place).and_then(|folder| folder.seen()) else { continue };
            let right = seen.mode & !WRITABLE_BY_OTHERS;
            compare_folder(place, [seen.mode, right], (seen.uid, owner), differences);
        }
    }

    fn compare_roles(&self, live: &Generation, differences: &mut Vec<Difference>) {
        let words = |roles: &BTreeSet<::package::id::RoleName>| {
            let names: Vec<_> = roles.iter().map(|role| format!("`{role}`")).collect();
            if names.is_empty() { "without roles".to_owned() } else { names.join(", ") }
        };
        let found = crate::roles::read(&self.paths.roles());
        let (is, advice) = match &found {
            Ok(roles) if *roles == live.roles => return,
            Ok(roles) => (words(roles), "`monobloc host setup` makes a generation for other roles"),
            Err(error) => (causes(error).join(": "), "remove what is no role"),
        };
        differences.push(Difference {
            at: self.paths.roles().into_string(),
            should: words(&live.roles),
            is,
            package: None,
            fix: Fix::Nobody { advice: advice.to_owned() },
        });
    }

    /// Reads the receipt. `Err`: what is there instead.
    fn find_receipt(&self) -> Result<Result<Receipt, String>, HostError> {
        let path = self.paths.receipt();
        let name = path.file_name().unwrap_or_default();
        let bytes = match Folder::open(&self.paths.root)?.read(name, RECEIPT_MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Ok(Receipt::default()));
            }
            Err(error) => return Ok(Err(unreadable(&error))),
        };
        match Receipt::parse(&path, &bytes) {
            Ok(receipt) => Ok(Ok(receipt)),
            Err(error @ FormatError::Newer { .. }) => Err(ReceiptError::from(error).into()),
            Err(error) => Ok(Err(causes(&error).join(": "))),
        }
    }

    /// Compares the machine with what the generation asks of it.
    fn audit_machine(
        &self,
        machine: &Machine,
        layout: Option<&(Layout, Option<Sha256>)>,
        differences: &mut Vec<Difference>,
    ) -> Result<Option<Derived>, HostError> {
        self.compare_tool(machine, layout, differences);
        let Some((layout, _)) = layout else {
            return Ok(None);
        };
        let receipt = match self.find_receipt()? {
            Ok(receipt) => receipt,
            Err(is) => {
                let (at, advice) = (self.paths.receipt().into_string(), LOST_RECEIPT.to_owned());
                let (should, fix) = ("a receipt".to_owned(), Fix::Nobody { advice });
                differences.push(Difference { at, should, is, package: None, fix });
                return Ok(None);
            }
        };
        let derived = Derived::of(self, machine, &layout.generation, &self.texts_of(layout));
        let comparison = Comparison {
            derived: &derived,
            receipt: &receipt,
            receipt_path: self.paths.receipt(),
            owner: self.owner(),
            differences: Vec::new(),
        };
        match Found::look(&derived, &receipt, machine, &self.paths) {
            Ok(found) => differences.extend(comparison.run(&found)),
            Err(error) => differences.push(Difference {
                at: "this machine".to_owned(),
                should: "what the live generation asks for".to_owned(),
                is: unreadable(&error),
                package: None,
                fix: Fix::Machine,
            }),
        }
        Ok(Some(derived))
    }
}

/// All packages that were looked at.
struct Packages {
    checked: Vec<Checked>,
    /// How many bytes of them were read.
    bytes: u64,
}

/// A file to read: whose it is, its path below the folder, and what to say if it is another.
type Reading = (usize, String, Task);

/// A folder has the mode and, as far as anybody can tell, the owner that it should have.
fn compare_folder(
    place: &Utf8Path,
    [mode, right]: [u32; 2],
    (uid, owner): (u32, Option<u32>),
    differences: &mut Vec<Difference>,
) {
    let mut differs = |should, is, fix| {
        let at = place.to_string();
        differences.push(Difference { at, should, is, package: None, fix });
    };
    if mode != right {
        let fix = Fix::Mode { path: place.to_owned(), mode: right };
        differs(format!("mode {right:04o}"), format!("mode {mode:04o}"), fix);
    }
    if let Some(owner) = owner.filter(|owner| *owner != uid) {
        let fix = Fix::Owner { path: place.to_owned(), uid: owner };
        differs(tree::owned(owner), tree::owned(uid), fix);
    }
}

/// Reads files and returns those that are not what they should be, with the number of bytes read. The
/// large ones come first, so that no processor is left with one at the end.
fn hash(
    base: &Folder,
    mut tasks: Vec<Reading>,
    job: &Job<'_>,
) -> Result<(Vec<(usize, Difference)>, u64), HostError> {
    tasks.sort_by_key(|(_, _, task)| std::cmp::Reverse(task.size));
    let total_bytes = tasks.iter().map(|(_, _, task)| task.size).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let tell = |count: u64| {
        let before = done.fetch_add(count, Ordering::Relaxed);
        if (before + count) / TELL_BYTES > before / TELL_BYTES {
            let done_bytes = before + count;
            job.observer.event(&Event::Auditing { done_bytes, total_bytes });
        }
    };
    let worker = || {
        let (mut buffer, mut changed) = (vec![0; PIECE_BYTES], Vec::new());
        while let Some((of, path, task)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let is = match read(base, path, task, &mut buffer, &tell, job)? {
                Ok(Some(found)) if found == task.sha256 => continue,
                Ok(Some(_)) if task.secret => tree::SECRET.1.to_owned(),
                Ok(Some(found)) => format!("SHA-256 {found}"),
                Ok(None) => "a file whose length changes".to_owned(),
                Err(error) => unreadable(&error),
            };
            changed.push((*of, Difference { is, ..task.difference.clone() }));
        }
        Ok::<_, Cancelled>(changed)
    };
    let mut changed = Vec::new();
    for found in rayon::broadcast(|_| worker()) {
        changed.extend(found?);
    }
    Ok((changed, done.into_inner()))
}

/// The digest of a file; nothing if it does not have the length that it had a moment ago.
fn read(
    base: &Folder,
    path: &str,
    task: &Task,
    buffer: &mut [u8],
    tell: &dyn Fn(u64),
    job: &Job<'_>,
) -> Result<io::Result<Option<Sha256>>, Cancelled> {
    let mut file = match base.file(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    let (mut hasher, mut length) = (Hasher::new(), 0);
    loop {
        job.cancel.check()?;
        match file.read(buffer) {
            Ok(count) => {
                hasher.update(&buffer[..count]);
                length += count as u64;
                tell(count as u64);
                // A short read is the last one: files are not pipes.
                if count == 0 || length > task.size || (length == task.size && count < buffer.len())
                {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok((length == task.size).then(|| hasher.finish())))
}
