//! What the crate promises, through its public calls.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bundle;
mod declared;
mod defects;
mod definition;
mod detect;
mod diff;
mod discovery;
mod documented;
mod doors;
mod explain;
mod late;
mod password;
mod preflight;
mod properties;
mod schema;
mod starter;
mod tour;
mod vectors;
mod world;
