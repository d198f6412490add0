//! A connection that speaks HTTP/1.1: one request after the other, each answered in full before the
//! next one is looked at.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Buf as _, Bytes, BytesMut};
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::access::Shared;
use super::head::Head;
use super::server::{Limits, Stop};
use super::site::{Content, text};
use super::wire::Wire;

/// How HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How much is read at once; heads are short.
const READ_BYTES: usize = 4 << 10;
/// What a client still sends when it was answered is read for so long, and so much of it: closing before
/// would take the answer away from it.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: u64 = 256 << 10;

/// A connection with what was read of it.
#[derive(Debug)]
pub(crate) struct Connection<W> {
    pub(crate) wire: W,
    pub(crate) client: SocketAddr,
    pub(crate) shared: Arc<Shared>,
    pub(crate) limits: Limits,
    pub(crate) stop: Stop,
    read: BytesMut,
    is_first: bool,
}

/// What a client sent.
enum Next {
    Request(Box<Head>),
    /// It wants to go on with HTTP/2.
    Http2,
    /// It makes no sense.
    Refused(StatusCode),
    /// Nothing more will come, or shall.
    End,
}

impl<W: Wire> Connection<W> {
    pub(crate) fn new(
        wire: W,
        client: SocketAddr,
        shared: Arc<Shared>,
        limits: Limits,
        stop: Stop,
    ) -> Self {
        Self { wire, client, shared, limits, stop, read: BytesMut::new(), is_first: true }
    }

    /// Answers all requests. A client that begins with HTTP/2 gets its connection back, with the bytes
    /// that were read of it.
    pub(crate) async fn serve(mut self) -> io::Result<Option<(W, Bytes)>> {
        loop {
            match self.next().await? {
                Next::Request(head) => {
                    let keep_alive = head.keep_alive && !head.has_body && !self.stop.is_raised();
                    self.answer(&head, keep_alive).await?;
                    self.read.advance(head.length);
                    self.is_first = false;
                    if keep_alive {
                        continue;
                    }
                    if head.has_body {
                        self.linger().await;
                    }
                }
                Next::Http2 => return Ok(Some((self.wire, self.read.freeze()))),
                Next::Refused(status) => {
                    self.refuse(status).await?;
                    self.linger().await;
                }
                Next::End => {}
            }
            // TLS says good-bye; nothing depends on whether it is heard.
            let _ = timeout(LINGER, self.wire.shutdown()).await;
            return Ok(None);
        }
    }

    /// Waits for the next request.
    async fn next(&mut self) -> io::Result<Next> {
        let patience = if self.is_first { self.limits.head } else { self.limits.idle };
        if self.read.is_empty() {
            let mut stop = self.stop.clone();
            let begun = tokio::select! {
                begun = timeout(patience, more(&mut self.wire, &mut self.read)) => begun,
                () = stop.raised() => return Ok(Next::End),
            };
            match begun {
                Ok(Ok(0)) | Err(_) => return Ok(Next::End),
                Ok(read) => drop(read?),
            }
        }
        match timeout(self.limits.head, self.head()).await {
            Ok(next) => next,
            Err(_) => Ok(Next::Refused(StatusCode::REQUEST_TIMEOUT)),
        }
    }

    /// Reads until a head is complete.
    async fn head(&mut self) -> io::Result<Next> {
        loop {
            if self.is_first && self.read.starts_with(PREFACE) {
                return Ok(Next::Http2);
            }
            // What may still become HTTP/2 is none of an earlier version.
            if !(self.is_first && PREFACE.starts_with(&self.read)) {
                match Head::read(&self.read) {
                    Ok(Some(head)) => return Ok(Next::Request(Box::new(head))),
                    Ok(None) => {}
                    Err(status) => return Ok(Next::Refused(status)),
                }
            }
            if more(&mut self.wire, &mut self.read).await? == 0 {
                return Ok(Next::End);
            }
        }
    }

    async fn answer(&mut self, head: &Head, keep_alive: bool) -> io::Result<()> {
        let (response, mut running) = self.shared.begin(&head.request, self.client);
        let mut bytes = head_of(&response, head.request.version, keep_alive);
        let stall = self.limits.stall;
        match response.body() {
            Content::Empty => self.wire.send(&bytes, false, stall).await,
            Content::Text(text) => {
                bytes.extend_from_slice(text);
                self.wire.send(&bytes, false, stall).await?;
                running.sent(text.len() as u64);
                Ok(())
            }
            Content::File(part) => {
                self.wire.send(&bytes, part.length > 0, stall).await?;
                let mut done = 0;
                while done < part.length {
                    let sent = self.wire.send_file(part, done, stall).await?;
                    if sent == 0 {
                        // The file became shorter: only a closed connection can tell the client.
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    running.sent(sent);
                    done += sent;
                    // Others get their turn, however fast this client takes what it gets.
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
        }
    }

    /// Tells the client that it cannot be understood.
    async fn refuse(&mut self, status: StatusCode) -> io::Result<()> {
        let reason = status.canonical_reason().unwrap_or_default().to_lowercase();
        let response = text(status, format!("{reason}\n"));
        let mut running = self.shared.watch(&unreadable(), self.client, &response);
        let mut bytes = head_of(&response, Version::HTTP_11, false);
        if let Content::Text(text) = response.body() {
            bytes.extend_from_slice(text);
        }
        self.wire.send(&bytes, false, self.limits.stall).await?;
        running.sent(response.body().length());
        Ok(())
    }

    /// Reads what the client still sends, for a while.
    async fn linger(&mut self) {
        // What cannot be read does not matter any more.
        let _ = timeout(LINGER, async {
            self.wire.shutdown().await?;
            let mut rest = (&mut self.wire).take(LINGER_BYTES);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        })
        .await;
    }
}

/// Reads more bytes; none at the end.
async fn more(wire: &mut impl Wire, read: &mut BytesMut) -> io::Result<usize> {
    read.reserve(READ_BYTES);
    wire.read_buf(read).await
}

/// What is known of a request that nobody can read.
fn unreadable() -> Parts {
    let mut request = Request::new(());
    *request.method_mut() = http::Method::from_bytes(b"-").unwrap_or_default();
    request.into_parts().0
}

/// The head of an answer as it is sent.
fn head_of(response: &Response<Content>, version: Version, keep_alive: bool) -> Vec<u8> {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let date = httpdate::fmt_http_date(SystemTime::now());
    let mut head = String::with_capacity(512);
    // A text takes everything that is written to it.
    let _ = write!(head, "HTTP/1.1 {} {reason}\r\ndate: {date}\r\n", status.as_u16());
    if !keep_alive {
        head.push_str("connection: close\r\n");
    } else if version == Version::HTTP_10 {
        head.push_str("connection: keep-alive\r\n");
    }
    let mut head = head.into_bytes();
    for (name, value) in response.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}
