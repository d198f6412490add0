//! Reading who got packages from whom.

use super::{Journal, JournalError};
use crate::event::What;
use crate::run::{RunId, Work};

/// A host that got packages from here or from another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supplied {
    /// Its name.
    pub host: String,
    /// The name of the host that it got them from; none: they were sent from here.
    pub from: Option<String>,
    /// Their bytes.
    pub bytes: u64,
}

impl Journal {
    /// The hosts of a run that got packages from here or from other hosts, in the order in which they had
    /// them; none where hosts do not hand packages to each other.
    pub fn supplied(&self, run: &RunId) -> Result<Vec<Supplied>, JournalError> {
        let spec = self.spec(run)?;
        if !spec.phases.iter().any(|phase| matches!(phase.work, Work::Relay { .. })) {
            return Ok(Vec::new());
        }
        let events = self.events(run, 0)?.into_iter();
        let got = events.filter_map(|event| match event.what {
            What::Supplied { host, from, bytes } => Some(Supplied { host, from, bytes }),
            _ => None,
        });
        Ok(got.collect())
    }
}
