//! All hosts looked at together: what is wrong is found, with who has it, and nothing else is.

use std::collections::BTreeSet;

use fleet::across::{Account, Across, Finding};
use fleet::event::What;
use fleet::journal::{Durability, Journal};
use fleet::run::{End, Operation, RunId, RunSpec};
use fleet::transport::simulated::{Faults, Kills, Mishap, Simulated, simulate};
use host::wire::Level;
use package::preflight::{Check, Declared, Preflight, Reach, Severity};

use crate::fleet_of::{Cluster, NEW};
use crate::{folder, path};

/// Agents and masters connect to masters, masters to everybody.
fn rules() -> Vec<Reach> {
    let role = |name: &str| [name.parse().unwrap()].into();
    vec![
        Reach { from: BTreeSet::new(), to: role("master"), tcp: [2379, 4222].into() },
        Reach { from: role("master"), to: role("master"), tcp: [2380].into() },
        Reach { from: role("master"), to: BTreeSet::new(), tcp: [9100].into() },
    ]
}

/// Hosts with nothing on them, that are looked at.
fn looked_at(masters: usize, agents: usize, seed: u64, faults: &Faults) -> Cluster {
    let mut cluster = Cluster::empty(masters, agents, seed, faults);
    let id = RunId::try_from(format!("look-{seed}")).unwrap();
    let across = Across { clock_ms: Some(500), reach: rules() };
    let mut spec = RunSpec::new(id, "cluster", Operation::Preflight).looking(across);
    spec.wanted = vec![NEW.wanted(false)];
    spec.hosts.clone_from(&cluster.spec.hosts);
    for target in &mut spec.hosts {
        let role = if target.host.name.starts_with('m') { "master" } else { "slave" };
        target.host.roles = [role.parse().unwrap()].into();
    }
    cluster.spec = spec;
    cluster
}

fn account(done: &Simulated, cluster: &Cluster) -> Account {
    assert_eq!(done.end, End::Done);
    Account::read(&done.journal, &cluster.spec.id).unwrap().unwrap()
}

fn look(cluster: &Cluster) -> Account {
    let done =
        simulate(&cluster.world, cluster.spec.clone(), None, Journal::in_memory, &mut |_| {});
    account(&done.unwrap(), cluster)
}

/// A finding in one line.
fn line(finding: &Finding) -> String {
    let Finding { name, level, hosts, to, found, .. } = finding;
    let to = if to.is_empty() { String::new() } else { format!(" > {}", to.join(" ")) };
    format!("{level:?} {name} {}{to}: {found}", hosts.join(" "))
}

fn lines(account: &Account) -> Vec<String> {
    account.findings.iter().map(line).collect()
}

fn nobody_listens(cluster: &Cluster) {
    for name in cluster.names() {
        assert!(!cluster.look(name).listens, "{name} still listens");
    }
}

#[test]
fn hosts_of_which_all_is_well_have_nothing_to_tell() {
    let cluster = looked_at(3, 40, 1, &Faults::none());
    let account = look(&cluster);
    assert_eq!(lines(&account), [""; 0]);
    // 43 hosts to 3 masters on two ports, masters to each other, masters to 42 others of which 32 at most.
    assert_eq!(account.hosts, 43);
    assert_eq!(account.connections, (40 * 3 + 3 * 2) * 2 + 3 * 2 + 3 * 42);
    assert!(account.tried < account.connections, "{account:?}");
    nobody_listens(&cluster);
}

#[test]
fn clocks_that_are_off_are_found_among_a_thousand_and_no_others() {
    for seed in 0..4 {
        let mishaps = vec![Mishap::ClockSkew, Mishap::Slow, Mishap::Flapping, Mishap::Unfit];
        let faults = Faults { agents: 60_000, masters: 0, mishaps };
        let cluster = looked_at(3, 997, seed, &faults);
        let is_off = |name: &&str| cluster.look(name).mishap == Some(Mishap::ClockSkew);
        let off: Vec<&str> = cluster.names().filter(is_off).collect();
        assert!(off.len() > 5, "seed {seed}: {off:?}");
        let account = look(&cluster);
        assert_eq!(account.hosts, 1000, "also those that are unfit");
        let found =
            format!("Error clock {}: the clock is 3649 days ahead of most others", off.join(" "));
        assert_eq!(lines(&account), [found], "seed {seed}");
    }
}

#[test]
fn clocks_that_are_a_little_off_are_found_as_soon_as_that_can_be_measured() {
    let cluster = looked_at(3, 100, 1, &Faults::none());
    for (host, seconds) in [("a3", 5), ("a70", 90), ("m2", -7)] {
        cluster.world.skew(host, seconds);
    }
    let account = look(&cluster);
    let [ahead, behind] = &account.findings[..] else { panic!("{account:?}") };
    assert_eq!(
        (&ahead.hosts[..], &behind.hosts[..]),
        (&["a3".to_owned(), "a70".to_owned()][..], &["m2".to_owned()][..])
    );
}

#[test]
fn a_controller_with_a_wrong_clock_blames_nobody_else() {
    let cluster = looked_at(3, 1_000, 1, &Faults::none());
    let names: Vec<String> = cluster.names().map(str::to_owned).collect();
    for name in &names {
        cluster.world.skew(name, -7_300);
    }
    cluster.world.skew("a9", 0);
    let account = look(&cluster);
    assert_eq!(
        lines(&account),
        [
            "Error clock a9: the clock is 2 h ahead of most others",
            "Warning clock : the clock of this machine is 2 h ahead of those of most hosts",
        ]
    );
}

#[test]
fn a_distribution_says_how_far_clocks_may_be_apart() {
    let clock = |max_error_ms, severity| {
        let check = Declared::new(Check::Clock { max_error_ms }, severity);
        Across::of(Some(&Preflight::new(vec![check]))).clock_ms
    };
    assert_eq!(clock(10_000, Severity::Error), Some(10_000));
    // What is less cannot be measured.
    assert_eq!(clock(100, Severity::Warning), Some(500));
    assert_eq!(clock(100, Severity::Off), None);
    assert_eq!(Across::of(None).clock_ms, Some(500));

    let mut cluster = looked_at(1, 10, 1, &Faults::none());
    cluster.world.skew("a3", 5);
    let across = Across { clock_ms: Some(10_000), reach: Vec::new() };
    cluster.spec = cluster.spec.looking(across);
    assert_eq!(lines(&look(&cluster)), [""; 0]);
}

#[test]
fn clones_and_addresses_that_two_have_are_found() {
    let cluster = looked_at(3, 200, 1, &Faults::none());
    for host in ["a3", "a4", "a150"] {
        cluster.world.clone_machine(host, "a2");
    }
    cluster.world.detect("a7", cluster.world.address("a8"));
    cluster.world.detect("a9", "192.0.2.9".parse().ok());
    let account = look(&cluster);
    let errors: Vec<String> = account
        .findings
        .iter()
        .filter(|finding| finding.name != "reach" && finding.level == Level::Error)
        .map(line)
        .collect();
    let address = cluster.world.address("a8").unwrap();
    assert_eq!(
        errors,
        [
            "Error machine_id a2 a3 a4 a150: they have the same machine id: they were cloned"
                .to_owned(),
            format!("Error address a7 a8: {address} is the address of each of them"),
        ]
    );
    let is_about =
        |finding: &&Finding| finding.name == "address" && finding.level == Level::Warning;
    let warned: Vec<String> = account.findings.iter().filter(is_about).map(line).collect();
    assert_eq!(
        warned,
        [format!(
            "Warning address a7 a9: the script of the distribution does not find the address in the \
             inventory (a7: {address}, which it does not have)"
        )]
    );
}

#[test]
fn a_port_that_is_blocked_between_roles_is_one_finding_and_nothing_else_is() {
    for seed in 0..3 {
        let cluster = looked_at(3, 997, seed, &Faults::none());
        let agents: Vec<String> =
            cluster.names().filter(|name| name.starts_with('a')).map(str::to_owned).collect();
        for agent in &agents {
            for master in ["m1", "m2", "m3"] {
                cluster.world.block(agent, master, 2379);
            }
        }
        let account = look(&cluster);
        let [finding] = &account.findings[..] else { panic!("{:?}", lines(&account)) };
        assert_eq!(finding.hosts, agents);
        assert_eq!(
            (finding.to.join(" "), finding.found.as_str()),
            ("m1 m2 m3".to_owned(), "2379: no answer")
        );
        assert!(finding.fix.contains("let tcp 2379 pass"), "{}", finding.fix);
        nobody_listens(&cluster);
    }
}

#[test]
fn one_way_that_is_blocked_is_told_as_that_way() {
    let cluster = looked_at(3, 20, 1, &Faults::none());
    cluster.world.block("a7", "m2", 2379);
    cluster.world.block("m1", "m3", 2380);
    cluster.world.block("m1", "m3", 9100);
    assert_eq!(
        lines(&look(&cluster)),
        ["Error reach a7 > m2: 2379: no answer", "Error reach m1 > m3: 2380, 9100: no answer"]
    );
}

#[test]
fn hosts_that_nobody_reaches_are_told_before_and_hinder_nobody() {
    let cluster = looked_at(3, 20, 1, &Faults::none());
    cluster.world.afflict("m2", Some(Mishap::Dead));
    cluster.world.afflict("a7", Some(Mishap::LoginRefused));
    let done =
        simulate(&cluster.world, cluster.spec.clone(), None, Journal::in_memory, &mut |_| {})
            .unwrap();
    let account = account(&done, &cluster);
    assert_eq!((account.hosts, lines(&account)), (21, Vec::new()));
    let failures = done.journal.failures(&cluster.spec.id).unwrap();
    assert_eq!(failures.iter().map(|cause| cause.hosts.len()).sum::<usize>(), 2);
}

#[test]
fn a_controller_that_is_killed_while_hosts_try_comes_to_the_same() {
    let folder = folder();
    let mut killed = 0;
    for seed in 0..10 {
        let mishaps = vec![Mishap::ClockSkew, Mishap::Flapping, Mishap::Slow];
        let faults = Faults { agents: 100_000, masters: 0, mishaps };
        let mut cluster = looked_at(3, 60, seed, &faults);
        cluster.spec.limits.parallel = 16;
        cluster.world.block("a7", "m2", 2379);
        cluster.world.clone_machine("a8", "a9");
        let skewed = cluster
            .names()
            .filter(|name| cluster.look(name).mishap == Some(Mishap::ClockSkew))
            .count();
        let name = cluster.spec.id.to_string();
        let kills = Kills { seed, most: 40, within: 12 };
        let open = || Journal::open(path(&folder), &name, Durability::Off);
        let mut listened = 0;
        let done = cluster
            .killed(kills, open, &mut |event| {
                if let What::Phase { name, .. } = &event.what
                    && name == "listen"
                {
                    listened += 1;
                }
            })
            .unwrap();
        killed += done.killed;
        let account = account(&done, &cluster);
        let mut found: Vec<String> = lines(&account);
        // Of a clock nothing is known if the controller was dead between the question and the answer.
        found.retain(|line| !line.starts_with("Error clock") && !line.starts_with("Notice clock"));
        assert_eq!(
            found,
            [
                "Error machine_id a8 a9: they have the same machine id: they were cloned",
                "Error reach a7 > m2: 2379: no answer",
            ],
            "seed {seed}"
        );
        let mut clocks = account.findings.iter().filter(|found| found.name == "clock");
        let off = clocks.find(|found| found.level == Level::Error);
        assert_eq!(off.map_or(0, |found| found.hosts.len()), skewed, "seed {seed}");
        assert!(listened >= 1);
        nobody_listens(&cluster);
    }
    assert!(killed > 60, "killed {killed} times");
}

#[test]
#[ignore = "long: fifty thousand hosts that try to reach each other"]
fn fifty_thousand_hosts_are_compared() {
    let cluster = looked_at(5, 49_995, 1, &Faults::none());
    cluster.world.block("a7", "m2", 2379);
    cluster.world.skew("a77", 60);
    let account = look(&cluster);
    println!("{} of {} connections", account.tried, account.connections);
    assert_eq!(account.findings.len(), 2, "{:?}", lines(&account));
}
