//! `/repository/`: what is in the store, what gets in, and what goes.

use insta::assert_snapshot;
use testing::files::write_files;
use testing::http::{Answer, HttpServer};

use crate::world::World;

fn source(server: &HttpServer) -> String {
    format!(r#"{{"repository_url": "{}"}}"#, server.url("/mirror/"))
}

#[test]
fn packages_are_listed_in_the_order_of_their_bytes() {
    let world = World::new();
    assert_eq!(world.get("/repository/").shown(&world), "200 []");
    for id in ["a.b--1", "a--2", "a--10", "B--1"] {
        world.add(id, "{}", &[]);
    }
    write_files(&world.host.paths.repository, &[("no-id/x", "", 0o644), ("file--1", "", 0o644)])
        .unwrap();
    assert_eq!(world.get("/repository/").shown(&world), r#"200 ["B--1","a--10","a--2","a.b--1"]"#);
}

#[test]
fn a_package_is_described() {
    let world = World::with_packages();
    let got = world.get("/repository/a--1");
    assert_eq!(got.shown(&world), r#"200 {"id":"a--1","name":"a","version":"1"}"#);
    assert_snapshot!(world.get("/repository/x--1").shown(&world), @r#"404 {"error":"package `x--1` is not in the store"}"#);
    assert_snapshot!(world.get("/repository/x").shown(&world), @r#"404 {"error":"`x` is not a valid package id: expected `NAME--VERSION`, the version without `-`"}"#);
    for path in ["%2e%2e", "a--1%2fbin", "%ff--1", "a--1%00"] {
        assert_eq!(world.get(&format!("/repository/{path}")).status, 404, "{path}");
    }
}

#[test]
fn a_package_that_another_program_unpacked_is_one_too() {
    let world = World::new();
    let files = [("old--1/pkginfo.json", "{}", 0o644)];
    write_files(&world.host.paths.repository, &files).unwrap();
    let got = world.get("/repository/old--1");
    assert_eq!(got.shown(&world), r#"200 {"id":"old--1","name":"old","version":"1"}"#);
}

#[test]
fn a_package_that_cannot_be_read_is_an_error_of_the_server() {
    let world = World::with_packages();
    fs_err::write(world.host.paths.repository.join("a--1/pkginfo.json"), "[").unwrap();
    assert_snapshot!(world.get("/repository/a--1").shown(&world), @r#"500 {"error":"package `a--1` cannot be read: invalid `pkginfo.json`: invalid type: sequence, expected a map at line 1 column 0"}"#);
}

#[test]
fn a_package_is_fetched_once() {
    let world = World::new();
    let server = HttpServer::start().unwrap();
    let archive = fs_err::read(world.archive("a--1", "{}", &[("bin/a", "x")])).unwrap();
    server.on("/mirror/packages/a/a--1.tar.zst", [Answer::file(archive)]);
    assert_eq!(world.post("/repository/a--1", &source(&server)).status, 204);
    assert_eq!(world.stored(), ["a--1"]);
    assert_eq!(world.post("/repository/a--1", &source(&server)).status, 204);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_the_repository_did_wrong_is_not_an_error_of_this_server() {
    let world = World::new();
    let server = HttpServer::start().unwrap();
    let post = |id: &str| {
        let got = world.post(&format!("/repository/{id}"), &source(&server));
        got.shown(&world).replace(&server.url(""), "http://server")
    };
    assert_snapshot!(post("a--1"), @r#"502 {"error":"package `a--1` is not at `http://server/mirror`: cannot download `http://server/mirror/packages/a/a--1.tar.xz`: the server answered 404 Not Found"}"#);
    server.on("/mirror/packages/b/b--1.tar.zst", [Answer::file("no archive")]);
    assert_snapshot!(post("b--1"), @r#"502 {"error":"`http://server/mirror/packages/b/b--1.tar.zst` cannot be used: `TOP/root/packages/.download-b--1.tar.zst` is damaged or cut short: Unknown frame descriptor"}"#);
    server.on("/mirror/packages/c/c--1.tar.zst", [Answer::status(403)]);
    assert_snapshot!(post("c--1"), @r#"502 {"error":"cannot download `http://server/mirror/packages/c/c--1.tar.zst`: the server answered 403 Forbidden"}"#);
    assert_eq!(world.stored(), Vec::<String>::new());
}

#[test]
fn what_this_host_cannot_do_is_an_error_of_this_server() {
    let world = World::new();
    let server = HttpServer::start().unwrap();
    let archive = fs_err::read(world.archive("a--1", "{}", &[])).unwrap();
    server.on("/mirror/packages/a/a--1.tar.zst", [Answer::file(archive)]);
    fs_err::create_dir(&world.host.paths.root).unwrap();
    fs_err::write(&world.host.paths.repository, "in the way").unwrap();
    assert_eq!(world.post("/repository/a--1", &source(&server)).status, 500);
}

#[test]
fn a_fetch_must_say_what_and_where_from() {
    let world = World::new();
    let post = |id: &str, body: &str| world.post(&format!("/repository/{id}"), body).shown(&world);
    assert_snapshot!(post("a--1", "{"), @r#"400 {"error":"the body is not JSON: EOF while parsing an object at line 1 column 1"}"#);
    assert_snapshot!(post("a--1", "{}"), @r#"400 {"error":"the body is not an object with a text `repository_url`"}"#);
    assert_snapshot!(post("a--1", r#"{"repository_url": "mirror"}"#), @r#"400 {"error":"`repository_url` is not a URL: relative URL without a base"}"#);
    assert_snapshot!(post("a", r#"{"repository_url": "http://x/"}"#), @r#"400 {"error":"`a` is not a valid package id: expected `NAME--VERSION`, the version without `-`"}"#);
}

#[test]
fn files_of_this_machine_cannot_be_fetched() {
    let world = World::new();
    let archive = world.archive("a--1", "{}", &[]);
    let folder = world.top.join("mirror/packages/a");
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::copy(archive, folder.join("a--1.tar.zst")).unwrap();
    let post =
        |url: &str| world.post("/repository/a--1", &format!(r#"{{"repository_url": "{url}"}}"#));
    assert_snapshot!(post(&format!("file://{}/mirror", world.top)).shown(&world), @r#"400 {"error":"`repository_url` begins with `file:`: packages are taken from `http:` and `https:` over this API"}"#);
    for url in [format!(" FILE://{}/mirror", world.top), format!("file:{}/mirror", world.top)] {
        assert_eq!(post(&url).status, 400, "{url}");
    }
    // Nor does a server that is asked send us there.
    let server = HttpServer::start().unwrap();
    let file = format!("file://{}/mirror/packages/a/a--1.tar.zst", world.top);
    server.on("/packages/a/a--1.tar.zst", [Answer::redirect(&file)]);
    assert_eq!(post(&server.url("")).status, 502);
    assert_eq!(world.stored(), Vec::<String>::new());
}

#[test]
fn a_package_is_removed_unless_it_is_active() {
    let world = World::with_packages();
    assert_eq!(world.delete("/repository/b--1").status, 204);
    assert_eq!(world.stored(), ["a--1", "a--2"]);
    assert_snapshot!(world.delete("/repository/b--1").shown(&world), @r#"404 {"error":"package `b--1` is not in the store"}"#);
    assert_eq!(world.delete("/repository/b").status, 404);
    world.put("/active/", r#"["a--1"]"#);
    world.put("/active/", r#"["a--2"]"#);
    assert_snapshot!(world.delete("/repository/a--2").shown(&world), @r#"409 {"error":"package `a--2` is active"}"#);
    // An older generation used it: that goes too, as nothing of the reference would have kept it.
    assert_eq!(world.delete("/repository/a--1").status, 204);
    assert_eq!(world.stored(), ["a--2"]);
    assert_eq!(world.active(), ["a--2"]);
}
