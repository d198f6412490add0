//! In which order hosts are installed does not matter.

use crate::site::{Run, Site};

/// Every host is in a version, and all of them know each other.
fn assert_whole(site: &Site, version: &str, generation: u64) {
    site.assert_votes(3);
    for host in site.hosts() {
        site.assert_finished(host, version, generation);
    }
}

#[test]
fn agents_may_come_before_masters_and_masters_one_by_one() {
    let site = Site::new("e-agents", 3, 2);
    site.install(&["a1", "a2"]);
    for host in ["a1", "a2"] {
        site.assert_finished(site.host(host), "1", 1);
    }
    for host in ["m3", "m1", "m2"] {
        site.install(&[host]);
    }
    assert_whole(&site, "1", 1);
}

#[test]
fn all_hosts_may_come_at_once_and_be_upgraded_at_once() {
    let mut site = Site::new("e-at-once", 3, 2);
    site.install(&["m1", "m2", "m3", "a1", "a2"]);
    assert_whole(&site, "1", 1);
    site.publish("2", Some("1"));
    let runs: Vec<Run> = site.hosts().iter().map(|host| site.begin_upgrade(host, "2")).collect();
    for run in runs {
        run.done();
    }
    assert_whole(&site, "2", 2);
}
