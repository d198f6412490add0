//! Secrets on the host: a package made of what only hosts of its role can decrypt.
//!
//! Kept for making it again: the encrypted secrets as they came, and the key. Nothing else that lies
//! here, and nothing that is said, tells what is in it: the manifest is as private as the files, and
//! its digest, which everybody may know, is salted.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::Utf8PathBuf;
use package::PackageId;
use package::id::RoleName;
use package::manifest::Mode;
use package::path::PackagePath;
use package::pkginfo::{PKGINFO, PkgInfo};
use package::secret::{PathProblem, RoleKey, SecretError, Secrets};

use super::make::{self, MadeFile, MadeFiles};
use crate::derived::remove_file;
use crate::event::Event;
use crate::host::{Host, HostError, Job};
use crate::platform::tree::Folder;
use crate::store::{self, SALT, StoreError};

/// The largest key file that is read.
const KEY_MAX_BYTES: u64 = 64 << 10;
/// The largest encrypted secrets that are read.
const SEALED_MAX_BYTES: u64 = 32 << 20;

/// Why secrets cannot become a package.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SealedError {
    #[error("this host has no key for them")]
    NoKey,
    #[error(transparent)]
    Open(#[from] SecretError),
    #[error("`{0}` cannot be a secret: everybody reads a file of that name")]
    Public(PackagePath),
    #[error("`{0}` is a name that this program keeps for itself")]
    Reserved(PackagePath),
    #[error("`{below}` cannot be below `{above}`, which is a file")]
    Below { below: PackagePath, above: PackagePath },
    #[error("`{path}` has the mode {mode}: others than its owner could read it")]
    Mode { path: PackagePath, mode: Mode },
}

/// Secrets that a key of this host opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) package: PackageId,
    roles: BTreeSet<RoleName>,
    sealed: Vec<u8>,
    key: RoleKey,
    files: MadeFiles,
}

impl Opened {
    /// The files of the package that is made of them.
    pub(crate) fn files(&self) -> &MadeFiles {
        &self.files
    }
}

impl Host {
    /// Opens the secrets of `package`, which are for `roles`, with one of `keys`.
    pub(crate) fn open_secrets(
        &self,
        (package, roles): (&PackageId, &BTreeSet<RoleName>),
        sealed: Vec<u8>,
        keys: &[RoleKey],
    ) -> Result<Opened, SealedError> {
        if keys.is_empty() {
            return Err(SealedError::NoKey);
        }
        let secrets = Secrets::open(&sealed, keys, package)?;
        let opens =
            |key: &&RoleKey| Secrets::open(&sealed, std::slice::from_ref(*key), package).is_ok();
        let key = keys.iter().find(opens).cloned().ok_or(SecretError::OtherKey)?;
        let files = self.files_of(&secrets)?;
        Ok(Opened { package: package.clone(), roles: roles.clone(), sealed, key, files })
    }

    /// The files of the package that these secrets make.
    fn files_of(&self, secrets: &Secrets) -> Result<MadeFiles, SealedError> {
        let mut files = MadeFiles::new();
        let mut info = PkgInfo { configuration: true, ..PkgInfo::default() };
        for (path, file) in &secrets.files {
            match Secrets::path_problem(path, &self.distribution) {
                Some(PathProblem::Reserved) => return Err(SealedError::Reserved(path.clone())),
                Some(PathProblem::Public) => return Err(SealedError::Public(path.clone())),
                None => {}
            }
            if file.mode.bits() & !0o700 != 0 {
                return Err(SealedError::Mode { path: path.clone(), mode: file.mode });
            }
            if let Some(user) = &file.user {
                info.owners.insert(path.clone(), user.clone());
            }
            let (content, mode) = (file.content.clone(), file.mode.bits());
            files.insert(path.clone(), MadeFile { content, mode });
        }
        let plain = |name: &str| name.parse::<PackagePath>().expect("the name is plain");
        let salt = MadeFile { content: format!("{}\n", secrets.salt()), mode: 0o400 };
        files.insert(plain(SALT), salt);
        files.insert(plain(PKGINFO), MadeFile { content: info.to_json(), mode: 0o644 });
        match make::below(&files) {
            Some((below, above)) => Err(SealedError::Below { below: below.clone(), above }),
            None => Ok(files),
        }
    }

    /// Keeps the keys that opened secrets, each with the roles whose secrets those are.
    pub(crate) fn keep_keys(&self, opened: &[Opened]) -> io::Result<()> {
        let mut texts: BTreeMap<String, (&RoleKey, BTreeSet<&str>)> = BTreeMap::new();
        for Opened { key, roles, .. } in opened {
            let (_, of_key) =
                texts.entry(key.recipient().to_string()).or_insert((key, BTreeSet::new()));
            of_key.extend(roles.iter().map(RoleName::as_str));
        }
        for (recipient, (key, roles)) in texts {
            let path = self.key(&recipient);
            let text = key.to_file(&format!(
                "reads the secrets of {}",
                roles.into_iter().collect::<Vec<_>>().join(", ")
            ));
            if fs_err::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                self.keep_private(&path, text.as_bytes())?;
            }
        }
        Ok(())
    }

    fn key(&self, recipient: &str) -> Utf8PathBuf {
        self.paths.keys().join(format!("{recipient}.key"))
    }

    /// Removes the keys that open nothing that is kept.
    pub(crate) fn forget_keys(&self) -> io::Result<()> {
        let keys = self.kept_keys()?;
        if keys.is_empty() {
            return Ok(());
        }
        let mut kept = Vec::new();
        for name in store::entries(&self.paths.root.join("late"))? {
            let id = name.strip_suffix(".age").and_then(|id| id.parse::<PackageId>().ok());
            if let Some(id) = id {
                kept.push((fs_err::read(self.paths.sealed(&id))?, id));
            }
        }
        for key in keys {
            let keys = std::slice::from_ref(&key);
            // What cannot be told to be of another key is no reason to lose one.
            let is_other = |(sealed, id): &(Vec<u8>, PackageId)| {
                matches!(Secrets::open(sealed, keys, id), Err(SecretError::OtherKey))
            };
            if kept.iter().all(is_other) {
                remove_file(&self.key(&key.recipient().to_string()))?;
            }
        }
        Ok(())
    }

    /// Makes the package, unless it is there, after what it is made of is kept.
    pub(crate) fn add_secrets(&self, opened: &Opened, job: &Job<'_>) -> Result<(), HostError> {
        let id = &opened.package;
        let _locks = self.store.work_on(id, job.cancel, job.observer)?;
        let already = self.store.contains(id)?;
        if already {
            let (found, expected) =
                (self.store.digest(id)?, make::manifest(&opened.files).digest());
            if found != expected {
                return Err(StoreError::Other { id: id.clone(), found, expected }.into());
            }
        }
        if self.kept_secrets(id).is_none() {
            self.keep_private(&self.paths.sealed(id), &opened.sealed)?;
        }
        if !already {
            let (staging, _) = self.make_aside(id, &opened.files)?;
            self.store.publish(id, &staging)?;
        }
        job.observer.event(&Event::Stored { id, already });
        Ok(())
    }

    /// The files that the kept secrets of a package make.
    pub(crate) fn kept_secrets(&self, id: &PackageId) -> Option<MadeFiles> {
        let path = self.paths.sealed(id);
        let folder = Folder::open(path.parent()?).ok()?;
        let sealed = folder.read(path.file_name()?, SEALED_MAX_BYTES).ok()?;
        let secrets = Secrets::open(&sealed, &self.kept_keys().ok()?, id).ok()?;
        self.files_of(&secrets).ok()
    }

    /// The keys that this host got before.
    pub(crate) fn kept_keys(&self) -> io::Result<Vec<RoleKey>> {
        let folder = match Folder::open(&self.paths.keys()) {
            Err(error) if crate::paths::is_absence(&error) => return Ok(Vec::new()),
            folder => folder?,
        };
        let mut keys = Vec::new();
        for name in folder.names()?.iter().filter_map(|name| name.to_str()) {
            let text = folder.read(name, KEY_MAX_BYTES)?;
            // One that somebody damaged opens nothing, which is told then.
            keys.extend(String::from_utf8(text).ok().and_then(|text| text.parse().ok()));
        }
        Ok(keys)
    }
}
