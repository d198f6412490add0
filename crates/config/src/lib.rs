//! From a small `config.yaml` to an immutable bundle: parameters that a distribution declares, their
//! values and where they came from, the files made of them, secrets, and what is served.
//!
//! This crate does not know how hosts are reached, and asks nobody: values come from files. Mistakes
//! are collected, each with its place.

pub mod compat;
pub mod definition;
pub mod expression;
pub mod kind;
mod platform;
pub mod render;
pub mod resolve;
mod yaml;

pub use definition::Definition;
pub use resolve::{Input, Resolution};

pub(crate) fn detector_script(_kind: &str, _spec: &str) -> Result<String, String> {
    Err("not here yet".to_owned())
}
