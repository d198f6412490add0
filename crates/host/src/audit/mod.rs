//! Audit: every byte that the live generation stands for, compared with what lies on the host; and
//! repair, which makes it so again.
//!
//! Nothing is trusted by place. `generation.json` has the digest of each package's manifest, the
//! manifest that of each file; the generation's folder and the machine are worked out again from
//! those and compared with what is there. Whatever is found is a [`Difference`], never an error: a
//! host is audited because something may be wrong with it.

mod digest;
mod generation;
mod late;
mod machine;
mod package;
mod repair;
mod restore;
mod run;
mod tree;

use std::path::PathBuf;

use ::package::{PackageId, Sha256};
use camino::Utf8PathBuf;
use serde::Serialize;

use crate::platform::tree::Time;

pub use repair::{Repair, Repaired, Source, Unrepaired};

/// How closely an audit looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Every byte.
    Full,
    /// Types, modes, sizes, link targets, times; and every byte of what says how packages are used.
    Fast,
}

/// What an audit found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The live generation.
    pub generation: u64,
    /// Everything that is not as it should be, in order.
    pub differences: Vec<Difference>,
    /// What could not be compared because of one of the differences.
    pub unchecked: Vec<String>,
    /// How many packages were looked at.
    pub packages: usize,
    /// How many files, links and folders.
    pub entries: usize,
    /// How many bytes were read.
    pub bytes: u64,
    /// Of everything that was found: hosts that are the same have the same. `None`: not every byte
    /// was read.
    pub digest: Option<Sha256>,
}

impl Report {
    /// Whether all is as it should be.
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The path, or the name of what is no file.
    pub at: String,
    /// What should be there.
    pub should: String,
    /// What is.
    pub is: String,
    /// The package that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<PackageId>,
    /// What puts it right.
    #[serde(skip)]
    pub(crate) fix: Fix,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at, should, is, .. } = self;
        write!(f, "{}: should be {should}, is {is}", one_line(at))
    }
}

/// A name that somebody chose, on one line and harmless to a terminal.
pub(crate) fn one_line(name: &str) -> String {
    let shown = |char: char| {
        if char.is_control() { char.escape_debug().collect() } else { String::from(char) }
    };
    name.chars().map(shown).collect()
}

/// What puts a difference right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Other permission bits for a file or folder.
    Mode { path: Utf8PathBuf, mode: u32 },
    /// Another owner for a file or folder.
    Owner { path: Utf8PathBuf, uid: u32 },
    /// The time at which a file was written.
    Time { path: Utf8PathBuf, time: Time },
    /// What is there must go.
    Remove { path: PathBuf },
    /// A link.
    Link { path: Utf8PathBuf, target: String },
    /// A file that is worked out from others.
    Text { path: Utf8PathBuf, text: String },
    /// A folder of the live generation with all that is in it.
    Subtree { path: ::package::path::PackagePath },
    /// The whole package of the difference.
    Content,
    /// The link to the live generation.
    Current { generation: u64 },
    /// What the live generation asks of the machine.
    Machine,
    /// The program that boot uses.
    Tool,
    /// Nothing here; somebody must do something.
    Nobody { advice: String },
}
