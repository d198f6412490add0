//! Who does not reach whom, by cause: a firewall that keeps a thousand hosts from three is one thing to do.

use std::collections::{BTreeMap, BTreeSet};

use host::wire::Level;

use super::Finding;
use super::matrix::{Matrix, Try};

/// So many findings with the same ports and the same reason are told one by one.
const TOLD_MAX: usize = 5;

type Hosts = BTreeSet<usize>;

/// What has the same reason.
type Alike = (BTreeSet<u16>, String);

/// Connections that were not made, and those of which nothing is known.
pub(super) fn judge(matrix: &Matrix, name: &dyn Fn(usize) -> String) -> Vec<Finding> {
    let names = |hosts: &Hosts| hosts.iter().map(|host| name(*host)).collect::<Vec<_>>();
    let mut findings = Vec::new();
    for ((ports, reason), groups) in by_cause(matrix) {
        for Group { from, to, count } in groups {
            // Where some do and some do not, that is worth knowing.
            let all: usize = from.iter().map(|one| to.len() - usize::from(to.contains(one))).sum();
            let part =
                if count < all { format!(", in {count} of {all} cases") } else { String::new() };
            let is_taken =
                to.iter().any(|to| ports.iter().any(|port| matrix.in_use.contains(&(*to, *port))));
            findings.push(Finding {
                name: "reach",
                level: Level::Error,
                hosts: names(&from),
                to: names(&to),
                found: format!("{}: {reason}{part}", listed(&ports)),
                fix: fix(&ports, &reason, is_taken),
            });
        }
    }
    findings.extend(unknown(matrix, &names));
    findings
}

fn fix(ports: &BTreeSet<u16>, reason: &str, is_taken: bool) -> String {
    let ports = listed(ports);
    if is_taken && reason == "refused" {
        return format!(
            "somebody listens on {ports} there, and not for other hosts: see on which address, and at firewalls"
        );
    }
    format!(
        "let tcp {ports} pass: look at firewalls on these hosts and between them, and at routes"
    )
}

struct Group {
    from: Hosts,
    to: Hosts,
    /// How many of one do not reach how many of the other.
    count: usize,
}

/// Failures with the same ports and the same reason, as few groups of them as can be.
fn by_cause(matrix: &Matrix) -> BTreeMap<Alike, Vec<Group>> {
    let mut ports: BTreeMap<(usize, usize, &str), BTreeSet<u16>> = BTreeMap::new();
    for (Try { from, to, port }, reason) in &matrix.failed {
        ports.entry((*from, *to, reason)).or_default().insert(*port);
    }
    let mut of_target: BTreeMap<(Alike, usize), Hosts> = BTreeMap::new();
    for ((from, to, reason), ports) in ports {
        of_target.entry(((ports, reason.to_owned()), to)).or_default().insert(from);
    }
    // Targets that the same hosts do not reach.
    let mut causes: BTreeMap<Alike, BTreeMap<Hosts, Hosts>> = BTreeMap::new();
    for ((alike, to), from) in of_target {
        causes.entry(alike).or_default().entry(from).or_default().insert(to);
    }
    let group = |(from, to): (Hosts, Hosts)| {
        let count = from.iter().map(|one| to.len() - usize::from(to.contains(one))).sum();
        Group { from, to, count }
    };
    let few = |groups: BTreeMap<Hosts, Hosts>| {
        let groups: Vec<Group> = groups.into_iter().map(group).collect();
        if groups.len() <= TOLD_MAX {
            return groups;
        }
        let (mut from, mut to, mut count) = (Hosts::new(), Hosts::new(), 0);
        for mut group in groups {
            from.append(&mut group.from);
            to.append(&mut group.to);
            count += group.count;
        }
        vec![Group { from, to, count }]
    };
    causes.into_iter().map(|(alike, groups)| (alike, few(groups))).collect()
}

/// What was not found out.
fn unknown(matrix: &Matrix, names: &dyn Fn(&Hosts) -> Vec<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut tell = |hosts: &Hosts, to: &Hosts, found: String, fix: &str| {
        findings.push(Finding {
            name: "reach",
            level: Level::Warning,
            hosts: names(hosts),
            to: names(to),
            found,
            fix: fix.to_owned(),
        });
    };
    let mut deaf: BTreeMap<Alike, Hosts> = BTreeMap::new();
    for ((host, port), reason) in &matrix.unheard {
        deaf.entry(([*port].into(), reason.clone())).or_default().insert(*host);
    }
    for ((ports, reason), hosts) in deaf {
        let found = format!("nobody can listen on {} to try it: {reason}", listed(&ports));
        tell(&hosts, &Hosts::new(), found, "see what keeps root from listening there");
    }
    if !matrix.nowhere.is_empty() {
        let found = "no address is known at which others look for it, so nobody tried".to_owned();
        let fix = "let the distribution detect it (the check `address`), or put an address into the inventory";
        tell(&matrix.nowhere, &Hosts::new(), found, fix);
    }
    let lost: Hosts = matrix.open().iter().map(|one| one.from).collect();
    if !lost.is_empty() {
        let found = "whether it reaches others was not found out: hosts were lost while they tried";
        tell(&lost, &Hosts::new(), found.to_owned(), "run it again");
    }
    findings
}

fn listed(ports: &BTreeSet<u16>) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}
