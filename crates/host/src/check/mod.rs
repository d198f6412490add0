//! Checks: executables that packages bring to tell whether they work on this host.
//!
//! A check that cannot be found, started or waited for has not passed: nothing but the exit status 0
//! of the program itself, within its time, is success.

mod capture;
mod list;
mod run;

pub use list::{Check, checks};
pub(crate) use run::run_apart;
pub use run::{Outcome, Verdict, run, run_inherited};
