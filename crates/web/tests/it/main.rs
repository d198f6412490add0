//! What clients meet: the API of a host, through the router and through a socket, and the server of
//! bundles.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod active;
mod bundle_server;
mod paths;
mod repository;
mod server;
mod socket;
mod world;
