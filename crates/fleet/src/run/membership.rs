//! What a host that comes or goes means for the others: which actions of packages go with it, and who can
//! run them. Decided before a run, from what masters tell of themselves, and then part of its spec.

use std::collections::{BTreeMap, BTreeSet};

use host::wire::{Action, Status};
use package::Sha256;
use package::id::RoleName;
use serde::{Deserialize, Serialize};

use super::spec::{Group, Operation, RunSpec, Target};

/// When an action is run, as hosts call it.
const ADD: &str = "add";
const REMOVE: &str = "remove";

/// What is known of a host as a part of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Membership {
    /// What is done to the cluster before the host changes, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Acting>,
    /// What is done if the host does not come although that was done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regrets: Vec<Acting>,
    /// It has nothing yet, so nobody asks it how the cluster is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_absent: bool,
    /// It is left alone, and has what the others shall have.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_wanted: bool,
    /// It is lost: only the others are told, and it is not reached for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_gone: bool,
}

/// Something that is done to the cluster. The action is told the name and the address of the host that
/// comes or goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acting {
    /// What [`host::wire::Request::Act`] calls it.
    pub action: String,
    /// What it does, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Who can do it, the first that is reached: places in [`RunSpec::hosts`].
    pub on: Vec<usize>,
}

impl Membership {
    /// Whether nothing is to be said.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl Acting {
    /// Its name without the package that brings it.
    pub fn name(&self) -> &str {
        self.action.split_once('/').map_or(&self.action, |(_, name)| name)
    }
}

impl RunSpec {
    /// Whether something is done to the cluster for any of the hosts.
    pub fn has_actions(&self) -> bool {
        self.hosts.iter().any(|target| !target.membership.actions.is_empty())
    }

    /// Says of each host what its coming or going means for the others. `known` is what hosts told, by
    /// name. If nobody is there who stays, nothing is done: the whole cluster comes or goes.
    pub fn find_actions(&mut self, known: &BTreeMap<String, Status>) {
        let (does, regrets) = match self.operation {
            Operation::Deploy => (ADD, Some(REMOVE)),
            Operation::Uninstall => (REMOVE, None),
            _ => return,
        };
        let is_uninstall = self.operation == Operation::Uninstall;
        let is_live =
            |target: &Target| known.get(&target.host.name).map(|status| status.live.is_some());
        let wanted: BTreeSet<Sha256> = self.wanted.iter().map(|wanted| wanted.bundle).collect();
        let has_wanted = |target: &Target| {
            let status = known.get(&target.host.name).filter(|status| status.live.is_some());
            status.and_then(|status| status.bundle).is_some_and(|has| wanted.contains(&has))
        };
        let stays = |target: &Target| {
            is_live(target) == Some(true) && (!is_uninstall || target.group == Group::Witness)
        };
        let places = self.hosts.iter().enumerate().filter(|(_, target)| stays(target));
        let mut able: Vec<(usize, &Target, &Status)> =
            places.map(|(place, target)| (place, target, &known[&target.host.name])).collect();
        // Those on which nothing failed are asked first.
        able.sort_by_key(|(_, _, status)| !status.failed_units.is_empty());
        let found = |on: &str, of: &Target| -> Vec<Acting> {
            let mut found = BTreeMap::<String, Acting>::new();
            for (place, by, status) in &able {
                for action in &status.actions {
                    if action.on == on && fits(action, of, &roles(by, status)) {
                        let name = format!("{}/{}", action.package.name(), action.name);
                        let acting = found.entry(name.clone()).or_insert_with(|| Acting {
                            action: name,
                            description: action.description.clone(),
                            on: Vec::new(),
                        });
                        acting.on.push(*place);
                    }
                }
            }
            found.into_values().collect()
        };
        let membership = |target: &Target| {
            let is_gone = target.membership.is_gone;
            let (mut actions, mut undone) = (Vec::new(), Vec::new());
            let changes = target.group != Group::Witness;
            // Who has something is left alone by a deployment.
            if changes && (is_uninstall || is_live(target) != Some(true)) {
                actions = found(does, target);
                undone = regrets.map(|on| found(on, target)).unwrap_or_default();
            }
            let regrets = if actions.is_empty() { Vec::new() } else { undone };
            let is_absent = !changes && is_live(target) == Some(false);
            let has_wanted = !changes && has_wanted(target);
            Membership { actions, regrets, is_absent, has_wanted, is_gone }
        };
        let found: Vec<Membership> = self.hosts.iter().map(membership).collect();
        for (target, membership) in self.hosts.iter_mut().zip(found) {
            target.membership = membership;
        }
    }
}

/// What a host is, as it says itself.
fn roles(target: &Target, status: &Status) -> BTreeSet<RoleName> {
    if status.roles.is_empty() { target.host.roles.clone() } else { status.roles.clone() }
}

/// Whether an action is for a host, and can be run on one with these roles.
fn fits(action: &Action, of: &Target, by: &BTreeSet<RoleName>) -> bool {
    (action.of.is_empty() || !action.of.is_disjoint(&of.host.roles))
        && (action.from.is_empty() || !action.from.is_disjoint(by))
}
