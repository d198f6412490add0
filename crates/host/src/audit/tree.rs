//! Compares a folder with what a manifest, or something of its form, says of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

use ::package::PackageId;
use ::package::digest::Sha256;
use ::package::manifest::Entry;
use ::package::path::PackagePath;
use camino::Utf8Path;

use super::{Difference, Fix, one_line};
use crate::platform::tree::{Folder, Kind, Seen, Time, shown};

/// A folder takes the set-gid bit from the one it is made in, which says nothing about it.
const FOLDER_BITS: u32 = 0o5777;

/// What a folder should hold, and what is known about it.
pub(super) struct Wanted<'a> {
    /// Where it lies.
    pub(super) place: &'a Utf8Path,
    /// What should be in it.
    pub(super) entries: &'a BTreeMap<PackagePath, Entry>,
    /// Names at its top that are looked at elsewhere.
    pub(super) besides: &'a [&'a str],
    /// Who should own all of it, where that can be told.
    pub(super) owner: Option<u32>,
    /// No file should have been written to after this, where that is looked at.
    pub(super) newest: Option<Time>,
    /// The package, if it is one.
    pub(super) package: Option<&'a PackageId>,
    /// The texts of files that are worked out.
    pub(super) texts: Option<&'a BTreeMap<PackagePath, String>>,
    /// Who should own single files instead; `None`: that cannot be told.
    pub(super) owners: &'a BTreeMap<PackagePath, Option<u32>>,
    /// Whether nothing may be told of what its files hold.
    pub(super) secret: bool,
}

/// A file whose content is still to be compared.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// What to say if it is another.
    pub(super) difference: Difference,
    /// Its path in the folder.
    pub(super) path: PackagePath,
    pub(super) size: u64,
    pub(super) sha256: Sha256,
    /// Whether nothing may be told of what it holds.
    pub(super) secret: bool,
}

/// What is told of a file with another content than it should have, where nothing may be.
pub(super) const SECRET: (&str, &str) = ("the secret that it was made with", "something else");

/// What was found in a folder.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) differences: Vec<Difference>,
    pub(super) tasks: Vec<Task>,
    pub(super) entries: usize,
}

/// Compares everything but the contents of files.
pub(super) fn compare(folder: &Folder, wanted: &Wanted<'_>) -> Found {
    let expected: HashMap<&str, (&PackagePath, &Entry)> =
        wanted.entries.iter().map(|(path, entry)| (path.as_str(), (path, entry))).collect();
    let mut walk = Walk { wanted, expected, seen: HashSet::new(), found: Found::default() };
    walk.folder(folder, "");
    walk.missing();
    walk.found
}

struct Walk<'a> {
    wanted: &'a Wanted<'a>,
    expected: HashMap<&'a str, (&'a PackagePath, &'a Entry)>,
    /// Paths at which something is.
    seen: HashSet<&'a str>,
    found: Found,
}

impl<'a> Walk<'a> {
    /// Looks at everything in a folder. Only folders that should be there are entered, so that no
    /// depth is too deep.
    fn folder(&mut self, folder: &Folder, at: &str) {
        let names = match folder.names() {
            Ok(names) => names,
            Err(error) => {
                let path = if at.is_empty() { OsStr::new(".") } else { OsStr::new(at) };
                self.report(path, "a folder that can be read", &unreadable(&error), Fix::Content);
                return self.lose(at);
            }
        };
        for name in names {
            let text = name.to_str();
            if at.is_empty() && text.is_some_and(|name| self.wanted.besides.contains(&name)) {
                continue;
            }
            self.found.entries += 1;
            let path = text.map(|name| join(at, name));
            match path.and_then(|path| self.expected.get(path.as_str()).copied()) {
                Some((path, entry)) => {
                    self.seen.insert(path.as_str());
                    self.entry(folder, &name, path, entry);
                }
                None => self.extra(folder, &name, at),
            }
        }
    }

    fn extra(&mut self, folder: &Folder, name: &OsStr, at: &str) {
        let is = match folder.look(name) {
            // Gone in the meantime, which is as it should be.
            Ok(None) => return,
            Ok(Some(seen)) => noun(seen.kind).to_owned(),
            Err(error) => unreadable(&error),
        };
        let path = Path::new(at).join(name);
        let fix = Fix::Remove { path: self.wanted.place.as_std_path().join(&path) };
        self.report(path.as_os_str(), "nothing", &is, fix);
    }

    fn entry(&mut self, folder: &Folder, name: &OsStr, path: &'a PackagePath, entry: &'a Entry) {
        let seen = match folder.look(name) {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                self.seen.remove(path.as_str());
                return;
            }
            Err(error) => {
                self.report_at(path, noun_of(entry), &unreadable(&error), self.content(path));
                return self.lose(path.as_str());
            }
        };
        match (entry, seen.kind) {
            (Entry::Directory { mode }, Kind::Folder) => {
                self.rights(path, mode.bits() & FOLDER_BITS, &seen, FOLDER_BITS);
                match folder.inner(name) {
                    Ok(inner) => self.folder(&inner, path.as_str()),
                    Err(error) => {
                        let is = unreadable(&error);
                        self.report_at(path, "a folder that can be read", &is, self.content(path));
                        self.lose(path.as_str());
                    }
                }
            }
            (Entry::File { mode, size, sha256 }, Kind::File) => {
                self.rights(path, mode.bits(), &seen, 0o7777);
                self.file(path, (*size, *sha256), &seen);
            }
            (Entry::Link { target }, Kind::Link) => {
                let said = folder.link(name);
                if let Ok(said) = &said
                    && said == OsStr::new(target)
                {
                    return;
                }
                let is = said.map_or_else(|error| unreadable(&error), |said| leads(&said));
                self.report_at(path, &leads(OsStr::new(target)), &is, self.link(path, target));
            }
            (entry, kind) => {
                let fix = match entry {
                    Entry::Link { target } => self.link(path, target),
                    _ => self.content(path),
                };
                self.report_at(path, noun_of(entry), noun(kind), fix);
                self.lose(path.as_str());
            }
        }
    }

    fn rights(&mut self, path: &PackagePath, mode: u32, seen: &Seen, bits: u32) {
        let place = self.wanted.place.join(path.as_str());
        if seen.mode & bits != mode {
            let (should, is) = (format!("mode {mode:04o}"), format!("mode {:04o}", seen.mode));
            self.report_at(path, &should, &is, Fix::Mode { path: place.clone(), mode });
        }
        let owner = self
            .wanted
            .owner
            .and_then(|all| self.wanted.owners.get(path).map_or(Some(all), |own| *own));
        if let Some(uid) = owner.filter(|uid| *uid != seen.uid) {
            let (should, is) = (owned(uid), owned(seen.uid));
            self.report_at(path, &should, &is, Fix::Owner { path: place, uid });
        }
    }

    fn file(&mut self, path: &PackagePath, (size, sha256): (u64, Sha256), seen: &Seen) {
        if seen.size != size {
            let (should, is) = if self.wanted.secret {
                (SECRET.0.to_owned(), SECRET.1.to_owned())
            } else {
                (bytes(size), bytes(seen.size))
            };
            return self.report_at(path, &should, &is, self.content(path));
        }
        if let Some(time) = self.wanted.newest.filter(|newest| seen.modified > *newest) {
            let fix = Fix::Time { path: self.wanted.place.join(path.as_str()), time };
            self.report_at(path, "untouched since it was unpacked", "written to since", fix);
        }
        let secret = self.wanted.secret;
        let should = if secret { SECRET.0.to_owned() } else { format!("SHA-256 {sha256}") };
        let fix = self.content(path);
        let difference = self.difference(OsStr::new(path.as_str()), &should, "", fix);
        self.found.tasks.push(Task { difference, path: path.clone(), size, sha256, secret });
    }

    /// What should be below `path` cannot be seen, which was told.
    fn lose(&mut self, path: &str) {
        let below = format!("{path}/");
        let is_below = |known: &&str| path.is_empty() || known.starts_with(&below);
        let lost: Vec<&str> = self.expected.keys().copied().filter(is_below).collect();
        self.seen.extend(lost);
    }

    /// What should be there and was not met; of a folder that is missing only the folder itself.
    fn missing(&mut self) {
        let mut gone: HashSet<&str> = HashSet::new();
        let wanted = self.wanted;
        for (path, entry) in wanted.entries {
            if self.seen.contains(path.as_str()) {
                continue;
            }
            let is_told =
                path.as_str().rsplit_once('/').is_some_and(|(above, _)| gone.contains(above));
            gone.insert(path.as_str());
            if !is_told {
                let fix = match entry {
                    Entry::Link { target } => self.link(path, target),
                    _ => self.content(path),
                };
                self.report_at(path, noun_of(entry), "nothing", fix);
            }
        }
    }

    fn link(&self, path: &PackagePath, target: &str) -> Fix {
        let path = self.wanted.place.join(path.as_str());
        Fix::Link { path, target: target.to_owned() }
    }

    /// What makes a file or folder what it should be.
    fn content(&self, path: &PackagePath) -> Fix {
        match self.wanted.texts.map(|texts| texts.get(path)) {
            None => Fix::Content,
            Some(None) => Fix::Subtree { path: path.clone() },
            Some(Some(text)) => {
                Fix::Text { path: self.wanted.place.join(path.as_str()), text: text.clone() }
            }
        }
    }

    fn report_at(&mut self, path: &PackagePath, should: &str, is: &str, fix: Fix) {
        self.report(OsStr::new(path.as_str()), should, is, fix);
    }

    fn report(&mut self, path: &OsStr, should: &str, is: &str, fix: Fix) {
        let difference = self.difference(path, should, is, fix);
        self.found.differences.push(difference);
    }

    fn difference(&self, path: &OsStr, should: &str, is: &str, fix: Fix) -> Difference {
        Difference {
            at: format!("{}/{}", self.wanted.place, shown(path)),
            should: should.to_owned(),
            is: is.to_owned(),
            package: self.wanted.package.cloned(),
            fix,
        }
    }
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") }
}

/// A link in words.
pub(super) fn leads(target: &OsStr) -> String {
    format!("a link to `{}`", one_line(&shown(target)))
}

/// An owner in words.
pub(super) fn owned(uid: u32) -> String {
    format!("owned by user {uid}")
}

fn bytes(size: u64) -> String {
    if size == 1 { "1 byte long".to_owned() } else { format!("{size} bytes long") }
}

/// Why something could not be looked at, in words.
pub(super) fn unreadable(error: &io::Error) -> String {
    format!("something that cannot be read ({error})")
}

/// What something is, in words.
pub(super) fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Folder => "a folder",
        Kind::File => "a file",
        Kind::Link => "a link",
        Kind::Pipe => "a pipe",
        Kind::Socket => "a socket",
        Kind::Device => "a device",
    }
}

fn noun_of(entry: &Entry) -> &'static str {
    match entry {
        Entry::Directory { .. } => "a folder",
        Entry::File { .. } => "a file",
        Entry::Link { .. } => "a link",
    }
}
