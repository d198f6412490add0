//! What was done to this host, by whom, when and why: a log that only grows.
//!
//! One JSON document a line, synced before and after the switch it speaks of. A line that a crash
//! cut short is kept and skipped: the log is for people and for recovery, never a condition.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use camino::Utf8PathBuf;
use jiff::Timestamp;
use package::{PackageId, durable};
use serde::{Deserialize, Serialize};

use crate::platform;
use package::versioned::{self, FormatError};

/// The version of a line that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// Who does something, and how they came to do it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    /// The user who asked.
    pub user: String,
    /// What they typed, or what asked for them.
    pub command: String,
    /// The program and its version.
    pub program: String,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A switch is about to be made.
    Begun {
        /// The generation that is live.
        from: Option<u64>,
        /// The one that shall be.
        to: u64,
        /// Why.
        reason: String,
    },
    /// A generation went live.
    Switched {
        /// The generation that was live.
        from: Option<u64>,
        /// The one that is.
        to: u64,
    },
    /// A switch that was begun was not made.
    Abandoned {
        /// The generation that was to be live.
        to: u64,
        /// Why not.
        reason: String,
    },
    /// A generation passed its trial.
    Confirmed {
        /// Which.
        generation: u64,
    },
    /// A generation did not pass its trial, and the one before it is live again.
    Returned {
        /// The one that did not pass.
        from: u64,
        /// The one that is live.
        to: u64,
        /// Why.
        reason: String,
        /// The last lines of what failed.
        log: Vec<String>,
    },
    /// A generation did not pass its trial, and there is none to go back to.
    Failed {
        /// Which.
        generation: u64,
        /// Why.
        reason: String,
        /// The last lines of what failed.
        log: Vec<String>,
    },
    /// What somebody changed outside the generations was put right.
    Repaired {
        /// What, one line each.
        what: Vec<String>,
    },
    /// Generations and packages that nothing used any more were removed.
    Collected {
        /// The generations.
        generations: Vec<u64>,
        /// The packages.
        packages: Vec<PackageId>,
    },
    /// Something that a newer program wrote.
    #[serde(other)]
    Unknown,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of the line.
    pub format: u32,
    /// When.
    pub time: Timestamp,
    /// Who.
    pub by: By,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

impl Entry {
    /// A line of now's format.
    pub fn new(time: Timestamp, by: By, what: What) -> Self {
        Self { format: FORMAT, time, by, what }
    }

    /// Reads one line.
    pub fn parse(path: &camino::Utf8Path, line: &[u8]) -> Result<Self, FormatError> {
        versioned::parse(path, line, FORMAT)
    }
}

/// The log of one host.
#[derive(Debug, Clone)]
pub struct History {
    path: Utf8PathBuf,
}

impl History {
    /// The log at `path`, which need not exist.
    pub fn new(path: Utf8PathBuf) -> Self {
        Self { path }
    }

    /// All lines that can be read, the oldest first.
    pub fn read(&self) -> io::Result<Vec<Entry>> {
        match fs_err::read(&self.path) {
            Ok(bytes) => {
                let mut entries = Vec::new();
                for line in bytes.split(|byte| *byte == b'\n') {
                    match Entry::parse(&self.path, line) {
                        Ok(entry) => entries.push(entry),
                        Err(error @ FormatError::Newer { .. }) => {
                            return Err(io::Error::other(error));
                        }
                        Err(FormatError::Invalid { .. }) => {}
                    }
                }
                Ok(entries)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Adds a line; when this returns it is on disk.
    pub fn append(&self, entry: &Entry) -> io::Result<()> {
        let folder = self.path.parent().expect("the log lies in a folder of the install root");
        platform::create_folders(folder)?;
        let mut file =
            fs_err::File::options().create(true).read(true).append(true).open(&self.path)?;
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        let length = file.seek(SeekFrom::End(0))?;
        if length == 0 {
            // What failing programs logged is in it.
            platform::set_mode(&self.path, 0o600)?;
        } else {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                // A crash cut the last line short; ours must not become a part of it.
                line.insert(0, '\n');
            }
        }
        file.write_all(line.as_bytes())?;
        file.sync_all()?;
        if length == 0 {
            durable::sync_directory(folder)?;
            if let Some(above) = folder.parent() {
                durable::sync_directory(above)?;
            }
        }
        Ok(())
    }

    /// The switch that was begun last, if nothing says how it ended.
    pub fn unfinished(&self) -> io::Result<Option<(Option<u64>, u64)>> {
        let last = self.read()?.into_iter().rfind(|entry| {
            matches!(
                entry.what,
                What::Begun { .. }
                    | What::Switched { .. }
                    | What::Abandoned { .. }
                    | What::Returned { .. }
            )
        });
        Ok(match last.map(|entry| entry.what) {
            Some(What::Begun { from, to, .. }) => Some((from, to)),
            _ => None,
        })
    }
}
