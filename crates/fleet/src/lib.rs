//! Many hosts: who they are ([`inventory`]), how they are reached ([`transport`]), what is done to them
//! and in which order, and what became of it.
//!
//! This crate knows of a host only what [`host::wire`] says: orders and reports. How a host does its
//! work is the host's business, and so is what words people read: here are values, events and errors.

pub mod across;
mod chance;
pub mod event;
pub mod fault;
pub mod inventory;
pub mod journal;
pub mod run;
pub mod transport;

/// Fills `bytes` with what nobody can guess.
pub fn random(bytes: &mut [u8]) -> std::io::Result<()> {
    getrandom::fill(bytes).map_err(std::io::Error::other)
}
