//! What happens during a build, in order, for whoever shows it.

use std::io;
use std::time::Duration;

use camino::Utf8PathBuf;

use crate::cache::Record;
use crate::tree::PackageKey;

/// One thing that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// Another build of this tree runs; this one waits for it.
    Waiting,
    /// So many packages will be looked at.
    Planned {
        /// How many.
        packages: usize,
    },
    /// A package went on to its next step.
    Step {
        /// The package.
        key: &'a PackageKey,
        /// What is done now.
        step: Step,
    },
    /// Bytes of a download of a package.
    Downloaded {
        /// The package.
        key: &'a PackageKey,
        /// Bytes so far.
        bytes: u64,
        /// Bytes in all, where that is known.
        total: Option<u64>,
    },
    /// Something somebody should know.
    Warning {
        /// The package.
        key: &'a PackageKey,
        /// What.
        message: &'a str,
    },
    /// Something that no build needs any more could not be deleted.
    Left {
        /// What, and why.
        error: &'a io::Error,
    },
    /// A package is there.
    Finished {
        /// The package.
        key: &'a PackageKey,
        /// What is known of it.
        record: &'a Record,
        /// How it came about.
        how: How,
        /// How long it took.
        took: Duration,
    },
    /// The sources of a package are there.
    Fetched {
        /// The package.
        key: &'a PackageKey,
    },
    /// A package could not be built.
    Failed {
        /// The package.
        key: &'a PackageKey,
        /// Why, with the last lines of the log.
        failure: &'a Failure,
    },
    /// A package was not tried, because one that it needs could not be built.
    Skipped {
        /// The package.
        key: &'a PackageKey,
        /// The one that it needs.
        needed: &'a PackageKey,
    },
}

/// What is done with a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Its sources are being downloaded.
    Fetching,
    /// Its sources and dependencies are being unpacked.
    Preparing,
    /// Its script runs.
    Building,
    /// Its archive is being made.
    Packing,
}

/// How a package came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// It was there.
    Cached,
    /// It came from the remote cache.
    Remote,
    /// It was built.
    Built,
}

/// Why a package could not be built.
#[derive(Debug)]
pub struct Failure {
    /// The messages, from the outermost to the innermost.
    pub causes: Vec<String>,
    /// What to do, where that can be said.
    pub hint: Option<String>,
    /// The log of the script, if it ran.
    pub log: Option<Utf8PathBuf>,
    /// Its last lines.
    pub log_tail: Vec<String>,
}

/// Who hears of the events, from several threads.
pub trait Observer: Sync {
    /// Something happened.
    fn event(&self, event: &Event<'_>);
}
