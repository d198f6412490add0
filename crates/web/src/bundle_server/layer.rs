//! Where files come from: layers that are asked one after the other.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use camino::{Utf8Path, Utf8PathBuf};
use package::artifact::{Artifact, ArtifactFile};
use package::path::PackagePath;

use super::path::ServedPath;
use super::platform;

/// A file to be served. It is open: whatever happens to its name, this is what is sent.
#[derive(Debug, Clone)]
pub struct Found {
    /// The open file.
    pub file: Arc<File>,
    /// Where the content begins in it.
    pub offset: u64,
    /// How long the content is.
    pub length: u64,
    /// What no other content has, with its quotes.
    pub etag: String,
    /// When it was changed last.
    pub modified: SystemTime,
}

/// A set of files by path.
pub trait Layer: Debug + Send + Sync {
    /// Opens the file of this path, if there is one.
    fn find(&self, path: &ServedPath) -> io::Result<Option<Found>>;

    /// Whether its files can be reached.
    fn check(&self) -> io::Result<()>;
}

/// A folder, asked anew each time: what is published there is served from then on.
///
/// Links are followed as long as they stay in it.
#[derive(Debug)]
pub struct Folder {
    path: Utf8PathBuf,
}

impl Folder {
    /// The folder at `path`.
    pub fn new(path: &Utf8Path) -> Self {
        Self { path: path.to_owned() }
    }
}

impl Layer for Folder {
    fn find(&self, path: &ServedPath) -> io::Result<Option<Found>> {
        let Some(file) = platform::open_beneath(&self.path, path.as_str())? else {
            return Ok(None);
        };
        let about = file.metadata()?;
        if !about.is_file() {
            return Ok(None);
        }
        let modified = about.modified()?;
        // Files are replaced, not written to; whoever did that would change the times as well.
        let parts: Vec<String> =
            platform::identity(&about)?.iter().map(|part| format!("{part:x}")).collect();
        let etag = format!("\"{}\"", parts.join("-"));
        Ok(Some(Found { file: Arc::new(file), offset: 0, length: about.len(), etag, modified }))
    }

    fn check(&self) -> io::Result<()> {
        fs_err::read_dir(&self.path).map(drop)
    }
}

/// The files in an artifact, each where it lies. It stays open: another artifact of the same name is not
/// noticed.
#[derive(Debug)]
pub struct ArtifactFiles {
    file: Arc<File>,
    modified: SystemTime,
    files: BTreeMap<PackagePath, ArtifactFile>,
}

impl ArtifactFiles {
    /// The files in this artifact.
    pub fn open(artifact: &Artifact) -> io::Result<Self> {
        let file = fs_err::File::open(artifact.path())?;
        let modified = file.metadata()?.modified()?;
        Ok(Self { file: Arc::new(file.into()), modified, files: artifact.files().clone() })
    }
}

impl Layer for ArtifactFiles {
    fn find(&self, path: &ServedPath) -> io::Result<Option<Found>> {
        Ok(self.files.get(path.as_str()).map(|file| Found {
            file: Arc::clone(&self.file),
            offset: file.offset,
            length: file.size,
            etag: format!("\"{}\"", file.sha256),
            modified: self.modified,
        }))
    }

    fn check(&self) -> io::Result<()> {
        self.file.metadata().map(drop)
    }
}
