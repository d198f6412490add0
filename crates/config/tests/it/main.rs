//! What the crate promises, through its public calls.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bundle;
mod declared;
mod detect;
mod diff;
mod explain;
mod password;
mod schema;
mod starter;
