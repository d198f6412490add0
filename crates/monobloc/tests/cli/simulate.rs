//! Runs on hosts that are not there, and what is shown of runs on thousands.

use std::fmt::Write as _;

use insta::assert_snapshot;
use serde_json::Value;

use crate::fleet::Site;
use crate::test_env::{TestEnv, succeed};

#[test]
fn the_same_seed_simulates_the_same_run_of_lists_and_of_files() {
    let site = Site::new();
    let simulate = |words: &[&str]| {
        let mut command = site.env.monobloc(&["simulate", "--seed", "7"]);
        let output = command.args(words).arg("upgrade").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for words in [
        &["--agents", "200", "--faulty", "10%", "--max-failures", "50%", "--kills", "5", "--json"]
            [..],
        &["--agents", "200", "--faulty", "10%", "--max-failures", "50%", "--kills", "5"],
    ] {
        assert_eq!(simulate(words), simulate(words));
    }
    assert_snapshot!(simulate(&["--agents", "200", "--faulty", "10%", "--max-failures", "50%"]), @"
    a15, a55: plan: checks: memory: 1 GB of 4 GB
        memory: 1 GB of 4 GB
    a31, a119: plan: login refused: it takes none of the keys
    a99, a115: stage: timed out: it took too long
    a156: plan: host key: its key is another one
    a176: plan: not allowed to become root: sudo asks for a password
    a82: stage: no space: no space for 100 MB where packages lie
    upgrade: 194 done, 9 failed
    it would take 72 min 6 s; 0 controllers killed
    ");
    assert_snapshot!(simulate(&["--config", "genconf/config.yaml", "--faulty", "0"]), @"
    upgrade: 3 done
    it would take 1 min 11 s; 0 controllers killed
    ");
    let hosts = &["--inventory", "hosts.yaml", "--faulty", "0", "--batch", "1", "--json"];
    let document: Value = serde_json::from_str(&simulate(hosts)).unwrap();
    let names: Vec<&str> = document["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| host["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["m1", "a1", "a2"]);
}

#[test]
fn a_gate_that_stops_a_run_leaves_its_evidence() {
    let env = TestEnv::new();
    let faults = ["--faulty", "0", "--faulty-masters", "67%", "--max-failures", "100%"];
    let words = [&["simulate", "--agents", "4", "--seed", "2", "upgrade"][..], &faults].concat();
    let output = env.monobloc(&words).output().unwrap();
    assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @"
    the cluster is not well before wave 1:
        m1: cannot connect: no answer within 20 s
    m1: plan: unreachable: cannot connect: no answer within 20 s
    upgrade stopped, the cluster is not well before wave 1: 1 not reached, 6 left alone
    it would take 1 min 21 s; 0 controllers killed
    ");
    let output = env.monobloc(&[&words[..], &["--json"]].concat()).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["evidence"][0]["cause"].is_string(), "{document}");
}

#[test]
fn thousands_of_hosts_are_told_by_tenths_and_waves_by_size() {
    let env = TestEnv::new();
    let words = ["simulate", "--agents", "1000", "--faulty", "0", "--batch", "100", "upgrade"];
    let output = succeed(&mut env.monobloc(&words));
    let said = String::from_utf8(output.stderr).unwrap();
    let kept: Vec<&str> = said
        .lines()
        .filter(|line| !line.starts_with("wave ") && !line.starts_with("simulated in"))
        .collect();
    assert_snapshot!(kept.join("\n"), @"
    upgrade of 1003 hosts, run simulation-1
    plan: 1003 hosts
    plan: 101 of 1003 hosts
    plan: 201 of 1003 hosts
    plan: 301 of 1003 hosts
    plan: 402 of 1003 hosts
    plan: 502 of 1003 hosts
    plan: 602 of 1003 hosts
    plan: 703 of 1003 hosts
    plan: 803 of 1003 hosts
    plan: 903 of 1003 hosts
    plan: 1003 of 1003 hosts
    stage: 1003 hosts
    stage: 101 of 1003 hosts
    stage: 201 of 1003 hosts
    stage: 301 of 1003 hosts
    stage: 402 of 1003 hosts
    stage: 502 of 1003 hosts
    stage: 602 of 1003 hosts
    stage: 703 of 1003 hosts
    stage: 803 of 1003 hosts
    stage: 903 of 1003 hosts
    stage: 1003 of 1003 hosts
    switch: 1003 hosts
    in 14 waves: 4 of 1 host, 9 of 100 hosts, 1 of 99 hosts
    switch: 101 of 1003 hosts
    switch: 201 of 1003 hosts
    switch: 301 of 1003 hosts
    switch: 402 of 1003 hosts
    switch: 502 of 1003 hosts
    switch: 602 of 1003 hosts
    switch: 703 of 1003 hosts
    switch: 803 of 1003 hosts
    switch: 903 of 1003 hosts
    switch: 1003 of 1003 hosts
    leave: 1003 hosts
    ");
}

#[test]
fn a_terminal_shows_a_line_for_each_group_of_hosts_and_how_far_the_phase_is() {
    let env = TestEnv::new();
    let monobloc = env.monobloc(&[]).get_program().to_str().unwrap().to_owned();
    let session = format!("stty cols 100; {monobloc} simulate --agents 3000 --faulty 0 upgrade");
    let mut script = env.command("script", &["-qec", &session, "/dev/null"]);
    let output = script.env("TERM", "xterm").stdin(std::process::Stdio::null()).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{shown}");
    for line in ["  master         3 hosts ", "  slave          3000 hosts ", "/3003 hosts"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("of 3003 hosts\n"), "tenths are for those who keep lines: {shown}");
}

#[test]
#[ignore = "long: fifty thousand hosts in a program that is not optimised"]
fn fifty_thousand_hosts_of_an_inventory_are_loaded_and_upgraded() {
    let env = TestEnv::new();
    let mut hosts = "hosts:\n  - {name: m1, address: 10.255.0.1, roles: [master]}\n".to_owned();
    for number in 0..50_000 {
        let [_, high, middle, low] = u32::to_be_bytes(number);
        writeln!(hosts, "  - {{address: 10.{high}.{middle}.{low}, roles: [slave]}}").unwrap();
    }
    fs_err::write(env.path("hosts.yaml"), hosts).unwrap();
    let words = ["simulate", "--inventory", "hosts.yaml", "--faulty", "0", "upgrade"];
    let output = succeed(&mut env.monobloc(&words));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("upgrade: 50001 done"), "{said}");
}
