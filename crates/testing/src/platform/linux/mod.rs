//! A harness that proves of any program that a crash or a fault at any moment leaves its files in
//! order: what a program did is recorded ([`trace`]), replayed on a model of the files ([`disk`]),
//! and lost in part as a crash of the machine may lose it ([`crash`]).

pub mod crash;
pub mod disk;
#[cfg(test)]
mod tests;
pub mod trace;
