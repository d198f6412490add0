//! A switch is an intent on disk until it is confirmed: checks and units decide, and a switch that
//! nobody confirms is undone.

mod judge;
mod resolve;

use std::io;

use jiff::Timestamp;
use package::{durable, json};
use serde::{Deserialize, Serialize};

use crate::paths::Paths;
use package::versioned::{self, FormatError};

pub(crate) use judge::Failed;

/// The version of the file that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// A switch that is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    format: u32,
    /// The generation that was live.
    pub from: Option<u64>,
    /// The one on trial.
    pub to: u64,
    /// Until when it must be confirmed.
    pub deadline: Timestamp,
    /// Whether the old generation comes back if it is not.
    pub returns: Returns,
    /// Whether units of the new generation may have run.
    pub started: bool,
}

/// Whether the old generation comes back if the new one is not confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Returns {
    /// It does.
    Always,
    /// Only until the new units ran: the old ones cannot read what those wrote.
    UntilStarted,
    /// It does not: nothing was live, or somebody wanted the old one gone.
    Never,
}

impl Trial {
    pub(crate) fn new(from: Option<u64>, to: u64, deadline: Timestamp, returns: Returns) -> Self {
        Self { format: FORMAT, from, to, deadline, returns, started: false }
    }

    /// The same trial once units of the new generation may have run.
    pub(crate) fn started(self) -> Self {
        Self { started: true, ..self }
    }

    /// The generation to go back to, as far as this switch went.
    pub(crate) fn way_back(&self) -> Option<u64> {
        let is_open = match self.returns {
            Returns::Always => true,
            Returns::UntilStarted => !self.started,
            Returns::Never => false,
        };
        self.from.filter(|_| is_open)
    }

    /// Reads the content of a trial's file; `path` names it in messages.
    pub fn parse(path: &camino::Utf8Path, bytes: &[u8]) -> Result<Self, FormatError> {
        versioned::parse(path, bytes, FORMAT)
    }

    /// The switch of this host that is not confirmed; one that cannot be read is invalid data.
    pub(crate) fn read(paths: &Paths) -> io::Result<Option<Self>> {
        let path = paths.trial();
        match fs_err::read(&path) {
            Ok(bytes) => Self::parse(&path, &bytes).map(Some).map_err(|error| {
                let kind = match error {
                    FormatError::Newer { .. } => io::ErrorKind::Other,
                    FormatError::Invalid { .. } => io::ErrorKind::InvalidData,
                };
                io::Error::new(kind, error)
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn write(&self, paths: &Paths) -> io::Result<()> {
        durable::write(&paths.trial(), json::pretty(self).as_bytes())
    }

    pub(crate) fn forget(paths: &Paths) -> io::Result<()> {
        match fs_err::remove_file(paths.trial()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| durable::sync_directory(&paths.root)),
        }
    }
}
