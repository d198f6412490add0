//! Runs on simulated hosts: whatever goes wrong, each host ends as it must.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod across;
mod back;
mod engine;
mod fleet_of;
mod invariants;
mod journal;
mod membership;
mod relay;

use camino::Utf8Path;
use fleet::event::{Event, What};
use fleet::journal::{Durability, Journal};
use fleet::run::{End, HostState, Limits, Operation, RunId, RunSpec, Size, Stopped, Task};
use fleet::transport::simulated::{Faults, Kills, Mishap, simulate};
use fleet_of::{Cluster, NEW, OLD};
use host::wire::Report;
use invariants::{Seen, hold};

/// Upgrades ten thousand hosts of which two of a hundred are faulty, once for each seed.
fn upgrade_ten_thousand(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let cluster = Cluster::new(3, 9_997, seed, &Faults::of_agents(20_000));
        let mut seen = Seen::default();
        let done = cluster.watched(&mut |event| seen.see(event)).unwrap();
        assert_eq!(done.end, End::Done, "seed {seed}: {:?}", done.counts);
        hold(&cluster, &done, &seen);
    }
}

/// Fifty seeds, on as many cores as there are.
macro_rules! ten_thousand_hosts {
    ($($name:ident: $seeds:expr;)*) => {$(
        #[test]
        fn $name() {
            upgrade_ten_thousand($seeds);
        }
    )*};
}

ten_thousand_hosts! {
    ten_thousand_hosts_each_end_as_they_must_with_seeds_0_to_4: 0..5;
    ten_thousand_hosts_each_end_as_they_must_with_seeds_5_to_9: 5..10;
    ten_thousand_hosts_each_end_as_they_must_with_seeds_10_to_14: 10..15;
    ten_thousand_hosts_each_end_as_they_must_with_seeds_15_to_19: 15..20;
    ten_thousand_hosts_each_end_as_they_must_with_seeds_20_to_24: 20..25;
    ten_thousand_hosts_each_end_as_they_must_with_seeds_25_to_29: 25..30;
    ten_thousand_hosts_each_end_as_they_must_with_seeds_30_to_34: 30..35;
    ten_thousand_hosts_each_end_as_they_must_with_seeds_35_to_39: 35..40;
    ten_thousand_hosts_each_end_as_they_must_with_seeds_40_to_44: 40..45;
    ten_thousand_hosts_each_end_as_they_must_with_seeds_45_to_49: 45..50;
}

#[test]
#[ignore = "long: a thousand upgrades of ten thousand hosts"]
fn ten_thousand_hosts_each_end_as_they_must_with_a_thousand_seeds() {
    upgrade_ten_thousand(1_000..2_000);
}

#[test]
#[ignore = "long: an upgrade of fifty thousand hosts"]
fn fifty_thousand_hosts_each_end_as_they_must() {
    let cluster = Cluster::new(5, 49_995, 1, &Faults::of_agents(20_000));
    let mut seen = Seen::default();
    let done = cluster.watched(&mut |event| seen.see(event)).unwrap();
    assert_eq!(done.end, End::Done, "{:?}", done.counts);
    println!("{:?} in {:?}, {} commits", done.counts, done.took, done.journal.commits());
    hold(&cluster, &done, &seen);
}

/// Does a run while controllers are killed, each time with a new one.
fn with_kills(cluster: &Cluster, kills: Kills, folder: &Utf8Path, seen: &mut Seen) -> usize {
    let name = cluster.spec.id.to_string();
    let open = || Journal::open(folder, &name, Durability::Off);
    let done = cluster.killed(kills, open, &mut |event| seen.see(event)).unwrap();
    hold(cluster, &done, seen);
    done.killed
}

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn path(folder: &tempfile::TempDir) -> &Utf8Path {
    Utf8Path::from_path(folder.path()).unwrap()
}

#[test]
fn no_effect_happens_twice_however_often_the_controller_is_killed() {
    let folder = folder();
    let mut killed = 0;
    for seed in 0..60 {
        let mut cluster = Cluster::new(3, 60, seed, &Faults::of_agents(150_000));
        cluster.spec.budget = Size::Percent(if seed % 3 == 0 { 5 } else { 60 });
        cluster.spec.limits.parallel = 16;
        let kills = Kills { seed, most: 60, within: 15 };
        killed += with_kills(&cluster, kills, path(&folder), &mut Seen::default());
    }
    assert!(killed > 600, "killed {killed} times");
}

#[test]
fn ten_thousand_hosts_survive_controllers_that_die() {
    let folder = folder();
    let cluster = Cluster::new(3, 9_997, 7, &Faults::of_agents(20_000));
    let kills = Kills { seed: 7, most: 12, within: 1_000 };
    let killed = with_kills(&cluster, kills, path(&folder), &mut Seen::default());
    assert!(killed > 5, "killed {killed} times");
}

#[test]
fn a_faulty_master_never_costs_the_quorum() {
    let folder = folder();
    let (mut stopped, mut complete) = (0, 0);
    for seed in 0..300 {
        let mut faults = Faults::of_agents(20_000);
        faults.masters = 150_000;
        let masters = [1, 3, 5][usize::try_from(seed % 3).unwrap()];
        let mut cluster = Cluster::new(masters, 20, seed, &faults);
        cluster.spec.budget = Size::Percent(20);
        let mut seen = Seen::default();
        if seed % 4 == 0 {
            let kills = Kills { seed, most: 10, within: 40 };
            with_kills(&cluster, kills, path(&folder), &mut seen);
        } else {
            let done = cluster.watched(&mut |event| seen.see(event)).unwrap();
            hold(&cluster, &done, &seen);
            if done.end == End::Done { complete += 1 } else { stopped += 1 }
        }
    }
    // Both happen, or nothing was shown.
    assert!(stopped > 20 && complete > 20, "{stopped} stopped, {complete} complete");
}

#[test]
fn a_wave_after_which_the_cluster_is_not_well_is_on_the_old_version_again() {
    for seed in 0..40 {
        let mut cluster = Cluster::new(3, 100, seed, &Faults::of_agents(50_000));
        cluster.spec.budget = Size::Percent(20);
        cluster.spec.limits.gate_tries = 3;
        let sick_agents = usize::try_from(seed * 2).unwrap() + 1;
        cluster.world.sicken(NEW.bundle(), 3, sick_agents);
        let mut seen = Seen::default();
        let done = cluster.watched(&mut |event| seen.see(event)).unwrap();
        let End::Stopped(Stopped::Gate { before: false, .. }) = done.end else {
            panic!("seed {seed}: {:?}", done.end);
        };
        hold(&cluster, &done, &seen);
        assert!(done.counts.rolled_back > 0);
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let story = |seed| {
        let cluster = Cluster::new(3, 300, seed, &Faults::of_agents(100_000));
        let mut events: Vec<Event> = Vec::new();
        cluster.watched(&mut |event| events.push(event.clone())).unwrap();
        events
    };
    let first = story(5);
    assert!(first.len() > 1_000, "{}", first.len());
    assert_eq!(first, story(5));
    assert_ne!(first, story(6));
}

#[test]
fn a_clock_that_is_far_off_is_seen_and_changes_nothing() {
    let cluster = Cluster::new(3, 20, 1, &Faults::none());
    cluster.world.afflict("a7", Some(Mishap::ClockSkew));
    let id = RunId::try_from("status".to_owned()).unwrap();
    let mut spec = RunSpec::new(id.clone(), "cluster", Operation::Status)
        .asking(Task::Request(host::wire::Request::Status));
    spec.hosts.clone_from(&cluster.spec.hosts);
    let asked = simulate(&cluster.world, spec, None, Journal::in_memory, &mut |_| {}).unwrap();
    let steps = asked.journal.steps(&id, None).unwrap();
    let mut off = Vec::new();
    for (host, report) in asked.journal.reports(&id, "status").unwrap() {
        let Report::Status(status) = report else { panic!("{report:?}") };
        let step = steps.iter().find(|step| step.host == host && step.name == "status").unwrap();
        let skew = status.time.unwrap().duration_since(step.answered.unwrap());
        if skew.abs().as_secs() > 60 {
            off.push(cluster.spec.hosts[host].host.name.as_str());
        }
    }
    assert_eq!(off, ["a7"]);

    let mut seen = Seen::default();
    let cluster = Cluster::new(3, 20, 1, &Faults::none());
    cluster.world.afflict("a7", Some(Mishap::ClockSkew));
    let done = cluster.watched(&mut |event| seen.see(event)).unwrap();
    hold(&cluster, &done, &seen);
    let hosts = done.journal.hosts(&cluster.spec.id).unwrap();
    assert!(hosts.iter().all(|row| row.state == HostState::Done));
    let latest = hosts.iter().map(|row| row.changed).max().unwrap();
    let earliest = hosts.iter().map(|row| row.changed).min().unwrap();
    assert!(latest.duration_since(earliest).as_hours() < 1, "times are the controller's");
}

#[test]
fn every_mishap_alone_leads_to_its_own_end() {
    for mishap in Mishap::ALL.into_iter().chain(Mishap::RARE) {
        let cluster = Cluster::new(3, 20, 3, &Faults::none());
        cluster.world.afflict("a9", Some(mishap));
        let mut seen = Seen::default();
        let done = cluster.watched(&mut |event| seen.see(event)).unwrap();
        assert_eq!(done.end, End::Done, "{mishap:?}");
        hold(&cluster, &done, &seen);
    }
}

#[test]
fn a_host_whose_switch_nobody_heard_the_end_of_is_taken_back_with_its_wave() {
    let mut cluster = Cluster::new(3, 20, 3, &Faults::none());
    cluster.world.afflict("a1", Some(Mishap::SilentSwitch));
    cluster.spec.limits = Limits { tries_again: 3, ..cluster.spec.limits };
    let mut undone = 0;
    let done = cluster
        .watched(&mut |event| {
            if let What::Undoing { hosts, .. } = event.what {
                undone += hosts;
            }
        })
        .unwrap();
    // It is the canary, and no canary may fail.
    assert_eq!(done.end, End::Stopped(Stopped::Wave { wave: 4, failed: 1 }));
    assert_eq!((undone, done.counts.rolled_back), (1, 1));
    assert_eq!(cluster.look("a1").bundle, Some(OLD.bundle()));
    assert_eq!(cluster.look("a1").effects.len(), 2, "it had switched");
}
