//! Downloads from a real server on a loopback address.

use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use download::{Checksum, DownloadError, Downloader, Fault, Fetched, Options, Settings, Sha1};
use package::{Cancel, Sha256};
use tempfile::TempDir;
use testing::http::{Answer, HttpServer};

/// A server, a folder to download to, and a downloader that does not wait.
struct Bench {
    server: HttpServer,
    folder: TempDir,
    downloader: Downloader,
    cancel: Cancel,
}

impl Bench {
    fn new() -> Self {
        let settings = Settings {
            backoff_first: Duration::from_millis(1),
            backoff_max: Duration::from_millis(2),
            retry_after_max: Duration::from_millis(5),
            idle_timeout: Duration::from_secs(5),
            ..Settings::default()
        };
        Self {
            server: HttpServer::start().unwrap(),
            folder: tempfile::tempdir().unwrap(),
            downloader: Downloader::new(settings),
            cancel: Cancel::new(),
        }
    }

    fn folder(&self) -> &Utf8Path {
        Utf8Path::from_path(self.folder.path()).unwrap()
    }

    fn target(&self) -> Utf8PathBuf {
        self.folder().join("file")
    }

    fn get(&self, checksum: impl Into<Option<Checksum>>) -> Result<Fetched, DownloadError> {
        self.get_from(&self.server.url("/file"), checksum)
    }

    fn get_from(
        &self,
        url: &str,
        checksum: impl Into<Option<Checksum>>,
    ) -> Result<Fetched, DownloadError> {
        let options = Options { checksum: checksum.into(), ..Options::new(&self.cancel) };
        self.downloader.fetch(&url.parse().unwrap(), &self.target(), &options)
    }

    /// The names in the folder, sorted.
    fn left(&self) -> Vec<String> {
        let entries = self.folder().read_dir_utf8().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_owned()).collect();
        names.sort();
        names
    }

    fn ranges(&self) -> Vec<Option<String>> {
        let requests = self.server.requests();
        requests.iter().map(|request| request.header("range").map(str::to_owned)).collect()
    }
}

fn content() -> Vec<u8> {
    (0..400_000_u32).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect()
}

fn sha256(bytes: &[u8]) -> Checksum {
    Checksum::Sha256(Sha256::of(bytes))
}

/// The error with all its causes, as the command line prints it.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

#[test]
fn a_file_arrives_whole_and_alone() {
    let bench = Bench::new();
    bench.server.on("/file", [Answer::file(content())]);
    let sha1 = Checksum::Sha1(Sha1::of(&content()));
    for checksum in [None, Some(sha256(&content())), Some(sha1)] {
        let fetched = bench.get(checksum).unwrap();
        assert_eq!(fetched.size_bytes, 400_000);
        assert_eq!(fs_err::read(bench.target()).unwrap(), content());
        assert_eq!(bench.left(), ["file"]);
    }
}

#[test]
fn a_cut_download_is_continued_where_it_was_cut() {
    let bench = Bench::new();
    bench.server.on("/file", [Answer::file(content()).cut_after(150_000), Answer::file(content())]);
    bench.get(sha256(&content())).unwrap();
    assert_eq!(fs_err::read(bench.target()).unwrap(), content());
    assert_eq!(bench.ranges(), [None, Some("bytes=150000-".to_owned())]);
}

#[test]
fn without_checksum_only_an_entity_tag_allows_to_continue() {
    for (tag, second) in
        [(None, None), (Some("W/\"a\""), None), (Some("\"a\""), Some("bytes=150000-".to_owned()))]
    {
        let bench = Bench::new();
        let answer = || match tag {
            Some(tag) => Answer::file(content()).header("ETag", tag),
            None => Answer::file(content()),
        };
        bench.server.on("/file", [answer().cut_after(150_000), answer()]);
        bench.get(None).unwrap();
        assert_eq!(fs_err::read(bench.target()).unwrap(), content());
        assert_eq!(bench.ranges(), [None, second], "{tag:?}");
    }
}

#[test]
fn a_server_that_ignores_ranges_sends_the_file_again() {
    let bench = Bench::new();
    let answer = || Answer::file(content()).ignoring_ranges();
    bench.server.on("/file", [answer().cut_after(150_000), answer()]);
    bench.get(sha256(&content())).unwrap();
    assert_eq!(fs_err::read(bench.target()).unwrap(), content());
    assert_eq!(bench.ranges().len(), 2);
}

#[test]
fn a_file_that_changed_in_between_is_never_mixed() {
    let mut new = content();
    new.reverse();
    for careless in [false, true] {
        let bench = Bench::new();
        let old = Answer::file(content()).header("ETag", "\"old\"").cut_after(150_000);
        let mut changed = Answer::file(new.clone()).header("ETag", "\"new\"");
        if careless {
            changed = changed.ignoring_conditions();
        }
        bench.server.on("/file", [old, changed]);
        bench.get(None).unwrap();
        assert_eq!(fs_err::read(bench.target()).unwrap(), new);
        let requests = bench.server.requests();
        assert_eq!(requests[1].header("if-range"), Some("\"old\""));
        assert_eq!(requests.len(), if careless { 3 } else { 2 });
    }
}

#[test]
fn a_part_of_an_earlier_run_is_used_if_the_checksum_confirms_it() {
    for (left, requests) in [
        (content()[..1000].to_vec(), vec![Some("bytes=1000-".to_owned())]),
        (vec![7; 1000], vec![Some("bytes=1000-".to_owned()), None]),
        (vec![7; 500_000], vec![Some("bytes=500000-".to_owned()), None]),
    ] {
        let bench = Bench::new();
        bench.server.on("/file", [Answer::file(content())]);
        fs_err::write(format!("{}.part", bench.target()), left).unwrap();
        if requests.len() == 2 && requests[0].as_deref() == Some("bytes=500000-") {
            bench.server.on("/file", [Answer::status(416), Answer::file(content())]);
        }
        bench.get(sha256(&content())).unwrap();
        assert_eq!(fs_err::read(bench.target()).unwrap(), content());
        assert_eq!(bench.ranges(), requests);
        assert_eq!(bench.left(), ["file"]);
    }
}

#[test]
fn a_part_that_is_complete_needs_no_server() {
    let bench = Bench::new();
    fs_err::write(format!("{}.part", bench.target()), content()).unwrap();
    bench.get(sha256(&content())).unwrap();
    assert_eq!(bench.left(), ["file"]);
    assert!(bench.server.requests().is_empty());
}

#[test]
fn a_server_in_trouble_is_asked_again() {
    for status in [408, 429, 500, 503] {
        let bench = Bench::new();
        let trouble = || Answer::status(status).header("Retry-After", "3600");
        bench.server.on("/file", [trouble(), trouble(), Answer::file("ok")]);
        let started = Instant::now();
        bench.get(None).unwrap();
        assert!(started.elapsed() < Duration::from_mins(1), "Retry-After has a bound");
        assert_eq!(bench.server.requests().len(), 3);
    }
}

#[test]
fn a_server_that_stays_in_trouble_is_given_up() {
    let bench = Bench::new();
    bench.server.on("/file", [Answer::status(503)]);
    let error = bench.get(None).unwrap_err();
    let url = bench.server.url("/file");
    assert_eq!(
        chain(&error),
        format!(
            "cannot download `{url}`, tried 5 times: the server answered 503 Service Unavailable"
        )
    );
    assert_eq!(bench.server.requests().len(), 5);
    assert!(bench.left().is_empty());
}

#[test]
fn a_missing_file_is_not_asked_for_again() {
    let bench = Bench::new();
    let error = bench.get(None).unwrap_err();
    let url = bench.server.url("/file");
    assert_eq!(
        chain(&error),
        format!("cannot download `{url}`: the server answered 404 Not Found")
    );
    assert_eq!(error.status(), Some(404));
    assert_eq!(bench.server.requests().len(), 1);
    assert!(bench.left().is_empty());
}

#[test]
fn a_body_that_stays_short_is_an_error() {
    let bench = Bench::new();
    bench.server.on("/file", [Answer::file("0123456789").cut_after(4)]);
    let error = bench.get(None).unwrap_err();
    assert!(chain(&error).ends_with("the connection ended after 4 of 10 bytes"), "{error:?}");
    assert!(bench.left().is_empty());
}

#[test]
fn a_cut_body_of_unknown_length_is_noticed() {
    let bench = Bench::new();
    let answer = || Answer::file(content()).chunked().ignoring_ranges();
    bench.server.on("/file", [answer().cut_after(1000), answer()]);
    bench.get(None).unwrap();
    assert_eq!(fs_err::read(bench.target()).unwrap(), content());
    assert_eq!(bench.server.requests().len(), 2);
}

#[test]
fn a_wrong_file_is_kept_aside() {
    let bench = Bench::new();
    bench.server.on("/file", [Answer::file("wrong")]);
    let error = bench.get(sha256(b"right")).unwrap_err();
    let url = bench.server.url("/file");
    let (expected, found) = (Sha256::of(b"right"), Sha256::of(b"wrong"));
    let corrupt = format!("{}.corrupt", bench.target());
    assert_eq!(
        chain(&error),
        format!(
            "`{url}` is not the expected file: expected sha256 {expected}, found {found}, \
             kept as `{corrupt}`"
        )
    );
    assert_eq!(bench.left(), ["file.corrupt"]);
    assert_eq!(fs_err::read(corrupt).unwrap(), b"wrong");
    assert_eq!(bench.server.requests().len(), 1);
}

#[test]
fn cancelling_ends_a_stalled_download_at_once() {
    let bench = Bench::new();
    bench.server.on("/file", [Answer::file(content()).stall(Duration::from_secs(4))]);
    let cancel = bench.cancel.clone();
    let raise = |progress: download::Progress| {
        assert_eq!(progress.total_bytes, Some(400_000));
        cancel.cancel();
    };
    let checksum = Some(sha256(&content()));
    let options = Options { checksum, progress: &raise, ..Options::new(&bench.cancel) };
    let url = bench.server.url("/file").parse().unwrap();
    let started = Instant::now();
    let error = bench.downloader.fetch(&url, &bench.target(), &options).unwrap_err();
    assert!(matches!(error, DownloadError::Cancelled(_)), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!(bench.left(), ["file.part"], "what arrived is kept for the next run");
}

#[test]
fn cancelling_ends_the_wait_for_the_next_attempt() {
    let bench = Bench::new();
    bench.server.on("/file", [Answer::status(503)]);
    let settings = Settings { backoff_first: Duration::from_hours(1), ..Settings::default() };
    let cancel = bench.cancel.clone();
    std::thread::scope(|scope| {
        let server = &bench.server;
        scope.spawn(move || {
            while server.requests().is_empty() {
                std::thread::yield_now();
            }
            cancel.cancel();
        });
        let url = bench.server.url("/file").parse().unwrap();
        let options = Options::new(&bench.cancel);
        let result = Downloader::new(settings).fetch(&url, &bench.target(), &options);
        assert!(matches!(result, Err(DownloadError::Cancelled(_))), "{result:?}");
    });
    assert!(bench.left().is_empty());
}

#[test]
fn a_silent_server_is_given_up() {
    let bench = Bench::new();
    bench.server.on("/file", [Answer::file(content()).stall(Duration::from_secs(2))]);
    let idle_timeout = Duration::from_millis(100);
    let settings = Settings { idle_timeout, attempts_max: 1, ..Settings::default() };
    let url = bench.server.url("/file").parse().unwrap();
    let options = Options::new(&bench.cancel);
    let error = Downloader::new(settings).fetch(&url, &bench.target(), &options).unwrap_err();
    assert!(matches!(error, DownloadError::Failed { fault: Fault::Idle { .. }, .. }), "{error:?}");
    assert!(chain(&error).ends_with("nothing arrived for 0.1 seconds"));
    assert!(bench.left().is_empty());
}

#[test]
fn a_file_over_the_limit_is_refused() {
    let bench = Bench::new();
    bench.server.on("/file", [Answer::file("0123456789")]);
    let local = bench.folder().join("local");
    fs_err::write(&local, "0123456789").unwrap();
    for url in [bench.server.url("/file"), format!("file://{local}")] {
        let options = Options { size_max_bytes: 9, ..Options::new(&bench.cancel) };
        let error =
            bench.downloader.fetch(&url.parse().unwrap(), &bench.target(), &options).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot download `{url}`: it is larger than the limit of 9 bytes")
        );
        assert_eq!(bench.left(), ["local"]);
    }
}

#[test]
fn redirects_are_followed_to_a_limit() {
    let bench = Bench::new();
    bench.server.on("/file", [Answer::redirect("/moved")]);
    bench.server.on("/moved", [Answer::file("ok")]);
    assert_eq!(bench.get(None).unwrap().url.as_str(), bench.server.url("/moved"));
    bench.server.on("/moved", [Answer::redirect("/file")]);
    let error = bench.get(None).unwrap_err();
    assert!(chain(&error).ends_with("too many redirects"), "{error:?}");
}

#[test]
fn file_urls_are_copied_and_verified() {
    let bench = Bench::new();
    let local = bench.folder().join("local");
    fs_err::write(&local, "right").unwrap();
    let url = format!("file://{local}");
    bench.get_from(&url, sha256(b"right")).unwrap();
    assert_eq!(fs_err::read(bench.target()).unwrap(), b"right");
    assert_eq!(bench.left(), ["file", "local"]);
    fs_err::remove_file(bench.target()).unwrap();

    let error = bench.get_from(&url, sha256(b"other")).unwrap_err();
    assert!(matches!(error, DownloadError::WrongChecksum { .. }), "{error:?}");
    assert_eq!(bench.left(), ["file.corrupt", "local"]);
}

#[test]
fn a_file_url_without_file_says_so() {
    let bench = Bench::new();
    let path = bench.folder().join("absent");
    let error = bench.get_from(&format!("file://{path}"), None).unwrap_err();
    assert!(
        chain(&error).starts_with(&format!("cannot download `file://{path}`: failed to open file")),
        "{}",
        chain(&error)
    );
    let folder = format!("file://{}", bench.folder());
    let error = bench.get_from(&folder, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot download `{folder}`: it names no file of this machine")
    );
    assert!(bench.left().is_empty());
}

#[test]
fn other_schemes_are_refused_and_credentials_hidden() {
    let bench = Bench::new();
    let error = bench.get_from("ftp://user:secret@host/file", None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot download `ftp://***@host/file`: expected a URL that starts with `http:`, `https:` \
         or `file:`"
    );
    let url = bench.server.url("/file").replace("http://", "http://user:secret@");
    let error = bench.get_from(&url, None).unwrap_err();
    assert!(!format!("{} {error:?}", chain(&error)).contains("secret"));
    let sent = bench.server.requests()[0].header("authorization").map(str::to_owned);
    assert_eq!(sent.as_deref(), Some("Basic dXNlcjpzZWNyZXQ="));
}
