//! What the tests of several crates share: files to work on, a package tree of real size, an HTTP
//! server that misbehaves on request.

pub mod archive;
pub mod files;
pub mod http;
mod platform;
pub mod tree;
