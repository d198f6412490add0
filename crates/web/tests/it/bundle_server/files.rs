//! Which bytes are sent for which request.

use std::collections::BTreeMap;

use package::artifact::{self, Artifact, Assembly};
use package::distribution::Distribution;
use package::sign::{KeyPair, SecretKey};
use package::{Cancel, Piece, Sha256};
use proptest::prelude::*;
use web::bundle_server::{ArtifactFiles, Folder, Layer};

use super::{PATIENT, Place, Server, link, noise};

#[test]
fn a_file_is_sent_with_what_tells_it_from_others() {
    let place = Place::with(&[("latest.json", b"{}"), ("packages/a/a--1.tar.zst", b"archive")]);
    let server = place.start();
    let latest = server.get("/latest.json");
    assert_eq!((latest.status, latest.text()), (200, "{}"));
    assert_eq!(latest.header("content-type"), "application/json");
    assert_eq!(latest.header("cache-control"), "no-cache");
    assert!(latest.header("last-modified").ends_with(" GMT"), "{}", latest.head);
    let package = server.get("/packages/a/a--1.tar.zst?token=secret");
    assert_eq!((package.status, package.text()), (200, "archive"));
    assert_eq!(package.header("content-type"), "application/octet-stream");
    assert_eq!(package.header("cache-control"), "public, max-age=31536000, immutable");
    assert_ne!(package.header("etag"), latest.header("etag"));
    let head = server.connect().ask("HEAD", "/latest.json", "Range: bytes=0-0\r\n");
    assert_eq!((head.status, head.header("content-length")), (200, "2"));
    assert_eq!(head.header("etag"), latest.header("etag"));
    server.stop();
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let place = Place::with(&[("latest.json", b"old"), ("packages/a", b"archive")]);
    let server = place.start();
    let mut client = server.connect();
    let first = client.get("/latest.json", "");
    let (etag, time) = (first.header("etag").to_owned(), first.header("last-modified").to_owned());
    for headers in [
        format!("If-None-Match: {etag}\r\n"),
        format!("If-None-Match: \"x\", W/{etag}\r\n"),
        format!("If-None-Match: \"x\"\r\nIf-None-Match: {etag}\r\n"),
        "If-None-Match: *\r\n".to_owned(),
        format!("If-None-Match: {etag}\r\nRange: bytes=0-0\r\n"),
    ] {
        let again = client.get("/latest.json", &headers);
        assert_eq!((again.status, again.header("etag")), (304, etag.as_str()), "{headers}");
    }
    // Two publications can be of one second.
    let by_time = format!("If-Modified-Since: {time}\r\n");
    assert_eq!(client.get("/latest.json", &by_time).status, 200);
    let time = client.get("/packages/a", "").header("last-modified").to_owned();
    let by_time = format!("If-Modified-Since: {time}\r\n");
    assert_eq!(client.get("/packages/a", &by_time).status, 304);
    let both = format!("{by_time}If-None-Match: \"x\"\r\n");
    assert_eq!(client.get("/packages/a", &both).status, 200);
    assert_eq!(client.get("/latest.json", "If-Match: \"x\"\r\n").status, 412);
    assert_eq!(client.get("/latest.json", &format!("If-Match: {etag}\r\n")).status, 200);
    package::durable::write(&place.folder.join("latest.json"), b"new").unwrap();
    let changed = client.get("/latest.json", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((changed.status, changed.text()), (200, "new"));
    let of_the_old = format!("If-Range: {etag}\r\nRange: bytes=0-0\r\n");
    assert_eq!(client.get("/latest.json", &of_the_old).text(), "new");
    let of_the_new = format!("If-Range: {}\r\nRange: bytes=0-0\r\n", changed.header("etag"));
    assert_eq!(client.get("/latest.json", &of_the_new).text(), "n");
    server.stop();
}

#[test]
fn ranges_are_the_bytes_of_the_file() {
    let content = noise(100_000);
    let place = Place::with(&[("file", &content), ("empty", b"")]);
    let server = place.start();
    let mut client = server.connect();
    let ranged = std::cell::RefCell::new(server.connect());
    let check = |first: usize, last: usize| {
        let part = ranged.borrow_mut().get("/file", &format!("Range: bytes={first}-{last}\r\n"));
        let last = last.min(content.len() - 1);
        assert_eq!(part.status, 206);
        assert_eq!(part.header("content-range"), format!("bytes {first}-{last}/100000"));
        assert!(part.body == content[first..=last], "{first}-{last}");
    };
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&(0..100_000_usize, 0..100_000_usize), |(first, more)| {
            check(first, first + more);
            Ok(())
        })
        .unwrap();
    assert_eq!(client.get("/file", "Range: bytes=-7\r\n").body, content[99_993..]);
    assert_eq!(client.get("/file", "Range: bytes=1-2,4-5\r\n").body, content);
    let none = client.get("/file", "Range: bytes=100000-\r\n");
    assert_eq!((none.status, none.header("content-range")), (416, "bytes */100000"));
    assert_eq!(client.get("/empty", "Range: bytes=0-\r\n").status, 416);
    assert_eq!(client.get("/empty", "").status, 200);
    server.stop();
}

#[test]
fn nothing_outside_the_folder_and_no_folder_is_sent() {
    let place = Place::with(&[("a/b", b"b"), (".hidden", b"h"), ("a/.tmp-1/x", b"x")]);
    fs_err::write(place.top.join("secret"), "secret").unwrap();
    link("../secret", &place.folder.join("out"));
    link("..", &place.folder.join("up"));
    link(place.top.join("secret").as_str(), &place.folder.join("absolute"));
    link("a/b", &place.folder.join("in"));
    link("a", &place.folder.join("folder"));
    let server = place.start();
    let mut client = server.connect();
    assert_eq!(client.get("/in", "").text(), "b");
    assert_eq!(client.get("/folder/b", "").text(), "b");
    assert_eq!(client.get("/%61/%62", "").text(), "b");
    assert_eq!(client.get("http://user:password@host/a/b", "").text(), "b");
    for path in [
        "/",
        "/a",
        "/a/",
        "//a/b",
        "/a//b",
        "/a/b/",
        "/a/b/c",
        "/out",
        "/up/secret",
        "/absolute",
        "/..",
        "/../secret",
        "/a/../../secret",
        "/%2e%2e/secret",
        "/a%2fb",
        "/..%2fsecret",
        "/.hidden",
        "/a/.tmp-1/x",
        "/%2ehidden",
        "/a/b%00",
        "/%ff",
        "/nothing",
        "*",
        "/./a/b",
        "/a/b%0d%0a",
    ] {
        let reply = client.get(path, "");
        assert_eq!((reply.status, reply.text()), (404, "there is no such file\n"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND"] {
        let refused = client.ask(method, "/a/b", "");
        assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD"), "{method}");
    }
    server.stop();
}

#[test]
fn a_pipe_in_the_folder_holds_nobody_up() {
    let place = Place::with(&[("file", b"x")]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.folder.join("pipe").as_std_path(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let server = place.start();
    assert_eq!(server.get("/pipe").status, 404);
    server.stop();
}

#[test]
fn files_of_an_artifact_are_sent_from_where_they_lie() {
    let place = Place::with(&[("latest.json", b"folder"), ("packages/a/a--1.tar.zst", b"first")]);
    let (one, two) = (noise(70_000), b"two");
    let piece = |name: &str, content: &[u8]| {
        let path = place.top.join(name);
        fs_err::write(&path, content).unwrap();
        Piece::from(path)
    };
    let files = [
        ("packages/a/a--1.tar.zst", piece("other", b"other")),
        ("packages/b/b--1.tar.zst", piece("one", &one)),
        ("packages/c/c--1.tar.zst", piece("two", two)),
    ];
    let assembly = Assembly {
        distribution: &Distribution::default(),
        variants: BTreeMap::new(),
        program: piece("program", b"program"),
        files: files.into_iter().map(|(path, piece)| (path.parse().unwrap(), piece)).collect(),
        key: &SecretKey::parse(&KeyPair::generate(None).unwrap().secret, None).unwrap(),
    };
    let file = place.top.join("artifact");
    artifact::write(&file, assembly, &Cancel::new()).unwrap();
    let artifact = Artifact::open(&file).unwrap();
    let layers: Vec<Box<dyn Layer>> = vec![
        Box::new(Folder::new(&place.folder)),
        Box::new(ArtifactFiles::open(&artifact).unwrap()),
    ];
    let server = Server::start(layers, PATIENT, None);
    // Whatever happens to its name.
    fs_err::remove_file(&file).unwrap();
    assert_eq!(server.get("/latest.json").text(), "folder");
    assert_eq!(server.get("/packages/a/a--1.tar.zst").text(), "first");
    let whole = server.get("/packages/b/b--1.tar.zst");
    assert!(whole.body == one);
    assert_eq!(whole.header("etag"), format!("\"{}\"", Sha256::of(&one)));
    let mut client = server.connect();
    let part = client.get("/packages/b/b--1.tar.zst", "Range: bytes=69990-\r\n");
    assert_eq!(part.body, one[69_990..]);
    assert_eq!(client.get("/packages/c/c--1.tar.zst", "Range: bytes=-9\r\n").text(), "two");
    assert_eq!(client.get("/packages/d", "").status, 404);
    server.stop();
}

#[test]
fn figures_and_health_are_told_and_hide_no_file() {
    let place = Place::with(&[("file", b"12345")]);
    let server = place.start();
    server.get("/file");
    server.get("/nothing");
    server.connect().ask("BREW", "/file", "");
    for _ in 0..3 {
        server.ended();
    }
    let page = server.get("/metrics");
    assert_eq!(page.header("cache-control"), "no-store");
    for line in [
        r#"monobloc_serve_requests_total{method="GET",status="2xx"} 1"#,
        r#"monobloc_serve_requests_total{method="GET",status="4xx"} 1"#,
        r#"monobloc_serve_requests_total{method="other",status="4xx"} 1"#,
        "monobloc_serve_request_duration_seconds_count 3",
        "# TYPE monobloc_serve_connections gauge",
        "# TYPE monobloc_serve_start_time_seconds gauge",
        "# TYPE monobloc_serve_sent_bytes counter",
    ] {
        assert!(page.text().contains(line), "{line} is not in\n{}", page.text());
    }
    assert_eq!(server.get("/healthz").text(), "ok\n");
    place.write("metrics", b"a file");
    assert_eq!(server.get("/metrics").text(), "a file");
    fs_err::rename(&place.folder, place.top.join("away")).unwrap();
    assert_eq!(server.get("/healthz").status, 503);
    assert_eq!(server.get("/file").status, 404);
    fs_err::rename(place.top.join("away"), &place.folder).unwrap();
    assert_eq!(server.get("/file").status, 200);
    server.stop();
}
