//! Whose bundles this host takes, and the newest of them that was live: written just before one is,
//! and taken back if it does not stay so.

use std::io;

use package::bundle::Latest;
use package::sign::{PublicKey, SignatureError};
use package::versioned::{self, FormatError};
use package::{durable, json};
use serde::{Deserialize, Serialize};

use crate::paths::Paths;

/// The version of the file that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// The content of `trust.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    format: u32,
    /// The only key whose signatures count.
    key: String,
    /// The newest publication that was live here.
    pub seen: Latest,
}

impl Pinned {
    /// The record that `seen`, signed by `key`, is live; what is newer stays the newest.
    pub(crate) fn after(before: Option<&Self>, key: &PublicKey, seen: &Latest) -> Self {
        let newer = before.map(|before| &before.seen).filter(|old| old.sequence > seen.sequence);
        Self { format: FORMAT, key: key.to_string(), seen: newer.unwrap_or(seen).clone() }
    }

    /// The key.
    pub(crate) fn key(&self) -> Result<PublicKey, SignatureError> {
        PublicKey::parse(&self.key)
    }

    /// Reads the content of a `trust.json`; `path` names it in messages.
    pub fn parse(path: &camino::Utf8Path, bytes: &[u8]) -> Result<Self, FormatError> {
        versioned::parse(path, bytes, FORMAT)
    }

    /// The record of this host; nothing was ever installed where there is none.
    pub(crate) fn read(paths: &Paths) -> io::Result<Option<Self>> {
        let path = paths.trust();
        match fs_err::read(&path) {
            Ok(bytes) => Self::parse(&path, &bytes).map(Some).map_err(io::Error::other),
            Err(error) if crate::paths::is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes this the record of this host; when this returns it lasts.
    pub(crate) fn write(record: Option<&Self>, paths: &Paths) -> io::Result<()> {
        let path = paths.trust();
        let Some(record) = record else {
            return match fs_err::remove_file(path) {
                Err(error) if crate::paths::is_absence(&error) => Ok(()),
                removed => removed.and_then(|()| durable::sync_directory(&paths.root)),
            };
        };
        durable::write(&path, json::pretty(record).as_bytes())
    }
}
