//! What clients get while somebody publishes.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{LARGE_BYTES, Place, link};

const PUBLICATIONS: usize = 200;
const CONTENT_BYTES: usize = 100_000;

/// Publishes as `configure` does: a folder, one link renamed, and the one before removed.
fn publish(place: &Place, number: usize) {
    let content = vec![u8::try_from(number % 251).unwrap(); CONTENT_BYTES];
    place.write(&format!("publications/{number}/latest.json"), &content);
    let new = place.folder.join(".tmp-current");
    link(&format!("publications/{number}"), &new);
    fs_err::rename(new, place.folder.join("current")).unwrap();
    if number > 0 {
        let old = place.folder.join(format!("publications/{}", number - 1));
        fs_err::remove_dir_all(old).unwrap();
    }
}

#[test]
fn a_publication_is_seen_at_once_and_whole() {
    let place = Place::new();
    publish(&place, 0);
    link("current/latest.json", &place.folder.join("latest.json"));
    let server = place.start();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (mut client, is_over) = (server.connect(), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let reply = client.get("/latest.json", "");
                    assert_eq!(reply.status, 200);
                    assert_eq!(reply.body, vec![reply.body[0]; CONTENT_BYTES]);
                }
            });
        }
        let mut client = server.connect();
        for number in 1..PUBLICATIONS {
            publish(&place, number);
            let reply = client.get("/latest.json", "");
            assert_eq!(usize::from(reply.body[0]), number % 251);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    server.stop();
}

#[test]
fn an_answer_that_has_begun_is_of_one_file_though_its_name_is_gone() {
    let content = super::noise(LARGE_BYTES);
    let place = Place::with(&[("packages/a", &content)]);
    let server = place.start();
    let mut client = server.connect();
    client.send("GET /packages/a HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut reply = client.head();
    package::durable::write(&place.folder.join("packages/a"), b"another").unwrap();
    client.body(&mut reply);
    assert!(reply.body == content);
    assert_eq!(client.get("/packages/a", "").text(), "another");
    server.stop();
}
