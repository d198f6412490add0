//! What is told while work goes on.

use package::PackageId;

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// Somebody else changes this host, or fetches the same package; the work waits for them.
    Waiting {
        /// For what, in words.
        what: &'a str,
    },
    /// What an installation lacks is known.
    Lacking {
        /// How many packages will be fetched.
        packages: usize,
        /// The bytes of their archives.
        bytes: u64,
    },
    /// A package is on its way.
    Fetching {
        /// The package.
        id: &'a PackageId,
        /// Bytes that are there.
        done_bytes: u64,
        /// Bytes of all, where the server tells.
        total_bytes: Option<u64>,
    },
    /// A package is in the store.
    Stored {
        /// The package.
        id: &'a PackageId,
        /// Whether it was there before.
        already: bool,
    },
    /// A generation is being laid out.
    Building {
        /// Its number.
        generation: u64,
        /// How many links it has.
        links: usize,
    },
    /// What was written is being made durable.
    Syncing,
    /// A generation went live.
    Live {
        /// Its number.
        generation: u64,
    },
    /// Units are being stopped, before the switch.
    Stopping {
        /// Their names.
        units: &'a [String],
    },
    /// Units are being started.
    Starting {
        /// Their names.
        units: &'a [String],
    },
    /// A generation is live and on trial.
    Trying {
        /// Its number.
        generation: u64,
        /// How many checks decide.
        checks: usize,
        /// How many units are watched.
        units: usize,
    },
    /// A generation passed its trial.
    Confirmed {
        /// Its number.
        generation: u64,
    },
    /// Nobody runs services here: somebody must start these.
    StartByHand {
        /// Their names.
        units: &'a [&'a str],
    },
    /// What is there is being compared with what should be.
    Auditing {
        /// Bytes that were read.
        done_bytes: u64,
        /// Bytes of all.
        total_bytes: u64,
    },
    /// Something to know that stops nothing.
    Warning {
        /// In words.
        message: &'a str,
    },
}

/// Hears what happens, from any thread.
pub trait Observer: Sync {
    /// Something happened.
    fn event(&self, event: &Event<'_>);
}

/// Hears nothing.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _: &Event<'_>) {}
}
