//! What a program did to files: changes by the identity of files, not by paths.
//!
//! A file that is renamed or unlinked while it is open stays the same file, and so does one that is
//! reached by another name. That is why changes name files by [`FileId`], and directory entries by
//! the identity of their directory.

use camino::Utf8PathBuf;

/// A file, directory or link during one recorded run. Numbers of inodes would not do: they are used
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub(crate) u32);

impl FileId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The directory.
    pub directory: FileId,
    /// The name.
    pub name: String,
}

/// What a new entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// An empty file with these permission bits.
    File(u32),
    /// An empty directory with these permission bits.
    Directory(u32),
    /// A symbolic link to this target.
    Link(String),
}

/// What a rename does to what has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onto {
    /// The name is taken from it.
    Replace,
    /// It stays, and nothing is renamed (`RENAME_NOREPLACE`).
    Refuse,
    /// It gets the old name (`RENAME_EXCHANGE`).
    Exchange,
}

/// One successful change, or one call that makes changes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new file, directory or link under a name.
    Make {
        /// Where.
        entry: Entry,
        /// Its identity from now on.
        file: FileId,
        /// What it is.
        made: Made,
    },
    /// A new file without a name (`O_TMPFILE`).
    MakeUnnamed {
        /// Its identity from now on.
        file: FileId,
        /// Permission bits.
        mode: u32,
    },
    /// One more name of a file.
    Link {
        /// The new name.
        entry: Entry,
        /// The file.
        file: FileId,
    },
    /// A name taken away: `unlink`, `rmdir`.
    Remove {
        /// The name.
        entry: Entry,
        /// What it named.
        file: FileId,
        /// Whether that is a directory.
        directory: bool,
    },
    /// A name moved.
    Rename {
        /// The old name.
        from: Entry,
        /// The new name.
        to: Entry,
        /// What is moved.
        file: FileId,
        /// What the new name named before.
        replaced: Option<FileId>,
        /// What was to become of that.
        onto: Onto,
    },
    /// Bytes written.
    Write {
        /// The file.
        file: FileId,
        /// Where in the file.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// A new length; what is added is zeros.
    Resize {
        /// The file.
        file: FileId,
        /// The length.
        length: u64,
    },
    /// New permission bits.
    Mode {
        /// The file.
        file: FileId,
        /// The bits.
        mode: u32,
    },
    /// Times, or attributes of a link, of which the model of a disk knows nothing.
    Attributes {
        /// The file.
        file: FileId,
    },
    /// `fsync` or `fdatasync`.
    Sync {
        /// The file or directory.
        file: FileId,
        /// Whether permission bits are left out (`fdatasync`).
        only_data: bool,
    },
    /// `sync` or `syncfs`.
    SyncAll,
}

impl Change {
    /// Whether this makes other changes durable, rather than being one.
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::Sync { .. } | Self::SyncAll)
    }
}

/// A recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it did.
    pub change: Change,
    /// The call in words, with paths from the root on, for messages.
    pub text: String,
}

/// Which files there were before the run, by identity; nothing for those it made.
pub(crate) type Origins = Vec<Option<Utf8PathBuf>>;
