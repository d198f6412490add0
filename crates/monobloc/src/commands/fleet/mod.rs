//! Commands for all hosts of a cluster. Each makes a run of what was asked for, carries it out, and tells
//! what became of it.

mod account;
mod across;
pub(crate) mod audit;
mod cluster;
pub(crate) mod install;
pub(crate) mod look;
mod membership;
pub(crate) mod plan;
pub(crate) mod runs;
pub(crate) mod simulate;
mod summary;
pub(crate) mod undo;
mod way;

pub(crate) use cluster::{ClusterArgs, ConfigArgs};
pub(crate) use way::{LoginArgs, WayArgs};
