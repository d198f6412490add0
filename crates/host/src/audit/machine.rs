//! What the live generation asks of the machine, compared with what is there.

use std::ffi::OsStr;
use std::io;

use ::package::{Sha256, manifest};
use camino::{Utf8Path, Utf8PathBuf};

use super::tree::{leads, noun, owned, unreadable};
use super::{Difference, Fix};
use crate::derived::{Derived, Found, FoundEntry};
use crate::generation::Layout;
use crate::host::Host;
use crate::machine::Machine;
use crate::platform::tree::{Folder, Kind};
use crate::receipt::Receipt;

/// The most that others may do with a state folder.
const STATE_MODE: u32 = 0o755;

/// Collects what differs.
pub(super) struct Comparison<'a> {
    pub(super) derived: &'a Derived,
    pub(super) receipt: &'a Receipt,
    pub(super) receipt_path: Utf8PathBuf,
    /// Who should own the files, where that can be told.
    pub(super) owner: Option<u32>,
    pub(super) differences: Vec<Difference>,
}

impl Comparison<'_> {
    /// Compares everything.
    pub(super) fn run(mut self, found: &Found) -> Vec<Difference> {
        self.folders(found);
        self.files(found);
        self.left(found);
        self.users(found);
        self.state(found);
        self.settings(found);
        self.differences
    }

    fn report(&mut self, at: &str, should: &str, is: &str, fix: Fix) {
        let (at, should, is) = (at.to_owned(), should.to_owned(), is.to_owned());
        self.differences.push(Difference { at, should, is, package: None, fix });
    }

    fn folders(&mut self, found: &Found) {
        for path in &self.derived.folders {
            match at(found, path) {
                FoundEntry::Folder { .. } | FoundEntry::Link { .. } => {}
                other => self.report(path.as_str(), "a folder", &words(other), Fix::Machine),
            }
        }
    }

    fn files(&mut self, found: &Found) {
        for (path, text) in &self.derived.files {
            match at(found, path) {
                FoundEntry::File { mode, owner, text: is } => {
                    if *mode != 0o644 {
                        let is = format!("mode {mode:04o}");
                        self.report(path.as_str(), "mode 0644", &is, Fix::Machine);
                    }
                    if let Some(uid) = self.owner.filter(|uid| uid != owner) {
                        let fix = Fix::Owner { path: path.clone(), uid };
                        self.report(path.as_str(), &owned(uid), &owned(*owner), fix);
                    }
                    if is.as_ref() != Some(text) {
                        let sha256 = |text: &String| Sha256::of(text.as_bytes()).to_string();
                        let is = is.as_ref().map_or("no text".to_owned(), sha256);
                        let (should, is) =
                            (format!("SHA-256 {}", sha256(text)), format!("SHA-256 {is}"));
                        self.report(path.as_str(), &should, &is, Fix::Machine);
                    }
                }
                other => self.report(path.as_str(), "a file", &words(other), Fix::Machine),
            }
        }
        for (path, target) in &self.derived.links {
            let other = at(found, path);
            if *other != (FoundEntry::Link { target: target.to_string() }) {
                let should = leads(target.as_os_str());
                self.report(path.as_str(), &should, &words(other), Fix::Machine);
            }
        }
        for path in self.derived.files.keys().chain(self.derived.links.keys()) {
            // What is in the install root needs no receipt.
            if !self.receipt.files.contains(path) && !path.starts_with(&self.derived.root) {
                let (should, receipt) = (format!("a line for `{path}`"), self.receipt_path.clone());
                self.report(receipt.as_str(), &should, "without one", Fix::Machine);
            }
        }
    }

    /// What should not be there: units that want to be started with ours, and what is left of units
    /// that went.
    fn left(&mut self, found: &Found) {
        let derived = self.derived;
        let is_derived = |path: &Utf8PathBuf| {
            derived.files.contains_key(path) || derived.links.contains_key(path)
        };
        for (path, entry) in &found.entries {
            let is_ours = is_derived(path)
                || derived.folders.contains(path)
                || derived.state.contains_key(path);
            if !is_ours && *entry != FoundEntry::Missing {
                self.report(path.as_str(), "nothing", &words(entry), Fix::Machine);
            }
        }
    }

    fn users(&mut self, found: &Found) {
        for (user, group) in &self.derived.users {
            let name = format!("user {user}");
            match found.users.get(user.as_str()) {
                Some(Some(account)) => {
                    if let Some(group) = group.as_ref().filter(|group| {
                        group.as_str() != user.as_str()
                            && !account.groups.iter().any(|found| found == group.as_str())
                    }) {
                        let should = format!("in the group `{group}`");
                        let is = match account.groups.join(", ") {
                            groups if groups.is_empty() => "in none".to_owned(),
                            groups => format!("in `{groups}`"),
                        };
                        self.report(&name, &should, &is, Fix::Machine);
                    }
                }
                _ => self.report(&name, "a user of this machine", "unknown", Fix::Machine),
            }
        }
    }

    fn state(&mut self, found: &Found) {
        for (path, user) in &self.derived.state {
            let (mode, owner) = match at(found, path) {
                FoundEntry::Folder { mode, owner } => (*mode, *owner),
                other => {
                    self.report(path.as_str(), "a folder", &words(other), Fix::Machine);
                    continue;
                }
            };
            let account = user.as_ref().and_then(|user| found.users.get(user.as_str()));
            if let (Some(user), Some(Some(account))) = (user, account)
                && account.uid != owner
            {
                let should = format!("owned by `{user}`");
                self.report(path.as_str(), &should, &owned(owner), Fix::Machine);
            }
            // Programs may keep others out, and do; that they let others in is nobody's wish.
            if mode & 0o777 & !STATE_MODE != 0 {
                let mode_now = format!("mode {mode:04o}");
                let fix = Fix::Mode { path: path.clone(), mode: mode & !0o777 | mode & STATE_MODE };
                self.report(path.as_str(), "mode 0755 or less", &mode_now, fix);
            }
        }
    }

    fn settings(&mut self, found: &Found) {
        let value_of = |setting: &String| found.sysctl.get(setting).and_then(Option::as_ref);
        for (setting, value) in &self.derived.sysctl {
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            let is = value_of(setting);
            if is != Some(&value) {
                let is = is.map_or("not to be had".to_owned(), |is| format!("`{is}`"));
                let (name, should) = (format!("kernel setting {setting}"), format!("`{value}`"));
                self.report(&name, &should, &is, Fix::Machine);
            }
        }
        for (setting, before) in &self.receipt.sysctl {
            let is = value_of(setting);
            let was = before.value.split_whitespace().collect::<Vec<_>>().join(" ");
            if !self.derived.sysctl.contains_key(setting)
                && before.boot == found.boot
                && is.is_some_and(|is| *is != was)
            {
                let is = is.map_or(String::new(), |is| format!("`{is}`"));
                let (name, should) = (format!("kernel setting {setting}"), format!("`{was}`"));
                self.report(&name, &should, &is, Fix::Machine);
            }
        }
    }
}

fn at<'a>(found: &'a Found, path: &Utf8Path) -> &'a FoundEntry {
    found.entries.get(path).unwrap_or(&FoundEntry::Missing)
}

fn words(entry: &FoundEntry) -> String {
    match entry {
        FoundEntry::Missing => "nothing".to_owned(),
        FoundEntry::Folder { .. } => noun(Kind::Folder).to_owned(),
        FoundEntry::File { .. } => noun(Kind::File).to_owned(),
        FoundEntry::Link { target } => leads(OsStr::new(target)),
        FoundEntry::Other => "a pipe, socket or device".to_owned(),
    }
}

impl Host {
    /// Compares the program that boot uses with the one that the live generation brings.
    pub(super) fn compare_tool(
        &self,
        machine: &Machine,
        layout: Option<&(Layout, Option<Sha256>)>,
        differences: &mut Vec<Difference>,
    ) {
        if machine.program.is_none() {
            return;
        }
        let path = self.paths.tool();
        let mut report = |should: String, is: String, fix: Fix| {
            let at = path.to_string();
            differences.push(Difference { at, should, is, package: None, fix });
        };
        let folder = Folder::open(path.parent().unwrap_or(&path));
        let seen = folder.as_ref().map_or(Ok(None), |folder| folder.look(OsStr::new("monobloc")));
        let seen = match seen {
            Ok(Some(seen)) if seen.kind == Kind::File => seen,
            Ok(Some(seen)) => {
                return report("a file".to_owned(), noun(seen.kind).to_owned(), Fix::Tool);
            }
            Ok(None) => return report("a file".to_owned(), "nothing".to_owned(), Fix::Tool),
            Err(error) => return report("a file".to_owned(), unreadable(&error), Fix::Tool),
        };
        if seen.mode != 0o755 {
            let fix = Fix::Mode { path: path.clone(), mode: 0o755 };
            report("mode 0755".to_owned(), format!("mode {:04o}", seen.mode), fix);
        }
        let Some(brought) = layout.and_then(|(_, brought)| *brought) else {
            return;
        };
        let hash = |folder: Folder| -> io::Result<Sha256> {
            let mut hasher = ::package::digest::Hasher::new();
            hasher.read_all(&mut folder.file("monobloc")?)?;
            Ok(hasher.finish())
        };
        match folder.and_then(hash) {
            Ok(found) if found == brought => {}
            Ok(found) => {
                report(format!("SHA-256 {brought}"), format!("SHA-256 {found}"), Fix::Tool);
            }
            Err(error) => report(format!("SHA-256 {brought}"), unreadable(&error), Fix::Tool),
        }
    }
}

/// The digest of the program that a generation brings.
pub(super) fn brought(
    layout: &Layout,
    manifests: &std::collections::BTreeMap<&str, &manifest::Manifest>,
) -> Option<Sha256> {
    let target = layout.links.get("bin/monobloc")?;
    let (name, path) = target.as_str().strip_prefix("../active/")?.split_once('/')?;
    let manifest = manifests.get(name)?;
    let file = manifest.resolve(&path.parse().ok()?)?;
    match manifest.get(file.as_str())? {
        manifest::Entry::File { sha256, .. } => Some(*sha256),
        _ => None,
    }
}
