//! The receipt: everything that the installation made outside its install root, written down before
//! it is made, so that all of it can be taken away again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::Utf8PathBuf;
use package::id::RoleName;
use package::{durable, json};
use serde::{Deserialize, Serialize};

use crate::paths::Paths;
use package::versioned::{self, FormatError};

/// The version of the file that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Receipt {
    format: u32,
    /// Files and links.
    pub files: BTreeSet<Utf8PathBuf>,
    /// Roles of the machine that an installer wrote.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<RoleName>,
    /// Folders, which go when nothing is in them any more.
    pub folders: BTreeSet<Utf8PathBuf>,
    /// Folders with state, which go only when that is asked for, with all that is in them.
    pub state: BTreeSet<Utf8PathBuf>,
    /// Users, which go with the state.
    pub users: BTreeSet<String>,
    /// Kernel settings with what they were.
    pub sysctl: BTreeMap<String, Before>,
    /// The installation is being removed.
    pub removing: Option<Removing>,
}

/// What a kernel setting was before it was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// The value.
    pub value: String,
    /// The boot in which that was so: the next one starts with values of its own.
    pub boot: String,
}

/// How far a removal goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removing {
    /// State and the users who own it stay.
    KeepState,
    /// Everything goes.
    Purge,
}

impl Default for Receipt {
    fn default() -> Self {
        Self {
            format: FORMAT,
            files: BTreeSet::new(),
            roles: BTreeSet::new(),
            folders: BTreeSet::new(),
            state: BTreeSet::new(),
            users: BTreeSet::new(),
            sysctl: BTreeMap::new(),
            removing: None,
        }
    }
}

/// Why the receipt cannot be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ReceiptError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("cannot read or write the receipt")]
    Io(#[from] io::Error),
}

impl Receipt {
    /// The receipt of an installation; one that made nothing has an empty one.
    pub fn read(paths: &Paths) -> Result<Self, ReceiptError> {
        let path = paths.receipt();
        match fs_err::read(&path) {
            Ok(bytes) => Ok(Self::parse(&path, &bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the content of a receipt; `path` names it in messages.
    pub fn parse(path: &camino::Utf8Path, bytes: &[u8]) -> Result<Self, FormatError> {
        versioned::parse(path, bytes, FORMAT)
    }

    /// Changes the receipt on disk, if that changes anything; when this returns it lasts.
    pub(crate) fn update(
        &mut self,
        paths: &Paths,
        change: impl FnOnce(&mut Self),
    ) -> io::Result<()> {
        let before = self.clone();
        change(self);
        if *self == before {
            return Ok(());
        }
        let written = durable::write(&paths.receipt(), json::pretty(self).as_bytes());
        if written.is_err() {
            *self = before;
        }
        written
    }
}
