//! What is known of a request when its answer has ended, for whoever keeps a log.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::request::Parts;
use http::{Method, Response, StatusCode, Version};

use super::site::{Content, Site};

/// A request that was answered. Nothing of it is secret: neither what follows a question mark nor any
/// header is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// When it came.
    pub time: SystemTime,
    /// Who asked.
    pub client: SocketAddr,
    /// What was to be done.
    pub method: Method,
    /// The path that was asked for, as it was sent.
    pub path: String,
    /// The version of HTTP.
    pub version: Version,
    /// The answer.
    pub status: StatusCode,
    /// How many bytes of content were sent.
    pub bytes: u64,
    /// Whether these were all.
    pub complete: bool,
    /// From the request to the end of the answer.
    pub took: Duration,
}

/// Who wants to know of requests. It must not wait: it is called where answers are sent.
pub trait AccessLog: Debug + Send + Sync {
    /// A request was answered.
    fn record(&self, access: Access);
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) site: Site,
    pub(crate) log: Box<dyn AccessLog>,
}

impl Shared {
    /// Answers a request, and knows of it until its answer has ended.
    pub(crate) fn begin(
        self: &Arc<Self>,
        request: &Parts,
        client: SocketAddr,
    ) -> (Response<Content>, Running) {
        let started = Instant::now();
        let response = self.site.answer(request);
        let mut running = self.watch(request, client, &response);
        running.started = started;
        (response, running)
    }

    /// Knows of an answer until it has ended.
    pub(crate) fn watch(
        self: &Arc<Self>,
        request: &Parts,
        client: SocketAddr,
        response: &Response<Content>,
    ) -> Running {
        let access = Access {
            time: SystemTime::now(),
            client,
            method: request.method.clone(),
            path: request.uri.path().to_owned(),
            version: request.version,
            status: response.status(),
            bytes: 0,
            complete: false,
            took: Duration::ZERO,
        };
        let started = Instant::now();
        Running { shared: Arc::clone(self), left: response.body().length(), access, started }
    }
}

/// An answer on its way; on record when it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    shared: Arc<Shared>,
    access: Access,
    left: u64,
    started: Instant,
}

impl Running {
    /// So many bytes of the content were sent.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.access.bytes += bytes;
        self.left = self.left.saturating_sub(bytes);
        self.shared.site.metrics.sent.inc_by(bytes);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut access = self.access.clone();
        (access.complete, access.took) = (self.left == 0, self.started.elapsed());
        self.shared.site.metrics.done(&access.method, access.status, access.took);
        self.shared.log.record(access);
    }
}
