//! What the tests of several crates share: files to work on, a package tree of real size, an HTTP
//! server and SSH hosts that misbehave on request; and, on Linux, a harness that crashes a program and makes it
//! fail wherever it changes files.

pub mod archive;
pub mod files;
pub mod http;
mod platform;
#[cfg(feature = "ssh")]
pub mod ssh_host;
pub mod tree;

pub use platform::*;
