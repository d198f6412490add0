//! Who machines are: no two are the same, and each is where the inventory and the distribution's own script
//! say that it is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use host::wire::{Level, Status};
use package::Sha256;

use super::matrix::Matrix;
use super::{Finding, with_example};
use crate::run::RunSpec;

/// Machines and addresses that two share, and addresses that are not what somebody says.
pub(super) fn judge(
    spec: &RunSpec,
    statuses: &BTreeMap<usize, Status>,
    matrix: &Matrix,
) -> Vec<Finding> {
    let mut findings = machines(spec, statuses);
    findings.extend(shared(spec, statuses, matrix));
    findings.extend(elsewhere(spec, statuses, matrix));
    findings
}

fn names<'a>(spec: &RunSpec, hosts: impl IntoIterator<Item = &'a usize>) -> Vec<String> {
    hosts.into_iter().map(|host| spec.hosts[*host].host.name.clone()).collect()
}

/// Machines that were cloned, and those that are in the inventory twice.
fn machines(spec: &RunSpec, statuses: &BTreeMap<usize, Status>) -> Vec<Finding> {
    let mut of: BTreeMap<Sha256, Vec<usize>> = BTreeMap::new();
    for (host, status) in statuses {
        if let Some(machine) = status.machine {
            of.entry(machine).or_default().push(*host);
        }
    }
    let several = of.into_values().filter(|hosts| hosts.len() > 1);
    several
        .map(|hosts| {
            let who = |host: &usize| (&statuses[host].boot, &statuses[host].addresses);
            let is_one = hosts.iter().all(|host| who(host) == who(&hosts[0]));
            let (found, fix) = if is_one {
                ("they are one machine, under several names", "leave one of the names")
            } else {
                (
                    "they have the same machine id: they were cloned",
                    "on all but one of them, empty /etc/machine-id, run `systemd-machine-id-setup`, and boot",
                )
            };
            Finding {
                name: "machine_id",
                level: Level::Error,
                hosts: names(spec, &hosts),
                to: Vec::new(),
                found: found.to_owned(),
                fix: fix.to_owned(),
            }
        })
        .collect()
}

/// Addresses at which others look for a host, and which another one has, too. Other addresses may be the same
/// everywhere, as those of bridges for containers are.
fn shared(spec: &RunSpec, statuses: &BTreeMap<usize, Status>, matrix: &Matrix) -> Vec<Finding> {
    let mut of: BTreeMap<IpAddr, BTreeSet<usize>> = BTreeMap::new();
    for host in statuses.keys() {
        let own = matrix.addresses(*host);
        let given = matrix.given(*host).filter(|given| own.contains(given));
        for address in matrix.detected(*host).into_iter().chain(given) {
            of.entry(address).or_default().insert(*host);
        }
    }
    for host in statuses.keys() {
        for address in matrix.addresses(*host) {
            if let Some(hosts) = of.get_mut(address) {
                hosts.insert(*host);
            }
        }
    }
    let differ = |hosts: &BTreeSet<usize>| {
        let machines: Vec<_> = hosts.iter().map(|host| statuses[host].machine).collect();
        hosts.len() > 1
            && machines.iter().any(|machine| *machine != machines[0] || machine.is_none())
    };
    of.retain(|_, hosts| differ(hosts));
    of.into_iter()
        .map(|(address, hosts)| Finding {
            name: "address",
            level: Level::Error,
            hosts: names(spec, &hosts),
            to: Vec::new(),
            found: format!("{address} is the address of each of them"),
            fix: "give each host an address of its own, and let the script that detects it find that one"
                .to_owned(),
        })
        .collect()
}

/// Hosts that are not where somebody says that they are.
fn elsewhere(spec: &RunSpec, statuses: &BTreeMap<usize, Status>, matrix: &Matrix) -> Vec<Finding> {
    let (mut foreign, mut other) = (BTreeMap::new(), BTreeMap::new());
    for host in statuses.keys() {
        let own = matrix.addresses(*host);
        let (given, detected) = (matrix.given(*host), matrix.detected(*host));
        if let Some(given) = given
            && !own.is_empty()
            && !own.contains(&given)
        {
            let own: Vec<String> = own.iter().map(ToString::to_string).collect();
            foreign.insert(*host, format!("{given}, which is none of {}", own.join(", ")));
        }
        // A name is known to whoever resolves it; the machine's own addresses are known here.
        match (given, detected) {
            (Some(given), Some(detected)) if given != detected => {
                other.insert(*host, format!("{detected}, and not {given}"));
            }
            (None, Some(detected)) if !own.is_empty() && !own.contains(&detected) => {
                other.insert(*host, format!("{detected}, which it does not have"));
            }
            _ => {}
        }
    }
    let finding = |hosts: BTreeMap<usize, String>, what: &str, fix: &str| {
        let (first, example) = hosts.first_key_value()?;
        Some(Finding {
            name: "address",
            level: Level::Warning,
            found: with_example(what, &spec.hosts[*first].host.name, example),
            hosts: names(spec, hosts.keys()),
            to: Vec::new(),
            fix: fix.to_owned(),
        })
    };
    [
        finding(
            foreign,
            "the address in the inventory is none of the machine's own",
            "others cannot find it by that address unless it is translated on the way (NAT): see that they can",
        ),
        finding(
            other,
            "the script of the distribution does not find the address in the inventory",
            "put right the script, or the inventory: other hosts use the address that the script finds",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
