//! What was built, and where: the folder `cache` of a tree.
//!
//! A package counts as built when its archive is there; it is written last, and in one piece.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::id::{PackageId, PackageName, Variant};
use package::lock::{Lock, LockError};
use package::{Cancel, Sha256, durable, json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::platform;
use crate::tree::PackageKey;

/// The name of the folder in a tree.
pub const FOLDER: &str = "cache";

/// The version of the form of a [`Record`].
const FORMAT: u32 = 1;

/// The lock of a folder: who has it is the only one who makes something there.
pub(crate) const LOCK: &str = "lock";

/// What is known of a built package besides its archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub(crate) format: u32,
    /// The package.
    pub id: PackageId,
    /// Its variant.
    pub variant: Variant,
    /// Its content digest.
    pub digest: Sha256,
    /// The length of its archive.
    pub archive_bytes: u64,
    /// The length of its files together.
    pub unpacked_bytes: u64,
    /// Whether the build could use the network, so that nobody can say what it is made of.
    pub impure: bool,
    /// Everything that its id was made from.
    pub inputs: Value,
    /// Where its sources came from, which is no part of the package.
    pub origins: Value,
}

impl Record {
    pub(crate) fn new(id: PackageId, variant: Variant, digest: Sha256, inputs: Value) -> Self {
        Self {
            format: FORMAT,
            id,
            variant,
            digest,
            archive_bytes: 0,
            unpacked_bytes: 0,
            impure: false,
            inputs,
            origins: Value::Null,
        }
    }
}

/// The cache folder of one tree.
#[derive(Debug, Clone)]
pub struct Cache {
    root: Utf8PathBuf,
}

impl Cache {
    /// The cache at `root`, which need not exist.
    pub fn new(root: Utf8PathBuf) -> Self {
        Self { root }
    }

    /// Keeps every other build of this tree out until the guard is dropped; `wait` is called if
    /// there is one to wait for.
    pub(crate) fn lock(&self, cancel: &Cancel, wait: &dyn Fn()) -> io::Result<Lock> {
        Lock::take(&self.root.join(LOCK), cancel, wait).map_err(|error| match error {
            LockError::Io(error) => error,
            LockError::Cancelled(cancelled) => io::Error::other(cancelled),
        })
    }

    /// Where the package's archive is or would be. Packages for Windows are zip files.
    pub fn archive(&self, id: &PackageId, variant: &Variant) -> Utf8PathBuf {
        let suffix = match variant {
            Variant::Named(name) if name.as_str() == "windows" => "zip",
            _ => "tar.zst",
        };
        self.file(id, suffix)
    }

    /// Where everything in a set is listed.
    pub(crate) fn complete_list(&self, variant: &Variant) -> Utf8PathBuf {
        let name = format!("{}complete.latest.json", variant.file_prefix());
        self.folder("complete").join(name)
    }

    /// Where the output of the package's build script is.
    pub fn log(&self, id: &PackageId) -> Utf8PathBuf {
        self.file(id, "log")
    }

    fn file(&self, id: &PackageId, suffix: &str) -> Utf8PathBuf {
        self.packages(id.name()).join(format!("{id}.{suffix}"))
    }

    fn packages(&self, name: &PackageName) -> Utf8PathBuf {
        self.root.join("packages").join(name.as_str())
    }

    /// The folder for what is under way.
    pub(crate) fn work(&self) -> Utf8PathBuf {
        self.root.join("work")
    }

    /// Makes the folder for what is under way. Nobody else may look into it: what a build makes may
    /// be executable as somebody else, or not be meant for others.
    pub(crate) fn make_work(&self) -> io::Result<()> {
        fs_err::create_dir_all(self.work())?;
        platform::set_mode(&self.work(), 0o700)
    }

    /// The folder in which a package is built.
    pub(crate) fn build_folder(&self, key: &PackageKey) -> Utf8PathBuf {
        self.work().join("builds").join(format!("{}{}", key.variant.file_prefix(), key.name))
    }

    /// Removes what the packages of one build share.
    pub(crate) fn remove_shared_work(&self) -> io::Result<()> {
        for name in ["packages", "remote", "bootstrap"] {
            durable::remove_tree(&self.work().join(name))?;
        }
        Ok(())
    }

    /// Removes the folder for what is under way, unless something is kept in it.
    pub(crate) fn remove_work_if_empty(&self) {
        for folder in [self.work().join("builds"), self.work()] {
            // Not empty, or not there: both are fine.
            drop(fs_err::remove_dir(folder));
        }
    }

    /// Removes what a build that was killed left half written. Only for who holds the lock.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        self.remove_shared_work()?;
        for name in ["bootstrap", "complete"] {
            durable::sweep(&self.folder(name))?;
        }
        sweep_each(&self.folder("packages"))?;
        for folder in ["roots", "upstream"].map(|name| self.folder(name)) {
            // These are filled before a build begins, by whoever has the lock of the folder.
            if folder.exists()
                && let Some(_alone) = Lock::try_take(&folder.join(LOCK))?
            {
                durable::sweep(&folder)?;
            }
        }
        Ok(())
    }

    /// A folder for one purpose.
    pub(crate) fn folder(&self, name: &str) -> Utf8PathBuf {
        self.root.join(name)
    }

    /// The record of a package that is built. Looks at no content.
    pub fn lookup(&self, id: &PackageId, variant: &Variant) -> Option<Record> {
        if !self.archive(id, variant).exists() {
            return None;
        }
        self.record(id)
    }

    fn record(&self, id: &PackageId) -> Option<Record> {
        let record: Record =
            serde_json::from_slice(&fs_err::read(self.file(id, "json")).ok()?).ok()?;
        (record.format == FORMAT && record.id == *id).then_some(record)
    }

    /// Writes what is known of a package; to be done before its archive gets its name.
    pub(crate) fn write_record(&self, record: &Record) -> io::Result<()> {
        durable::write(&self.file(&record.id, "json"), json::pretty(record).as_bytes())
    }

    /// Notes the package as the latest of its variant.
    pub(crate) fn write_latest(&self, record: &Record) -> io::Result<()> {
        let path = self.latest_file(record.id.name(), &record.variant);
        let content = record.id.to_string();
        if fs_err::read(&path).is_ok_and(|known| known == content.as_bytes()) {
            return Ok(());
        }
        durable::write(&path, content.as_bytes())
    }

    /// The record of the package that was built last for `key`.
    pub(crate) fn latest(&self, key: &PackageKey) -> Option<Record> {
        let id = fs_err::read_to_string(self.latest_file(&key.name, &key.variant)).ok()?;
        self.record(&id.parse().ok()?)
    }

    fn latest_file(&self, name: &PackageName, variant: &Variant) -> Utf8PathBuf {
        self.packages(name).join(format!("{}latest", variant.file_prefix()))
    }

    /// The folder that holds the cache.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }
}

/// Deletes what was not finished in the folders of `folder`.
pub(crate) fn sweep_each(folder: &Utf8Path) -> io::Result<()> {
    let walk = walkdir::WalkDir::new(folder).min_depth(1).max_depth(1);
    // Without the folder there is nothing to sweep.
    for entry in walk.into_iter().flatten() {
        if let Some(inner) = Utf8Path::from_path(entry.path())
            && entry.file_type().is_dir()
        {
            durable::sweep(inner)?;
        }
    }
    Ok(())
}
