//! How bytes get to a client over HTTP/1.1: a plain connection takes those of files without copying
//! them, one with TLS encrypts them first.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::platform;
use super::site::FilePart;

/// How many bytes of a file are sent before others get their turn: as many as fit into what the system
/// keeps for a connection. Less costs 500 clients a fifth of their speed, for each is woken more often.
const TURN_BYTES: u64 = 2 << 20;
/// How many bytes of a file are encrypted at once.
const CHUNK_BYTES: usize = 32 << 10;

/// A connection that files can be sent over.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {
    /// Sends all of these bytes; whether more will follow is told for what it is worth.
    fn send(
        &mut self,
        bytes: &[u8],
        more: bool,
        stall: Duration,
    ) -> impl Future<Output = io::Result<()>> + Send;

    /// Sends some bytes of a part of a file, beginning with those after `done`, and returns how many. A
    /// client that takes none for as long as `stall` is an error.
    fn send_file(
        &mut self,
        part: &FilePart,
        done: u64,
        stall: Duration,
    ) -> impl Future<Output = io::Result<u64>> + Send;
}

impl Wire for TcpStream {
    async fn send(&mut self, mut bytes: &[u8], more: bool, stall: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = patiently(self, stall, || platform::send(self, bytes, more)).await?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    async fn send_file(&mut self, part: &FilePart, done: u64, stall: Duration) -> io::Result<u64> {
        let (at, count) = (part.offset + done, (part.length - done).min(TURN_BYTES));
        let send = || platform::send_file(self, &part.file, at, count);
        Ok(patiently(self, stall, send).await? as u64)
    }
}

/// Tries when the client seems to have taken something, and a last time when the wait is over: the
/// system speaks up only when there is much room again, which a slow client makes slowly.
async fn patiently(
    stream: &TcpStream,
    stall: Duration,
    attempt: impl Fn() -> io::Result<usize>,
) -> io::Result<usize> {
    match timeout(stall, stream.async_io(Interest::WRITABLE, &attempt)).await {
        Ok(sent) => sent,
        Err(_) => attempt().map_err(|_| io::ErrorKind::TimedOut.into()),
    }
}

impl Wire for TlsStream<TcpStream> {
    async fn send(&mut self, mut bytes: &[u8], more: bool, stall: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = timeout(stall, self.write(bytes)).await??;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[sent..];
        }
        if more { Ok(()) } else { timeout(stall, self.flush()).await? }
    }

    async fn send_file(&mut self, part: &FilePart, done: u64, stall: Duration) -> io::Result<u64> {
        let chunk = part.read(done, CHUNK_BYTES)?;
        let sent = chunk.len() as u64;
        self.send(&chunk, done + sent < part.length, stall).await?;
        Ok(sent)
    }
}
