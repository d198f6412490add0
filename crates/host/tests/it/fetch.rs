//! Packages from elsewhere, over lines and from servers that misbehave.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use download::{Downloader, Settings};
use host::event::Silent;
use host::store::{Added, Repository, StoreError, Trust};
use package::PackageId;
use package::archive;
use package::sign::{KeyPair, PublicKey, SecretKey};
use testing::http::{Answer, HttpServer};

use crate::world::{Listener, World};

/// A host and a repository that it gets packages from.
struct Remote {
    world: World,
    server: HttpServer,
}

const ZST: &str = "/repo/packages/a/a--1.tar.zst";
const XZ: &str = "/repo/packages/a/a--1.tar.xz";

/// A downloader that does not wait long.
pub(crate) fn downloader() -> Downloader {
    Downloader::new(Settings {
        backoff_first: Duration::from_millis(1),
        backoff_max: Duration::from_millis(2),
        retry_after_max: Duration::from_millis(5),
        idle_timeout: Duration::from_secs(5),
        ..Settings::default()
    })
}

/// Text that does not get smaller when it is packed.
fn noise(seed: u32) -> String {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b' ' + u8::try_from(state >> 26).unwrap())
    };
    std::iter::repeat_with(next).take(100_000).collect()
}

impl Remote {
    fn new() -> Self {
        Self { world: World::new(), server: HttpServer::start().unwrap() }
    }

    fn repository(&self) -> Repository {
        let url = self.server.url("/repo/");
        Repository::parse(&url, &self.world.top).unwrap().with_downloader(downloader())
    }

    fn package(&self, seed: u32) -> Vec<u8> {
        let archive = self.world.archive("a--1", "{}", &[("lib/a", &noise(seed))]);
        fs_err::read(archive).unwrap()
    }

    fn fetch(&self) -> Result<Added, StoreError> {
        self.fetch_trusting(&Trust::default())
    }

    fn fetch_trusting(&self, trust: &Trust) -> Result<Added, StoreError> {
        let id = "a--1".parse().unwrap();
        self.world.host.store.fetch(&self.repository(), &id, trust, &self.world.cancel, &Silent)
    }

    /// Path and range of every request.
    fn requests(&self) -> Vec<String> {
        let requests = self.server.requests();
        let shown =
            |range: Option<&str>| range.map(|range| format!(" {range}")).unwrap_or_default();
        requests.iter().map(|one| format!("{}{}", one.path, shown(one.header("range")))).collect()
    }

    fn said(&self, error: &StoreError) -> String {
        self.world.said(error).replace(&self.server.url(""), "URL")
    }
}

#[test]
fn a_package_is_fetched_once_and_nothing_else_stays() {
    let remote = Remote::new();
    remote.server.on(ZST, [Answer::file(remote.package(1))]);
    assert!(!remote.fetch().unwrap().already);
    assert!(remote.fetch().unwrap().already);
    assert_eq!(remote.requests(), [ZST]);
    assert_eq!(remote.world.stored(), ["a--1"]);
}

#[test]
fn what_happens_is_told() {
    let remote = Remote::new();
    remote.server.on(ZST, [Answer::file(remote.package(1))]);
    let (listener, id) = (Listener::default(), "a--1".parse().unwrap());
    let store = &remote.world.host.store;
    let fetch = || {
        let cancel = &remote.world.cancel;
        store.fetch(&remote.repository(), &id, &Trust::default(), cancel, &listener).unwrap();
    };
    fetch();
    fetch();
    let heard = listener.heard();
    assert!(heard[0].starts_with("Fetching"), "{heard:?}");
    let stored: Vec<&String> = heard.iter().filter(|event| event.starts_with("Stored")).collect();
    assert!(stored[0].contains("already: false") && stored[1].contains("already: true"));
}

#[test]
fn where_there_is_no_archive_of_ours_the_references_is_taken() {
    let remote = Remote::new();
    let members = [("./pkginfo.json", "{}", 0o644), ("./bin/a", "x", 0o755)];
    let tar = testing::archive::tar(&members).unwrap();
    let mut packed = Vec::new();
    std::io::copy(&mut liblzma::read::XzEncoder::new(tar.as_slice(), 0), &mut packed).unwrap();
    remote.server.on(XZ, [Answer::file(packed)]);
    remote.fetch().unwrap();
    assert_eq!(remote.requests(), [ZST, XZ]);
    let id = "a--1".parse().unwrap();
    assert!(!remote.world.host.store.load(&id).unwrap().verified);
}

#[test]
fn a_package_that_is_not_there_is_named_with_the_place_where_it_is_not() {
    let remote = Remote::new();
    let error = remote.fetch().unwrap_err();
    insta::assert_snapshot!(remote.said(&error), @"package `a--1` is not at `URL/repo`: cannot download `URL/repo/packages/a/a--1.tar.xz`: the server answered 404 Not Found");
    assert_eq!(remote.world.stored(), Vec::<String>::new());
}

#[test]
fn a_refusal_of_the_server_is_not_taken_for_a_missing_package() {
    let remote = Remote::new();
    remote.server.on(ZST, [Answer::status(403)]);
    let error = remote.fetch().unwrap_err();
    insta::assert_snapshot!(remote.said(&error), @"cannot download `URL/repo/packages/a/a--1.tar.zst`: the server answered 403 Forbidden");
    assert_eq!(remote.requests(), [ZST]);
    assert_eq!(remote.world.stored(), Vec::<String>::new());
}

#[test]
fn a_package_comes_from_a_folder_by_an_absolute_or_a_relative_path() {
    let remote = Remote::new();
    let world = &remote.world;
    let archive = world.archive("a--1", "{}", &[]);
    let folder = world.top.join("repo dir/packages/a");
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::copy(&archive, folder.join("a--1.tar.zst")).unwrap();
    for url in [format!("file://{}/repo dir", world.top), " file://repo dir/ \n".to_owned()] {
        let repository = Repository::parse(&url, &world.top).unwrap();
        let id = "a--1".parse().unwrap();
        let store = &world.host.store;
        store.fetch(&repository, &id, &Trust::default(), &world.cancel, &Silent).unwrap();
        assert_eq!(world.stored(), ["a--1"]);
        fs_err::remove_dir_all(world.packages()).unwrap();
        let id = "b--1".parse().unwrap();
        let fetched = store.fetch(&repository, &id, &Trust::default(), &world.cancel, &Silent);
        assert!(matches!(fetched, Err(StoreError::Missing { .. })), "{fetched:?}");
    }
}

#[test]
fn a_server_on_this_machine_is_asked_and_its_path_is_not_a_local_one() {
    let remote = Remote::new();
    let world = &remote.world;
    remote.server.on(ZST, [Answer::file(remote.package(1))]);
    let url = remote.server.url("/repo").replace("127.0.0.1", "localhost");
    let repository = Repository::parse(&url, &world.top).unwrap().with_downloader(downloader());
    let id = "a--1".parse().unwrap();
    world.host.store.fetch(&repository, &id, &Trust::default(), &world.cancel, &Silent).unwrap();
    assert_eq!(remote.requests(), [ZST]);
}

#[test]
fn texts_that_are_no_repository_are_refused() {
    let mut said = Vec::new();
    for text in ["", "  ", "/a/b", "ftp://host/x", "data:x", "http://", "http://user:secret@[", "x"]
    {
        said.push(Repository::parse(text, Utf8Path::new("/w")).unwrap_err().to_string());
    }
    insta::assert_snapshot!(said.join("\n"), @"
    `` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    `  ` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    `/a/b` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    `ftp://host/x` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    `data:x` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    `http://` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    `http://***@[` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    `x` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`
    ");
}

#[test]
fn a_body_that_is_cut_and_an_error_in_between_are_overcome() {
    let remote = Remote::new();
    let package = remote.package(1);
    remote.server.on(
        ZST,
        [
            Answer::status(500),
            Answer::file(package.clone()).cut_after(30_000),
            Answer::status(503),
            Answer::file(package),
        ],
    );
    remote.fetch().unwrap();
    let range = format!("{ZST} bytes=30000-");
    assert_eq!(remote.requests(), [ZST, ZST, &range, &range]);
    assert_eq!(remote.world.stored(), ["a--1"]);
}

#[test]
fn a_second_call_goes_on_where_the_first_was_cut_off() {
    let remote = Remote::new();
    let package = remote.package(1);
    remote.server.on(ZST, [Answer::file(package.clone()).cut_after(30_000), Answer::status(403)]);
    remote.fetch().unwrap_err();
    assert_eq!(remote.world.stored(), [".download-a--1.tar.zst.part"]);
    remote.server.on(ZST, [Answer::file(package)]);
    remote.fetch().unwrap();
    let range = format!("{ZST} bytes=30000-");
    assert_eq!(remote.requests(), [ZST, &range, &range]);
    assert_eq!(remote.world.stored(), ["a--1"]);
}

#[test]
fn a_start_that_was_of_another_file_is_thrown_away() {
    let remote = Remote::new();
    remote.server.on(ZST, [Answer::file(remote.package(1)).cut_after(30_000), Answer::status(403)]);
    remote.fetch().unwrap_err();
    let new = remote.package(2);
    remote.server.on(ZST, [Answer::file(new)]);
    remote.fetch().unwrap();
    let range = format!("{ZST} bytes=30000-");
    assert_eq!(remote.requests(), [ZST, &range, &range, ZST]);
    let installed = remote.world.packages().join("a--1/lib/a");
    assert_eq!(fs_err::read_to_string(installed).unwrap(), noise(2));
    assert_eq!(remote.world.stored(), ["a--1"]);
}

fn signature(pair: &KeyPair, archive: &Utf8PathBuf) -> String {
    let (manifest, _) = archive::read_manifest(archive).unwrap();
    let key = SecretKey::parse(&pair.secret, None).unwrap();
    key.sign_package(&manifest, &"a--1".parse().unwrap()).unwrap()
}

#[test]
fn a_start_of_another_file_is_thrown_away_when_a_signature_tells() {
    let remote = Remote::new();
    let pair = KeyPair::generate(None).unwrap();
    let trust = Trust { key: Some(PublicKey::parse(&pair.public).unwrap()), ..Trust::default() };
    let minisig = format!("{ZST}.minisig");
    remote.server.on(ZST, [Answer::file(remote.package(1)).cut_after(30_000), Answer::status(403)]);
    remote.fetch_trusting(&trust).unwrap_err();
    let new = remote.package(2);
    let archive = remote.world.top.join("archives/a--1.tar.zst");
    remote.server.on(&minisig, [Answer::file(signature(&pair, &archive))]);
    remote.server.on(ZST, [Answer::file(new)]);
    remote.fetch_trusting(&trust).unwrap();
    assert_eq!(remote.world.stored(), ["a--1"]);
}

#[test]
fn a_signature_is_fetched_and_must_be_good() {
    let remote = Remote::new();
    let (ours, theirs) = (KeyPair::generate(None).unwrap(), KeyPair::generate(None).unwrap());
    let trust = Trust { key: Some(PublicKey::parse(&ours.public).unwrap()), ..Trust::default() };
    let minisig = format!("{ZST}.minisig");
    remote.server.on(ZST, [Answer::file(remote.package(1))]);
    let archive = remote.world.top.join("archives/a--1.tar.zst");
    let mut said = vec![remote.said(&remote.fetch_trusting(&trust).unwrap_err())];
    for text in [signature(&theirs, &archive), "junk".to_owned()] {
        remote.server.on(&minisig, [Answer::file(text)]);
        said.push(remote.said(&remote.fetch_trusting(&trust).unwrap_err()));
        assert_eq!(remote.world.stored(), Vec::<String>::new());
    }
    insta::assert_snapshot!(said.join("\n"), @"
    `URL/repo/packages/a/a--1.tar.zst` cannot be used: `TOP/root/packages/.download-a--1.tar.zst` is not signed: there is no `TOP/root/packages/.download-a--1.tar.zst.minisig`
    `URL/repo/packages/a/a--1.tar.zst` cannot be used: the signature of `TOP/root/packages/.download-a--1.tar.zst` is not good: the signature does not match: made by another key, or the content was changed
    `URL/repo/packages/a/a--1.tar.zst` cannot be used: the signature of `TOP/root/packages/.download-a--1.tar.zst` is not good: cannot read the signature: Invalid encoding in minisign data
    ");
    remote.server.on(&minisig, [Answer::file(signature(&ours, &archive))]);
    remote.fetch_trusting(&trust).unwrap();
    assert_eq!(remote.world.stored(), ["a--1"]);
}

#[test]
fn a_server_that_sends_something_else_leaves_nothing() {
    let remote = Remote::new();
    let other = remote.world.archive(
        "b--1",
        "{}",
        &[("buildinfo.full.json", r#"{"name":"b","package_version":"1"}"#)],
    );
    let other = fs_err::read(other).unwrap();
    let mut said = Vec::new();
    for body in [b"<html>log in here</html>".to_vec(), Vec::new(), other] {
        remote.server.on(ZST, [Answer::file(body)]);
        said.push(remote.said(&remote.fetch().unwrap_err()));
        assert_eq!(remote.world.stored(), Vec::<String>::new());
    }
    insta::assert_snapshot!(said.join("\n"), @"
    `URL/repo/packages/a/a--1.tar.zst` cannot be used: `TOP/root/packages/.download-a--1.tar.zst` is damaged or cut short: Unknown frame descriptor
    `URL/repo/packages/a/a--1.tar.zst` cannot be used: `TOP/root/packages/.download-a--1.tar.zst` is damaged or cut short: incomplete frame
    `URL/repo/packages/a/a--1.tar.zst` cannot be used: `TOP/root/packages/.download-a--1.tar.zst` is not package `a--1`: it says that it is `b--1`
    ");
}

#[test]
fn a_cancelled_fetch_stops() {
    let remote = Remote::new();
    remote.world.cancel.cancel();
    insta::assert_snapshot!(remote.said(&remote.fetch().unwrap_err()), @"cancelled");
    assert_eq!(remote.requests(), Vec::<String>::new());
    assert_eq!(remote.world.stored(), Vec::<String>::new());
}

#[test]
fn the_first_package_that_fails_is_reported_and_those_that_began_end() {
    let remote = Remote::new();
    let world = &remote.world;
    let mut ids = Vec::new();
    for name in ["p1", "p2", "p3", "p4", "p5", "p6"] {
        let id = format!("{name}--1");
        let archive = world.archive(&id, "{}", &[("lib/x", name)]);
        if name != "p4" {
            let path = format!("/repo/packages/{name}/{id}.tar.zst");
            remote.server.on(&path, [Answer::file(fs_err::read(archive).unwrap())]);
        }
        ids.push(id.parse().unwrap());
    }
    let fetch_all = |ids: &[PackageId]| {
        let (repository, trust) = (remote.repository(), Trust::default());
        world.host.store.fetch_all(&repository, ids, &trust, &world.cancel, &Silent)
    };
    let fetched = fetch_all(&ids);
    insta::assert_snapshot!(remote.said(&fetched.unwrap_err()), @"package `p4--1` is not at `URL/repo`: cannot download `URL/repo/packages/p4/p4--1.tar.xz`: the server answered 404 Not Found");
    assert!(world.stored().iter().all(|name| !name.starts_with('.')), "{:?}", world.stored());
    ids.remove(3);
    fetch_all(&ids).unwrap();
    assert_eq!(world.stored(), ["p1--1", "p2--1", "p3--1", "p5--1", "p6--1"]);
}

#[test]
fn a_package_that_is_there_must_be_signed_too_if_a_key_is_asked_for() {
    let remote = Remote::new();
    remote.server.on(ZST, [Answer::file(remote.package(1))]);
    remote.fetch().unwrap();
    let key = PublicKey::parse(&KeyPair::generate(None).unwrap().public).unwrap();
    let again = remote.fetch_trusting(&Trust { key: Some(key), ..Trust::default() });
    assert!(matches!(again, Err(StoreError::Unsigned { .. })), "{again:?}");
    assert_eq!(remote.world.stored(), ["a--1"]);
}
