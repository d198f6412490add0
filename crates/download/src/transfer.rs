//! One attempt to get a file, or the rest of it, over HTTP.
//!
//! The exchange runs on a thread of its own and hands its pieces over a short channel: a read that
//! blocks must not keep the caller from cancelling. A thread that nobody listens to any more ends
//! at its next piece or at the idle time limit.

use std::io::{self, Read as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use ureq::ResponseExt as _;
use ureq::http::{HeaderMap, header};
use url::Url;

use crate::part::Part;
use crate::{DownloadError, Fault, Options, Settings, redacted};

/// How often a waiting download looks at its cancel flag.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// How large a piece is at most.
const PIECE_BYTES: usize = 128 * 1024;
/// How many pieces may wait to be written.
const PIECES_WAITING: usize = 8;

/// Why an attempt did not bring the whole file.
#[derive(Debug)]
pub(crate) enum Setback {
    /// Another attempt may succeed.
    Passing { fault: Fault, retry_after: Option<Duration> },
    /// Another attempt would end the same way.
    Hopeless(Fault),
    /// The fault is not the server's.
    Final(DownloadError),
}

impl Setback {
    fn passing(fault: Fault) -> Self {
        Self::Passing { fault, retry_after: None }
    }
}

/// Asks for what `part` lacks and adds it; returns where the file came from.
pub(crate) fn attempt(
    agent: &ureq::Agent,
    settings: &Settings,
    url: &Url,
    part: &mut Part,
    options: &Options<'_>,
) -> Result<Url, Setback> {
    let write = |cause| Setback::Final(DownloadError::Write { url: redacted(url), cause });
    if !part.can_continue(options.may_inherit()) {
        part.restart().map_err(write)?;
    }
    let pieces = start(agent.clone(), url.clone(), part.length(), part.etag.clone());
    let head = match next(&pieces, settings, options)? {
        Piece::Head(head) => head,
        piece => unreachable!("the head comes first, not {piece:?}"),
    };
    accept(&head, part).map_err(|refusal| match refusal {
        Refusal::Setback(setback) => setback,
        Refusal::Write(cause) => write(cause),
    })?;
    if let Some(total) = part.total {
        options.check_size(url, total).map_err(Setback::Final)?;
    }
    loop {
        match next(&pieces, settings, options) {
            Ok(Piece::Data(bytes)) => {
                options
                    .check_size(url, part.length() + bytes.len() as u64)
                    .map_err(Setback::Final)?;
                part.append(&bytes).map_err(write)?;
                options.report(part);
            }
            Ok(Piece::End) => break,
            Ok(Piece::Head(head)) => unreachable!("a head comes only once, not {head:?}"),
            // Where the length is known, it says better what is missing.
            Err(Setback::Passing { fault: Fault::Transport(error), .. })
                if part.total.is_some() && ended(&error) =>
            {
                break;
            }
            Err(setback) => return Err(setback),
        }
    }
    match part.total {
        Some(expected) if part.length() < expected => {
            Err(Setback::passing(Fault::Short { received: part.length(), expected }))
        }
        _ => Ok(head.url),
    }
}

/// Whether the other side just closed the connection.
fn ended(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof)
}

/// What of an answer's head matters.
#[derive(Debug)]
struct Head {
    status: u16,
    headers: HeaderMap,
    url: Url,
    insecure: bool,
}

#[derive(Debug)]
enum Piece {
    Head(Box<Head>),
    Data(Vec<u8>),
    End,
}

/// What the thread hands over; an error is the last of it.
type Handed = Result<Piece, ureq::Error>;

/// The next piece, or why there will be none.
fn next(
    pieces: &Receiver<Handed>,
    settings: &Settings,
    options: &Options<'_>,
) -> Result<Piece, Setback> {
    loop {
        options.cancel.check().map_err(|cancelled| Setback::Final(cancelled.into()))?;
        match pieces.recv_timeout(CANCEL_POLL) {
            Ok(Ok(piece)) => return Ok(piece),
            Ok(Err(error)) => return Err(judge(error, settings)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // Only a panic ends the thread without a last piece.
                return Err(judge(ureq::Error::ConnectionFailed, settings));
            }
        }
    }
}

/// Tells faults that pass from faults that stay.
fn judge(error: ureq::Error, settings: &Settings) -> Setback {
    use ureq::Error as E;
    match error {
        E::Timeout(ureq::Timeout::PerRead | ureq::Timeout::PerWrite) => {
            Setback::passing(Fault::Idle { limit: settings.idle_timeout })
        }
        // This is what a certificate that is not trusted looks like.
        E::Io(ref io) if io.kind() == io::ErrorKind::InvalidData => {
            Setback::Hopeless(Fault::Transport(Box::new(error)))
        }
        E::Io(_)
        | E::Timeout(_)
        | E::HostNotFound
        | E::ConnectionFailed
        | E::ConnectProxyFailed(_)
        | E::Protocol(_) => Setback::passing(Fault::Transport(Box::new(error))),
        _ => Setback::Hopeless(Fault::Transport(Box::new(error))),
    }
}

enum Refusal {
    Setback(Setback),
    Write(io::Error),
}

/// Makes `part` ready for the body that follows `head`, or refuses that body.
fn accept(head: &Head, part: &mut Part) -> Result<(), Refusal> {
    if head.insecure {
        return Err(Refusal::Setback(Setback::Hopeless(Fault::InsecureRedirect)));
    }
    let fault = Fault::Status { status: head.status };
    match head.status {
        200 => {
            part.restart().map_err(Refusal::Write)?;
            part.etag = text(&head.headers, header::ETAG).filter(|tag| tag.starts_with('"'));
            part.total = text(&head.headers, header::CONTENT_LENGTH).and_then(|n| n.parse().ok());
            Ok(())
        }
        206 if continues(head, part) => Ok(()),
        206 | 416 if part.length() > 0 => {
            let offset = part.length();
            part.restart().map_err(Refusal::Write)?;
            Err(Refusal::Setback(Setback::passing(Fault::WrongRange { offset })))
        }
        408 | 429 | 500..=599 => {
            let asked = text(&head.headers, header::RETRY_AFTER);
            let retry_after = asked.and_then(|n| n.parse().ok()).map(Duration::from_secs);
            Err(Refusal::Setback(Setback::Passing { fault, retry_after }))
        }
        _ => Err(Refusal::Setback(Setback::Hopeless(fault))),
    }
}

/// Whether a partial answer is exactly the rest of the file that `part` is the start of.
fn continues(head: &Head, part: &mut Part) -> bool {
    let range = text(&head.headers, header::CONTENT_RANGE);
    let Some((start, total)) = range.as_deref().and_then(parse_content_range) else {
        return false;
    };
    let same = |known: Option<u64>| known.is_none() || total.is_none() || known == total;
    let etag = text(&head.headers, header::ETAG);
    if part.length() == 0 || start != part.length() || !same(part.total) {
        return false;
    }
    if part.etag.is_some() && etag.is_some() && part.etag != etag {
        return false;
    }
    part.total = part.total.or(total);
    true
}

/// Reads `bytes START-END/TOTAL`.
fn parse_content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.trim().parse().ok()?, total.trim().parse().ok()))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(|value| value.trim().to_owned())
}

/// Starts the exchange.
fn start(agent: ureq::Agent, url: Url, offset: u64, etag: Option<String>) -> Receiver<Handed> {
    let (sender, pieces) = sync_channel(PIECES_WAITING);
    std::thread::spawn(move || {
        if let Err(error) = exchange(&agent, url, offset, etag, &sender) {
            // Nobody listens any more: then nobody cares either.
            let _ = sender.send(Err(error));
        }
    });
    pieces
}

fn exchange(
    agent: &ureq::Agent,
    mut url: Url,
    offset: u64,
    etag: Option<String>,
    sender: &SyncSender<Handed>,
) -> Result<(), ureq::Error> {
    url.set_fragment(None);
    let mut request = agent.get(url.as_str());
    if offset > 0 {
        request = request.header(header::RANGE, format!("bytes={offset}-"));
        if let Some(etag) = etag {
            request = request.header(header::IF_RANGE, etag);
        }
    }
    let response = request.call()?;
    let hops = response.get_redirect_history().unwrap_or_default();
    let insecure =
        url.scheme() == "https" && hops.iter().any(|hop| hop.scheme_str() != Some("https"));
    let head = Head {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        url: response.get_uri().to_string().parse().unwrap_or(url),
        insecure,
    };
    if sender.send(Ok(Piece::Head(Box::new(head)))).is_err() {
        return Ok(());
    }
    let mut body = response.into_body().into_reader();
    loop {
        let mut bytes = vec![0; PIECE_BYTES];
        let count = match body.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        bytes.truncate(count);
        let piece = if count == 0 { Piece::End } else { Piece::Data(bytes) };
        if sender.send(Ok(piece)).is_err() || count == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read() {
        assert_eq!(parse_content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(parse_content_range("bytes 5-9/*"), Some((5, None)));
        for wrong in ["", "bytes */10", "items 5-9/10", "bytes 5-9", "bytes x-9/10"] {
            assert_eq!(parse_content_range(wrong), None, "{wrong}");
        }
    }
}
