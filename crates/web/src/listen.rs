//! Where requests come from: a Unix socket, a loopback address, or what a service manager opened.
//!
//! There is no authentication. A Unix socket is guarded by the mode of its file; an address has no
//! such guard, so that only this machine's own may be listened on.

use std::io;
use std::net::{SocketAddr, TcpListener};

use camino::{Utf8Path, Utf8PathBuf};
use package::durable::Staging;
use package::lock::Lock;

use crate::platform;

/// A place that clients can connect to.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: Socket,
    address: String,
    pub(crate) guard: Option<SocketFile>,
}

#[derive(Debug)]
pub(crate) enum Socket {
    Local(platform::LocalListener),
    Tcp(TcpListener),
}

/// Why nothing can be listened on.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ListenError {
    #[error(
        "`{0}` is not an address of this machine alone: the API has no authentication, so it can be served on loopback addresses only"
    )]
    NotLoopback(SocketAddr),
    #[error("another server listens on `{0}`")]
    Live(Utf8PathBuf),
    #[error("`{0}` is there and is no socket; move it away")]
    NotASocket(Utf8PathBuf),
    #[error("expected one socket from the service manager, got {0}")]
    Several(usize),
    #[error("cannot use the socket that the service manager opened")]
    Inherited(#[source] io::Error),
    #[error("cannot listen on `{address}`")]
    Io { address: String, source: io::Error },
}

impl Listener {
    /// Listens on a socket at `path` that only this user can connect to. What a dead server left
    /// there is replaced.
    pub fn socket(path: &Utf8Path) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Io { address: path.to_string(), source };
        // Whoever holds it may replace the file: two that start at once do not take turns.
        let lock = Utf8PathBuf::from(format!("{path}.lock"));
        let Some(lock) = Lock::try_take(&lock).map_err(failed)? else {
            return Err(ListenError::Live(path.to_owned()));
        };
        match platform::found_at(path).map_err(failed)? {
            platform::Found::Nothing | platform::Found::DeadSocket => {}
            platform::Found::LiveSocket => return Err(ListenError::Live(path.to_owned())),
            platform::Found::Other => return Err(ListenError::NotASocket(path.to_owned())),
        }
        // In a folder of its own, nobody can connect before the mode is set.
        let staging = Staging::beside(path).map_err(failed)?;
        let aside = staging.path().join("s");
        let socket = platform::bind(&aside).map_err(failed)?;
        fs_err::rename(&aside, path).map_err(failed)?;
        let guard = Some(SocketFile { path: path.to_owned(), _lock: lock });
        Ok(Self { socket: Socket::Local(socket), address: path.to_string(), guard })
    }

    /// Listens on an address of this machine alone.
    pub fn loopback(address: SocketAddr) -> Result<Self, ListenError> {
        if !address.ip().is_loopback() {
            return Err(ListenError::NotLoopback(address));
        }
        let failed = |source| ListenError::Io { address: address.to_string(), source };
        Self::tcp(TcpListener::bind(address).map_err(failed)?).map_err(failed)
    }

    /// Listens on the socket that a service manager opened, if it did. Looks at the environment of
    /// the process and forgets what it says, so that no other program takes it for its own.
    pub fn inherited() -> Result<Option<Self>, ListenError> {
        let mut found = listenfd::ListenFd::from_env();
        match found.len() {
            0 => return Ok(None),
            1 => {}
            several => return Err(ListenError::Several(several)),
        }
        if let Some(socket) = platform::take_local(&mut found) {
            let address = platform::address(&socket);
            return Ok(Some(Self { socket: Socket::Local(socket), address, guard: None }));
        }
        let taken = found.take_tcp_listener(0).map_err(ListenError::Inherited)?;
        let Some(socket) = taken else { return Ok(None) };
        let address = socket.local_addr().map_err(ListenError::Inherited)?;
        if !address.ip().is_loopback() {
            return Err(ListenError::NotLoopback(address));
        }
        Self::tcp(socket).map(Some).map_err(ListenError::Inherited)
    }

    fn tcp(socket: TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?.to_string();
        Ok(Self { socket: Socket::Tcp(socket), address, guard: None })
    }

    /// Where clients find it.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// The file of a socket; gone when the server is.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: Utf8PathBuf,
    _lock: Lock,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // One that is left is replaced by the next server.
        let _ = fs_err::remove_file(&self.path);
    }
}
