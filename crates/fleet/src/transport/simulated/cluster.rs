//! What simulated hosts are together: whether there is a quorum, and who endangered it.

use std::collections::BTreeMap;

use package::Sha256;
use tokio::time::Instant;

/// Hosts together.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) masters: Vec<usize>,
    /// Whether there was one before: then it must never be without a quorum.
    pub(super) is_there: bool,
    /// A bundle that is not well as soon as so many masters, and so many agents, run it.
    pub(super) sick: Option<(Sha256, usize, usize)>,
    pub(super) violations: Vec<String>,
    /// How many masters, and how many agents, run what.
    running: BTreeMap<Sha256, (usize, usize)>,
    changing: BTreeMap<usize, Instant>,
}

impl Cluster {
    pub(super) fn rest(&mut self) {
        self.changing.clear();
    }

    /// A host runs something else.
    pub(super) fn moved(&mut self, is_master: bool, from: Option<Sha256>, to: Option<Sha256>) {
        let mut count = |bundle: Option<Sha256>, plus: bool| {
            let Some(bundle) = bundle else { return };
            let (masters, agents) = self.running.entry(bundle).or_default();
            let count = if is_master { masters } else { agents };
            *count = if plus { *count + 1 } else { count.saturating_sub(1) };
        };
        count(from, false);
        count(to, true);
    }

    /// Whether all is well if so many masters are.
    pub(super) fn is_well(&self, masters_up: usize) -> Result<(), String> {
        let need = self.masters.len() / 2 + 1;
        if masters_up < need {
            return Err(format!("{masters_up} masters of {} are well", self.masters.len()));
        }
        if let Some((bundle, masters, agents)) = &self.sick {
            let running = self.running.get(bundle).copied().unwrap_or_default();
            if running.0 >= *masters && running.1 >= *agents {
                return Err("the new version does not find its members".to_owned());
            }
        }
        Ok(())
    }

    /// A master begins to change, while so many others are well.
    pub(super) fn master_changes(
        &mut self,
        place: usize,
        others_up: usize,
        now: Instant,
        ends: Instant,
    ) {
        if !self.is_there {
            return;
        }
        let others = self.masters.len() - 1;
        if others_up < (self.masters.len() / 2 + 1).min(others) {
            self.violations.push(format!(
                "master {place} changes while {others_up} of {others} others are well"
            ));
        }
        let at_once = self.changing.iter().find(|(other, until)| **other != place && **until > now);
        if let Some((other, _)) = at_once {
            self.violations.push(format!("masters {place} and {other} change at once"));
        }
        self.changing.insert(place, ends);
    }
}
