//! Lays files out below a folder that nothing else writes to, several at a time. A path that was
//! made as a folder is the only thing that anything is ever written through: no link is followed.

use std::collections::HashMap;
use std::io::{self, Read, Write as _};
use std::sync::Mutex;
use std::thread::Scope;
use std::time::{Duration, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use crossbeam_channel::{Receiver, Sender, bounded};

use super::error::UnpackError;
use crate::digest::{Hasher, Sha256};
use crate::manifest::MANIFEST;
use crate::path::PackagePath;
use crate::platform;

/// Contents go to the workers in pieces of this size.
const PIECE: usize = 256 * 1024;
/// Files that wait for a worker; with `PIECE` this bounds the memory.
const QUEUE: usize = 32;
/// Further pieces of one file that wait.
const AHEAD: usize = 4;

/// What a path was made as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Directory,
    File,
    Link,
}

/// A file to write.
#[derive(Debug)]
struct Job {
    path: PackagePath,
    mode: u32,
    mtime: u64,
    expected: Option<Sha256>,
    first: Piece,
    /// What follows, of a file that is longer than one piece.
    rest: Option<Receiver<Piece>>,
}

/// A part of a file's content.
#[derive(Debug)]
struct Piece {
    buffer: Vec<u8>,
    length: usize,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

/// What a worker found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) size: u64,
    pub(super) sha256: Sha256,
}

/// State that the workers share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    archive: &'a Utf8Path,
    /// Where to write; `None` only checks.
    root: Option<&'a Utf8Path>,
    written: Mutex<HashMap<PackagePath, Written>>,
    failure: Mutex<Option<UnpackError>>,
    /// Buffers to use again: memory that is fresh for every file costs more than the copying.
    buffers: (Sender<Vec<u8>>, Receiver<Vec<u8>>),
}

impl<'a> Shared<'a> {
    pub(super) fn new(archive: &'a Utf8Path, root: Option<&'a Utf8Path>) -> Self {
        Self {
            archive,
            root,
            written: Mutex::default(),
            failure: Mutex::default(),
            buffers: bounded(QUEUE),
        }
    }

    fn fail(&self, error: UnpackError) {
        self.failure.lock().expect("no worker panics").get_or_insert(error);
    }

    fn write_error(&self, source: io::Error) -> UnpackError {
        UnpackError::Write { archive: self.archive.to_owned(), source }
    }

    /// Digests of all files; to be asked when the workers are done.
    pub(super) fn finish(self) -> Result<HashMap<PackagePath, Written>, UnpackError> {
        match self.failure.into_inner().expect("no worker panics") {
            Some(error) => Err(error),
            None => Ok(self.written.into_inner().expect("no worker panics")),
        }
    }

    /// Reads as much of `content` as a piece can hold; less only at its end.
    fn read_piece(&self, content: &mut dyn Read) -> Result<Piece, UnpackError> {
        let mut buffer = self.buffers.1.try_recv().unwrap_or_else(|_| vec![0; PIECE]);
        let mut length = 0;
        while length < PIECE {
            match content.read(&mut buffer[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(super::read::damaged(self.archive, error)),
            }
        }
        Ok(Piece { buffer, length })
    }

    fn recycle(&self, piece: Piece) {
        // Where there are enough of them, one more is let go.
        drop(self.buffers.0.try_send(piece.buffer));
    }

    fn run(&self, job: Job) -> Result<(), UnpackError> {
        let mut file = match self.root {
            Some(root) => Some(
                fs_err::File::create_new(root.join(job.path.as_str()))
                    .map_err(|error| self.write_error(error))?,
            ),
            None => None,
        };
        let mut hasher = Hasher::new();
        let mut size = 0;
        let rest = job.rest.iter().flatten();
        for piece in std::iter::once(job.first).chain(rest) {
            hasher.update(piece.bytes());
            size += piece.length as u64;
            if let Some(file) = &mut file {
                file.write_all(piece.bytes()).map_err(|error| self.write_error(error))?;
            }
            self.recycle(piece);
        }
        let written = Written { size, sha256: hasher.finish() };
        if let Some(expected) = job.expected
            && expected != written.sha256
        {
            return Err(UnpackError::Mismatch {
                archive: self.archive.to_owned(),
                entry: job.path.to_string(),
                difference: format!("SHA-256 is {}, expected {expected}", written.sha256),
            });
        }
        if let Some(file) = file {
            finish_file(&file, job.mode, job.mtime).map_err(|error| self.write_error(error))?;
        }
        self.written.lock().expect("no worker panics").insert(job.path, written);
        Ok(())
    }
}

fn finish_file(file: &fs_err::File, mode: u32, mtime: u64) -> io::Result<()> {
    platform::set_file_mode(file.file(), mode)?;
    // A time that cannot be told, such as one before 1970, is the first one that can.
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(mtime));
    file.file().set_modified(time.unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Takes entries in order and lays them out.
pub(super) struct Layout<'a> {
    shared: &'a Shared<'a>,
    jobs: Sender<Job>,
    made: HashMap<String, Made>,
    /// Lower-case forms of all paths, where names must differ by more than case.
    folded: Option<HashMap<String, String>>,
    pending: Pending,
}

/// What must wait until all files are written.
#[derive(Default)]
pub(super) struct Pending {
    /// Folders and their modes: one that forbids writing must be full first.
    modes: Vec<(Utf8PathBuf, u32)>,
    /// Files and the second names they get.
    hard_links: Vec<(PackagePath, PackagePath)>,
}

impl Pending {
    /// Does it.
    pub(super) fn complete(
        self,
        root: Option<&Utf8Path>,
        written: &mut HashMap<PackagePath, Written>,
    ) -> io::Result<()> {
        for (existing, path) in self.hard_links {
            if let Some(root) = root {
                fs_err::hard_link(root.join(existing.as_str()), root.join(path.as_str()))?;
            }
            if let Some(found) = written.get(&existing).copied() {
                written.insert(path, found);
            }
        }
        // Inner folders first: an outer one may forbid entering.
        for (folder, mode) in self.modes.iter().rev() {
            platform::set_mode(folder.as_std_path(), *mode)?;
        }
        Ok(())
    }
}

impl<'a> Layout<'a> {
    /// Starts the workers in `scope`; they end when the layout is dropped.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        shared: &'a Shared<'a>,
        windows: bool,
    ) -> Self
    where
        'a: 'scope,
    {
        let (jobs, queue) = bounded::<Job>(QUEUE);
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        for _ in 0..workers {
            let queue = queue.clone();
            scope.spawn(move || {
                for job in queue {
                    if let Err(error) = shared.run(job) {
                        shared.fail(error);
                    }
                }
            });
        }
        // The manifest is written last, and must not fall onto anything.
        let manifest = (MANIFEST.to_lowercase(), MANIFEST.to_owned());
        let folded = windows.then(|| HashMap::from([manifest]));
        Self { shared, jobs, made: HashMap::new(), folded, pending: Pending::default() }
    }

    fn refuse(&self, path: &PackagePath, reason: impl Into<String>) -> UnpackError {
        UnpackError::Refused {
            archive: self.shared.archive.to_owned(),
            entry: path.to_string(),
            reason: reason.into(),
        }
    }

    /// Checks that `path` may be made as `made` and makes the folders above it that are missing.
    fn claim(&mut self, path: &PackagePath, made: Made) -> Result<(), UnpackError> {
        if self.shared.failure.lock().expect("no worker panics").is_some() {
            return Err(UnpackError::Cancelled(crate::Cancelled));
        }
        if let Some(parent) = path.parent() {
            match self.made.get(parent.as_str()) {
                Some(Made::Directory) => {}
                Some(Made::File) => return Err(self.refuse(path, "it lies below a file")),
                Some(Made::Link) => return Err(self.refuse(path, "it lies below a link")),
                None => self.directory(&parent, 0o755)?,
            }
        }
        if let Some(folded) = &mut self.folded {
            let earlier = folded.insert(path.as_str().to_lowercase(), path.to_string());
            let problem = match (earlier, path.windows_problem()) {
                (Some(earlier), _) if earlier != path.as_str() => {
                    Some(format!("it differs from `{earlier}` only in case"))
                }
                (_, Some(problem)) => Some(problem.to_owned()),
                _ => None,
            };
            if let Some(problem) = problem {
                return Err(self.refuse(path, problem));
            }
        }
        match self.made.insert(path.to_string(), made) {
            None => Ok(()),
            Some(_) => Err(self.refuse(path, "it appears twice")),
        }
    }

    fn on_disk(&self, path: &PackagePath) -> Option<Utf8PathBuf> {
        self.shared.root.map(|root| root.join(path.as_str()))
    }

    /// A folder; a second time is harmless.
    pub(super) fn directory(&mut self, path: &PackagePath, mode: u32) -> Result<(), UnpackError> {
        let again = self.made.get(path.as_str()) == Some(&Made::Directory);
        if !again {
            self.claim(path, Made::Directory)?;
        }
        if let Some(on_disk) = self.on_disk(path) {
            if !again {
                fs_err::create_dir(&on_disk).map_err(|error| self.shared.write_error(error))?;
            }
            self.pending.modes.push((on_disk, mode));
        }
        Ok(())
    }

    /// A symbolic link.
    pub(super) fn link(&mut self, path: &PackagePath, target: &str) -> Result<(), UnpackError> {
        if target.is_empty() || target.len() > crate::path::LENGTH_MAX || target.contains('\0') {
            return Err(self.refuse(path, "its link target is empty or not a path"));
        }
        self.claim(path, Made::Link)?;
        match self.on_disk(path) {
            Some(on_disk) => {
                platform::symlink(target, &on_disk).map_err(|error| self.shared.write_error(error))
            }
            None => Ok(()),
        }
    }

    /// A file of `size` bytes, written by a worker while the next ones are read.
    pub(super) fn file(
        &mut self,
        path: &PackagePath,
        (mode, mtime): (u32, u64),
        size: u64,
        expected: Option<Sha256>,
        content: &mut dyn Read,
    ) -> Result<(), UnpackError> {
        self.claim(path, Made::File)?;
        let short = |found: u64| {
            let message = format!("`{path}` has {found} bytes, its header says {size}");
            super::read::damaged(self.shared.archive, io::Error::other(message))
        };
        let first = self.shared.read_piece(content)?;
        let mut found = first.length as u64;
        let is_whole = first.length < PIECE;
        let (pieces, rest) = bounded(AHEAD);
        let rest = (!is_whole).then_some(rest);
        self.send(Job { path: path.clone(), mode, mtime, expected, first, rest });
        while !is_whole && found <= size {
            let piece = self.shared.read_piece(content)?;
            if piece.length == 0 {
                break;
            }
            found += piece.length as u64;
            if pieces.send(piece).is_err() {
                // The worker gave up; its reason is kept.
                return Err(UnpackError::Cancelled(crate::Cancelled));
            }
        }
        if found == size { Ok(()) } else { Err(short(found)) }
    }

    fn send(&self, job: Job) {
        self.jobs.send(job).expect("workers outlive the layout");
    }

    /// A second name for a file that was laid out before.
    pub(super) fn hard_link(
        &mut self,
        path: &PackagePath,
        existing: &PackagePath,
    ) -> Result<(), UnpackError> {
        if self.made.get(existing.as_str()) != Some(&Made::File) {
            return Err(
                self.refuse(path, format!("it links to `{existing}`, which is no earlier file"))
            );
        }
        self.claim(path, Made::File)?;
        self.pending.hard_links.push((existing.clone(), path.clone()));
        Ok(())
    }

    /// Ends the writing and returns what must wait until the workers are done.
    pub(super) fn finish(self) -> Pending {
        self.pending
    }
}
