//! Figures about what is served, in the text form of Prometheus.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// All figures.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Kind, Counter>,
    durations: Histogram,
    /// Bytes of contents that were sent.
    pub(crate) sent: Counter,
    /// Connections that are open.
    pub(crate) connections: Gauge,
}

/// What kind of request it was: few kinds, whatever clients send.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    method: &'static str,
    status: &'static str,
}

impl Metrics {
    pub(crate) const CONTENT_TYPE: &str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Nothing was served yet.
    pub(crate) fn new() -> Self {
        // From a millisecond to the quarter of an hour that a large file takes over a thin line.
        let durations = Histogram::new(exponential_buckets(0.001, 4.0, 11));
        let metrics = Self {
            registry: Registry::with_prefix("monobloc_serve"),
            requests: Family::default(),
            durations,
            sent: Counter::default(),
            connections: Gauge::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let all = &mut self.registry;
        all.register("requests", "Requests that were answered", self.requests.clone());
        let (name, help) = ("request_duration", "From a request to the end of its answer");
        all.register_with_unit(name, help, Unit::Seconds, self.durations.clone());
        let help = "Bytes of files and other contents that were sent";
        all.register_with_unit("sent", help, Unit::Bytes, self.sent.clone());
        all.register("connections", "Connections that are open", self.connections.clone());
        let start = Gauge::<i64>::default();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        start.set(i64::try_from(since.as_secs()).unwrap_or_default());
        all.register_with_unit("start_time", "When the server began", Unit::Seconds, start);
        self
    }

    /// A request is done.
    pub(crate) fn done(&self, method: &Method, status: StatusCode, took: Duration) {
        let method = match *method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            _ => "other",
        };
        let status = match status.as_u16() {
            ..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            500.. => "5xx",
        };
        self.requests.get_or_create(&Kind { method, status }).inc();
        self.durations.observe(took.as_secs_f64());
    }

    /// All figures as they are now.
    pub(crate) fn text(&self) -> Bytes {
        let mut page = String::new();
        // A text takes everything that is written to it.
        let _ = text::encode(&mut page, &self.registry);
        page.into()
    }
}
