//! What a controller and a host say to each other: plain requests and reports, one JSON document
//! each.
//!
//! The two sides may be of different versions. A side ignores keys it does not know; a request that a
//! host does not know is answered with [`Report::Unsupported`]; a report that a controller does not
//! know becomes [`Report::Unknown`]. Nothing that exists may change its meaning: new things get new
//! names, and [`VERSION`] counts them, so that either side can tell what the other one knows.

use std::collections::BTreeSet;

use package::PackageId;
use package::id::RoleName;
use serde::{Deserialize, Serialize};

use crate::generation::Generation;
use crate::history;
use crate::plan::Changes;

/// The version of what this program says.
pub const VERSION: u32 = 1;

/// A message of either side with the version of the side that wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message<T> {
    /// The newest version that the writer knows.
    pub version: u32,
    /// What it says.
    #[serde(flatten)]
    pub body: T,
}

impl<T> Message<T> {
    /// A message of this program.
    pub fn new(body: T) -> Self {
        Self { version: VERSION, body }
    }
}

/// What a controller asks of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// What is on the host?
    Status,
    /// What would be done to make this set live?
    Plan {
        /// The packages.
        packages: BTreeSet<PackageId>,
    },
    /// Get packages, and make nothing live.
    Fetch {
        /// Where from.
        repository_url: String,
        /// Which.
        packages: BTreeSet<PackageId>,
    },
    /// Make this set live.
    Activate {
        /// The packages.
        packages: BTreeSet<PackageId>,
        /// Why, for the history.
        reason: String,
        /// The generation that must be live now, if that matters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected: Option<u64>,
    },
    /// Make an older generation live.
    Rollback {
        /// Which; none means the one before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u64>,
        /// Why, for the history.
        reason: String,
    },
    /// Remove what no kept generation uses.
    Collect {
        /// How many generations to keep.
        keep: usize,
    },
    /// What was done to the host?
    History,
    /// Something that a newer controller asks.
    #[serde(other)]
    Unknown,
}

/// What a host answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// What is on the host.
    Status(Status),
    /// What would be done.
    Plan(PlanSummary),
    /// What was asked for is done.
    Done {
        /// The generation that is live now.
        live: Option<u64>,
    },
    /// It was not done; what was live before is live.
    Failed {
        /// Why, the outermost reason first.
        causes: Vec<String>,
    },
    /// What was done to the host.
    History {
        /// The oldest first.
        entries: Vec<history::Entry>,
    },
    /// The host is too old for the request.
    Unsupported {
        /// The newest version that the host knows.
        newest: u32,
    },
    /// Something that a newer host says.
    #[serde(other)]
    Unknown,
}

/// What is on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The roles it has.
    pub roles: BTreeSet<RoleName>,
    /// The number of the live generation.
    pub live: Option<u64>,
    /// All generations.
    pub generations: Vec<Generation>,
    /// All packages in the store.
    pub packages: BTreeSet<PackageId>,
}

/// A plan in short: a controller keeps thousands of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSummary {
    /// The generation that is live.
    pub from: Option<u64>,
    /// The one that will be; none if all is as wanted.
    pub to: Option<u64>,
    /// What changes.
    pub changes: Changes,
    /// How many links will be made.
    pub links: usize,
}
