//! The root file system that builds see: the machine's own, by its fingerprint, or a pinned one.

use std::collections::BTreeMap;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::archive::{self, ExtractOptions, Format, UnpackError};
use package::digest::Hasher;
use package::lock::{Lock, LockError};
use package::{Cancel, Sha256, durable};
use serde_json::{Value, json};

use crate::cache::LOCK;
use crate::platform;
use crate::tree::PinnedRoot;

/// Folders of the machine's root that a build sees. Homes, state and mounted media are not among
/// them: builds have no business there, and their content is in no fingerprint.
const MACHINE: [&str; 8] = ["bin", "etc", "lib", "lib32", "lib64", "libx32", "sbin", "usr"];

/// Folders of any root that the sandbox makes itself.
const OWN: [&str; 6] = ["dev", "pkg", "proc", "run", "sys", "tmp"];

/// What is installed on the machine, as its package managers know it.
const DATABASES: [&str; 9] = [
    "/etc/os-release",
    "/var/lib/dpkg/status",
    "/var/lib/rpm/rpmdb.sqlite",
    "/var/lib/rpm/Packages",
    "/var/lib/rpm/Packages.db",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/Packages.db",
    "/lib/apk/db/installed",
    "/etc/ld.so.conf",
];

/// A root file system to build on.
#[derive(Debug, Clone)]
pub(crate) struct BuildRoot {
    /// What of it enters the ids.
    pub(crate) identity: Value,
    /// What the sandbox shows, by name at the top.
    pub(crate) entries: BTreeMap<String, Entry>,
    /// Whether others can have the very same root, so that their packages are as good as ours.
    pub(crate) pinned: bool,
}

/// Something at the top of a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A folder or file to show.
    Shown(Utf8PathBuf),
    /// A link and what it says.
    Link(String),
}

/// Why a root cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It could not be read.
    #[error("cannot read the root file system `{path}`")]
    Io {
        /// The root.
        path: Utf8PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is another one than was pinned.
    #[error(
        "the root file system `{path}` has the digest {found}, `distribution.toml` says {expected}"
    )]
    WrongDigest {
        /// The root.
        path: Utf8PathBuf,
        /// What was pinned.
        expected: Sha256,
        /// What is there.
        found: Sha256,
    },
    /// It could not be unpacked.
    #[error("cannot unpack the root file system `{path}`")]
    Unpack {
        /// The archive.
        path: Utf8PathBuf,
        /// Why.
        source: UnpackError,
    },
    /// Something in it cannot be hashed.
    #[error("cannot hash the root file system `{path}`")]
    Scan {
        /// The folder.
        path: Utf8PathBuf,
        /// Why.
        source: archive::PackError,
    },
}

impl BuildRoot {
    /// The machine's own root.
    pub(crate) fn machine() -> Result<Self, RootError> {
        let failed = |source| RootError::Io { path: "/".into(), source };
        let mut hasher = Hasher::new();
        hasher.update(std::env::consts::ARCH.as_bytes());
        for path in DATABASES.map(Utf8Path::new) {
            match fs_err::read(path) {
                Ok(content) => hash_database(&mut hasher, path, &content),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        // Package managers that keep a folder for each package; which program is meant by a name;
        // and where people put what no package manager knows of.
        for folder in ["/var/lib/pacman/local", "/var/db/pkg", "/etc/alternatives", "/usr/local"] {
            stamp(&mut hasher, Utf8Path::new(folder)).map_err(failed)?;
        }
        let entries = entries("/".into(), |name| MACHINE.contains(&name)).map_err(failed)?;
        let identity = json!({ "machine": hasher.finish() });
        Ok(Self { identity, entries, pinned: false })
    }

    /// A folder or archive that must have the digest that was pinned. Archives are unpacked below
    /// `cache` once.
    pub(crate) fn pinned(
        pin: &PinnedRoot,
        cache: &Utf8Path,
        cancel: &Cancel,
    ) -> Result<Self, RootError> {
        let io_error = |source| RootError::Io { path: pin.path.clone(), source };
        let is_folder = fs_err::metadata(&pin.path).map_err(io_error)?.is_dir();
        let mut hasher = Hasher::new();
        stamp(&mut hasher, &pin.path).map_err(io_error)?;
        // Hashing a root takes long, so what it was found to be is kept under its metadata.
        let known = cache.join(format!("{}.known", hasher.finish()));
        let noted = fs_err::read_to_string(&known).ok().and_then(|text| text.parse().ok());
        let found = match noted {
            Some(found) => found,
            None if is_folder => folder_digest(&pin.path, cancel)?,
            None => Sha256::of_file(&pin.path).map_err(io_error)?,
        };
        if found != pin.sha256 {
            let (path, expected) = (pin.path.clone(), pin.sha256);
            return Err(RootError::WrongDigest { path, expected, found });
        }
        if noted.is_none() {
            let _lock = lock(pin, cache, cancel)?;
            durable::write(&known, found.to_string().as_bytes()).map_err(io_error)?;
        }
        let folder = if is_folder { pin.path.clone() } else { unpacked(pin, cache, cancel)? };
        let entries = entries(&folder, |name| !OWN.contains(&name)).map_err(io_error)?;
        Ok(Self { identity: json!({ "root": pin.sha256 }), entries, pinned: true })
    }
}

/// Waits until nobody else makes something in the folder of unpacked roots.
fn lock(pin: &PinnedRoot, cache: &Utf8Path, cancel: &Cancel) -> Result<Lock, RootError> {
    let path = pin.path.clone();
    Lock::take(&cache.join(LOCK), cancel, &|| {}).map_err(|error| match error {
        LockError::Io(source) => RootError::Io { path, source },
        LockError::Cancelled(cancelled) => RootError::Unpack { path, source: cancelled.into() },
    })
}

fn unpacked(pin: &PinnedRoot, cache: &Utf8Path, cancel: &Cancel) -> Result<Utf8PathBuf, RootError> {
    let target = cache.join(pin.sha256.to_string());
    if target.exists() {
        return Ok(target);
    }
    let _lock = lock(pin, cache, cancel)?;
    if target.exists() {
        return Ok(target);
    }
    let failed = |source| RootError::Unpack { path: pin.path.clone(), source };
    let format = Format::of(&pin.path).map_err(|error| failed(error.into()))?;
    let options =
        ExtractOptions { skip_devices: true, cancel: cancel.clone(), ..Default::default() };
    archive::extract(&pin.path, format, &target, &options).map_err(failed)?;
    Ok(target)
}

/// The digest of what the sandbox would show of a root folder.
fn folder_digest(folder: &Utf8Path, cancel: &Cancel) -> Result<Sha256, RootError> {
    let io_error = |source| RootError::Io { path: folder.to_owned(), source };
    let mut hasher = Hasher::new();
    for (name, entry) in entries(folder, |name| !OWN.contains(&name)).map_err(io_error)? {
        let digest = match entry {
            Entry::Link(says) => Sha256::of(says.as_bytes()),
            Entry::Shown(path) if path.is_dir() => archive::scan(&path, cancel)
                .map_err(|source| RootError::Scan { path: folder.to_owned(), source })?
                .digest(),
            Entry::Shown(path) => Sha256::of_file(&path).map_err(io_error)?,
        };
        hasher.update(format!("{name} {digest}\n").as_bytes());
    }
    Ok(hasher.finish())
}

fn entries(
    root: &Utf8Path,
    is_shown: impl Fn(&str) -> bool,
) -> io::Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    for entry in fs_err::read_dir(root)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if !is_shown(&name) {
            continue;
        }
        let shown = if entry.file_type()?.is_symlink() {
            match fs_err::read_link(entry.path())?.into_os_string().into_string() {
                Ok(says) => Entry::Link(says),
                Err(_) => continue,
            }
        } else {
            Entry::Shown(root.join(&name))
        };
        entries.insert(name, shown);
    }
    Ok(entries)
}

/// Of dpkg's database only what is installed counts; it also keeps what was once wanted.
fn hash_database(hasher: &mut Hasher, path: &Utf8Path, content: &[u8]) {
    hasher.update(path.as_str().as_bytes());
    if path != "/var/lib/dpkg/status" {
        hasher.update(content);
        return;
    }
    let counts = [&b"Package:"[..], b"Status:", b"Architecture:", b"Version:"];
    for line in content.split(|byte| *byte == b'\n') {
        if counts.iter().any(|start| line.starts_with(start)) {
            hasher.update(line);
            hasher.update(b"\n");
        }
    }
}

/// Names, sizes and times of everything below `path`: changes when anything there is touched.
fn stamp(hasher: &mut Hasher, path: &Utf8Path) -> io::Result<()> {
    let walk = walkdir::WalkDir::new(path).sort_by_file_name();
    for entry in walk {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error)
                if error
                    .io_error()
                    .is_some_and(|error| error.kind() == io::ErrorKind::NotFound) =>
            {
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let metadata = entry.metadata()?;
        hasher.update(entry.path().as_os_str().as_encoded_bytes());
        hasher.update(platform::stamp(&metadata).as_bytes());
    }
    Ok(())
}
