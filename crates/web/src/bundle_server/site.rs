//! What is answered to a request: status, headers, and which bytes of which file. HTTP/1.1 and HTTP/2
//! both ask here.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use super::layer::{Found, Layer};
use super::metrics::Metrics;
use super::path::ServedPath;
use super::platform;
use super::range::Wanted;

/// Who asks again gets the same for a year, which is the longest that caches know.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// May be kept, and must be asked for before it is used.
const ASK_FIRST: &str = "no-cache";

/// Files to be served, and the figures about it.
#[derive(Debug)]
pub(crate) struct Site {
    layers: Vec<Box<dyn Layer>>,
    pub(crate) metrics: Metrics,
}

/// What follows the headers.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// Nothing.
    Empty,
    /// A few words.
    Text(Bytes),
    /// Bytes of a file; the headers tell how many of it.
    File(FilePart),
}

/// Some bytes of an open file.
#[derive(Debug, Clone)]
pub(crate) struct FilePart {
    pub(crate) file: Arc<std::fs::File>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl FilePart {
    /// Reads some of the bytes after `done`, at most so many; none if the file became shorter.
    pub(crate) fn read(&self, done: u64, at_most: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.length - done).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(at_most)];
        let read = platform::read_at(&self.file, &mut bytes, self.offset + done)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

impl Content {
    /// How many bytes it has.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Text(text) => text.len() as u64,
            Self::File(part) => part.length,
        }
    }
}

impl Site {
    /// The first layer that has a file is the one that counts.
    pub(crate) fn new(layers: Vec<Box<dyn Layer>>) -> Self {
        Self { layers, metrics: Metrics::new() }
    }

    /// What is answered to a request. This opens files, and changes nothing.
    pub(crate) fn answer(&self, request: &Parts) -> Response<Content> {
        let mut response = match request.method {
            Method::GET | Method::HEAD => self.look_up(request),
            _ => {
                let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
                set(&mut refused, header::ALLOW, "GET, HEAD");
                refused
            }
        };
        set(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        if request.method == Method::HEAD {
            *response.body_mut() = Content::Empty;
        }
        response
    }

    fn look_up(&self, request: &Parts) -> Response<Content> {
        let Some(path) = ServedPath::of_request(request.uri.path()) else {
            return not_found();
        };
        match self.find(&path) {
            Ok(Some(found)) => respond(request, &path, &found),
            // After the files: what is published is never hidden.
            Ok(None) => match path.as_str() {
                "healthz" => self.health(),
                "metrics" => self.figures(),
                _ => not_found(),
            },
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                text(StatusCode::FORBIDDEN, "the server may not read this file\n")
            }
            Err(error) if too_many_files(&error) => {
                let mut busy = text(StatusCode::SERVICE_UNAVAILABLE, "too many open files\n");
                set(&mut busy, header::RETRY_AFTER, "1");
                busy
            }
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "cannot read this file\n"),
        }
    }

    fn find(&self, path: &ServedPath) -> io::Result<Option<Found>> {
        for layer in &self.layers {
            if let Some(found) = layer.find(path)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn health(&self) -> Response<Content> {
        let well = self.layers.iter().all(|layer| layer.check().is_ok());
        let mut response = if well {
            text(StatusCode::OK, "ok\n")
        } else {
            text(StatusCode::SERVICE_UNAVAILABLE, "what is served cannot be read\n")
        };
        set(&mut response, header::CACHE_CONTROL, "no-store");
        response
    }

    fn figures(&self) -> Response<Content> {
        let mut response = text(StatusCode::OK, self.metrics.text());
        set(&mut response, header::CACHE_CONTROL, "no-store");
        set(&mut response, header::CONTENT_TYPE, Metrics::CONTENT_TYPE);
        response
    }
}

/// What is answered to a request for a file that was found.
fn respond(request: &Parts, path: &ServedPath, found: &Found) -> Response<Content> {
    let asked = &request.headers;
    let mut response = Response::new(Content::Empty);
    let is_for_ever = path.is_named_by_content();
    set(&mut response, header::ETAG, &found.etag);
    set(&mut response, header::LAST_MODIFIED, &httpdate::fmt_http_date(found.modified));
    set(&mut response, header::CACHE_CONTROL, if is_for_ever { FOR_EVER } else { ASK_FIRST });
    if asked.contains_key(header::IF_MATCH) && !names(asked, header::IF_MATCH, &found.etag, false) {
        *response.status_mut() = StatusCode::PRECONDITION_FAILED;
        set(&mut response, header::CONTENT_LENGTH, "0");
        return response;
    }
    let is_known = if asked.contains_key(header::IF_NONE_MATCH) {
        names(asked, header::IF_NONE_MATCH, &found.etag, true)
    } else {
        // A time has seconds, and two publications may be of the same one.
        is_for_ever && has_time(asked, found.modified)
    };
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    set(&mut response, header::ACCEPT_RANGES, "bytes");
    let length = found.length;
    let (first, count) = match wanted(request, found) {
        Wanted::Whole => (0, length),
        Wanted::Part { first, last } => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let range = format!("bytes {first}-{last}/{length}");
            set(&mut response, header::CONTENT_RANGE, &range);
            (first, last - first + 1)
        }
        Wanted::Nothing => {
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            set(&mut response, header::CONTENT_RANGE, &format!("bytes */{length}"));
            set(&mut response, header::CONTENT_LENGTH, "0");
            return response;
        }
    };
    set(&mut response, header::CONTENT_TYPE, path.content_type());
    set(&mut response, header::CONTENT_LENGTH, &count.to_string());
    let offset = found.offset + first;
    let part = FilePart { file: Arc::clone(&found.file), offset, length: count };
    *response.body_mut() = Content::File(part);
    response
}

/// Which part of the file is wanted: a range counts if it is the only one, and of this very content.
fn wanted(request: &Parts, found: &Found) -> Wanted {
    let mut ranges = request.headers.get_all(header::RANGE).iter();
    let (Some(range), None, &Method::GET) = (ranges.next(), ranges.next(), &request.method) else {
        return Wanted::Whole;
    };
    // A time does not tell contents apart, so that it never counts here.
    let is_of_this = |tag: &HeaderValue| tag.as_bytes() == found.etag.as_bytes();
    let is_current = request.headers.get_all(header::IF_RANGE).iter().all(is_of_this);
    match range.to_str() {
        Ok(range) if is_current => Wanted::read(range, found.length),
        _ => Wanted::Whole,
    }
}

/// Whether a list of tags, or a star, names this one.
fn names(asked: &HeaderMap, header: HeaderName, etag: &str, weakly: bool) -> bool {
    let lines = asked.get_all(header).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).any(|tag| {
        let strong = if weakly { tag.strip_prefix("W/").unwrap_or(tag) } else { tag };
        strong == etag || tag == "*"
    })
}

/// Whether `If-Modified-Since` is the time of the file.
fn has_time(asked: &HeaderMap, modified: SystemTime) -> bool {
    let since = asked.get(header::IF_MODIFIED_SINCE).and_then(|since| since.to_str().ok());
    let since = since.and_then(|since| httpdate::parse_http_date(since).ok());
    since.is_some_and(|since| seconds(since) == seconds(modified))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).as_ref().map_or(0, Duration::as_secs)
}

fn too_many_files(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(platform::is_too_many_files)
}

fn not_found() -> Response<Content> {
    text(StatusCode::NOT_FOUND, "there is no such file\n")
}

/// An answer in words.
pub(crate) fn text(status: StatusCode, words: impl Into<Bytes>) -> Response<Content> {
    let words = words.into();
    let mut response = Response::new(Content::Empty);
    *response.status_mut() = status;
    set(&mut response, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    set(&mut response, header::CONTENT_LENGTH, &words.len().to_string());
    *response.body_mut() = Content::Text(words);
    response
}

fn set(response: &mut Response<Content>, name: HeaderName, value: &str) {
    // Every value here is made of digits, tags and words of this file.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
