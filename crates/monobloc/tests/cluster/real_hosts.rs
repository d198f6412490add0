//! Tests on real hosts, each with a cluster of its own name.

mod across;
mod faults;
mod fleet;
mod members;
mod order;
mod quorum;
mod relay;
mod trouble;
mod walk;

use faults::Change::{Install, Upgrade};

/// Every fault while hosts are installed, and while they are upgraded.
macro_rules! whatever_happens {
    ($($promise:ident = $fault:path, $short:literal;)*) => {
        mod while_installing {
            $(#[test]
            fn $promise() {
                $fault(super::Install, concat!("e-i-", $short));
            })*
        }
        mod while_upgrading {
            $(#[test]
            fn $promise() {
                $fault(super::Upgrade, concat!("e-u-", $short));
            })*
        }
    };
}

whatever_happens! {
    a_power_cut_at_any_moment_leaves_one_version = super::faults::power_cut, "power";
    a_pulled_cable_is_waited_for = super::faults::cut, "cut";
    a_full_disk_changes_nothing = super::faults::full_disk, "full";
    lost_packets_cost_time_and_nothing_else = super::faults::loss, "loss";
    a_frozen_host_goes_on = super::faults::frozen, "freeze";
    a_server_that_is_killed_may_come_back = super::faults::server_killed, "server";
    agents_do_without_a_lost_master = super::faults::lost_master, "lost";
}
