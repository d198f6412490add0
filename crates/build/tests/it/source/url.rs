//! `url` and `url_extract`.

use build::source::SourceSpec;
use download::{Checksum, Sha1};
use package::Sha256;
use testing::archive::{tar_gz, zip};
use testing::http::{Answer, HttpServer};

use super::bench::{Bench, blob, chain, expected};

fn file(url: &str, content: &[u8]) -> SourceSpec {
    let checksum = Checksum::Sha256(Sha256::of(content));
    SourceSpec::Url { url: url.parse().unwrap(), checksum }
}

fn archive(url: &str, content: &[u8]) -> SourceSpec {
    let checksum = Checksum::Sha256(Sha256::of(content));
    SourceSpec::UrlExtract { url: url.parse().unwrap(), checksum }
}

#[test]
fn a_file_is_laid_out_under_the_name_in_its_url() {
    let mut bench = Bench::new();
    let server = HttpServer::start().unwrap();
    server.on("/a/data.bin", [Answer::file("content")]);
    let spec = file(&server.url("/a/data.bin?version=1"), b"content");
    assert_eq!(bench.checked_out(&spec), expected(&[("data.bin", "644 content")]));
    assert_eq!(server.requests().len(), 1, "the cache is asked first");
    assert_eq!(bench.cached(), [blob(b"content")]);
    let sha256 = Sha256::of(b"content");
    assert_eq!(
        bench.identity(&spec).unwrap(),
        format!("{{\"kind\":\"url\",\"name\":\"data.bin\",\"sha256\":\"{sha256}\"}}")
    );
}

#[test]
fn old_trees_name_files_by_sha1() {
    let mut bench = Bench::new();
    fs_err::write(bench.path("package/data"), "content").unwrap();
    let sha1 = Sha1::of(b"content");
    let url = "file://data".parse().unwrap();
    let spec = SourceSpec::Url { url, checksum: Checksum::Sha1(sha1) };
    assert_eq!(bench.checked_out(&spec), expected(&[("data", "644 content")]));
    assert_eq!(bench.cached(), [format!("sha1/{}/{sha1}", &sha1.to_string()[..2])]);
    assert_eq!(
        bench.identity(&spec).unwrap(),
        format!("{{\"kind\":\"url\",\"name\":\"data\",\"sha1\":\"{sha1}\"}}")
    );
}

#[test]
fn tar_archives_lose_the_first_part_of_every_path() {
    let mut bench = Bench::new();
    let tar = tar_gz(&[("a-1/x", "x", 0o644), ("a-1/bin/y", "y", 0o755), ("b/z", "z", 0o600)]);
    let tar = tar.unwrap();
    fs_err::write(bench.path("package/a.tgz"), &tar).unwrap();
    let spec = archive("file://a.tgz", &tar);
    assert_eq!(
        bench.checked_out(&spec),
        expected(&[("x", "644 x"), ("bin/y", "755 y"), ("z", "600 z")])
    );
    let sha256 = Sha256::of(&tar);
    assert_eq!(
        bench.identity(&spec).unwrap(),
        format!("{{\"kind\":\"url_extract\",\"sha256\":\"{sha256}\"}}")
    );
}

#[test]
fn zip_archives_lose_their_one_top_folder() {
    let mut bench = Bench::new();
    let zip = zip(&[("a-1/x", "x", 0o644), ("a-1/bin/y", "y", 0o755)]).unwrap();
    fs_err::write(bench.path("package/a.zip"), &zip).unwrap();
    let files = bench.checked_out(&archive("file://a.zip", &zip));
    assert_eq!(files, expected(&[("x", "644 x"), ("bin/y", "755 y")]));
}

#[test]
fn archives_that_cannot_be_laid_out_leave_nothing() {
    let two_tops = zip(&[("a/x", "x", 0o644), ("b/y", "y", 0o644)]).unwrap();
    let mut cut = tar_gz(&[("a/x", "x", 0o644)]).unwrap();
    cut.truncate(30);
    for (name, content, message) in [
        ("a.zip", two_tops, "it lies outside the one top folder `a`"),
        ("a.tar.gz", cut, "is damaged or cut short"),
        ("a.rar", b"x".to_vec(), "`a.rar` is not a known archive"),
    ] {
        let bench = Bench::new();
        fs_err::write(bench.path("package").join(name), &content).unwrap();
        let spec = archive(&format!("file://{name}"), &content);
        bench.fetch(&spec).unwrap();
        let error = bench.checkout(&spec).unwrap_err();
        let start = format!("cannot check out url_extract source `file://{name}`: ");
        let text = chain(&error);
        assert!(text.starts_with(&start) && text.contains(message), "{text}");
        bench.assert_nothing_left();
    }
}

#[test]
fn a_wrong_file_is_kept_aside_and_nothing_else() {
    let bench = Bench::new();
    let server = HttpServer::start().unwrap();
    server.on("/data", [Answer::file("wrong")]);
    let url = server.url("/data");
    let error = bench.fetch(&file(&url, b"right")).unwrap_err();
    let (expected, found) = (Sha256::of(b"right"), Sha256::of(b"wrong"));
    let corrupt = format!("{}.corrupt", blob(b"right"));
    let kept = bench.path("cache").join(&corrupt);
    assert_eq!(
        chain(&error),
        format!(
            "cannot fetch url source `{url}`: `{url}` is not the expected file: expected sha256 \
             {expected}, found {found}, kept as `{kept}`"
        )
    );
    assert_eq!(bench.cached(), [corrupt]);
    bench.assert_nothing_left();
}

#[test]
fn a_file_that_went_bad_in_the_cache_is_noticed_and_fetched_anew() {
    let bench = Bench::new();
    let server = HttpServer::start().unwrap();
    server.on("/data", [Answer::file("right")]);
    let spec = file(&server.url("/data"), b"right");
    bench.fetch(&spec).unwrap();
    fs_err::write(bench.path("cache").join(blob(b"right")), "wrong").unwrap();
    let error = bench.checkout(&spec).unwrap_err();
    let found = Sha256::of(b"wrong");
    let text = chain(&error);
    assert!(
        text.contains(&format!(
            "it has the wrong digest: expected sha256 {}, found {found}",
            Sha256::of(b"right")
        )),
        "{text}"
    );
    bench.assert_nothing_left();
    bench.fetch(&spec).unwrap();
    bench.checkout(&spec).unwrap();
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_missing_file_says_where_it_was_looked_for() {
    let bench = Bench::new();
    let server = HttpServer::start().unwrap();
    let url = server.url("/absent");
    let error = bench.fetch(&file(&url, b"x")).unwrap_err();
    assert_eq!(
        chain(&error),
        format!(
            "cannot fetch url source `{url}`: cannot download `{url}`: the server answered 404 \
             Not Found"
        )
    );
    let error = bench.fetch(&file("file://absent", b"x")).unwrap_err();
    let path = bench.path("package/absent");
    assert!(chain(&error).contains(&format!("cannot download `file://{path}`")), "{error:?}");
    assert!(bench.cached().is_empty());
    bench.assert_nothing_left();
}

#[test]
fn offline_and_checkout_use_the_cache_alone() {
    let mut bench = Bench::new();
    let server = HttpServer::start().unwrap();
    let spec = file(&server.url("/data"), b"x");
    bench.offline = true;
    let error = bench.fetch(&spec).unwrap_err();
    assert!(
        chain(&error).ends_with("it is not in the cache, and `--offline` allows nothing else"),
        "{error:?}"
    );
    let error = bench.checkout(&spec).unwrap_err();
    assert!(chain(&error).ends_with("it is not in the cache"), "{error:?}");
    assert!(server.requests().is_empty());
    bench.assert_nothing_left();
}

#[test]
fn many_who_want_one_file_fetch_it_once() {
    let bench = Bench::new();
    let server = HttpServer::start().unwrap();
    server.on("/data", [Answer::file("x").stall(std::time::Duration::from_millis(200))]);
    let spec = file(&server.url("/data"), b"x");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| bench.fetch(&spec).unwrap());
        }
    });
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_target_that_exists_is_left_alone() {
    let bench = Bench::new();
    fs_err::write(bench.path("package/data"), "x").unwrap();
    fs_err::write(bench.path("out"), "mine").unwrap();
    let spec = file("file://data", b"x");
    bench.fetch(&spec).unwrap();
    let error = bench.checkout(&spec).unwrap_err();
    let target = bench.path("out");
    assert_eq!(
        chain(&error),
        format!("cannot check out url source `file://data`: `{target}` exists already")
    );
    assert_eq!(fs_err::read(target).unwrap(), b"mine");
}

#[test]
fn cancelled_work_leaves_nothing() {
    let bench = Bench::new();
    fs_err::write(bench.path("package/data"), "x").unwrap();
    let spec = file("file://data", b"x");
    bench.fetch(&spec).unwrap();
    bench.cancel.cancel();
    assert!(bench.checkout(&spec).unwrap_err().is_cancelled());
    assert!(bench.fetch(&file("file://data", b"y")).unwrap_err().is_cancelled());
    bench.assert_nothing_left();
}
