//! What the crate promises, through its public calls.

mod bundle;
