//! HTTP/1.1 with whatever clients make of it, HTTP/2, and both over TLS.

use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use web::bundle_server::{Limits, Tls};

use super::{Client, LARGE_BYTES, PATIENT, Place, Server, noise};

type Http2 = SendRequest<Empty<bytes::Bytes>>;

#[test]
fn requests_that_come_at_once_are_answered_in_order() {
    let place = Place::with(&[("a", b"first"), ("b", b"second"), ("c", b"third")]);
    let server = place.start();
    let mut client = server.connect();
    let ask = |method: &str, path: &str| format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let all = [ask("GET", "/a"), ask("HEAD", "/b"), ask("GET", "/no"), ask("GET", "/c")].concat();
    client.send(&all);
    let mut first = client.head();
    client.body(&mut first);
    assert_eq!(first.text(), "first");
    assert_eq!(client.head().header("content-length"), "6");
    for (status, text) in [(404, "there is no such file\n"), (200, "third")] {
        let mut reply = client.head();
        client.body(&mut reply);
        assert_eq!((reply.status, reply.text()), (status, text));
    }
    server.stop();
}

#[test]
fn nothing_after_a_body_is_taken_for_a_request() {
    let place = Place::with(&[("a", b"first")]);
    let server = place.start();
    let hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    for (request, status) in [
        (format!("GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345{hidden}"), 200),
        (
            format!(
                "GET /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
            ),
            200,
        ),
        (format!("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{hidden}"), 405),
        (
            format!(
                "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\
                 Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
            ),
            400,
        ),
        (format!("GET /a HTTP/1.1\r\n\r\n{hidden}"), 400),
        (format!("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n{hidden}"), 200),
        (format!("GET /a HTTP/1.0\r\n\r\n{hidden}"), 200),
        (format!("GET /a HTTP/3.0\r\n\r\n{hidden}"), 505),
        (format!("GET /a HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(20_000)), 431),
        ("\r\n".repeat(20_000), 431),
        ("\u{16}\u{3}\u{1} this is TLS\r\n\r\n".to_owned(), 400),
    ] {
        let mut client = server.connect();
        client.send(&request);
        let mut reply = client.head();
        assert_eq!((reply.status, reply.header("connection")), (status, "close"), "{request}");
        client.body(&mut reply);
        assert!(client.is_closed(), "{request}");
        assert_ne!(server.ended().path, "/hidden");
    }
    server.stop();
}

#[test]
fn an_old_client_may_keep_its_connection() {
    let place = Place::with(&[("a", b"first")]);
    let server = place.start();
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let mut reply = client.head();
        client.body(&mut reply);
        assert_eq!((reply.text(), reply.header("connection")), ("first", "keep-alive"));
    }
    server.stop();
}

#[test]
fn whatever_a_client_sends_the_next_one_is_served() {
    let place = Place::with(&[("a", b"first")]);
    let server = place.start_with(Limits { head: Duration::from_millis(5), ..PATIENT }, None);
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() };
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        "(PRI \\* HTTP/2.0\r\n\r\nSM\r\n\r\n|GET /a HTTP/1.1\r\nHost: x\r\n\r\n){0,3}\\PC{0,40}"
            .prop_map(String::into_bytes),
    ];
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&bytes, |bytes| {
            use std::io::{Read as _, Write as _};
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(&bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            // It may be cut off; it must not be held.
            drop(stream.read_to_end(&mut Vec::new()));
            prop_assert_eq!(server.get("/a").status, 200);
            Ok(())
        })
        .unwrap();
    server.stop();
}

#[test]
fn the_log_has_no_secrets() {
    let place = Place::with(&[("a", b"first")]);
    let server = place.start();
    let mut client = server.connect();
    client.get("http://user:password@host/a?token=secret", "Authorization: Basic secret\r\n");
    let ended = server.ended();
    assert_eq!((ended.path.as_str(), ended.bytes, ended.complete), ("/a", 5, true));
    assert_eq!(ended.client.ip(), IpAddr::from(Ipv4Addr::LOCALHOST));
    let all = format!("{ended:?}");
    assert!(!all.contains("secret") && !all.contains("password"), "{all}");
    server.stop();
}

fn self_signed(place: &Place) -> Tls {
    Tls::self_signed(&place.top.join("tls"), &["localhost".to_owned()]).unwrap()
}

/// A client that trusts the certificate of the server.
fn client_config(tls: &Tls, protocol: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls.certificate()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config)
}

#[test]
fn http_1_1_over_tls_has_the_same_answers() {
    let content = noise(3_000_000);
    let place = Place::with(&[("file", &content), ("empty", b"")]);
    let tls = self_signed(&place);
    let config = client_config(&tls, b"http/1.1");
    let server = place.start_with(PATIENT, Some(tls));
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(config, name).unwrap();
    let stream = TcpStream::connect(server.address).unwrap();
    let mut client = Client::new(StreamOwned::new(connection, stream));
    assert!(client.get("/file", "").body == content);
    let part = client.get("/file", "Range: bytes=1000000-2000000\r\n");
    assert!(part.status == 206 && part.body == content[1_000_000..=2_000_000]);
    assert_eq!(client.get("/empty", "").status, 200);
    assert_eq!(client.get("/no", "").status, 404);
    server.stop();
}

#[test]
fn a_certificate_is_made_once_and_only_its_owner_can_read_the_key() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let (first, second) = (self_signed(&place), self_signed(&place));
    assert_eq!(first.fingerprint(), second.fingerprint());
    assert_eq!(first.fingerprint().len(), 32 * 3 - 1);
    let key = place.top.join("tls/serve.key");
    assert_eq!(fs_err::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    // One without the other is of no use.
    fs_err::remove_file(first.certificate()).unwrap();
    assert_ne!(self_signed(&place).fingerprint(), first.fingerprint());
    let wrong = Tls::load(&key, &key).unwrap_err();
    assert_eq!(wrong.to_string(), format!("`{key}` holds no certificate"));
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Http2 {
    let stream = TokioIo::new(stream);
    let (client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn connect(server: &Server) -> tokio::net::TcpStream {
    tokio::net::TcpStream::connect(server.address).await.unwrap()
}

async fn get(client: &mut Http2, path: &str, range: &str) -> (u16, Vec<u8>) {
    let request = Request::get(format!("http://localhost{path}")).header("range", range);
    let response = client.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    (status, response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

/// The same questions over any connection with HTTP/2.
async fn ask_all(client: &mut Http2, content: &[u8]) {
    assert!(get(client, "/file", "").await == (200, content.to_vec()));
    assert!(
        get(client, "/file", "bytes=5-1000000").await == (206, content[5..=1_000_000].to_vec())
    );
    assert_eq!(get(client, "/no", "").await, (404, b"there is no such file\n".to_vec()));
    assert_eq!(get(client, "/%2e%2e/secret", "").await.0, 404);
    assert_eq!(get(client, "/file", "bytes=9999999-").await, (416, Vec::new()));
    assert_eq!(get(client, "/empty", "").await, (200, Vec::new()));
    let head = Request::head("http://localhost/file").body(Empty::new()).unwrap();
    let head = client.send_request(head).await.unwrap();
    assert_eq!(head.headers()["content-length"], content.len().to_string().as_str());
    assert!(head.into_body().collect().await.unwrap().to_bytes().is_empty());
    // Many at once over one connection.
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut client = client.clone();
        tasks.spawn(async move { get(&mut client, "/file", "").await });
    }
    while let Some(answer) = tasks.join_next().await {
        assert!(answer.unwrap() == (200, content.to_vec()));
    }
}

#[test]
fn http_2_has_the_same_answers_with_prior_knowledge_and_over_tls() {
    let content = noise(3_000_000);
    let place = Place::with(&[("file", &content), ("empty", b"")]);
    let server = place.start();
    block_on(async {
        ask_all(&mut http2(connect(&server).await).await, &content).await;
    });
    assert_eq!(server.ended().version, Version::HTTP_2);
    server.stop();
    let tls = self_signed(&place);
    let config = client_config(&tls, b"h2");
    let server = place.start_with(PATIENT, Some(tls));
    block_on(async {
        let name = ServerName::try_from("localhost").unwrap();
        let stream = connect(&server).await;
        let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        ask_all(&mut http2(stream).await, &content).await;
    });
    server.stop();
}

#[test]
fn an_answer_over_http_2_ends_before_the_server_does() {
    let content = noise(LARGE_BYTES);
    let place = Place::with(&[("file", &content)]);
    let server = place.start();
    block_on(async {
        let mut client = http2(connect(&server).await).await;
        let request = Request::get("http://localhost/file").body(Empty::new()).unwrap();
        let response = client.send_request(request).await.unwrap();
        server.stop.cancel();
        while tokio::net::TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert!(response.into_body().collect().await.unwrap().to_bytes() == content);
    });
    server.stop();
}

#[test]
fn a_client_of_http_2_that_takes_nothing_or_wants_nothing_is_cut_off() {
    let soon = Duration::from_millis(100);
    let place = Place::with(&[("file", &noise(LARGE_BYTES))]);
    let server = place.start_with(Limits { stall: soon, idle: soon, ..PATIENT }, None);
    block_on(async {
        let mut client = http2(connect(&server).await).await;
        let request = Request::get("http://localhost/file").body(Empty::new()).unwrap();
        let response = client.send_request(request).await.unwrap();
        assert!(!server.ended().complete);
        assert!(response.into_body().collect().await.is_err());
        let mut idle = http2(connect(&server).await).await;
        while idle.ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    server.stop();
}
