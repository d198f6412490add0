//! Packages that are made on the host: their files in memory, and on disk.
//!
//! What is in them may be secret. Every file is written so that only its owner can read it, and gets
//! the mode that it asks for afterwards.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use camino::Utf8Path;
use package::PackageId;
use package::digest::Sha256;
use package::durable::{self, Staging};
use package::manifest::{Entry, Manifest, Mode};
use package::path::PackagePath;

use crate::host::Host;
use crate::platform::{self, tree::Folder};
use crate::store::{self, MADE_MANIFEST, Package, StoreError};

/// A file of such a package.
#[derive(Clone, PartialEq, Eq)]
pub struct MadeFile {
    /// Its text.
    pub content: String,
    /// Its permission bits.
    pub mode: u32,
}

impl std::fmt::Debug for MadeFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MadeFile").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// The files of such a package.
pub(crate) type MadeFiles = BTreeMap<PackagePath, MadeFile>;

/// The manifest of a package of these files.
pub(crate) fn manifest(files: &MadeFiles) -> Manifest {
    let mut entries = BTreeMap::new();
    for (path, MadeFile { content, mode }) in files {
        for above in std::iter::successors(path.parent(), PackagePath::parent) {
            entries.insert(above, Entry::Directory { mode: Mode::new(0o755) });
        }
        let (size, sha256) = (content.len() as u64, Sha256::of(content.as_bytes()));
        entries.insert(path.clone(), Entry::File { mode: Mode::new(*mode), size, sha256 });
    }
    Manifest::new(entries).expect("every folder above a file was put in, and no reserved name is")
}

/// The first file that lies below another file, with that one.
pub(crate) fn below(files: &MadeFiles) -> Option<(&PackagePath, PackagePath)> {
    files.keys().find_map(|path| {
        let above = std::iter::successors(path.parent(), PackagePath::parent);
        Some((path, above.into_iter().find(|above| files.contains_key(above))?))
    })
}

impl Host {
    /// Makes a package aside; its users own their files from the first moment, as far as they exist.
    pub(crate) fn make_aside(
        &self,
        id: &PackageId,
        files: &MadeFiles,
    ) -> Result<(Staging, Package), StoreError> {
        let staging = Staging::of(&self.store.path(id))?;
        let folder = staging.path();
        write(folder, files)?;
        let manifest = manifest(files);
        let is_secret = store::is_secret(&manifest, false);
        let write = if is_secret { durable::create_private } else { durable::write };
        write(&folder.join(MADE_MANIFEST), &manifest.to_json())?;
        let package = self.store.load_at(folder, id)?;
        if let Some(accounts) = self.machine.as_ref().and_then(|machine| machine.accounts.as_ref())
        {
            for (path, user) in &package.info.owners {
                if let Some(account) = accounts.user(user.as_str())? {
                    Folder::open(folder)?.set_owner(path.as_str(), account.uid)?;
                }
            }
        }
        Ok((staging, package))
    }

    /// Keeps something that only the owner of the installation reads; when this returns it lasts.
    pub(crate) fn keep_private(&self, path: &Utf8Path, content: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.paths.root);
        platform::create_folders(folder)?;
        platform::set_mode(folder, 0o700)?;
        durable::sweep(folder)?;
        // A temporary file is private from its first moment on.
        let mut file = durable::create_beside(path)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        durable::sync_directory(folder)?;
        durable::sync_directory(&self.paths.root)
    }

    /// Forgets what a package was made of that is gone.
    pub(crate) fn forget_inputs(&self, id: &PackageId) -> io::Result<()> {
        for path in [self.paths.late(id), self.paths.sealed(id)] {
            match fs_err::remove_file(path) {
                Err(error) if !crate::paths::is_absence(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Writes the files to the new folder `folder`, with the modes they ask for, whatever the umask is.
fn write(folder: &Utf8Path, files: &MadeFiles) -> io::Result<()> {
    fs_err::create_dir(folder)?;
    platform::set_mode(folder, 0o755)?;
    for (path, file) in files {
        let above: Vec<_> = std::iter::successors(path.parent(), PackagePath::parent).collect();
        for above in above.iter().rev() {
            let above = folder.join(above.as_str());
            if !durable::is_folder(&above)? {
                fs_err::create_dir(&above)?;
                platform::set_mode(&above, 0o755)?;
            }
        }
        let at = folder.join(path.as_str());
        platform::create_private(&at)?.write_all(file.content.as_bytes())?;
        platform::set_mode(&at, file.mode)?;
    }
    Ok(())
}
