//! The promises of the crate, tested through its public calls.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod defects;
mod definition;
mod discovery;
mod documented;
mod late;
mod properties;
mod tour;
mod vectors;
mod world;
