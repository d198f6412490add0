//! Tests of the whole crate.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod declared;
mod leftovers;
mod pinned;
mod sandbox;
mod session;
mod source;
mod tree;
mod world;
