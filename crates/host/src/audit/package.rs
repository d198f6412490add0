//! Packages against their manifests, and those against what generations say of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;

use ::package::active::Target;
use ::package::id::UserName;
use ::package::manifest::{Entry, MANIFEST, Manifest};
use ::package::path::PackagePath;
use ::package::pkginfo::{BUILDINFO, PKGINFO, PkgInfo};
use ::package::{PackageId, Sha256};
use camino::Utf8Path;
use serde_json::Value;

use super::tree::{self, Found, Wanted, noun, owned, unreadable};
use super::{Difference, Fix};
use crate::machine::Accounts;
use crate::platform::tree::{Folder, Kind, Seen};
use crate::store::{self, MADE_MANIFEST, Package, Store};

/// The largest manifest that is read.
const MANIFEST_MAX_BYTES: u64 = 256 << 20;
/// The largest description of a package, or unit, that is read.
const TEXT_MAX_BYTES: u64 = 64 << 20;

/// How packages are looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) store: &'a Store,
    /// Who should own all of it, where that can be told.
    pub(super) owner: Option<u32>,
    /// Whether files may have been written to since they were unpacked.
    pub(super) times: bool,
    /// The users of the machine.
    pub(super) accounts: Option<&'a dyn Accounts>,
    /// The packages of the live generation.
    pub(super) live: &'a BTreeMap<PackageId, Sha256>,
}

/// A package that was looked at.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) id: PackageId,
    pub(super) digest: Sha256,
    /// What it should hold, if that can be told.
    pub(super) manifest: Option<Manifest>,
    /// Whether the manifest came with it.
    pub(super) verified: bool,
    pub(super) found: Found,
}

impl Look<'_> {
    /// Compares a package that should have this digest, all but the contents of its files.
    pub(super) fn package(self, base: &Folder, id: &PackageId, digest: Sha256) -> Checked {
        let found = Found::default();
        let mut checked = Checked { id: id.clone(), digest, manifest: None, verified: true, found };
        if let Err(is) = self.fill(base, &mut checked) {
            checked.report(self.store.path(id).as_str(), "a package", &is, Fix::Content);
        }
        checked
    }

    /// `Err`: what is there instead of a package.
    fn fill(self, base: &Folder, checked: &mut Checked) -> Result<(), String> {
        let name = checked.id.to_string();
        let place = self.store.path(&checked.id);
        let top = match base.look(OsStr::new(&name)).map_err(|error| unreadable(&error))? {
            None => return Err("nothing".to_owned()),
            Some(seen) if seen.kind == Kind::Folder => seen,
            Some(seen) => return Err(noun(seen.kind).to_owned()),
        };
        let folder = base.inner(OsStr::new(&name)).map_err(|error| unreadable(&error))?;
        let Some(manifest) = self.manifest(&folder, &place, checked) else {
            return Ok(());
        };
        let of = if checked.verified { MANIFEST } else { MADE_MANIFEST };
        let written = folder.look(OsStr::new(of)).ok().flatten();
        let secret = store::is_secret(&manifest, checked.verified);
        if let Some(seen) = &written {
            let mode = if secret { 0o600 } else { 0o644 };
            self.rights_of(checked, &place.join(of), seen, (mode, 0o7777));
        }
        // Whoever unpacked without a manifest gave the folder the mode that they liked.
        let mode = if checked.verified { 0o755 } else { top.mode & 0o5777 };
        self.rights_of(checked, &place, &top, (mode, 0o5777));
        let wanted = Wanted {
            place: &place,
            entries: manifest.entries(),
            besides: &[of],
            owner: self.owner,
            newest: written.filter(|_| self.times).map(|seen| seen.modified),
            package: Some(&checked.id),
            texts: None,
            owners: &self.owners(&folder, &checked.id),
            secret,
        };
        let Found { differences, tasks, entries } = tree::compare(&folder, &wanted);
        checked.found.differences.extend(differences);
        checked.found.tasks = tasks;
        checked.found.entries = entries + 2;
        checked.manifest = Some(manifest);
        Ok(())
    }

    /// The manifest, if it is the one that the generation was made with.
    fn manifest(
        self,
        folder: &Folder,
        place: &Utf8Path,
        checked: &mut Checked,
    ) -> Option<Manifest> {
        let (mut path, mut read) = (MANIFEST, folder.read(MANIFEST, MANIFEST_MAX_BYTES));
        if is_absent(&read) {
            let made = folder.read(MADE_MANIFEST, MANIFEST_MAX_BYTES);
            if !is_absent(&made) {
                (path, read, checked.verified) = (MADE_MANIFEST, made, false);
            }
        }
        let (place, should) = (place.join(path), format!("SHA-256 {}", checked.digest));
        let is = match &read {
            Err(_) if is_absent(&read) => "nothing".to_owned(),
            Err(error) => unreadable(error),
            Ok(bytes) if Sha256::of(bytes) != checked.digest => {
                format!("SHA-256 {}", Sha256::of(bytes))
            }
            Ok(bytes) => match Manifest::parse(bytes) {
                Ok(manifest) => return Some(manifest),
                Err(error) => ::package::causes(&error).join(": "),
            },
        };
        checked.report(place.as_str(), &should, &is, Fix::Content);
        None
    }

    /// The users of files that belong to some. Those of what is not live may not exist, or not have
    /// got them yet.
    fn owners(self, folder: &Folder, id: &PackageId) -> BTreeMap<PackagePath, Option<u32>> {
        let info = folder.read(PKGINFO, TEXT_MAX_BYTES).ok();
        let info = info.and_then(|bytes| PkgInfo::parse(&bytes).ok()).unwrap_or_default();
        let Some(accounts) = self.accounts else {
            return BTreeMap::new();
        };
        let uid = |user: &UserName| {
            let known = self.live.contains_key(id).then(|| accounts.user(user.as_str()).ok());
            known.flatten().flatten().map(|account| account.uid)
        };
        info.owners.into_iter().map(|(path, user)| (path, uid(&user))).collect()
    }

    fn rights_of(
        self,
        checked: &mut Checked,
        path: &Utf8Path,
        seen: &Seen,
        (mode, bits): (u32, u32),
    ) {
        if seen.mode & bits != mode {
            let (should, is) = (format!("mode {mode:04o}"), format!("mode {:04o}", seen.mode));
            let fix = Fix::Mode { path: path.to_owned(), mode };
            checked.report(path.as_str(), &should, &is, fix);
        }
        if let Some(uid) = self.owner.filter(|uid| *uid != seen.uid) {
            let fix = Fix::Owner { path: path.to_owned(), uid };
            checked.report(path.as_str(), &owned(uid), &owned(seen.uid), fix);
        }
    }
}

fn is_absent(read: &io::Result<Vec<u8>>) -> bool {
    matches!(read, Err(error) if error.kind() == io::ErrorKind::NotFound)
}

impl Checked {
    fn report(&mut self, at: &str, should: &str, is: &str, fix: Fix) {
        self.found.differences.push(Difference {
            at: at.to_owned(),
            should: should.to_owned(),
            is: is.to_owned(),
            package: Some(self.id.clone()),
            fix,
        });
    }

    /// A package of a store that cannot be read.
    pub(super) fn missing(
        store: &Store,
        id: &PackageId,
        digest: &Sha256,
        error: &io::Error,
    ) -> Self {
        let (id, found) = (id.clone(), Found::default());
        let mut checked = Self { id, digest: *digest, manifest: None, verified: true, found };
        let place = store.path(&checked.id);
        checked.report(place.as_str(), "a package", &unreadable(error), Fix::Content);
        checked
    }

    /// The files that say how the package is used.
    pub(super) fn description(&self, units_folder: &str) -> BTreeSet<PackagePath> {
        let Some(manifest) = &self.manifest else {
            return BTreeSet::new();
        };
        let plain = [PKGINFO, BUILDINFO].into_iter().filter_map(|path| path.parse().ok());
        let units = units(manifest, units_folder).into_iter().map(|(_, file)| file);
        plain.chain(units).filter(|path| manifest.get(path.as_str()).is_some()).collect()
    }

    /// What the package says of itself, with its units; nothing if its files are not what they
    /// should be.
    pub(super) fn load(
        &self,
        base: &Folder,
        place: &Utf8Path,
        units_folder: &str,
    ) -> Option<(Package, BTreeMap<Target, String>)> {
        let manifest = self.manifest.as_ref()?;
        let description = self.description(units_folder);
        let is_changed = |difference: &Difference| {
            difference.fix == Fix::Content
                && description.iter().any(|path| place.join(path.as_str()) == difference.at)
        };
        if self.found.differences.iter().any(is_changed) {
            return None;
        }
        let read = |path: &str| base.read(&format!("{}/{path}", self.id), TEXT_MAX_BYTES);
        let info = PkgInfo::parse(&read(PKGINFO).ok()?).ok()?;
        let buildinfo = match manifest.get(BUILDINFO) {
            Some(_) => serde_json::from_slice(&read(BUILDINFO).ok()?).ok()?,
            None => Value::Null,
        };
        let mut texts = BTreeMap::new();
        for (_, file) in units(manifest, units_folder) {
            let text = String::from_utf8(read(file.as_str()).ok()?).ok()?;
            texts.insert(Target { package: self.id.clone(), path: file }, text);
        }
        let (id, manifest) = (self.id.clone(), manifest.clone());
        let package =
            Package { id, info, manifest, digest: self.digest, verified: self.verified, buildinfo };
        Some((package, texts))
    }
}

/// The units of a package, and the files that they are.
fn units<'a>(manifest: &'a Manifest, folder: &str) -> Vec<(&'a PackagePath, PackagePath)> {
    let is_unit = |path: &PackagePath| {
        let top = path.components().next().unwrap_or_default();
        top.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    let entries = manifest.entries().iter();
    entries
        .filter(|(path, entry)| is_unit(path) && !matches!(entry, Entry::Directory { .. }))
        .filter_map(|(path, _)| Some((path, manifest.resolve(path)?)))
        .collect()
}
