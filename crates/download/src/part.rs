//! The file that a download grows in, beside its target.

use std::io::{self, Seek as _, Write as _};

use camino::{Utf8Path, Utf8PathBuf};
use package::durable;

use crate::Checksum;

/// `PATH.part`: what is there so far of the file that will be `PATH`.
#[derive(Debug)]
pub(crate) struct Part {
    target: Utf8PathBuf,
    path: Utf8PathBuf,
    file: fs_err::File,
    length: u64,
    /// The strong entity tag of the file that the bytes are from.
    pub(crate) etag: Option<String>,
    /// How long the whole file is, where the server told.
    pub(crate) total: Option<u64>,
    /// Whether bytes of an earlier run are in it, of which only the final digest can tell whether
    /// they belong to the file that the server has now.
    pub(crate) inherited: bool,
}

impl Part {
    /// Opens the part beside `target`; what an earlier run left is kept if `inherit` says so.
    pub(crate) fn open(target: &Utf8Path, inherit: bool) -> io::Result<Self> {
        if let Some(parent) = target.parent() {
            durable::create_folders(parent)?;
        }
        let path = Utf8PathBuf::from(format!("{target}.part"));
        let mut options = fs_err::OpenOptions::new();
        options.create(true).write(true).truncate(!inherit);
        let mut file = options.open(&path)?;
        let length = file.seek(io::SeekFrom::End(0))?;
        let inherited = length > 0;
        let target = target.to_owned();
        Ok(Self { target, path, file, length, etag: None, total: None, inherited })
    }

    /// How many bytes are there.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Whether a server can be asked for the rest: a wrong continuation would be noticed.
    pub(crate) fn can_continue(&self, may_inherit: bool) -> bool {
        self.length > 0 && (self.etag.is_some() || may_inherit)
    }

    /// Adds bytes at the end.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Forgets everything that is there.
    pub(crate) fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.length = 0;
        self.etag = None;
        self.total = None;
        self.inherited = false;
        Ok(())
    }

    /// The digest of what is there.
    pub(crate) fn digest(&self, like: Checksum) -> io::Result<Checksum> {
        like.found_in(&self.path)
    }

    /// Makes the part the target.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        durable::rename(&self.path, &self.target)
    }

    /// Puts the part aside as `PATH.corrupt`, and returns that path.
    pub(crate) fn condemn(self) -> io::Result<Utf8PathBuf> {
        let corrupt = Utf8PathBuf::from(format!("{}.corrupt", self.target));
        fs_err::rename(&self.path, &corrupt)?;
        Ok(corrupt)
    }

    /// Deletes the part.
    pub(crate) fn discard(self) -> io::Result<()> {
        fs_err::remove_file(&self.path)
    }
}
