//! Hosts that come and go, and what is done to the cluster for them.

use std::collections::{BTreeMap, BTreeSet};

use fleet::event::What;
use fleet::journal::{Durability, Journal};
use fleet::run::{
    Acting, End, Group, HostState, Operation, RunError, RunId, RunSpec, Size, Stopped, Task, Waves,
};
use fleet::transport::simulated::{Acted, Faults, Kills, Mishap, Simulated, simulate};
use host::wire::{Action, Report, Request, Status};

use crate::fleet_of::{Cluster, NEW, OLD};
use crate::{folder, path};

fn action(name: &str, on: &str) -> Action {
    let masters: BTreeSet<_> = ["master".parse().unwrap()].into();
    Action {
        package: "etcd--1".parse().unwrap(),
        name: name.to_owned(),
        on: on.to_owned(),
        of: masters.clone(),
        from: masters,
        description: String::new(),
        timeout_seconds: 60,
    }
}

/// Masters, of which some are a cluster, and agents. Nobody is chosen for anything.
fn cluster(live: &[&str], masters: usize, agents: usize, seed: u64) -> Cluster {
    let mut cluster = Cluster::empty(masters, agents, seed, &Faults::none());
    cluster.world.bring(&[action("add-member", "add"), action("remove-member", "remove")]);
    if !live.is_empty() {
        cluster.world.install_on(NEW.bundle(), live);
    }
    cluster.spec.wanted = vec![NEW.wanted(false)];
    for target in &mut cluster.spec.hosts {
        let role = if target.group == Group::Master { "master" } else { "slave" };
        target.host.roles.insert(role.parse().unwrap());
    }
    cluster
}

/// What masters tell of themselves.
fn known(cluster: &Cluster) -> BTreeMap<String, Status> {
    let id = RunId::try_from("known".to_owned()).unwrap();
    let mut spec = RunSpec::new(id.clone(), "cluster", Operation::Status)
        .asking(Task::Request(Request::Status));
    spec.hosts.clone_from(&cluster.spec.hosts);
    let asked = simulate(&cluster.world, spec, None, Journal::in_memory, &mut |_| {}).unwrap();
    let mut known = BTreeMap::new();
    for (host, report) in asked.journal.reports(&id, "status").unwrap() {
        let Report::Status(status) = report else { panic!("{report:?}") };
        known.insert(cluster.spec.hosts[host].host.name.clone(), *status);
    }
    known
}

/// Has some hosts come or go, by what is known of all.
fn choose(cluster: &mut Cluster, operation: Operation, chosen: &[&str], gone: bool) {
    let known = known(cluster);
    cluster.spec.operation = operation;
    let is_chosen = |name: &str| chosen.contains(&name);
    cluster.spec.hosts.retain(|at| is_chosen(&at.host.name) || at.group == Group::Master);
    for target in &mut cluster.spec.hosts {
        target.membership.is_gone = gone && is_chosen(&target.host.name);
        if !is_chosen(&target.host.name) {
            target.group = Group::Witness;
        }
    }
    cluster.spec.find_actions(&known);
    cluster.spec = match operation {
        Operation::Uninstall => cluster.spec.clone().uninstalling(false),
        _ => cluster.spec.clone().installing(false, Waves::careful()),
    };
}

/// What was done to the cluster for a host, by whom.
fn acts(cluster: &Cluster, of: &str) -> Vec<(String, Acted)> {
    let mut acts: Vec<(String, Acted)> = Vec::new();
    for name in cluster.names() {
        let done = cluster.look(name).acts.into_iter().filter(|act| act.arguments[0] == of);
        acts.extend(done.map(|act| (name.to_owned(), act)));
    }
    acts.sort_by_key(|(_, act)| act.at);
    acts
}

fn names(acts: &[(String, Acted)]) -> Vec<(&str, &str)> {
    acts.iter().map(|(on, act)| (on.as_str(), act.action.as_str())).collect()
}

fn state(cluster: &Cluster, done: &Simulated, name: &str) -> HostState {
    let rows = done.journal.hosts(&cluster.spec.id).unwrap();
    rows.into_iter().find(|row| row.name == name).unwrap().state
}

#[test]
fn masters_that_join_are_announced_once_before_they_are_installed_however_often_controllers_die() {
    let (folder, mut killed) = (folder(), 0);
    for seed in 0..60 {
        let mut cluster = cluster(&["m1", "m2", "m3"], 5, 4, seed);
        let masters = Some(Mishap::Flapping).filter(|_| seed % 2 == 0);
        cluster.world.afflict("m1", masters);
        choose(&mut cluster, Operation::Deploy, &["m4", "m5", "a1", "a2"], false);
        let name = cluster.spec.id.to_string();
        let open = || Journal::open(path(&folder), &name, Durability::Off);
        let kills = Kills { seed, most: 40, within: 6 };
        let done = cluster.killed(kills, open, &mut |_| {}).unwrap();
        killed += done.killed;
        assert_eq!(done.end, End::Done, "seed {seed}");
        for new in ["m4", "m5"] {
            let acts = acts(&cluster, new);
            assert_eq!(acts.len(), 1, "seed {seed}: {acts:?}");
            assert_eq!(acts[0].1.action, "etcd/add-member");
            assert_eq!(acts[0].1.arguments, [new, new], "its name and its address");
            let look = cluster.look(new);
            assert_eq!((look.bundle, look.effects.len()), (Some(NEW.bundle()), 1));
            assert!(acts[0].1.at < look.effects[0].at, "seed {seed}: {new}");
        }
        let (first, second) = (cluster.look("m4").effects[0].at, acts(&cluster, "m5")[0].1.at);
        assert!(first < second, "seed {seed}: m5 is announced when m4 is there");
        assert_eq!(acts(&cluster, "a1"), []);
        assert_eq!(cluster.world.violations(), Vec::<String>::new());
    }
    assert!(killed > 300, "killed {killed} times");
}

#[test]
fn a_host_whose_action_fails_is_not_installed_and_the_words_of_the_action_are_told() {
    let mut cluster = cluster(&["m1", "m2", "m3"], 4, 0, 1);
    choose(&mut cluster, Operation::Deploy, &["m4"], false);
    for master in ["m1", "m2", "m3"] {
        cluster.world.fail_actions(master, "etcd is unhealthy");
    }
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Budget { failed: 1, allowed: 0 }));
    let HostState::Failed(why) = state(&cluster, &done, "m4") else { panic!("{:?}", done.counts) };
    assert_eq!(why.causes, ["`add-member` was not done on m1", "etcd is unhealthy"]);
    assert_eq!((cluster.look("m4").live, acts(&cluster, "m4")), (None, vec![]));
    let steps = done.journal.steps(&cluster.spec.id, None).unwrap();
    assert_eq!(steps.iter().filter(|step| step.name == "act").count(), 1, "nobody else is asked");
    assert!(steps.iter().all(|step| step.name != "install"));
}

#[test]
fn who_cannot_be_reached_does_nothing_and_another_host_does() {
    // Of one that died a gate tells; one that dies right then is found out.
    for gates in [true, false] {
        let mut cluster = cluster(&["m1", "m2", "m3", "m4", "m5"], 6, 0, 1);
        choose(&mut cluster, Operation::Deploy, &["m6"], false);
        let planned = &cluster.spec.hosts[5].membership.actions;
        assert_eq!(planned[0].on, [0, 1, 2, 3, 4]);
        if !gates {
            crate::engine::waves(&mut cluster.spec).gates = false;
        }
        cluster.world.afflict("m1", Some(Mishap::Dead));
        let done = cluster.upgrade().unwrap();
        assert_eq!((done.end, done.counts.done), (End::Done, 1), "gates: {gates}");
        assert_eq!(names(&acts(&cluster, "m6")), [("m2", "etcd/add-member")]);
        let steps = done.journal.steps(&cluster.spec.id, None).unwrap();
        let tried = steps.iter().filter(|step| step.name == "act").count();
        assert_eq!(tried, if gates { 1 } else { 2 });
    }
}

#[test]
fn nobody_left_to_act_is_a_failure_of_the_host_that_comes() {
    let mut cluster = cluster(&["m1"], 2, 0, 1);
    choose(&mut cluster, Operation::Deploy, &["m2"], false);
    crate::engine::waves(&mut cluster.spec).gates = false;
    cluster.world.afflict("m1", Some(Mishap::HostKey));
    let done = cluster.upgrade().unwrap();
    let HostState::Failed(why) = state(&cluster, &done, "m2") else { panic!("{:?}", done.counts) };
    assert_eq!(why.causes[0], "`add-member` was not done on m1");
    assert!(why.causes.last().unwrap().contains("its key is another one"), "{why:?}");
    assert_eq!(cluster.look("m2").live, None);
}

#[test]
fn what_was_announced_is_taken_back_if_the_host_does_not_come() {
    let folder = folder();
    for seed in 0..30 {
        let mut cluster = cluster(&["m1", "m2", "m3"], 4, 0, seed);
        cluster.world.afflict("m4", Some(Mishap::SwitchRefused));
        choose(&mut cluster, Operation::Deploy, &["m4"], false);
        let name = cluster.spec.id.to_string();
        let open = || Journal::open(path(&folder), &name, Durability::Off);
        let kills = Kills { seed, most: 20, within: 6 };
        let done = cluster.killed(kills, open, &mut |_| {}).unwrap();
        assert!(matches!(done.end, End::Stopped(_)), "seed {seed}: {:?}", done.end);
        let (on, acts) = (acts(&cluster, "m4")[0].0.clone(), acts(&cluster, "m4"));
        let both = [(on.as_str(), "etcd/add-member"), (on.as_str(), "etcd/remove-member")];
        assert_eq!(names(&acts), both, "seed {seed}");
        assert_eq!(cluster.look("m4").live, None);
    }
}

#[test]
fn what_may_have_been_announced_is_taken_back_too() {
    let mut cluster = cluster(&["m1", "m2", "m3"], 4, 0, 1);
    cluster.world.afflict("m1", Some(Mishap::SilentAct));
    choose(&mut cluster, Operation::Deploy, &["m4"], false);
    // Nobody else can do it.
    cluster.spec.hosts[3].membership.actions[0].on = vec![0];
    let done = cluster.upgrade().unwrap();
    assert!(matches!(done.end, End::Stopped(_)), "{:?}", done.end);
    assert!(matches!(state(&cluster, &done, "m4"), HostState::Failed(_)));
    assert_eq!(cluster.look("m4").live, None);
    let both = [("m1", "etcd/add-member"), ("m1", "etcd/remove-member")];
    assert_eq!(names(&acts(&cluster, "m4")), both);
}

#[test]
fn a_host_that_may_have_come_is_not_taken_back() {
    let mut cluster = cluster(&["m1", "m2", "m3"], 4, 0, 1);
    cluster.world.afflict("m4", Some(Mishap::CutInSwitch));
    choose(&mut cluster, Operation::Deploy, &["m4"], false);
    let done = cluster.upgrade().unwrap();
    assert!(matches!(state(&cluster, &done, "m4"), HostState::InDoubt(_)));
    assert_eq!(names(&acts(&cluster, "m4")), [("m1", "etcd/add-member")]);
}

#[test]
fn a_host_that_came_and_fails_its_checks_is_not_taken_back() {
    let mut cluster = cluster(&["m1", "m2", "m3"], 4, 0, 1);
    cluster.world.afflict("m4", Some(Mishap::FailingCheck));
    choose(&mut cluster, Operation::Deploy, &["m4"], false);
    let done = cluster.upgrade().unwrap();
    assert!(matches!(done.end, End::Stopped(_)), "{:?}", done.end);
    let HostState::InDoubt(why) = state(&cluster, &done, "m4") else { panic!("{:?}", done.counts) };
    assert_eq!(why.kind, "check_failed");
    assert_eq!(cluster.look("m4").bundle, Some(NEW.bundle()), "its member runs");
    assert_eq!(names(&acts(&cluster, "m4")), [("m1", "etcd/add-member")]);
}

#[test]
fn masters_that_leave_do_so_one_at_a_time_and_the_others_are_told_first() {
    let folder = folder();
    for seed in 0..40 {
        let everybody = ["m1", "m2", "m3", "m4", "m5", "a1", "a2"];
        let mut cluster = cluster(&everybody, 5, 2, seed);
        choose(&mut cluster, Operation::Uninstall, &["m4", "m5", "a1"], false);
        let name = cluster.spec.id.to_string();
        let open = || Journal::open(path(&folder), &name, Durability::Off);
        let kills = Kills { seed, most: 20, within: 6 };
        let mut waves = Vec::new();
        let done = cluster
            .killed(kills, open, &mut |event| {
                if let What::Wave { hosts, .. } = &event.what {
                    waves.push(hosts.clone());
                }
            })
            .unwrap();
        assert_eq!((done.end, done.counts.done), (End::Done, 3), "seed {seed}");
        assert!(waves.iter().all(|hosts| hosts.len() == 1), "{waves:?}");
        for left in ["m4", "m5"] {
            let acts = acts(&cluster, left);
            assert_eq!(acts.len(), 1, "seed {seed}: {acts:?}");
            assert_eq!(acts[0].1.action, "etcd/remove-member");
            assert!(["m1", "m2", "m3"].contains(&acts[0].0.as_str()), "one that stays");
            let look = cluster.look(left);
            assert_eq!((look.live, look.effects.len()), (None, 1));
            assert!(acts[0].1.at < look.effects[0].at);
        }
        assert_eq!(acts(&cluster, "a1"), []);
        assert_eq!(cluster.world.violations(), Vec::<String>::new());
    }
}

#[test]
fn of_a_lost_host_the_others_are_told_and_nobody_reaches_for_it() {
    let mut cluster = cluster(&["m1", "m2", "m3"], 3, 0, 1);
    cluster.world.afflict("m3", Some(Mishap::Dead));
    choose(&mut cluster, Operation::Uninstall, &["m3"], true);
    let mut told = BTreeSet::new();
    let done = cluster
        .watched(&mut |event| {
            if let What::Told { host, .. } = &event.what {
                told.insert(host.clone());
            }
        })
        .unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 1));
    assert_eq!(names(&acts(&cluster, "m3")), [("m1", "etcd/remove-member")]);
    assert_eq!(told, ["m1".to_owned(), "m2".to_owned()].into());
}

#[test]
fn nobody_is_told_of_a_host_that_only_cannot_be_reached() {
    let mut cluster = cluster(&["m1", "m2", "m3"], 3, 0, 1);
    cluster.world.afflict("m3", Some(Mishap::Dead));
    cluster.spec.budget = Size::Percent(100);
    choose(&mut cluster, Operation::Uninstall, &["m3"], false);
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.counts.unreachable, 1);
    assert_eq!(acts(&cluster, "m3"), []);
}

#[test]
fn nothing_is_done_when_the_whole_cluster_comes_or_goes() {
    let mut cluster = cluster(&[], 3, 2, 1);
    choose(&mut cluster, Operation::Deploy, &["m1", "m2", "m3", "a1", "a2"], false);
    assert!(!cluster.spec.has_actions());
    let mut sizes = Vec::new();
    let done = cluster
        .watched(&mut |event| {
            if let What::Waves { sizes: made } = &event.what {
                sizes.clone_from(made);
            }
        })
        .unwrap();
    assert_eq!((done.end, sizes), (End::Done, vec![3, 2]));

    cluster.spec.id = RunId::try_from("away".to_owned()).unwrap();
    choose(&mut cluster, Operation::Uninstall, &["m1", "m2", "m3", "a1", "a2"], false);
    assert!(!cluster.spec.has_actions());
    let done = cluster.upgrade().unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 5));
    assert!(cluster.names().all(|name| cluster.look(name).acts.is_empty()));
}

#[test]
fn the_first_master_of_three_does_not_wait_for_a_quorum() {
    let mut cluster = cluster(&[], 3, 0, 1);
    choose(&mut cluster, Operation::Deploy, &["m1"], false);
    let done = cluster.upgrade().unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 1));
}

#[test]
fn masters_of_a_first_cluster_can_be_installed_one_by_one() {
    for (number, master) in ["m1", "m2", "m3"].iter().enumerate() {
        let there = &["m1", "m2"][..number];
        let mut cluster = cluster(there, 3, 0, 1);
        choose(&mut cluster, Operation::Deploy, &[*master], false);
        let done = cluster.upgrade().unwrap();
        assert_eq!((done.end, done.counts.done), (End::Done, 1), "{master}");
    }
}

#[test]
fn a_master_that_is_not_well_is_not_joined_by_others_that_it_was_not_told_of() {
    let mut cluster = cluster(&[], 3, 0, 1);
    cluster.world.install_on(OLD.bundle(), &["m1"]);
    choose(&mut cluster, Operation::Deploy, &["m1", "m2", "m3"], false);
    assert!(cluster.spec.has_actions());
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Stopped(Stopped::Gate { wave: 1, before: true }));
    for new in ["m2", "m3"] {
        assert_eq!((cluster.look(new).live, acts(&cluster, new)), (None, vec![]), "{new}");
    }
}

#[test]
fn a_new_agent_changes_nobody_else() {
    let mut cluster = cluster(&["m1", "m2", "m3", "a1"], 3, 2, 1);
    choose(&mut cluster, Operation::Deploy, &["a2"], false);
    let done = cluster.upgrade().unwrap();
    assert_eq!((done.end, done.counts.done), (End::Done, 1));
    for name in ["m1", "m2", "m3"] {
        let look = cluster.look(name);
        assert_eq!((look.effects, look.acts, look.staged), (vec![], vec![], BTreeSet::new()));
    }
}

#[test]
fn a_run_whose_actions_nobody_can_do_is_not_begun() {
    let mut cluster = cluster(&["m1"], 2, 0, 1);
    choose(&mut cluster, Operation::Deploy, &["m2"], false);
    let acting =
        Acting { action: "etcd/add-member".into(), description: String::new(), on: vec![1] };
    cluster.spec.hosts[1].membership.actions = vec![acting];
    let error = cluster.upgrade().unwrap_err();
    let fleet::transport::simulated::SimulationError::Run(RunError::Spec(error)) = error else {
        panic!("{error}")
    };
    let said = "nobody can do `etcd/add-member` for `m2`: its hosts are not in the run, or it is one of them";
    assert_eq!(error.to_string(), said);
}
