//! What differs between operating systems: sockets that are files. Nothing else may ask which one it
//! is.

#[cfg(unix)]
#[path = "unix.rs"]
mod os;
#[cfg(windows)]
#[path = "windows.rs"]
mod os;

pub(crate) use os::{LocalListener, address, bind, found_at, serve, take_local};

/// What lies where a socket shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(windows, expect(dead_code, reason = "there are no such sockets"))]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// A socket that nobody listens on.
    DeadSocket,
    /// A socket that somebody listens on.
    LiveSocket,
    /// Something else.
    Other,
}
