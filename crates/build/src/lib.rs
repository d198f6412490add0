//! From a tree of components to packages, and to the artifact that has them all: the tree and its graph,
//! sources, ids, the sandbox that build scripts run in, and the cache of what was built.
//!
//! This crate knows nothing of clusters and hosts, and says nothing to anybody: what happens is
//! told to an [`event::Observer`], what went wrong is an error.

mod assemble;
mod bootstrap;
pub mod cache;
mod complete;
mod declared;
pub mod event;
mod explain;
mod folder;
mod graph;
mod identity;
mod install_root;
mod platform;
pub mod program;
mod remote;
mod root;
mod sandbox;
mod schedule;
pub mod session;
pub mod source;
pub mod tree;
mod worker;

pub use assemble::{Assemble, AssembleError, Assembled, artifact_path, assemble};
pub use bootstrap::{Bootstrap, BootstrapError};
pub use complete::{Complete, CompleteError};
pub use declared::Undelivered;
pub use graph::PackageSet;
pub use identity::{Identity, IdentityError};
pub use install_root::InstallRootError;
pub use root::RootError;
pub use sandbox::SandboxError;
pub use session::{Options, Plan, Report, Selection, Session, SessionError};
pub use worker::WorkError;

/// What an error says and what the errors behind it say, as one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    package::causes(error).join(": ")
}
