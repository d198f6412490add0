//! What Monobloc says over HTTP: the API of one host, as the reference had it, and the files of bundles.
//!
//! This crate knows the public calls of the others and nothing of how they do their work. It has the
//! only async runtime: requests wait here, the work itself is synchronous and runs on threads of its
//! own.

pub mod bundle_server;
pub mod host_api;
mod listen;
mod platform;
mod server;
mod work;

pub use listen::{ListenError, Listener};
pub use server::{StopLimits, serve};
