//! No sockets that are files: the API is served on a loopback address.

use std::future::Future;
use std::io;

use axum::Router;
use camino::Utf8Path;
use listenfd::ListenFd;

use super::Found;

/// There is none.
#[derive(Debug)]
pub(crate) enum LocalListener {}

pub(crate) fn bind(_: &Utf8Path) -> io::Result<LocalListener> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn found_at(_: &Utf8Path) -> io::Result<Found> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn take_local(_: &mut ListenFd) -> Option<LocalListener> {
    None
}

pub(crate) fn address(socket: &LocalListener) -> String {
    match *socket {}
}

pub(crate) async fn serve(
    socket: LocalListener,
    _: Router,
    _: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    match socket {}
}
