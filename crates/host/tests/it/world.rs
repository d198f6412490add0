//! A host in a temporary folder, packages for it, and what its folders hold.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;

use camino::{Utf8Path, Utf8PathBuf};
use host::event::{Event, Observer, Silent};
use host::history::By;
use host::plan::{Plan, Wanted};
use host::store::{Added, StoreError, Trust};
use host::{Clock, Host, HostError, Job, Paths};
use package::archive::{self, PackOptions};
use package::distribution::Distribution;
use package::{Cancel, PackageId};

/// The time at which everything happens.
pub(crate) struct Noon;

impl Clock for Noon {
    fn now(&self) -> jiff::Timestamp {
        "2026-01-02T12:00:00Z".parse().unwrap()
    }
}

/// Remembers what it was told, in words.
#[derive(Default)]
pub(crate) struct Listener(Mutex<Vec<String>>);

impl Observer for Listener {
    fn event(&self, event: &Event<'_>) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }
}

impl Listener {
    pub(crate) fn heard(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Raises a flag as soon as it hears something.
pub(crate) struct CancelAt<'a>(pub(crate) &'a str, pub(crate) &'a Cancel);

impl Observer for CancelAt<'_> {
    fn event(&self, event: &Event<'_>) {
        if format!("{event:?}").starts_with(self.0) {
            self.1.cancel();
        }
    }
}

/// One host.
pub(crate) struct World {
    _folder: tempfile::TempDir,
    pub(crate) top: Utf8PathBuf,
    pub(crate) host: Host,
    pub(crate) cancel: Cancel,
}

/// A file of a package: `x/` is a folder, `x@` a link with its target, anything else a file.
pub(crate) type File<'a> = (&'a str, &'a str);

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let host = host_at(&top);
        Self { _folder: folder, top, host, cancel: Cancel::new() }
    }

    pub(crate) fn root(&self) -> &Utf8Path {
        &self.host.paths.root
    }

    pub(crate) fn packages(&self) -> &Utf8Path {
        &self.host.paths.repository
    }

    pub(crate) fn job(&self) -> Job<'_> {
        self.job_for("a test", &Silent)
    }

    pub(crate) fn job_for<'a>(&'a self, reason: &str, observer: &'a dyn Observer) -> Job<'a> {
        Job { reason: reason.to_owned(), observer, ..job(&self.cancel) }
    }

    /// Packs a package to `archives/ID.tar.zst`.
    pub(crate) fn archive(&self, id: &str, info: &str, files: &[File<'_>]) -> Utf8PathBuf {
        self.archive_as(&format!("{id}.tar.zst"), info, files)
    }

    pub(crate) fn archive_as(&self, name: &str, info: &str, files: &[File<'_>]) -> Utf8PathBuf {
        let made = tempfile::tempdir_in(&self.top).unwrap();
        let folder = Utf8Path::from_path(made.path()).unwrap().join("package");
        lay_out(&folder, info, files);
        let archive = self.top.join("archives").join(name);
        let options = PackOptions { level: 1, threads: 1, ..Default::default() };
        archive::pack(&folder, &archive, &options).unwrap();
        archive
    }

    pub(crate) fn add_archive(
        &self,
        archive: &Utf8Path,
        trust: &Trust,
    ) -> Result<Added, StoreError> {
        self.host.store.add(archive, trust, &self.cancel, &Silent)
    }

    /// Adds a package to the store.
    pub(crate) fn add(&self, id: &str, info: &str, files: &[File<'_>]) -> PackageId {
        let archive = self.archive(id, info, files);
        self.add_archive(&archive, &Trust::default()).unwrap().id
    }

    /// Unpacks a package as the reference does: without a manifest.
    pub(crate) fn unpack_foreign(&self, id: &str, info: &str, files: &[File<'_>]) {
        lay_out(&self.packages().join(id), info, files);
    }

    pub(crate) fn has_roles(&self, roles: &[&str]) {
        let folder = self.host.paths.roles();
        drop(fs_err::remove_dir_all(&folder));
        fs_err::create_dir_all(&folder).unwrap();
        for role in roles {
            fs_err::write(folder.join(role), "").unwrap();
        }
    }

    pub(crate) fn flag(&self, name: &str, content: &str) {
        let path = self.host.paths.setup_flag(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }

    pub(crate) fn activate(&self, names: &[&str]) -> Result<Plan, HostError> {
        self.host.activate(&wanted(names), &self.job())
    }

    pub(crate) fn rollback_to(&self, number: u64) -> Result<Plan, HostError> {
        self.host.activate(&Wanted::Generation(number), &self.job())
    }

    pub(crate) fn live(&self) -> u64 {
        self.host.live().unwrap().number
    }

    pub(crate) fn active(&self) -> Vec<String> {
        self.host.active().unwrap().iter().map(ToString::to_string).collect()
    }

    /// Everything in the install root and the configuration, with modes and contents.
    pub(crate) fn all(&self) -> String {
        listing(&self.top, &[".lock", "archives", "history.jsonl"], true)
    }

    /// What lies in the store, apart from the files that locks are held on.
    pub(crate) fn stored(&self) -> Vec<String> {
        names(self.packages()).into_iter().filter(|name| !name.starts_with(".lock")).collect()
    }

    /// What a failed call says, with paths that are the same in every run.
    pub(crate) fn said(&self, error: &dyn std::error::Error) -> String {
        package::causes(error).join(": ").replace(self.top.as_str(), "TOP")
    }
}

pub(crate) fn host_at(top: &Utf8Path) -> Host {
    let paths = Paths {
        root: top.join("root"),
        repository: top.join("root/packages"),
        config: top.join("config"),
    };
    Host::new(Distribution::default(), paths)
}

pub(crate) fn job(cancel: &Cancel) -> Job<'_> {
    let by = By {
        user: "ada".to_owned(),
        command: "monobloc activate".to_owned(),
        program: "monobloc 0.1.0".to_owned(),
    };
    Job { by, reason: "a test".to_owned(), clock: &Noon, cancel, observer: &Silent }
}

pub(crate) fn ids(names: &[&str]) -> BTreeSet<PackageId> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

pub(crate) fn wanted(names: &[&str]) -> Wanted {
    Wanted::Packages(ids(names))
}

/// Writes the files of a package to the new folder `folder`.
pub(crate) fn lay_out(folder: &Utf8Path, info: &str, files: &[File<'_>]) {
    fs_err::create_dir_all(folder).unwrap();
    fs_err::write(folder.join("pkginfo.json"), info).unwrap();
    for (path, content) in files {
        let at = folder.join(path.trim_end_matches(['/', '@']));
        fs_err::create_dir_all(at.parent().unwrap()).unwrap();
        if path.ends_with('/') {
            fs_err::create_dir_all(at).unwrap();
        } else if path.ends_with('@') {
            std::os::unix::fs::symlink(content, at).unwrap();
        } else {
            fs_err::write(&at, content).unwrap();
            let is_program = path.starts_with("bin") || path.starts_with("check");
            let mode = if is_program { 0o755 } else { 0o644 };
            fs_err::set_permissions(at, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// The names in a folder, sorted; none where there is no folder.
pub(crate) fn names(folder: &Utf8Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir_utf8() else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_owned()).collect();
    names.sort();
    names
}

/// Every path below `folder` with its mode and what the link says, one a line; folders and files
/// called as one of `but` are left out.
pub(crate) fn listing(folder: &Utf8Path, but: &[&str], contents: bool) -> String {
    let mut text = String::new();
    list(folder, folder, but, contents, &mut text);
    text
}

fn list(top: &Utf8Path, folder: &Utf8Path, but: &[&str], contents: bool, text: &mut String) {
    for name in names(folder) {
        if but.contains(&name.as_str()) || name.starts_with(".lock") {
            continue;
        }
        let path = folder.join(&name);
        let shown = path.strip_prefix(top).unwrap();
        let found = fs_err::symlink_metadata(&path).unwrap();
        let mode = found.permissions().mode() & 0o7777;
        if found.is_symlink() {
            writeln!(text, "     {shown} -> {}", path.read_link_utf8().unwrap()).unwrap();
        } else if found.is_dir() {
            writeln!(text, "{mode:04o} {shown}/").unwrap();
            list(top, &path, but, contents, text);
        } else {
            writeln!(text, "{mode:04o} {shown}").unwrap();
            if contents {
                let content = fs_err::read(&path).unwrap();
                writeln!(text, "{}", String::from_utf8_lossy(&content)).unwrap();
            }
        }
    }
}
