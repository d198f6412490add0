//! Hosts that hand the bundle to each other: everybody has it in the end, and few had it from here.

use std::collections::BTreeMap;

use fleet::event::Event;
use fleet::journal::{Durability, Journal, Supplied};
use fleet::run::{End, HostState, Size};
use fleet::transport::simulated::{Faults, Handed, Kills, Mishap, Simulated};

use crate::fleet_of::{Cluster, NEW};
use crate::invariants::{Seen, hold};
use crate::{folder, path};

const FAN: usize = 4;

/// Everything that can go wrong, with so many agents of a million.
fn faults(of_a_million: u32) -> Faults {
    let mishaps = [&Mishap::ALL[..], &Mishap::RELAYING].concat();
    Faults { mishaps, ..Faults::of_agents(of_a_million) }
}

fn cluster(masters: usize, agents: usize, seed: u64, faults: &Faults) -> Cluster {
    let mut cluster = Cluster::new(masters, agents, seed, faults);
    cluster.spec = cluster.spec.relayed(FAN);
    cluster
}

/// Does the run, after which everything holds that must.
fn done(cluster: &Cluster) -> Simulated {
    let mut seen = Seen::default();
    let done = cluster.watched(&mut |event| seen.see(event)).unwrap();
    hold(cluster, &done, &seen);
    holds(cluster, &done);
    done
}

/// Nobody was overburdened, and nobody who was reached in the end serves any more.
fn holds(cluster: &Cluster, done: &Simulated) -> Handed {
    let handed = cluster.world.handed();
    assert!(handed.pushed_at_once <= FAN, "{handed:?}");
    assert!(handed.fetched_at_once <= FAN, "{handed:?}");
    for row in done.journal.hosts(&cluster.spec.id).unwrap() {
        if row.state == HostState::Done {
            let look = cluster.look(&row.name);
            assert!(look.staged.contains(&NEW.bundle()), "{}", row.name);
            assert!(!look.is_serving, "{} is left serving", row.name);
        }
    }
    handed
}

fn supplied(cluster: &Cluster, done: &Simulated) -> Vec<Supplied> {
    done.journal.supplied(&cluster.spec.id).unwrap()
}

fn bytes(supplied: &[Supplied], is_from_here: bool) -> u64 {
    let got = supplied.iter().filter(|got| got.from.is_none() == is_from_here);
    got.map(|got| got.bytes).sum()
}

#[test]
fn of_a_thousand_hosts_a_few_get_the_bundle_from_here() {
    for seed in 0..10 {
        let cluster = cluster(3, 997, seed, &faults(20_000));
        let done = done(&cluster);
        assert_eq!(done.end, End::Done, "seed {seed}: {:?}", done.counts);
        let got = supplied(&cluster, &done);
        assert!(got.len() > 960, "seed {seed}: {}", got.len());
        let (here, others) = (bytes(&got, true), bytes(&got, false));
        // Three masters, a few agents, and the one or two that no other host could serve.
        assert!(here * 30 < others, "seed {seed}: {here} bytes from here, {others} from others");
    }
}

#[test]
fn hosts_that_are_all_well_take_a_few_copies_of_each_kind_from_here() {
    let cluster = cluster(5, 295, 1, &Faults::none());
    let done = done(&cluster);
    let handed = cluster.world.handed();
    // Some more than serve others in the end: those are sent it while the first ones begin to serve.
    assert!(handed.pushed <= 5 + 2 * FAN, "{handed:?}");
    assert_eq!(handed.pushed + handed.fetched, 300);
    let kind = |name: &str| name.chars().next();
    for got in supplied(&cluster, &done) {
        // What masters lack is not what agents lack.
        assert!(got.from.as_deref().is_none_or(|from| kind(from) == kind(&got.host)), "{got:?}");
    }
}

#[test]
fn a_controller_that_is_killed_knows_who_has_what_when_it_goes_on() {
    let folder = folder();
    let mut killed = 0;
    for seed in 0..20 {
        let mut cluster = cluster(3, 60, seed, &faults(150_000));
        cluster.spec.budget = Size::Percent(if seed % 3 == 0 { 5 } else { 60 });
        cluster.spec.limits.parallel = 16;
        let kills = Kills { seed, most: 60, within: 15 };
        let open = || Journal::open(path(&folder), cluster.spec.id.as_str(), Durability::Off);
        let mut seen = Seen::default();
        let done = cluster.killed(kills, open, &mut |event| seen.see(event)).unwrap();
        hold(&cluster, &done, &seen);
        let handed = cluster.world.handed();
        assert!(handed.pushed_at_once <= FAN, "seed {seed}: {handed:?}");
        killed += done.killed;
    }
    assert!(killed > 200, "killed {killed} times");
}

#[test]
fn a_source_that_dies_is_replaced() {
    let mut cluster = cluster(3, 60, 1, &Faults::none());
    cluster.spec.budget = Size::Percent(20);
    let dying = ["a1", "a2", "a3", "a4", "a9"];
    for host in dying {
        cluster.world.afflict(host, Some(Mishap::DeadServing));
    }
    let done = done(&cluster);
    assert_eq!(done.end, End::Done);
    assert_eq!((done.counts.done, done.counts.unreachable), (58, 5));
    let handed = cluster.world.handed();
    assert!(handed.fetched > 40, "{handed:?}");
}

#[test]
fn where_no_host_reaches_another_all_is_sent_from_here() {
    for mishap in [Mishap::Walled, Mishap::Cornered] {
        let cluster = cluster(3, 60, 1, &Faults::none());
        let names: Vec<String> = cluster.names().map(str::to_owned).collect();
        for name in &names {
            cluster.world.afflict(name, Some(mishap));
        }
        let done = done(&cluster);
        assert_eq!(done.counts.done, 63, "{mishap:?}");
        let got = supplied(&cluster, &done);
        assert_eq!(bytes(&got, false), 0, "{mishap:?}");
        assert_eq!(cluster.world.handed().pushed, 63, "{mishap:?}");
    }
}

#[test]
fn one_host_that_others_do_not_reach_is_not_asked_for_ever() {
    let cluster = cluster(1, 60, 1, &Faults::none());
    cluster.world.afflict("a1", Some(Mishap::Walled));
    let done = done(&cluster);
    assert_eq!(done.counts.done, 61);
    let steps = done.journal.steps(&cluster.spec.id, None).unwrap();
    let failed = steps
        .iter()
        .filter(|step| step.name == "relay" && format!("{:?}", step.outcome).contains("no answer"));
    // It has room for four at once, and after the second one nobody else is sent there.
    assert!((2..=5).contains(&failed.count()));
    assert!(supplied(&cluster, &done).iter().all(|got| got.from.as_deref() != Some("a1")));
}

#[test]
fn hosts_of_one_rack_get_it_from_each_other() {
    let mut cluster = cluster(0, 300, 1, &Faults::none());
    for (place, target) in cluster.spec.hosts.iter_mut().enumerate() {
        target.host.rack = Some(format!("r{}", place % 3));
    }
    let racks: BTreeMap<String, Option<String>> =
        cluster.spec.hosts.iter().map(|t| (t.host.name.clone(), t.host.rack.clone())).collect();
    let done = done(&cluster);
    let got = supplied(&cluster, &done);
    let others: Vec<&Supplied> = got.iter().filter(|got| got.from.is_some()).collect();
    let near = others.iter().filter(|got| racks[&got.host] == racks[got.from.as_ref().unwrap()]);
    let (near, all) = (near.count(), others.len());
    // By chance it would be a third.
    assert!(near * 3 > all * 2, "{near} of {all}");
}

#[test]
fn a_run_that_stops_while_hosts_get_it_leaves_nobody_serving() {
    let mut cluster = cluster(3, 60, 1, &Faults::none());
    cluster.spec.budget = Size::Count(2);
    for host in ["a5", "a6", "a7", "a8"] {
        cluster.world.afflict(host, Some(Mishap::FullDisk));
    }
    let mut seen = Seen::default();
    let done = cluster.watched(&mut |event| seen.see(event)).unwrap();
    assert!(matches!(done.end, End::Stopped(_)), "{:?}", done.end);
    hold(&cluster, &done, &seen);
    for name in cluster.names() {
        assert!(!cluster.look(name).is_serving, "{name} is left serving");
    }
}

#[test]
fn the_same_seed_tells_the_same_story_of_who_served_whom() {
    let story = |seed| {
        let cluster = cluster(3, 200, seed, &faults(100_000));
        let mut events: Vec<Event> = Vec::new();
        cluster.watched(&mut |event| events.push(event.clone())).unwrap();
        events
    };
    assert_eq!(story(5), story(5));
    assert_ne!(story(5), story(6));
}
