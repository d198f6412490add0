//! The crate as others use it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod declared;
mod diff;
mod explain;
mod schema;
mod starter;
