//! Plans in sum: what is done to hosts, those to which the same is done in one line.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fleet::run::Operation;
use host::wire::{Finding, Level, PlanSummary, Removal};
use package::PackageId;
use serde::Serialize;

use crate::failure::Failure;
use crate::render::fleet::some;
use crate::render::{Output, bytes, plain, plural};

/// What becomes of a host that is as it was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fate {
    Changes,
    Unchanged,
    /// A deployment does not touch what is there.
    LeftAlone,
    Fails,
}

/// What becomes of a host, decided as the run does.
pub(super) fn fate(plan: &PlanSummary, operation: Operation) -> Fate {
    match () {
        () if plan.changes && plan.from.is_some() && operation == Operation::Deploy => {
            Fate::LeftAlone
        }
        () if errors(plan).next().is_some() => Fate::Fails,
        () if plan.changes => Fate::Changes,
        () => Fate::Unchanged,
    }
}

fn errors(plan: &PlanSummary) -> impl Iterator<Item = &Finding> {
    plan.findings.iter().filter(|found| found.level == Level::Error)
}

/// A host, what becomes of it, and what is done to it.
pub(super) type Planned = (String, Fate, PlanSummary);

/// All hosts together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(super) struct Sum {
    hosts: usize,
    changing: usize,
    unchanged: usize,
    left_alone: usize,
    failing: usize,
    /// Bytes to move.
    fetch_bytes: u64,
    /// Bytes that it takes on all disks.
    disk_bytes: u64,
    /// Packages that come, each counted once.
    added: BTreeSet<PackageId>,
    /// Packages that go.
    removed: BTreeSet<PackageId>,
    /// Units that are stopped, and that are started, on all hosts.
    stops: usize,
    starts: usize,
    /// Hosts of which it is not known which units stop and start.
    units_unknown: usize,
    /// Checks that will fail, and on how many hosts.
    failing_checks: BTreeMap<String, usize>,
}

impl Sum {
    pub(super) fn of(planned: &[Planned]) -> Self {
        let mut sum = Self { hosts: planned.len(), ..Self::default() };
        for (_, fate, plan) in planned {
            match fate {
                Fate::Changes => sum.changes(plan),
                Fate::Unchanged => sum.unchanged += 1,
                Fate::LeftAlone => sum.left_alone += 1,
                Fate::Fails => {
                    sum.failing += 1;
                    let names: BTreeSet<&str> =
                        errors(plan).map(|found| found.name.as_str()).collect();
                    for name in names {
                        *sum.failing_checks.entry(name.to_owned()).or_default() += 1;
                    }
                }
            }
        }
        sum
    }

    fn changes(&mut self, plan: &PlanSummary) {
        self.changing += 1;
        self.fetch_bytes += plan.fetch_bytes;
        self.disk_bytes += plan.disk_bytes;
        self.added.extend(plan.added.iter().cloned());
        self.removed.extend(plan.removed.iter().cloned());
        self.stops += plan.stops.len();
        self.starts += plan.starts.len();
        self.units_unknown += usize::from(!plan.unknown.is_empty());
    }

    fn show(&self, output: &Output) -> Result<(), Failure> {
        output.line(&format!(
            "{} of {} change, {} to add and {} to remove, {} to move, {} on disk, {} and {} of units",
            self.changing,
            plural(self.hosts, "host"),
            plural(self.added.len(), "package"),
            self.removed.len(),
            bytes(self.fetch_bytes),
            bytes(self.disk_bytes),
            plural(self.stops, "stop"),
            plural(self.starts, "start"),
        ))?;
        let others = [
            (
                self.left_alone,
                "to be left alone: something else is live, and `upgrade` is for that",
            ),
            (self.units_unknown, "of which it is not known which units stop and start"),
        ];
        for (count, what) in others.iter().filter(|(count, _)| *count > 0) {
            output.line(&format!("{} {what}", plural(*count, "host")))?;
        }
        if self.failing > 0 {
            let checks = self.failing_checks.iter();
            let checks: Vec<_> =
                checks.map(|(name, on)| format!("{name} on {}", plural(*on, "host"))).collect();
            let hosts = plural(self.failing, "host");
            output.line(&format!("{hosts} will fail: {}", checks.join(", ")))?;
        }
        Ok(())
    }
}

/// Whether anything is removed from a host.
pub(super) fn is_there(removal: &Removal) -> bool {
    let Removal { generations, packages, state, purge, .. } = removal;
    !generations.is_empty() || !packages.is_empty() || (*purge && !state.is_empty())
}

/// What is removed from a host.
pub(super) fn removal_lines(removal: &Removal) -> Vec<String> {
    if !is_there(removal) {
        return vec!["nothing is installed".to_owned()];
    }
    let mut lines = vec![format!(
        "remove {}, {}",
        plural(removal.packages.len(), "package"),
        plural(removal.generations.len(), "generation"),
    )];
    if !removal.stops.is_empty() {
        lines.push(format!("stop {}", removal.stops.join(" ")));
    }
    if !removal.state.is_empty() {
        let what = if removal.purge { "remove" } else { "keep" };
        lines.push(format!("{what} {}", removal.state.join(", ")));
    }
    lines
}

/// What is removed from all hosts together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(super) struct Removed {
    hosts: usize,
    changing: usize,
    /// Packages and generations, on all hosts.
    packages: usize,
    generations: usize,
    /// Units that are stopped, on all hosts.
    stops: usize,
    /// Bytes that come free on all disks.
    disk_bytes: u64,
}

impl Removed {
    pub(super) fn of<'a>(removals: impl Iterator<Item = &'a Removal>) -> Self {
        removals.fold(Self::default(), |sum, removal| Self {
            hosts: sum.hosts + 1,
            changing: sum.changing + usize::from(is_there(removal)),
            packages: sum.packages + removal.packages.len(),
            generations: sum.generations + removal.generations.len(),
            stops: sum.stops + removal.stops.len(),
            disk_bytes: sum.disk_bytes + removal.disk_bytes,
        })
    }

    pub(super) fn show(&self, output: &Output) -> Result<(), Failure> {
        output.line(&format!(
            "{} of {} change, {} and {} to remove, {} comes free, {} of units",
            self.changing,
            plural(self.hosts, "host"),
            plural(self.packages, "package"),
            plural(self.generations, "generation"),
            bytes(self.disk_bytes),
            plural(self.stops, "stop"),
        ))
    }
}

/// Hosts of which the same is to be said, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Same {
    groups: Vec<Alike>,
    places: HashMap<Vec<String>, usize>,
}

#[derive(Debug)]
struct Alike {
    names: Vec<String>,
    lines: Vec<String>,
    /// Of the one that has the least.
    bytes: Option<u64>,
}

impl Same {
    /// Hosts that differ only in their bytes are alike.
    pub(super) fn add(&mut self, name: &str, lines: Vec<String>, bytes: Option<u64>) {
        let place = *self.places.entry(lines).or_insert_with_key(|lines| {
            self.groups.push(Alike { names: Vec::new(), lines: lines.clone(), bytes });
            self.groups.len() - 1
        });
        let group = &mut self.groups[place];
        group.names.push(name.to_owned());
        group.bytes = group.bytes.into_iter().chain(bytes).min();
    }

    /// Tells of each; `are` says what their bytes are.
    pub(super) fn show(&self, are: &str, output: &Output) -> Result<(), Failure> {
        for Alike { names, lines, bytes: all } in &self.groups {
            output.line(&format!("{}:", some(names)))?;
            for line in lines {
                output.line(&format!("    {line}"))?;
            }
            if let Some(all) = all {
                let least = if names.len() == 1 { "" } else { " at least" };
                output.line(&format!("    {}{least} {are}", bytes(*all)))?;
            }
        }
        Ok(())
    }
}

/// Tells what is done to whom, with what is done to the cluster for each, and in sum.
pub(super) fn show(
    planned: &[Planned],
    actions: &[Vec<String>],
    sum: &Sum,
    output: &Output,
) -> Result<(), Failure> {
    let mut same = Same::default();
    for ((name, fate, plan), actions) in planned.iter().zip(actions) {
        let touches = matches!(fate, Fate::Changes | Fate::Fails);
        let mut lines = lines(plan, *fate);
        lines.splice(0..0, actions.iter().cloned());
        same.add(name, lines, plan.free_bytes.filter(|_| touches));
    }
    same.show("is free there", output)?;
    sum.show(output)
}

/// What is done to a host.
fn lines(plan: &PlanSummary, fate: Fate) -> Vec<String> {
    match fate {
        Fate::Unchanged => return vec!["nothing changes".to_owned()],
        Fate::LeftAlone => {
            return vec![
                "left alone: something else is live; `monobloc upgrade` changes it".into(),
            ];
        }
        Fate::Changes | Fate::Fails => {}
    }
    let mut lines = vec![format!(
        "fetch {}, {}; {} on disk",
        plural(plan.fetched.len(), "package"),
        bytes(plan.fetch_bytes),
        bytes(plan.disk_bytes),
    )];
    let names = |ids: &BTreeSet<PackageId>| {
        ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let listed = [("add", names(&plan.added)), ("remove", names(&plan.removed))];
    lines.extend(
        listed.iter().filter(|(_, ids)| !ids.is_empty()).map(|(what, ids)| format!("{what} {ids}")),
    );
    for (what, units) in [("stop", &plan.stops), ("start", &plan.starts)] {
        if !units.is_empty() {
            lines.push(format!("{what} {}", units.join(" ")));
        }
    }
    if !plan.unknown.is_empty() {
        let unknown = names(&plan.unknown);
        lines.push(format!("which units stop and start is not known: {unknown} does not say"));
    }
    for found in errors(plan) {
        lines.push(format!("will fail: {}: {}", found.name, plain(&found.found)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(from: Option<u64>, changes: bool) -> PlanSummary {
        PlanSummary { from, changes, fetch_bytes: 10, disk_bytes: 30, ..PlanSummary::default() }
    }

    fn failing(name: &str) -> Finding {
        Finding { name: name.to_owned(), level: Level::Error, found: "1 GB".into(), fix: None }
    }

    #[test]
    fn a_deployment_plans_no_change_of_what_it_leaves_alone() {
        assert_eq!(fate(&plan(Some(3), true), Operation::Deploy), Fate::LeftAlone);
        assert_eq!(fate(&plan(Some(3), true), Operation::Upgrade), Fate::Changes);
        assert_eq!(fate(&plan(None, true), Operation::Deploy), Fate::Changes);
        assert_eq!(fate(&plan(Some(3), false), Operation::Deploy), Fate::Unchanged);
    }

    #[test]
    fn a_sum_has_disk_packages_units_and_checks_that_will_fail() {
        let mut one = plan(None, true);
        one.added = ["a--1".parse().unwrap(), "b--1".parse().unwrap()].into();
        one.starts = vec!["a.service".into()];
        let mut other = one.clone();
        other.unknown = ["a--1".parse().unwrap()].into();
        let mut third = one.clone();
        third.findings = vec![failing("memory"), failing("memory"), failing("disk")];
        let planned = [
            ("h1".to_owned(), Fate::Changes, one),
            ("h2".to_owned(), Fate::Changes, other),
            ("h3".to_owned(), Fate::Fails, third),
            ("h4".to_owned(), Fate::LeftAlone, plan(Some(1), true)),
        ];
        let sum = Sum::of(&planned);
        assert_eq!((sum.hosts, sum.changing, sum.failing, sum.left_alone), (4, 2, 1, 1));
        assert_eq!((sum.fetch_bytes, sum.disk_bytes, sum.starts), (20, 60, 2));
        assert_eq!((sum.added.len(), sum.units_unknown), (2, 1));
        let checks: Vec<_> = sum.failing_checks.iter().map(|(name, on)| (&**name, *on)).collect();
        assert_eq!(checks, [("disk", 1), ("memory", 1)]);
    }

    #[test]
    fn fifty_thousand_hosts_that_differ_only_in_free_space_are_one_line() {
        let mut same = Same::default();
        for number in 0..50_000 {
            let lines = lines(&plan(None, true), Fate::Changes);
            same.add(&number.to_string(), lines, Some(1_000_000 - number));
        }
        assert_eq!(same.groups.len(), 1);
        assert_eq!(same.groups[0].bytes, Some(950_001));
    }

    #[test]
    fn fifty_thousand_hosts_that_all_differ_are_grouped_at_once() {
        let mut same = Same::default();
        for number in 0..50_000 {
            same.add("h", vec![format!("stop {number}.service")], None);
        }
        assert_eq!(same.groups.len(), 50_000);
    }
}
