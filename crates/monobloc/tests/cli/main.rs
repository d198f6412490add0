//! The command line as a user meets it: exit code, standard output and standard error.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod build;
mod bundle_server;
mod check;
mod config;
mod config_detect;
mod config_init;
mod configure;
mod doors;
mod fleet;
mod host;
mod install;
mod installer;
mod mistakes;
mod mkpanda;
mod package;
mod pkgpanda;
mod preflight;
#[path = "../../../host/tests/it/publisher.rs"]
mod publisher;
mod serve;
mod shell;
mod signing;
mod simulate;
mod step;
mod streams;
mod test_env;
mod usage;
