//! The API of a host as a client meets it: through the router, and through a socket.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod active;
mod paths;
mod repository;
mod server;
mod socket;
mod world;
