//! From a small `config.yaml` to an immutable bundle: parameters that a distribution declares, their
//! values and where they came from, the files made of them, secrets, and what is served.
//!
//! This crate does not know how hosts are reached, and asks nobody: values come from files. Mistakes
//! are collected, each with its place.
