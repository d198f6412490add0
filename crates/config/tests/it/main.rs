//! What the crate promises, through its public calls.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bundle;
mod detect;
mod password;
