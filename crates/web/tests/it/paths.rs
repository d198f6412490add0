//! Paths, methods, content types and sizes.

use axum::http::{Method, header};
use insta::assert_snapshot;

use crate::world::World;

#[test]
fn every_path_stands_with_and_without_the_prefix() {
    let world = World::with_packages();
    world.put("/active/", r#"["a--1"]"#);
    for path in ["/repository/", "/repository/a--1", "/active/", "/active/a--1"] {
        let (plain, prefixed) = (world.get(path), world.get(&format!("/pkgpanda{path}")));
        assert_eq!((plain.status, prefixed.status), (200, 200), "{path}");
        assert_eq!(plain.body, prefixed.body);
    }
    assert_eq!(world.put("/pkgpanda/active/", r#"["b--1"]"#).status, 204);
    assert_eq!(world.delete("/pkgpanda/repository/a--1").status, 204);
    assert_eq!(
        world.post("/pkgpanda/repository/b--1", r#"{"repository_url":"http://x"}"#).status,
        204
    );
    assert_eq!(world.get("/pkgpanda/pkgpanda/active/").status, 404);
}

#[test]
fn a_missing_slash_is_added_by_a_redirect_that_is_right_behind_a_proxy() {
    let world = World::new();
    for (path, location) in [
        ("/active", "active/"),
        ("/repository", "repository/"),
        ("/pkgpanda/active", "active/"),
        ("/pkgpanda/repository?x=1&y", "repository/?x=1&y"),
    ] {
        for method in [Method::GET, Method::PUT] {
            let got = world.send(method, path, None, "");
            assert_eq!(
                (got.status, got.header(&header::LOCATION)),
                (301, Some(location)),
                "{path}"
            );
        }
    }
}

#[test]
fn unknown_paths_are_not_found() {
    let world = World::new();
    assert_snapshot!(world.get("/").shown(&world), @r#"404 {"error":"there is nothing at this path"}"#);
    for path in
        ["/pkgpanda", "/pkgpanda/", "/x", "/active/a--1/", "/repository/a--1/x", "//active/"]
    {
        assert_eq!(world.get(path).status, 404, "{path}");
    }
}

#[test]
fn wrong_methods_are_told_the_right_ones() {
    let world = World::new();
    assert_snapshot!(world.delete("/active/").shown(&world), @r#"405 {"error":"this path does not know this method"}"#);
    for (method, path, allowed) in [
        (Method::POST, "/repository/", "GET,HEAD"),
        (Method::PUT, "/repository/a--1", "GET,HEAD,POST,DELETE"),
        (Method::DELETE, "/pkgpanda/active/", "GET,HEAD,PUT"),
        (Method::PUT, "/active/a--1", "GET,HEAD"),
        (Method::OPTIONS, "/active/", "GET,HEAD,PUT"),
    ] {
        let got = world.send(method, path, None, "");
        assert_eq!((got.status, got.header(&header::ALLOW)), (405, Some(allowed)), "{path}");
    }
}

#[test]
fn head_answers_as_get_without_a_body() {
    let world = World::with_packages();
    let got = world.send(Method::HEAD, "/repository/", None, "");
    assert_eq!((got.status, got.body.as_str()), (200, ""));
    assert_eq!(world.send(Method::HEAD, "/repository/x--1", None, "").status, 404);
}

#[test]
fn a_body_must_say_that_it_is_json() {
    let world = World::with_packages();
    let put = |kind| world.send(Method::PUT, "/active/", kind, "[]");
    assert_snapshot!(put(None).shown(&world), @r#"415 {"error":"the body must be JSON, with the content type `application/json`"}"#);
    for kind in
        ["", "text/plain", "application/x-www-form-urlencoded", "text/json", "application/jsonx"]
    {
        assert_eq!(put(Some(kind)).status, 415, "{kind}");
        let post = world.send(Method::POST, "/repository/a--1", Some(kind), "{}");
        assert_eq!(post.status, 415, "{kind}");
    }
    assert!(world.host.active().is_err(), "something was activated");
    for kind in ["application/json", "Application/JSON; charset=utf-8", "application/x+json"] {
        assert_eq!(put(Some(kind)).status, 204, "{kind}");
    }
}

#[test]
fn a_body_can_be_too_large() {
    let world = World::with_packages();
    let large = format!("[{}]", " ".repeat(1 << 20));
    assert_snapshot!(world.put("/active/", &large).shown(&world), @r#"413 {"error":"the body is larger than 1048576 bytes"}"#);
    assert_eq!(world.post("/repository/a--1", &large).status, 413);
    let fits = format!("[{}]", " ".repeat((1 << 20) - 2));
    assert_eq!(world.put("/active/", &fits).status, 204);
}
