//! Promise: from one file to hosts, upgraded, rolled back and removed, on machines that have a kernel, a
//! shell and a way to download, and nothing else.
//!
//! The hosts here are roots with busybox and nothing more: no shared library, no systemd. They run the
//! program as hosts get it, which `cargo xtask dist` makes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod artifact;
mod root;
mod script;
mod site;
mod whole_way;
