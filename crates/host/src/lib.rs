//! What runs on a host: the store of packages, generations of them, the one switch that makes a
//! generation live, and everything on the machine that follows from it: services, users, state.
//!
//! Everything that changes a host is three functions: [`Host::observe`] reads, [`plan::plan`] decides
//! without looking at anything else, [`Host::execute`] does what the plan says and decides nothing.
//! This crate knows nothing of other hosts and says nothing to anybody: what happens is told to an
//! [`event::Observer`], what went wrong is an error.

pub mod audit;
pub mod check;
pub mod derived;
pub mod event;
mod execute;
mod failure;
pub mod generation;
pub mod history;
mod host;
pub mod install;
pub mod machine;
mod observe;
mod paths;
pub mod plan;
mod platform;
pub mod preflight;
pub mod receipt;
mod roles;
pub mod setup;
pub mod step;
pub mod store;
mod tool;
pub mod trial;
mod uninstall;
pub mod wire;

pub use execute::ExecuteError;
pub use host::{Clock, Collected, Host, HostError, HostLock, Job, Switching, SystemClock};
pub use observe::{ObserveError, Observed};
pub use package::versioned::FormatError;
pub use paths::Paths;
pub use roles::RolesError;
pub use uninstall::Uninstalled;
