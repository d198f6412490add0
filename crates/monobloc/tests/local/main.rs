//! Hosts on this machine, as a user and as other tests meet them. What is in `real_hosts` makes hosts, which
//! only root can; `./check` leaves it out, and says so, if it is run by somebody else.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod real_hosts;
mod traces;
mod wrong_use;
