//! A connection that can be cut, or go silent.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Cuts or silences a connection from elsewhere.
#[derive(Debug, Clone)]
pub(super) struct Valve {
    socket: Arc<std::net::TcpStream>,
    is_silent: Arc<AtomicBool>,
}

impl Valve {
    /// Ends the connection without a word.
    pub(super) fn cut(&self) {
        // It may have ended already.
        drop(self.socket.shutdown(Shutdown::Both));
    }

    /// From now on nothing comes through, in either direction.
    pub(super) fn silence(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }
}

/// A stream behind a [`Valve`].
#[derive(Debug)]
pub(super) struct Valved {
    stream: TcpStream,
    is_silent: Arc<AtomicBool>,
}

pub(super) fn valved(stream: TcpStream) -> io::Result<(Valved, Valve)> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let socket = Arc::new(stream.try_clone()?);
    let is_silent = Arc::new(AtomicBool::new(false));
    let stream = TcpStream::from_std(stream)?;
    Ok((Valved { stream, is_silent: Arc::clone(&is_silent) }, Valve { socket, is_silent }))
}

impl AsyncRead for Valved {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_silent.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Valved {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_silent.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
