//! Promise: whatever goes wrong while the hosts of a cluster are installed or upgraded, each of them has
//! all of one version or all of the other, and the same script, run again, finishes.
//!
//! The cluster is real but for its kernel: hosts with systemd, a network, services that talk to each other.
//! Hosts run the program as they get it, which `cargo xtask dist` makes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gate;
mod real_hosts;
mod site;
#[path = "../hosts/snapshot.rs"]
mod snapshot;
mod state;
mod tree;
