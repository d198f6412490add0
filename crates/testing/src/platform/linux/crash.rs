//! What a crash of the machine may leave of what a program did.
//!
//! The rules are stricter than any file system, and so hold for all of them:
//!
//! - The content, the size and the permission bits of a file last once `fsync` of that file follows;
//!   `fdatasync` is enough for content and size.
//! - A name that was made or taken away lasts once `fsync` of its directory follows; a rename once
//!   both directories followed. `fsync` of a file does nothing for its name. Names in a directory that
//!   is gone for good are gone with it.
//! - `sync` and `syncfs` make everything last that came before.
//! - Of what does not last yet, any part may be lost, in any order. A write may be torn.
//! - A change that is impossible without a lost one does not happen.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! # use camino::Utf8Path;
//! # use testing::{crash, disk::Disk, trace::{self, Program}};
//! # let (root, place) = (Utf8Path::new("/tmp/install"), Utf8Path::new("/tmp/crashed"));
//! # let program = Program::new("/usr/bin/true");
//! let base = Disk::read(root)?;
//! let record = trace::record(&program, root)?;
//! for state in crash::states(&record, &base, 20) {
//!     state.write(place)?;
//!     // … run what sets a crashed machine right, check `place`, say `{state}` in messages …
//! }
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::io;

use camino::Utf8Path;

use crate::disk::{Disk, Fate, Replay, Roots};
use crate::trace::{Change, FileId, Record};

/// How many lost changes a description names; the rest are counted.
const NAMED_MAX: usize = 12;

/// One thing a crash may leave. `Display` says how it came about.
#[derive(Clone, Debug)]
pub struct CrashState {
    /// The files.
    pub disk: Disk,
    /// How many calls of the record were made before the crash.
    pub calls: usize,
    /// Which of them were lost, by their place in the record.
    pub lost: Vec<usize>,
    /// Of which write only the first half was kept.
    pub torn: Option<usize>,
    text: String,
}

impl CrashState {
    /// Writes the files to the folder `to`, deleting what is there; the path of the original root in
    /// links and small files becomes `to`.
    pub fn write(&self, to: &Utf8Path) -> io::Result<()> {
        self.disk.write(to, Roots::Rewrite)
    }
}

impl fmt::Display for CrashState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Every state a crash during `record`, which began on `base`, may leave: after every call all that
/// was done; and before every call that makes something last, and at the end, each change lost that
/// does not last yet, each file's changes lost together, all contents lost, all names lost, the last
/// write of each file torn, and `seeds` many random choices, the same in every run. No two states
/// have the same files, except that those after the last call may repeat earlier ones: they alone show
/// what may be left once the program said that it is done.
pub fn states<'a>(record: &'a Record, base: &Disk, seeds: u64) -> States<'a> {
    let replay = Replay::new(base.clone(), &record.origins);
    States {
        record,
        seeds,
        durable: durable(record),
        kept: replay.clone(),
        settled: (0, replay),
        calls: 0,
        recipes: VecDeque::from([Recipe::default()]),
        losses_done: false,
        seen: HashSet::new(),
    }
}

/// The iterator of [`states`].
#[derive(Debug)]
pub struct States<'a> {
    record: &'a Record,
    seeds: u64,
    /// From how many calls on each change lasts.
    durable: Vec<usize>,
    /// Everything done by the first `calls` calls.
    kept: Replay,
    /// Everything done by as many calls as last without a gap, from which losses are replayed.
    settled: (usize, Replay),
    calls: usize,
    recipes: VecDeque<Recipe>,
    losses_done: bool,
    /// What there was already; at the end again, since the program said by then that it is done.
    seen: HashSet<(u64, bool)>,
}

/// What is lost of the calls so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Recipe {
    lost: BTreeSet<usize>,
    torn: Option<usize>,
}

impl Iterator for States<'_> {
    type Item = CrashState;

    fn next(&mut self) -> Option<CrashState> {
        loop {
            while let Some(recipe) = self.recipes.pop_front() {
                let disk = self.replay(&recipe);
                let end = self.calls == self.record.calls.len();
                if self.seen.insert((disk.digest(), end)) {
                    return Some(self.state(recipe, disk));
                }
            }
            let next = self.record.calls.get(self.calls);
            if !self.losses_done && next.is_none_or(|call| call.change.is_sync()) {
                self.losses_done = true;
                self.recipes = self.losses();
                continue;
            }
            self.kept.apply(&next?.change, Fate::Kept);
            self.calls += 1;
            self.losses_done = false;
            self.recipes.push_back(Recipe::default());
        }
    }
}

impl States<'_> {
    fn replay(&self, recipe: &Recipe) -> Disk {
        if *recipe == Recipe::default() {
            return self.kept.disk.clone();
        }
        let (settled, mut replay) = self.settled.clone();
        for (index, call) in self.record.calls[..self.calls].iter().enumerate().skip(settled) {
            let fate = match index {
                _ if recipe.lost.contains(&index) => Fate::Lost,
                _ if recipe.torn == Some(index) => Fate::Torn,
                _ => Fate::Kept,
            };
            replay.apply(&call.change, fate);
        }
        replay.disk
    }

    /// What may be lost after the first `calls` calls.
    fn losses(&mut self) -> VecDeque<Recipe> {
        let calls = &self.record.calls[..self.calls];
        let open: Vec<usize> = (0..self.calls).filter(|n| self.durable[*n] > self.calls).collect();
        let first = open.first().copied().unwrap_or(self.calls);
        for call in &calls[self.settled.0..first] {
            self.settled.1.apply(&call.change, Fate::Kept);
        }
        self.settled.0 = first;

        let mut recipes: Vec<Recipe> = Vec::new();
        let mut lose = |lost: BTreeSet<usize>| recipes.push(Recipe { lost, torn: None });
        let mut of_files: BTreeMap<FileId, BTreeSet<usize>> = BTreeMap::new();
        let mut last_writes: BTreeMap<FileId, usize> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for index in open.iter().copied() {
            lose(BTreeSet::from([index]));
            let change = &calls[index].change;
            match content_of(change) {
                Some(file) => of_files.entry(file).or_default().insert(index),
                None => names.insert(index),
            };
            if let Change::Write { file, .. } = change {
                last_writes.insert(*file, index);
            }
        }
        let contents: BTreeSet<usize> = of_files.values().flatten().copied().collect();
        of_files.into_values().for_each(&mut lose);
        lose(contents);
        lose(names);
        lose(open.iter().copied().collect());
        let tear = |index| Recipe { lost: BTreeSet::new(), torn: Some(index) };
        recipes.extend(last_writes.into_values().map(tear));
        if !open.is_empty() {
            recipes.extend((0..self.seeds).map(|seed| random(&open, seed)));
        }
        let mut seen = HashSet::from([Recipe::default()]);
        recipes.into_iter().filter(|recipe| seen.insert(recipe.clone())).collect()
    }

    fn state(&self, recipe: Recipe, disk: Disk) -> CrashState {
        let name = |index: &usize| format!("{index} `{}`", self.record.calls[*index].text);
        let mut text = format!("after {} of {} calls", self.calls, self.record.calls.len());
        if let Some(last) = self.calls.checked_sub(1) {
            text = format!("{text}, the last {},", name(&last));
        }
        if !recipe.lost.is_empty() {
            let names: Vec<String> = recipe.lost.iter().take(NAMED_MAX).map(name).collect();
            text = format!("{text} lost: {}", names.join(", "));
            if recipe.lost.len() > NAMED_MAX {
                text = format!("{text} and {} more", recipe.lost.len() - NAMED_MAX);
            }
        } else if let Some(torn) = &recipe.torn {
            text = format!("{text} only the first half kept of {}", name(torn));
        } else {
            text.push_str(" nothing lost");
        }
        let lost = recipe.lost.into_iter().collect();
        CrashState { disk, calls: self.calls, lost, torn: recipe.torn, text }
    }
}

/// The file whose content, size or permission bits a change is about; nothing for changes of names.
fn content_of(change: &Change) -> Option<FileId> {
    match change {
        Change::Write { file, .. } | Change::Resize { file, .. } | Change::Mode { file, .. } => {
            Some(*file)
        }
        _ => None,
    }
}

/// A choice of what is lost, sometimes little and sometimes nearly all.
fn random(open: &[usize], seed: u64) -> Recipe {
    // The place in the record is part of the seed, so that intervals do not lose alike.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ open.last().map_or(0, |n| *n as u64);
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let quarters = 1 + next() % 3;
    Recipe { lost: open.iter().copied().filter(|_| next() % 4 < quarters).collect(), torn: None }
}

/// For each call of the record, from how many calls on it cannot be lost.
fn durable(record: &Record) -> Vec<usize> {
    const NEVER: usize = usize::MAX;
    let mut all = NEVER;
    let mut synced: HashMap<FileId, usize> = HashMap::new();
    let mut synced_data: HashMap<FileId, usize> = HashMap::new();
    // From when on a directory is gone for good, and no name in it matters.
    let mut gone: HashMap<FileId, usize> = HashMap::new();
    let mut durable = vec![0; record.calls.len()];
    // From the last call to the first: what was seen is what follows.
    for (index, call) in record.calls.iter().enumerate().rev() {
        let at = |known: &HashMap<FileId, usize>, file: &FileId| {
            known.get(file).copied().unwrap_or(NEVER).min(all)
        };
        let name = |directory: &FileId| at(&synced, directory).min(at(&gone, directory));
        durable[index] = match &call.change {
            Change::Make { entry, .. } | Change::Link { entry, .. } => name(&entry.directory),
            Change::Remove { entry, file, directory } => {
                let lasts = name(&entry.directory);
                if *directory {
                    gone.insert(*file, lasts);
                }
                lasts
            }
            Change::Rename { from, to, .. } => name(&from.directory).max(name(&to.directory)),
            Change::Write { file, .. } | Change::Resize { file, .. } => at(&synced_data, file),
            Change::Mode { file, .. } => at(&synced, file),
            Change::Sync { file, only_data } => {
                synced_data.insert(*file, index + 1);
                if !only_data {
                    synced.insert(*file, index + 1);
                }
                0
            }
            Change::SyncAll => {
                all = index + 1;
                0
            }
            Change::MakeUnnamed { .. } | Change::Attributes { .. } => 0,
        };
    }
    durable
}
