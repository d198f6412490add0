//! Tests of the whole crate against a real server.

#[cfg(test)]
mod fetch;
