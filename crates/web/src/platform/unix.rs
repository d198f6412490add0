//! Unix sockets.

use std::fs::Permissions;
use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};

use axum::Router;
use camino::Utf8Path;
use listenfd::ListenFd;

use super::Found;

/// A socket that clients of this machine can connect to.
pub(crate) type LocalListener = UnixListener;

/// Makes a socket at `path` that only this user can connect to.
pub(crate) fn bind(path: &Utf8Path) -> io::Result<LocalListener> {
    let socket = UnixListener::bind(path)?;
    fs_err::set_permissions(path, Permissions::from_mode(0o600))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Looks at what is at `path`.
pub(crate) fn found_at(path: &Utf8Path) -> io::Result<Found> {
    match fs_err::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => return Ok(Found::Other),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Ok(Found::LiveSocket),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Found::DeadSocket),
        Err(error) => Err(error),
    }
}

/// The Unix socket that a service manager opened, if it is one.
pub(crate) fn take_local(found: &mut ListenFd) -> Option<LocalListener> {
    let socket = found.take_unix_listener(0).ok().flatten()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

/// Where clients find the socket.
pub(crate) fn address(socket: &LocalListener) -> String {
    let address = socket.local_addr().ok();
    let path = address.as_ref().and_then(|address| address.as_pathname());
    path.map_or_else(|| "a socket without a name".to_owned(), |path| path.display().to_string())
}

/// Serves until `stop` ends and all connections are closed.
pub(crate) async fn serve(
    socket: LocalListener,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let socket = tokio::net::UnixListener::from_std(socket)?;
    axum::serve(socket, router).with_graceful_shutdown(stop).await
}
