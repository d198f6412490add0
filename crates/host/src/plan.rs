//! What will be done to a host: decided from what was observed, before anything is done.

use std::collections::{BTreeMap, BTreeSet};

use package::active::{Active, Conflict, Member};
use package::id::{PackageName, RoleName};
use package::{PackageId, Sha256};
use serde::{Deserialize, Serialize};

use crate::derived::{Change, for_boot};
use crate::generation::{Generation, Layout, Of};
use crate::host::Host;
use crate::observe::{Name, Observed};
use crate::store::Package;
use crate::trial::Returns;

/// The version of the document that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// What shall be live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A new generation of these packages, for the roles that the machine has now.
    Packages(BTreeSet<PackageId>),
    /// A generation of this host, or its packages again if the roles changed since.
    Generation(u64),
}

/// Exactly what will be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The version of this document.
    format: u32,
    /// What must still be so when the plan is executed.
    pub base: Base,
    /// What changes for somebody who looks at the host.
    pub changes: Changes,
    /// What is done, in this order. Nothing: all is as wanted.
    pub steps: Vec<Step>,
}

/// The state of a host that a plan was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The live generation.
    pub live: Option<u64>,
    /// The highest number of any generation.
    pub highest: u64,
    /// The roles of the machine.
    pub roles: BTreeSet<RoleName>,
    /// The packages that take part, with their content digests.
    pub packages: BTreeMap<PackageId, Sha256>,
}

/// The difference between what is live and what will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Packages that are live only afterwards.
    pub added: BTreeSet<PackageId>,
    /// Packages that are live only before.
    pub removed: BTreeSet<PackageId>,
    /// Those that are live afterwards and whose manifest did not come with them.
    pub unverified: BTreeSet<PackageId>,
    /// The roles that the live generation was made for, if they are others.
    pub old_roles: Option<BTreeSet<RoleName>>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// Make the fixed link of this name in the install root, where nothing is.
    Link {
        /// The name.
        name: String,
    },
    /// Put the fixed link of this name where the reference had a folder or file.
    Replace {
        /// The name.
        name: String,
    },
    /// Write a generation beside the others.
    Build(Box<Layout>),
    /// Write down that a switch begins, and what happens if nobody confirms it.
    Try {
        /// The live generation.
        from: Option<u64>,
        /// The one that will be.
        to: u64,
        /// Whether the live one comes back.
        returns: Returns,
        /// Units that had failed already and need no restart: they decide nothing.
        failing: Vec<String>,
    },
    /// Stop units that change or go.
    Stop {
        /// Their names.
        units: Vec<String>,
    },
    /// Make the machine what the generation that is live by now asks for; before the first one is live, let boot
    /// come to it.
    Derive {
        /// What differs.
        changes: Vec<Change>,
    },
    /// Start units that changed or came.
    Start {
        /// Their names.
        units: Vec<String>,
        /// Those that ran before and need no restart; one that went down with another is started too.
        kept: Vec<String>,
    },
    /// Make a generation live: the commit point.
    Switch {
        /// The live generation.
        from: Option<u64>,
        /// The one that will be.
        to: u64,
    },
}

/// Why nothing can be planned.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PlanError {
    #[error("not in the store: {}", .0.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", "))]
    Missing(Vec<PackageId>),
    #[error("the packages cannot be active together:\n{}", .0.iter().map(|conflict| format!("  {conflict}")).collect::<Vec<_>>().join("\n"))]
    Conflicts(Vec<Conflict>),
    #[error("generation {number} is not on this host; there are: {}", list(.known))]
    NoGeneration { number: u64, known: Vec<u64> },
    #[error("package `{id}` is not what it was when generation {generation} was made of it")]
    Changed { id: PackageId, generation: u64 },
    #[error(
        "another program made this install root: take it over with `setup` first, then plan again"
    )]
    TakeOver,
    #[error("the state of {} cannot be read by what would be live; `--force` goes back nevertheless", formats(.0))]
    StateFormat(Vec<(PackageName, u32, u32)>),
    #[error("`{0}` in the install root is nothing that this program made; move it away")]
    Foreign(String),
}

fn formats(unreadable: &[(PackageName, u32, u32)]) -> String {
    let one = |(name, has, reads): &(PackageName, u32, u32)| {
        format!("`{name}` (it has format {has}, the other reads up to {reads})")
    };
    unreadable.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn list(numbers: &[u64]) -> String {
    if numbers.is_empty() {
        return "none".to_owned();
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

impl Plan {
    /// Whether all is as wanted.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The generation that will be live.
    pub fn switches_to(&self) -> Option<u64> {
        self.steps.iter().find_map(|step| match step {
            Step::Switch { to, .. } => Some(*to),
            _ => None,
        })
    }

    /// The units that will be stopped, and those that will be started.
    pub fn restarts(&self) -> (&[String], &[String]) {
        let (mut stopped, mut started): (&[String], &[String]) = (&[], &[]);
        for step in &self.steps {
            match step {
                Step::Stop { units } => stopped = units,
                Step::Start { units, .. } => started = units,
                _ => {}
            }
        }
        (stopped, started)
    }

    /// The units that ran and need no restart, and those that had failed and need none.
    pub(crate) fn left_alone(&self) -> (&[String], &[String]) {
        let (mut running, mut failed): (&[String], &[String]) = (&[], &[]);
        for step in &self.steps {
            match step {
                Step::Start { kept, .. } => running = kept,
                Step::Try { failing, .. } => failed = failing,
                _ => {}
            }
        }
        (running, failed)
    }

    /// Puts what happens to the machine around the switch.
    pub(crate) fn surround_switch(&mut self, before: Vec<Step>, after: Vec<Step>) {
        if let Some(at) = self.steps.iter().position(|step| matches!(step, Step::Switch { .. })) {
            self.steps.splice(at + 1..=at, after);
            self.steps.splice(at..at, before);
        }
    }

    /// The generation that will be made.
    pub fn layout(&self) -> Option<&Layout> {
        self.steps.iter().find_map(|step| match step {
            Step::Build(layout) => Some(&**layout),
            _ => None,
        })
    }

    /// Reads a plan.
    pub fn parse(bytes: &[u8]) -> Result<Self, crate::FormatError> {
        package::versioned::parse("plan".into(), bytes, FORMAT)
    }
}

/// What the machine looks like when a switch is planned.
pub(crate) struct MachineObserved {
    /// What differs from what the new generation asks for.
    pub(crate) changes: Vec<Change>,
    /// Whether somebody runs services.
    pub(crate) has_services: bool,
    /// Whether the target is up.
    pub(crate) is_target_up: bool,
    /// Units of the new generation that run.
    pub(crate) running: Vec<String>,
    /// Units of the new generation that failed.
    pub(crate) failing: Vec<String>,
}

/// Adds to a plan what happens to the machine: units that change are stopped before the switch and
/// started after it.
pub(crate) fn with_machine(
    host: &Host,
    plan: &mut Plan,
    wanted: &Wanted,
    (from, to): (Option<&Generation>, &Generation),
    machine: MachineObserved,
) -> Result<(), PlanError> {
    let nothing = crate::generation::Running::default();
    let old = from.map_or(&nothing, |from| &from.running);
    let unreadable = old.unreadable_by(&to.running);
    if !unreadable.is_empty() && !host.switching.force {
        return Err(PlanError::StateFormat(unreadable));
    }
    let (mut before, mut changes) = (Vec::new(), machine.changes);
    if from.is_none() && plan.switches_to().is_some() {
        // A machine that stops from here on goes on at its next boot.
        let boot;
        (boot, changes) = for_boot(&host.distribution, changes);
        before.push(Step::Derive { changes: boot });
    }
    let mut after = vec![Step::Derive { changes }];
    let mut start = to.running.units_not_in(old);
    let unchanged = |units: Vec<String>| -> Vec<String> {
        units.into_iter().filter(|unit| !start.contains(unit)).collect()
    };
    if machine.has_services {
        let kept = unchanged(machine.running);
        if host.switching.wait && plan.switches_to().is_some() {
            let returns = match wanted {
                Wanted::Generation(_) => Returns::Never,
                Wanted::Packages(_) if from.is_none() => Returns::Never,
                Wanted::Packages(_) if to.running.unreadable_by(old).is_empty() => Returns::Always,
                Wanted::Packages(_) => Returns::UntilStarted,
            };
            let from = from.map(|from| from.number);
            before.push(Step::Try {
                from,
                to: to.number,
                returns,
                failing: unchanged(machine.failing),
            });
        }
        let stop = old.units_not_in(&to.running);
        if !stop.is_empty() {
            before.push(Step::Stop { units: stop });
        }
        if !machine.is_target_up {
            start.push(host.distribution.target());
        }
        if !start.is_empty() || before.iter().any(|step| matches!(step, Step::Stop { .. })) {
            after.push(Step::Start { units: start, kept });
        }
    }
    if plan.switches_to().is_some() {
        plan.surround_switch(before, after);
    } else if after
        .iter()
        .any(|step| !matches!(step, Step::Derive { changes } if changes.is_empty()))
    {
        plan.steps.extend(after);
    }
    Ok(())
}

/// Decides what to do on `host` so that `wanted` is live. Looks at nothing but `observed`.
pub fn plan(host: &Host, observed: &Observed, wanted: &Wanted) -> Result<Plan, PlanError> {
    if let Wanted::Generation(number) = wanted
        && !observed.generations.contains_key(number)
    {
        let known = observed.generations.keys().copied().collect();
        return Err(PlanError::NoGeneration { number: *number, known });
    }
    let ids = observed.ids(wanted);
    let missing: Vec<PackageId> =
        ids.iter().filter(|id| !observed.digests.contains_key(*id)).cloned().collect();
    if !missing.is_empty() {
        return Err(PlanError::Missing(missing));
    }
    let live = observed.live.and_then(|number| observed.generations.get(&number));
    let mut steps = Vec::new();
    let (mut links, mut replace) = (Vec::new(), Vec::new());
    for (name, found) in &observed.names {
        let name = name.clone();
        match found {
            Name::Right => {}
            Name::Missing => links.push(Step::Link { name }),
            Name::Foreign => replace.push(Step::Replace { name }),
        }
    }
    // What the reference made shows the set that is live. Without a live generation it shows the
    // set that this plan makes live, so that the names can change one by one once it is there.
    let replace_first = observed.live.is_some();
    if let (false, Some(Step::Replace { name }), true) =
        (replace_first, replace.first(), observed.foreign.as_ref() != Some(&ids))
    {
        return Err(match observed.foreign {
            Some(_) => PlanError::TakeOver,
            None => PlanError::Foreign(name.clone()),
        });
    }
    if replace_first {
        steps.append(&mut replace);
    }
    let unverified = if let Some(found) = reuse(observed, wanted, live)? {
        steps.append(&mut links);
        if observed.live != Some(found.number) {
            steps.push(Step::Switch { from: observed.live, to: found.number });
        }
        found.unverified.clone()
    } else {
        let layout = lay_out(host, observed, &ids)?;
        let (to, unverified) = (layout.generation.number, layout.generation.unverified.clone());
        steps.push(Step::Build(Box::new(layout)));
        // Only now: a generation that cannot be written leaves no links that lead nowhere.
        steps.append(&mut links);
        steps.push(Step::Switch { from: observed.live, to });
        unverified
    };
    steps.append(&mut replace);
    let before: BTreeSet<PackageId> =
        live.map(|live| live.packages.keys().cloned().collect()).unwrap_or_default();
    Ok(Plan {
        format: FORMAT,
        base: Base {
            live: observed.live,
            highest: observed.highest,
            roles: observed.roles.clone(),
            packages: observed.digests.clone(),
        },
        changes: Changes {
            added: ids.difference(&before).cloned().collect(),
            removed: before.difference(&ids).cloned().collect(),
            unverified,
            old_roles: live.map(|live| live.roles.clone()).filter(|roles| *roles != observed.roles),
        },
        steps,
    })
}

/// The generation on disk that is what is wanted.
fn reuse<'a>(
    observed: &'a Observed,
    wanted: &Wanted,
    live: Option<&'a Generation>,
) -> Result<Option<&'a Generation>, PlanError> {
    match wanted {
        Wanted::Packages(_) => {
            Ok(live.filter(|live| live.packages == observed.digests && observed.fits(live)))
        }
        Wanted::Generation(number) => {
            let found = &observed.generations[number];
            for (id, digest) in &found.packages {
                if observed.digests.get(id) != Some(digest) {
                    return Err(PlanError::Changed { id: id.clone(), generation: *number });
                }
            }
            Ok(Some(found).filter(|found| observed.fits(found)))
        }
    }
}

pub(crate) fn lay_out(
    host: &Host,
    observed: &Observed,
    ids: &BTreeSet<PackageId>,
) -> Result<Layout, PlanError> {
    let packages: Vec<&Package> = ids.iter().filter_map(|id| observed.packages.get(id)).collect();
    let members: Vec<Member<'_>> = packages
        .iter()
        .map(|package| Member { id: &package.id, info: &package.info, manifest: &package.manifest })
        .collect();
    let active =
        Active::of(&host.distribution, &members, &observed.roles).map_err(PlanError::Conflicts)?;
    let of = Of {
        distribution: &host.distribution,
        store: &host.store,
        packages: &packages,
        units: &observed.units,
        roles: &observed.roles,
        number: observed.highest + 1,
        from: observed.live,
        created: observed.time,
    };
    Ok(Layout::new(&of, active))
}
