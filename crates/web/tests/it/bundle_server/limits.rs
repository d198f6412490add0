//! Clients that are slow, too many, or there when the server shall stop.

use std::net::TcpStream;
use std::time::Duration;

use web::bundle_server::Limits;

use super::{LARGE_BYTES, PATIENT, Place, noise};

/// Short enough to wait for.
const SOON: Duration = Duration::from_millis(50);

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let place = Place::with(&[("file", &noise(LARGE_BYTES))]);
    let server = place.start_with(Limits { stall: SOON, ..PATIENT }, None);
    let mut client = server.connect();
    client.send("GET /file HTTP/1.1\r\nHost: x\r\n\r\n");
    let ended = server.ended();
    assert!(!ended.complete && ended.bytes < LARGE_BYTES as u64, "{ended:?}");
    assert_eq!(ended.status, 200);
    server.stop();
}

#[test]
fn a_client_that_never_says_what_it_wants_is_told_so() {
    let place = Place::new();
    let server = place.start_with(Limits { head: SOON, ..PATIENT }, None);
    let mut silent = server.connect();
    assert!(silent.is_closed());
    let mut slow = server.connect();
    slow.send("GET / HTTP/1.1\r\n");
    assert_eq!(slow.head().status, 408);
    server.stop();
}

#[test]
fn an_idle_connection_is_closed() {
    let place = Place::with(&[("file", b"x")]);
    let server = place.start_with(Limits { idle: SOON, ..PATIENT }, None);
    let mut client = server.connect();
    assert_eq!(client.get("/file", "").status, 200);
    assert!(client.is_closed());
    server.stop();
}

#[test]
fn too_many_connections_wait_and_none_is_refused() {
    let place = Place::with(&[("first", b"1"), ("second", b"2"), ("third", b"3")]);
    let server = place.start_with(Limits { connections: 1, ..PATIENT }, None);
    let mut one = server.connect();
    one.get("/first", "");
    let mut others: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for other in &mut others {
        other.send("GET /third HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    }
    // Those who wait are not even looked at.
    one.get("/second", "");
    drop(one);
    for other in &mut others {
        assert_eq!(other.head().status, 200);
    }
    let paths: Vec<String> = (0..102).map(|_| server.ended().path).collect();
    assert_eq!(paths[..3], ["/first", "/second", "/third"]);
    server.stop();
}

/// Returns when nobody gets in any more.
fn wait_until_closed(server: &super::Server) {
    while TcpStream::connect(server.address).is_ok() {
        std::thread::yield_now();
    }
}

#[test]
fn answers_that_have_begun_end_before_the_server_does() {
    let content = noise(LARGE_BYTES);
    let place = Place::with(&[("file", &content)]);
    let server = place.start();
    let mut idle = server.connect();
    idle.get("/file", "Range: bytes=0-0\r\n");
    let mut busy = server.connect();
    busy.send("GET /file HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut reply = busy.head();
    server.stop.cancel();
    wait_until_closed(&server);
    assert!(idle.is_closed());
    busy.body(&mut reply);
    assert!(reply.body == content);
    assert!(busy.is_closed());
    server.stop();
}

#[test]
fn answers_that_do_not_end_are_cut_off_when_the_server_stops() {
    let place = Place::with(&[("file", &noise(LARGE_BYTES))]);
    let server = place.start_with(Limits { stop: SOON, ..PATIENT }, None);
    let mut client = server.connect();
    client.send("GET /file HTTP/1.1\r\nHost: x\r\n\r\n");
    client.head();
    server.stop.cancel();
    server.thread.join().unwrap().unwrap();
    assert!(!server.log.recv().unwrap().complete);
}
