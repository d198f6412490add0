//! The live generation: which one it is, what it was made of, and its folder as it would be made of
//! that today.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;

use ::package::active::Target;
use ::package::manifest::{self, MANIFEST, Mode};
use ::package::path::PackagePath;
use ::package::{PackageId, Sha256};

use super::tree::{leads, noun, unreadable};
use super::{Difference, Fix, one_line};
use crate::generation::{self, Generation, GenerationError, Layout, RECORD};
use crate::history::{Entry, What};
use crate::host::{Host, HostError};
use crate::observe::Observed;
use crate::paths::{self, GENERATIONS};
use crate::plan;
use crate::platform::tree::{Folder, Kind};
use crate::store::{MADE_MANIFEST, Package};

/// The largest history that is read.
const HISTORY_MAX_BYTES: u64 = 1 << 30;
/// The largest `generation.json` that is read.
const RECORD_MAX_BYTES: u64 = 64 << 20;

impl Host {
    /// The number of the live generation. Where the link does not tell it, the history does.
    pub(super) fn find_live(&self, differences: &mut Vec<Difference>) -> Result<u64, HostError> {
        let is = match generation::live(&self.paths) {
            Ok(Some(live)) if self.paths.generation(live).is_dir() => return Ok(live),
            Ok(Some(live)) => format!("a link to `{GENERATIONS}/{live}`, which is not there"),
            Ok(None) => "nothing".to_owned(),
            Err(GenerationError::Link { link, target }) => match fs_err::read_link(link) {
                Ok(_) => format!("a link to `{}`", one_line(&target)),
                Err(_) => target,
            },
            Err(error) => return Err(error.into()),
        };
        let there = generation::numbers(&self.paths)?;
        let known = self.past().into_iter().rev().find_map(|entry| match entry.what {
            What::Switched { to, .. } | What::Returned { to, .. } => Some(to),
            _ => None,
        });
        let known = known.filter(|number| there.contains(number));
        let Some(number) = known.or(there.last().copied()) else {
            return Err(HostError::NotBootstrapped(self.paths.root.clone()));
        };
        differences.push(Difference {
            at: self.paths.current().into_string(),
            should: format!("a link to `{GENERATIONS}/{number}`"),
            is,
            package: None,
            fix: Fix::Current { generation: number },
        });
        Ok(number)
    }

    /// Reads the record of a generation. `Err`: what is there instead.
    pub(super) fn record(&self, number: u64) -> Result<Result<Generation, String>, HostError> {
        let folder = self.paths.generation(number);
        let read = Folder::open(&folder).and_then(|folder| folder.read(RECORD, RECORD_MAX_BYTES));
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err("nothing".to_owned()));
            }
            Err(error) => return Ok(Err(unreadable(&error))),
        };
        match Generation::parse(&folder.join(RECORD), &bytes) {
            Ok(found) if found.number == number => Ok(Ok(found)),
            Ok(found) => Ok(Err(format!("that of generation {}", found.number))),
            Err(error @ crate::FormatError::Newer { .. }) => {
                Err(GenerationError::Format(error).into())
            }
            Err(error) => Ok(Err(::package::causes(&error).join(": "))),
        }
    }

    /// Works the record of a generation out again from its links, the packages that they lead to,
    /// and the history.
    pub(super) fn rebuild(&self, number: u64) -> Option<Generation> {
        let folder = self.paths.generation(number).join("active");
        let opened = Folder::open(&folder).ok()?;
        let store = Folder::open(self.store.folder()).ok()?;
        let mut packages = BTreeMap::new();
        let mut unverified = BTreeSet::new();
        for name in opened.names().ok()? {
            let target = opened.link(&name).ok()?;
            let id: PackageId =
                std::path::Path::new(&target).file_name()?.to_str()?.parse().ok()?;
            let read = |name: &str| store.read(&format!("{id}/{name}"), RECORD_MAX_BYTES);
            let bytes = if let Ok(bytes) = read(MANIFEST) {
                bytes
            } else {
                unverified.insert(id.clone());
                read(MADE_MANIFEST).ok()?
            };
            packages.insert(id, Sha256::of(&bytes));
        }
        let (created, from) = self.begun(number)?;
        let roles = crate::roles::read(&self.paths.roles()).ok()?;
        Some(Generation::rebuilt(self, number, (packages, unverified), roles, (created, from)))
    }

    /// What can be read of the history.
    fn past(&self) -> Vec<Entry> {
        let path = self.paths.history();
        let (folder, name) = (path.parent().unwrap_or(&path), path.file_name().unwrap_or_default());
        let read = Folder::open(folder).and_then(|folder| folder.read(name, HISTORY_MAX_BYTES));
        let bytes = read.unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        lines.filter_map(|line| Entry::parse(&path, line).ok()).collect()
    }

    /// When a generation was begun for the first time, and what was live then.
    pub(super) fn begun(&self, number: u64) -> Option<(jiff::Timestamp, Option<u64>)> {
        self.past().into_iter().find_map(|entry| match entry.what {
            What::Begun { from, to, .. } if to == number => Some((entry.time, from)),
            _ => None,
        })
    }

    /// The generation as it would be laid out today.
    pub(super) fn lay_out_again(
        &self,
        live: &Generation,
        packages: BTreeMap<PackageId, Package>,
        units: BTreeMap<Target, String>,
    ) -> Option<Layout> {
        let from = self.begun(live.number).map_or(live.from, |(_, from)| from);
        let observed = Observed {
            time: live.created,
            live: from,
            generations: BTreeMap::new(),
            highest: live.number - 1,
            roles: live.roles.clone(),
            repository: live.repository.clone(),
            digests: BTreeMap::new(),
            packages,
            units,
            foreign: None,
            names: BTreeMap::new(),
        };
        let ids = live.packages.keys().cloned().collect();
        plan::lay_out(self, &observed, &ids).ok()
    }

    /// The links in the install root that lead into the live generation.
    pub(super) fn compare_names(&self, differences: &mut Vec<Difference>) -> io::Result<()> {
        let root = Folder::open(&self.paths.root)?;
        for name in paths::fixed_names(&self.distribution) {
            let target = paths::fixed_target(&name);
            let (os_name, path) = (OsStr::new(&name), self.paths.root.join(&name));
            let is = match root.look(os_name) {
                Ok(None) => "nothing".to_owned(),
                Ok(Some(seen)) if seen.kind == Kind::Link => match root.link(os_name) {
                    Ok(said) if said == target.as_os_str() => continue,
                    Ok(said) => leads(&said),
                    Err(error) => unreadable(&error),
                },
                Ok(Some(seen)) => noun(seen.kind).to_owned(),
                Err(error) => unreadable(&error),
            };
            differences.push(Difference {
                at: path.to_string(),
                should: leads(target.as_os_str()),
                is,
                package: None,
                fix: Fix::Link { path, target: target.into_string() },
            });
        }
        Ok(())
    }
}

/// What should be in the folder of a generation, in the form of a manifest.
pub(super) fn entries(layout: &Layout) -> BTreeMap<PackagePath, manifest::Entry> {
    let folders = layout
        .folders
        .iter()
        .map(|path| (path.clone(), manifest::Entry::Directory { mode: Mode::new(0o755) }));
    let links = layout
        .links
        .iter()
        .map(|(path, target)| (path.clone(), manifest::Entry::Link { target: target.to_string() }));
    let files = layout.files.iter().map(|(path, text)| {
        let (size, sha256) = (text.len() as u64, Sha256::of(text.as_bytes()));
        (path.clone(), manifest::Entry::File { mode: Mode::new(0o644), size, sha256 })
    });
    folders.chain(links).chain(files).collect()
}
