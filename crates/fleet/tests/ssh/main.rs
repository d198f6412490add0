//! SSH against servers: OpenSSH's own, and hosts in this process that do what they should not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod configuration;
mod host_keys;
mod jumps;
mod logins;
mod real_server;
mod runs;
mod sudo;
mod support;
mod trouble;
