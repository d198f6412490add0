//! The packages of this host: each in a folder of its own, visible under its name only when it is
//! complete and verified, and never changed afterwards.
//!
//! Any number of processes may add and fetch at once. A package that came without a manifest, as
//! those of the reference do, gets one when it is added, under another name: it tells what arrived,
//! not what should have.

mod add;
mod error;
mod fetch;
mod several;
mod unpacked;

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::archive;
use package::lock::Lock;
use package::manifest::{Entry, Manifest};
use package::path::PackagePath;
use package::{Cancel, PackageId, Sha256, durable};

use crate::event::{Event, Observer};
use crate::platform;

pub use add::{Added, Trust};
pub use error::StoreError;
pub use fetch::{OpenError, Repository, RepositoryError};
pub use unpacked::Package;

pub(crate) use package::manifest::UNVERIFIED as MADE_MANIFEST;
pub(crate) use package::secret::SALT;

/// The folder of all packages.
#[derive(Debug, Clone)]
pub struct Store {
    folder: Utf8PathBuf,
}

/// What differs from the manifest at one path: what should be there, and what is.
pub type Difference = (PackagePath, Option<Entry>, Option<Entry>);

impl Store {
    /// The store in `folder`, which need not exist.
    pub fn new(folder: Utf8PathBuf) -> Self {
        Self { folder }
    }

    /// The folder of all packages.
    pub(crate) fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// Where the package lies if it is there.
    pub fn path(&self, id: &PackageId) -> Utf8PathBuf {
        self.folder.join(id.to_string())
    }

    /// Whether the package is there.
    pub fn contains(&self, id: &PackageId) -> io::Result<bool> {
        // A link is no package: what is written into it would land elsewhere.
        match fs_err::symlink_metadata(self.path(id)) {
            Ok(found) => Ok(found.is_dir()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// All packages, in order.
    pub fn list(&self) -> io::Result<Vec<PackageId>> {
        let mut ids = Vec::new();
        for id in entries(&self.folder)?.iter().filter_map(|name| name.parse().ok()) {
            if self.contains(&id)? {
                ids.push(id);
            }
        }
        ids.sort();
        Ok(ids)
    }

    /// Reads what a package says of itself.
    pub fn load(&self, id: &PackageId) -> Result<Package, StoreError> {
        unpacked::load(&self.path(id), id)
    }

    /// The same of a package that another program unpacked here without a manifest.
    pub(crate) fn load_any(&self, id: &PackageId) -> Result<Package, StoreError> {
        unpacked::load_with(&self.path(id), id, || scan(&self.path(id), id, &Cancel::new()))
    }

    /// The content digest of a package as its manifest tells it.
    pub(crate) fn digest(&self, id: &PackageId) -> Result<Sha256, StoreError> {
        unpacked::digest(&self.path(id), id)
    }

    /// Compares every byte of a package with its manifest; the answer is empty when all is well.
    pub fn verify(&self, id: &PackageId, cancel: &Cancel) -> Result<Vec<Difference>, StoreError> {
        let package = self.load(id)?;
        let found = scan(&self.path(id), id, cancel)?;
        let differences = package.manifest.differences(&found);
        Ok(differences.map(|(path, old, new)| (path.clone(), old.cloned(), new.cloned())).collect())
    }

    /// Makes a manifest for a package that another program unpacked here without one.
    pub(crate) fn adopt(&self, id: &PackageId, cancel: &Cancel) -> Result<(), StoreError> {
        let folder = self.path(id);
        match unpacked::load(&folder, id) {
            Err(StoreError::NoManifest(_)) => {
                let manifest = scan(&folder, id, cancel)?;
                durable::write(&folder.join(MADE_MANIFEST), &manifest.to_json())?;
                Ok(())
            }
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Reads what a package says of itself that lies elsewhere.
    pub(crate) fn load_at(&self, folder: &Utf8Path, id: &PackageId) -> Result<Package, StoreError> {
        unpacked::load(folder, id)
    }

    /// A path for a file that is read at once and removed.
    pub(crate) fn scratch(&self) -> io::Result<Utf8PathBuf> {
        platform::create_folders(&self.folder)?;
        Ok(self.folder.join(format!("{}scratch", durable::TEMPORARY)))
    }

    /// Takes a package away: at once for everybody, then from the disk.
    pub(crate) fn remove(&self, id: &PackageId) -> Result<(), StoreError> {
        if !self.contains(id)? {
            return Err(StoreError::NotFound(id.clone()));
        }
        let trash = self.folder.join(format!("{}removed-{id}", durable::TEMPORARY));
        durable::remove_tree(&trash)?;
        fs_err::rename(self.path(id), &trash)?;
        if let Err(error) = durable::sync_directory(&self.folder) {
            fs_err::rename(&trash, self.path(id))?;
            return Err(error.into());
        }
        Ok(durable::remove_tree(&trash)?)
    }

    /// Removes what interrupted work left behind, unless somebody is at work.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let is_left =
            |name: &String| name.starts_with(durable::TEMPORARY) || name.starts_with(PACKAGE_LOCK);
        if !entries(&self.folder)?.iter().any(is_left) {
            return Ok(());
        }
        let Some(_alone) = Lock::try_take(&self.folder.join(LOCK))? else {
            return Ok(());
        };
        // Whoever was at work a moment ago took their own away.
        for name in entries(&self.folder)?.into_iter().filter(is_left) {
            remove_any(&self.folder.join(name))?;
        }
        Ok(())
    }

    /// Removes downloads that nobody went on with.
    pub(crate) fn forget_downloads(&self) -> io::Result<()> {
        if !durable::is_folder(&self.folder)? {
            return Ok(());
        }
        let Some(_alone) = Lock::try_take(&self.folder.join(LOCK))? else {
            return Ok(());
        };
        for name in entries(&self.folder)? {
            if name.starts_with(fetch::DOWNLOAD) {
                remove_any(&self.folder.join(name))?;
            }
        }
        Ok(())
    }

    /// Keeps the sweeper away.
    pub(crate) fn in_use(
        &self,
        cancel: &Cancel,
        observer: &dyn Observer,
    ) -> Result<Lock, StoreError> {
        platform::create_folders(&self.folder)?;
        let wait = || observer.event(&Event::Waiting { what: "the store" });
        Ok(Lock::share(&self.folder.join(LOCK), cancel, &wait)?)
    }

    /// Keeps the sweeper away, and others from the same package.
    pub(crate) fn work_on(
        &self,
        id: &PackageId,
        cancel: &Cancel,
        observer: &dyn Observer,
    ) -> Result<(Lock, Lock), StoreError> {
        let shared = self.in_use(cancel, observer)?;
        let wait =
            || observer.event(&Event::Waiting { what: "somebody else who adds this package" });
        let own = Lock::take(&self.folder.join(format!("{PACKAGE_LOCK}{id}")), cancel, &wait)?;
        Ok((shared, own))
    }
}

/// Shared by all who add, held alone by whoever sweeps.
const LOCK: &str = ".lock";
/// With the id: held by the one who adds that package.
const PACKAGE_LOCK: &str = ".lock-";

/// The names in a folder; none where there is no folder.
pub(crate) fn entries(folder: &Utf8Path) -> io::Result<Vec<String>> {
    let listed = match fs_err::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in listed {
        // A name that is not UTF-8 is none of ours.
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

/// Removes a file, a link or a whole folder.
pub(crate) fn remove_any(path: &Utf8Path) -> io::Result<()> {
    if fs_err::symlink_metadata(path)?.is_dir() {
        durable::remove_tree(path)
    } else {
        fs_err::remove_file(path)
    }
}

/// Whether a package was made of secrets on this host: digests of its files are for nobody's eyes.
pub(crate) fn is_secret(manifest: &Manifest, verified: bool) -> bool {
    !verified && manifest.get(SALT).is_some()
}

/// The manifest of what lies in the folder of a package.
fn scan(folder: &Utf8Path, id: &PackageId, cancel: &Cancel) -> Result<Manifest, StoreError> {
    let found = archive::scan(folder, cancel).map_err(|error| StoreError::unreadable(id, error))?;
    let mut entries = found.entries().clone();
    if !fs_err::exists(folder.join(package::manifest::MANIFEST))? {
        entries.remove(MADE_MANIFEST);
    }
    Manifest::new(entries).map_err(|error| StoreError::unreadable(id, error))
}
