//! The promises of the crate, tested through its public calls.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod add;
mod adoption;
mod any_change;
mod attacks;
mod audit;
mod check;
mod collect;
mod conflicts;
mod fakes;
mod fetch;
mod generation;
mod history;
mod install;
mod late;
mod machine;
mod plan;
mod preflight;
mod processes;
mod publisher;
mod relay;
mod secrets;
mod setup;
mod step;
mod store;
mod switch;
mod together;
mod upgrade;
mod wire;
mod world;
