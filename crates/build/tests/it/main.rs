//! Tests of the whole crate.

mod pinned;
mod sandbox;
mod session;
mod source;
mod tree;
mod world;
