//! A connection that speaks HTTP/2, which is the framework's business; ours are the answers, and an end
//! for clients that take nothing or want nothing.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::access::{Running, Shared};
use super::head::HEAD_BYTES_MAX;
use super::server::{Limits, Stop};
use super::site::Content;

/// How many answers may be on their way over one connection.
const STREAMS_MAX: u32 = 100;
/// How many bytes of each wait to be sent.
const CHUNK_BYTES: usize = 64 << 10;

/// What happens on a connection.
#[derive(Debug, Default)]
struct Activity {
    /// Grows whenever a client asks or takes something.
    progress: AtomicU64,
    /// How many answers are on their way.
    running: AtomicUsize,
}

/// Answers all requests of a connection.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: SocketAddr,
    shared: Arc<Shared>,
    limits: Limits,
    mut stop: Stop,
) {
    let activity = Arc::new(Activity::default());
    let service = service_fn(|request: Request<Incoming>| {
        let (request, _) = request.into_parts();
        let (response, running) = shared.begin(&request, client);
        let activity = Arc::clone(&activity);
        activity.progress.fetch_add(1, Ordering::Relaxed);
        activity.running.fetch_add(1, Ordering::Relaxed);
        let response = response.map(|content| Answer { content, done: 0, running, activity });
        std::future::ready(Ok::<Response<Answer>, io::Error>(response))
    });
    // How many streams a client may reset at once is limited by default.
    let mut connection = pin!(
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_send_buf_size(CHUNK_BYTES)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .serve_connection(TokioIo::new(stream), service)
    );
    let tick = (limits.stall.min(limits.idle) / 4).max(Duration::from_millis(1));
    let (mut seen, mut since, mut is_ending) = (0, Instant::now(), false);
    loop {
        tokio::select! {
            // How it ended matters to nobody: what was sent is on record.
            _ = connection.as_mut() => return,
            () = stop.raised(), if !is_ending => {
                connection.as_mut().graceful_shutdown();
                is_ending = true;
            }
            () = tokio::time::sleep(tick) => {
                let progress = activity.progress.load(Ordering::Relaxed);
                let is_running = activity.running.load(Ordering::Relaxed) > 0;
                if progress != seen {
                    (seen, since) = (progress, Instant::now());
                }
                let limit = if is_running || is_ending { limits.stall } else { limits.idle };
                if since.elapsed() < limit {
                    continue;
                }
                if is_running || is_ending {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                (is_ending, since) = (true, Instant::now());
            }
        }
    }
}

/// The content of an answer, read when the client can take it.
#[derive(Debug)]
struct Answer {
    content: Content,
    done: u64,
    running: Running,
    activity: Arc<Activity>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if this.is_end_stream() {
            return Poll::Ready(None);
        }
        let bytes = match &this.content {
            Content::Empty => return Poll::Ready(None),
            Content::Text(text) => text.clone(),
            Content::File(part) => match part.read(this.done, CHUNK_BYTES) {
                Ok(bytes) if bytes.is_empty() => {
                    return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                }
                Ok(bytes) => bytes.into(),
                Err(error) => return Poll::Ready(Some(Err(error))),
            },
        };
        let count = bytes.len() as u64;
        this.done += count;
        this.running.sent(count);
        this.activity.progress.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.done == self.content.length()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.content.length() - self.done)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.activity.running.fetch_sub(1, Ordering::Relaxed);
    }
}
