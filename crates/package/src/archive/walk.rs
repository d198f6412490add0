//! What lies in a folder that is to become a package.

use std::collections::BTreeMap;
use std::io::{self, Read};

use camino::{Utf8Path, Utf8PathBuf};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use super::error::PackError;
use crate::cancel::Cancel;
use crate::digest::Hasher;
use crate::manifest::{Entry, MANIFEST, Manifest, Mode};
use crate::path::PackagePath;
use crate::platform;

/// What stands at a path; a file's size and digest are known when it is read.
pub(super) enum Found {
    File { mode: Mode },
    Other(Entry),
}

/// Everything below `folder`, in order, but a `manifest.json` at its top.
pub(super) fn walk(folder: &Utf8Path) -> Result<BTreeMap<PackagePath, Found>, PackError> {
    let mut walk = Walk::default();
    walk.folder(folder, None)
        .map_err(|source| PackError::Io { folder: folder.to_owned(), source })?;
    if walk.problems.is_empty() {
        return Ok(walk.found);
    }
    walk.problems.sort();
    Err(PackError::Refused { folder: folder.to_owned(), problems: walk.problems })
}

/// The manifest of `folder`: every file is hashed, on all cores.
pub fn scan(folder: &Utf8Path, cancel: &Cancel) -> Result<Manifest, PackError> {
    let io_error = |source| PackError::Io { folder: folder.to_owned(), source };
    let entries = walk(folder)?
        .into_par_iter()
        .map(|(path, found)| {
            cancel.check()?;
            let entry = match found {
                Found::Other(entry) => entry,
                Found::File { mode } => {
                    let mut content = Content::open(folder, &path).map_err(io_error)?;
                    io::copy(&mut content, &mut io::sink()).map_err(io_error)?;
                    content.entry(mode)?
                }
            };
            Ok((path, entry))
        })
        .collect::<Result<BTreeMap<_, _>, PackError>>()?;
    Manifest::new(entries).map_err(|error| io_error(io::Error::other(error)))
}

/// A file that is hashed while it is read.
pub(super) struct Content {
    path: Utf8PathBuf,
    file: fs_err::File,
    /// The length when it was opened.
    pub(super) size: u64,
    read: u64,
    hasher: Hasher,
}

impl Content {
    pub(super) fn open(folder: &Utf8Path, path: &PackagePath) -> io::Result<Self> {
        let path = folder.join(path.as_str());
        let file = fs_err::File::open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size, read: 0, hasher: Hasher::new() })
    }

    /// What was read, which must be as long as it was when it was opened.
    pub(super) fn entry(self, mode: Mode) -> Result<Entry, PackError> {
        if self.read != self.size {
            return Err(PackError::Changed(self.path));
        }
        Ok(Entry::File { mode, size: self.size, sha256: self.hasher.finish() })
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.read += count as u64;
        Ok(count)
    }
}

#[derive(Default)]
struct Walk {
    found: BTreeMap<PackagePath, Found>,
    problems: Vec<String>,
}

impl Walk {
    fn folder(&mut self, folder: &Utf8Path, at: Option<&PackagePath>) -> io::Result<()> {
        for entry in fs_err::read_dir(folder)? {
            let name = entry?.file_name();
            let path = match (name.to_str(), at) {
                (Some(MANIFEST), None) => continue,
                (Some(name), None) => name.parse(),
                (Some(name), Some(at)) => at.join(name),
                (None, _) => {
                    let shown = name.to_string_lossy();
                    self.problems.push(format!("`{folder}/{shown}`: its name is not UTF-8"));
                    continue;
                }
            };
            match path {
                Ok(path) => self.entry(&folder.join(path.name()), path)?,
                Err(error) => self.problems.push(error.to_string()),
            }
        }
        Ok(())
    }

    fn entry(&mut self, on_disk: &Utf8Path, path: PackagePath) -> io::Result<()> {
        let metadata = fs_err::symlink_metadata(on_disk)?;
        // A folder takes the set-gid bit from the one it is made in, which says nothing about it.
        let mask = if metadata.is_dir() { 0o5777 } else { 0o7777 };
        let mode = Mode::new(platform::mode_of(&metadata) & mask);
        let found = if metadata.is_dir() {
            self.folder(on_disk, Some(&path))?;
            Found::Other(Entry::Directory { mode })
        } else if metadata.is_symlink() {
            let Ok(target) = fs_err::read_link(on_disk)?.into_os_string().into_string() else {
                self.problems.push(format!("`{path}`: its link target is not UTF-8"));
                return Ok(());
            };
            Found::Other(Entry::Link { target })
        } else if metadata.is_file() {
            Found::File { mode }
        } else {
            self.problems.push(format!("`{path}`: it is a device, pipe or socket"));
            return Ok(());
        };
        self.found.insert(path, found);
        Ok(())
    }
}
