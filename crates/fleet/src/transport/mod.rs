//! How hosts are reached. Three ways: over SSH, on this machine, and in a simulation.

pub mod kit;
pub mod local;
pub mod over_ssh;
mod packed;
mod platform;
mod push;
pub mod remote;
pub mod shell;
pub mod simulated;
pub mod ssh;
#[cfg(test)]
mod tests;

use std::future::Future;

use host::wire::{Order, Report};

use crate::fault::Fault;
use crate::inventory::Host;

/// A way to reach hosts.
pub trait Transport: Send + Sync + 'static {
    /// A connection to one of them.
    type Session: Session;

    /// Connects to a host, once; a second try is the caller's decision. It ends by itself, after some time
    /// in which the host does not answer: what is waited for others or for a person does not count.
    fn connect(&self, host: &Host) -> impl Future<Output = Result<Self::Session, Fault>> + Send;

    /// Waits, for some seconds at most, until hosts have ended what nobody waits for any more.
    fn settle(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A connection to one host. It is dropped to be closed.
pub trait Session: Send + 'static {
    /// Makes sure that the host can do steps: the program is there, and may do what it must. Does nothing
    /// if that is so already.
    fn prepare(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Puts those parts of the bundle on the host that it lacks, for the [`Wanted::from`] that the
    /// transport then gives its orders. Goes on where it was interrupted.
    ///
    /// [`Wanted::from`]: host::wire::Wanted::from
    fn push(&mut self, said: &mut dyn Listener) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Has the host do a step, and tells what it says meanwhile. If the connection is lost the host goes
    /// on: ordering the same step again picks it up.
    fn step(
        &mut self,
        order: &Order,
        said: &mut dyn Listener,
    ) -> impl Future<Output = Result<Answer, Fault>> + Send;

    /// Removes what [`Session::prepare`] and [`Session::push`] left on the host for its next steps.
    fn leave(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// What a host answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The answer.
    pub report: Report,
    /// Whether it had done the step before.
    pub already: bool,
}

/// Hears what a host says while it works.
pub trait Listener: Send {
    /// A line of words.
    fn line(&mut self, text: &str);
    /// How far it is.
    fn progress(&mut self, done_bytes: u64, total_bytes: u64);
}

/// Hears nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unheard;

impl Listener for Unheard {
    fn line(&mut self, _: &str) {}
    fn progress(&mut self, _: u64, _: u64) {}
}
