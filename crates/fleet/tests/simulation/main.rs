//! Runs on simulated hosts: whatever goes wrong, each host ends as it must.

mod fleet_of;
mod invariants;

use fleet::run::End;
use fleet::transport::simulated::Faults;
use fleet_of::{Cluster, NEW, OLD};

#[test]
fn an_upgrade_of_hosts_that_are_all_well_ends_with_the_new_bundle_everywhere() {
    let cluster = Cluster::new(3, 40, 1, &Faults::none());
    let done = cluster.upgrade().unwrap();
    assert_eq!(done.end, End::Done);
    assert_eq!(done.counts.done, 43);
    assert!(cluster.names().all(|name| cluster.look(name).bundle == Some(NEW.bundle())));
    assert_ne!(OLD.bundle(), NEW.bundle());
}
