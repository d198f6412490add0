//! What happens, in order, for whoever shows it, and the flag that ends long work.

use std::sync::LazyLock;
use std::time::Duration;

use package::Cancel;

use crate::image::Suite;

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// Another process has what is needed.
    Waiting {
        /// What that is.
        what: &'a str,
    },
    /// The image of a suite is not there yet; this takes a minute or two.
    BuildingImage {
        /// The suite.
        suite: Suite,
    },
    /// A step of that, as the tool that does it tells.
    ImageStep {
        /// The suite.
        suite: Suite,
        /// The tool's own words.
        text: &'a str,
    },
    /// The image is there.
    BuiltImage {
        /// The suite.
        suite: Suite,
        /// How long it took.
        took: Duration,
    },
    /// A host has booted.
    Booted {
        /// Its name.
        host: &'a str,
        /// How many have booted, this one included.
        done: usize,
        /// How many there will be.
        total: usize,
    },
}

/// Sees every event.
pub trait Observer: Sync {
    /// Is told of one; it must not take long.
    fn event(&self, event: &Event<'_>);
}

/// Looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _event: &Event<'_>) {}
}

/// Who watches long work, and what ends it.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// Is told what happens.
    pub observer: &'a dyn Observer,
    /// Ends the work at a clean point.
    pub cancel: &'a Cancel,
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("cancel", self.cancel).finish_non_exhaustive()
    }
}

/// Nobody watches and nothing ends it.
impl Default for Job<'_> {
    fn default() -> Self {
        static NEVER: LazyLock<Cancel> = LazyLock::new(Cancel::new);
        Self { observer: &Silent, cancel: &NEVER }
    }
}
