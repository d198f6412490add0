//! From a small `config.yaml` to an immutable bundle: parameters that a distribution declares, their
//! values and where they came from, the files made of them, secrets, and what is served.
//!
//! This crate does not know how hosts are reached, and asks nobody: values come from files. Mistakes
//! are collected, each with its place.

pub mod bundle;
pub mod compat;
pub mod definition;
pub mod detect;
pub mod diff;
pub mod door;
pub mod explain;
pub mod expression;
pub mod kind;
pub mod password;
mod platform;
pub mod preflight;
pub mod render;
pub mod resolve;
pub mod schema;
pub mod starter;
mod yaml;

pub use definition::Definition;
pub use resolve::{Input, Resolution};
