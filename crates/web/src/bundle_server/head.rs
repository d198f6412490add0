//! Reads the head of an HTTP/1.1 request. It is strict: whatever two programs could understand in two
//! ways is refused, and nothing that follows a body is taken for a request.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, StatusCode, Uri, Version};

/// How long a head may be.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// How many headers it may have.
const HEADERS_MAX: usize = 64;

/// The head of a request.
#[derive(Debug)]
pub struct Head {
    /// What is asked.
    pub request: Parts,
    /// How many bytes it has.
    pub length: usize,
    /// Whether the client wants to ask more over the same connection.
    pub keep_alive: bool,
    /// Whether a body follows, which nobody reads: the connection ends after the answer.
    pub has_body: bool,
}

impl Head {
    /// Reads what stands at the beginning of `bytes`. There is none yet if more bytes are needed; what
    /// can never become one is refused with a status.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, StatusCode> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        let length = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => length,
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => {
                return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
            }
            Err(httparse::Error::Version) => return Err(StatusCode::HTTP_VERSION_NOT_SUPPORTED),
            Err(_) => return Err(StatusCode::BAD_REQUEST),
        };
        let request = request(&parsed).ok_or(StatusCode::BAD_REQUEST)?;
        let (has_body, keep_alive) =
            (has_body(&request)?, keep_alive(request.version, &request.headers));
        check_host(&request)?;
        Ok(Some(Self { request, length, keep_alive, has_body }))
    }
}

fn request(parsed: &httparse::Request<'_, '_>) -> Option<Parts> {
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(parsed.method?.as_bytes()).ok()?;
    *request.uri_mut() = parsed.path?.parse::<Uri>().ok()?;
    *request.version_mut() = if parsed.version? == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        request.headers_mut().append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some(request.into_parts().0)
}

/// Whether a body follows; an error if that can be doubted.
fn has_body(request: &Parts) -> Result<bool, StatusCode> {
    let headers = &request.headers;
    let lengths: Vec<&[u8]> =
        headers.get_all(header::CONTENT_LENGTH).iter().map(HeaderValue::as_bytes).collect();
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let is_plain = lengths.is_empty()
            && codings.next().is_none()
            && coding.as_bytes().eq_ignore_ascii_case(b"chunked")
            && request.version == Version::HTTP_11;
        return if is_plain { Ok(true) } else { Err(StatusCode::BAD_REQUEST) };
    }
    match lengths[..] {
        [] => Ok(false),
        [length] if !length.is_empty() && length.iter().all(u8::is_ascii_digit) => {
            Ok(length.iter().any(|digit| *digit != b'0'))
        }
        _ => Err(StatusCode::BAD_REQUEST),
    }
}

fn check_host(request: &Parts) -> Result<(), StatusCode> {
    let count = request.headers.get_all(header::HOST).iter().count();
    let is_right = count == 1 || (count == 0 && request.version == Version::HTTP_10);
    if is_right { Ok(()) } else { Err(StatusCode::BAD_REQUEST) }
}

fn keep_alive(version: Version, headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::CONNECTION).into_iter();
    let words = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    let words: Vec<&str> = words.map(str::trim).collect();
    let says = |word: &str| words.iter().any(|said| said.eq_ignore_ascii_case(word));
    !says("close") && (version == Version::HTTP_11 || says("keep-alive"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status(text: &str) -> Option<u16> {
        Head::read(text.as_bytes()).err().map(|status| status.as_u16())
    }

    fn head(text: &str) -> Head {
        Head::read(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn a_head_ends_where_the_next_one_begins() {
        let text = "GET /a?b HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\n\r\nGET /b";
        let head = head(text);
        assert_eq!(&text[head.length..], "GET /b");
        assert_eq!(head.request.uri.path(), "/a");
        assert_eq!(head.request.headers["range"], "bytes=0-1");
        assert!(head.keep_alive && !head.has_body);
        assert!(Head::read(&text.as_bytes()[..head.length - 1]).unwrap().is_none());
    }

    #[test]
    fn what_can_be_understood_in_two_ways_is_refused() {
        for headers in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 3\r\nContent-Length: 4\r\n",
            "Content-Length: 3\r\nContent-Length: 3\r\n",
            "Content-Length: 3, 3\r\n",
            "Content-Length: +3\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 0x3\r\n",
            "Content-Length:\r\n",
            "Content-Length : 3\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "A: b\r\n folded\r\n",
            "Host: y\r\n",
            "A\0: b\r\n",
            "A: b\0\r\n",
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
            assert_eq!(status(&text), Some(400), "{headers}");
        }
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET\r\n\r\n",
            "\u{16}\u{3}\u{1}\u{2}",
        ] {
            assert_eq!(status(text), Some(400), "{text}");
        }
        assert_eq!(status("GET / HTTP/2.0\r\n\r\n"), Some(505));
        assert_eq!(status("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"), Some(505));
    }

    #[test]
    fn a_body_or_a_wish_ends_the_connection() {
        let of = |rest: &str| head(&format!("GET / HTTP/1.1\r\nHost: x\r\n{rest}\r\n"));
        assert!(of("Content-Length: 10\r\n").has_body);
        assert!(of("Transfer-Encoding: Chunked\r\n").has_body);
        assert!(!of("Content-Length: 00\r\n").has_body);
        assert!(!of("Connection: x, Close\r\n").keep_alive);
        assert!(!head("GET / HTTP/1.0\r\n\r\n").keep_alive);
        assert!(head("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
    }

    #[test]
    fn a_head_has_limits() {
        let long = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}", "a".repeat(HEAD_BYTES_MAX));
        assert_eq!(status(&long), Some(431));
        assert_eq!(status(&format!("{long}\r\n\r\n")), Some(431));
        let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX));
        assert_eq!(status(&many), Some(431));
        assert_eq!(status(&"\r\n".repeat(HEAD_BYTES_MAX)), Some(431));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it_and_more_bytes_change_nothing(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                "(GET|HEAD|POST|\\PC{0,5}) (/|\\*|http://a:b@c/|[ -~]{0,9}) HTTP/1\\.[01]\r?\n\
                 ((Host|Content-Length|Transfer-Encoding|Range|Connection|[ -~]{1,9}): ?\
                 ([0-9]{1,3}|chunked|close|[ -~]{0,9})\r?\n){0,5}\r?\n".prop_map(String::into_bytes),
            ],
            more in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let longer = [bytes.as_slice(), &more].concat();
            match Head::read(&bytes) {
                Ok(Some(head)) => {
                    prop_assert!(head.length <= bytes.len());
                    let again = Head::read(&longer).unwrap().unwrap();
                    prop_assert_eq!(again.length, head.length);
                    prop_assert_eq!(again.request.headers, head.request.headers);
                }
                Ok(None) => {}
                Err(status) => {
                    prop_assert!(status.is_client_error() || status.is_server_error());
                    prop_assert_eq!(Head::read(&longer).unwrap_err(), status);
                }
            }
        }
    }
}
