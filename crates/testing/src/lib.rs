//! What the tests of several crates share: files to work on, a package tree of real size, an HTTP
//! server that misbehaves on request; and, on Linux, a harness that crashes a program and makes it
//! fail wherever it changes files.

pub mod archive;
pub mod files;
pub mod http;
mod platform;
pub mod tree;

pub use platform::*;
