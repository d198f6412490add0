//! Promise: whoever controls the way to a host, or a mirror, cannot make it run anything else. The attacks
//! are those that the specification of The Update Framework names; every byte is tried as well.

use camino::Utf8PathBuf;
use host::install::{Install, InstallError};
use host::store::{Repository, StoreError};
use package::bundle::{Bundle, LATEST};
use testing::http::{Answer, HttpServer};

use crate::fetch::downloader;
use crate::install::{Scene, over_http, serve};
use crate::publisher::Publisher;
use crate::world::{listing, names};

/// A host on which publication 1 is live; publication 2 has `app--2`.
fn upgrading() -> (Scene, Bundle) {
    let mut scene = Scene::new();
    scene.publisher.publish(1, None);
    scene.master().unwrap();
    let first = scene.publisher.bundle.clone();
    scene.upgrade();
    (scene, first)
}

#[test]
fn arbitrary_software_is_refused() {
    let (scene, _) = upgrading();
    // Somebody with a key of their own publishes in the place of the publisher.
    let mut other = Publisher::new(&scene.publisher.folder);
    let archive = scene.fake.world.archive("evil--1", "{}", &[("bin/app", "evil")]);
    other.package("master", &archive);
    other.publish(2, None);
    let said = scene.refusal(&scene.request(&["master"]));
    assert_eq!(
        said,
        "`latest.json` cannot be trusted: the signature does not match: made by another key, or the \
         content was changed"
    );
}

#[test]
fn endless_data_is_cut_off() {
    let (scene, _) = upgrading();
    let id = scene.publisher.publish(2, None);
    let server = HttpServer::start().unwrap();
    let endless = Answer::file(vec![b' '; 17 << 20]);
    for path in [
        LATEST.to_owned(),
        format!("{LATEST}.minisig"),
        format!("bundles/{id}/bundle.json"),
        format!("bundles/{id}/bundle.json.minisig"),
        "packages/app/app--2.tar.zst".to_owned(),
    ] {
        serve(&scene, &server);
        server.on(&format!("/{path}"), [endless.clone().chunked()]);
        let error = scene.install(&over_http(&scene, &server)).unwrap_err();
        let said = scene.fake.world.said(&error);
        assert!(said.contains("it is larger than the limit of"), "{path}: {said}");
        assert_eq!(scene.live(), ["app--1", "base--1"]);
    }
}

#[test]
fn parts_of_two_publications_are_not_mixed() {
    let (scene, first) = upgrading();
    let second = scene.publisher.publish(2, None);
    let second = scene.publisher.folder.join(Bundle::folder(&second));
    let first = Bundle::id(&first.to_json());
    let first = scene.publisher.folder.join(Bundle::folder(&first));
    // The bundle of the first publication in the place of the second's, with its good signature.
    for name in ["bundle.json", "bundle.json.minisig"] {
        fs_err::copy(first.join(name), second.join(name)).unwrap();
    }
    let said = scene.refusal(&scene.request(&["master"]));
    assert!(said.contains("is another one: its digest is"), "{said}");
    // The package of the first under the name of the second.
    scene.publisher.publish(2, None);
    let package = |name: &str| scene.publisher.folder.join(format!("packages/app/{name}.tar.zst"));
    fs_err::copy(package("app--1"), package("app--2")).unwrap();
    let said = scene.refusal(&scene.request(&["master"]));
    assert!(said.contains("app--2.tar.zst` is not package `app--2`: it"), "{said}");
}

#[test]
fn a_rollback_to_an_old_publication_is_refused() {
    let (mut scene, first) = upgrading();
    scene.publisher.publish(2, None);
    scene.master().unwrap();
    scene.publisher.bundle = first;
    scene.publisher.publish(1, None);
    let said = scene.refusal(&scene.request(&["master"]));
    assert_eq!(said, "publication 1 is older than 2, which this host has seen already");
}

#[test]
fn a_freeze_is_noticed_when_the_publication_expires() {
    let (scene, _) = upgrading();
    scene.publisher.publish(2, Some("2001-01-01T00:00:00Z"));
    let said = scene.refusal(&scene.request(&["master"]));
    assert_eq!(said, "publication 2 expired at 2001-01-01T00:00:00Z");
}

#[test]
fn the_wrong_software_of_the_right_publisher_is_refused() {
    let (mut scene, _) = upgrading();
    // Another product, signed with the same key.
    scene.publisher.bundle.distribution.name = "other".to_owned();
    scene.publisher.publish(2, None);
    let said = scene.refusal(&scene.request(&["master"]));
    assert_eq!(
        said,
        "`latest.json` cannot be trusted: the signature is for `monobloc latest.json of other`, \
         expected `monobloc latest.json of dcos`"
    );
    // A package of another name under the name that is asked for.
    scene.publisher.bundle.distribution.name = "dcos".to_owned();
    scene.publisher.publish(2, None);
    let folder = &scene.publisher.folder;
    let package = |id: &str| {
        let name = id.split("--").next().unwrap();
        folder.join(format!("packages/{name}/{id}.tar.zst"))
    };
    fs_err::copy(package("base--1"), package("app--2")).unwrap();
    let said = scene.refusal(&scene.request(&["master"]));
    assert!(said.contains("is not package `app--2`"), "{said}");
}

#[test]
fn a_key_cannot_be_replaced() {
    let (scene, _) = upgrading();
    let mut other = Publisher::new(&scene.publisher.folder);
    let archive = scene.fake.world.archive("evil--1", "{}", &[("bin/app", "evil")]);
    other.package("master", &archive);
    other.publish(2, None);
    // Also somebody who runs the install script of the other publisher is refused.
    let key = Some(package::sign::PublicKey::parse(&other.public).unwrap());
    let said = scene.refusal(&Install { key, ..scene.request(&["master"]) });
    assert!(said.starts_with("this host takes bundles that the key `RW"), "{said}");
}

/// Every file that a fresh host reads, by its path in the folder that is served.
fn read_by_hosts(scene: &Scene, id: &str) -> Vec<Utf8PathBuf> {
    [
        "latest.json".to_owned(),
        "latest.json.minisig".to_owned(),
        format!("bundles/{id}/bundle.json"),
        format!("bundles/{id}/bundle.json.minisig"),
        "packages/app/app--1.tar.zst".to_owned(),
    ]
    .map(|path| scene.publisher.folder.join(path))
    .into()
}

/// Bytes that count: of a signature, its first line says nothing, and nobody reads it.
fn counting(file: &Utf8PathBuf, bytes: &[u8]) -> std::ops::Range<usize> {
    let start = match file.extension() {
        Some("minisig") => bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1,
        _ => 0,
    };
    // The line that a signature ends with may be missing.
    start..bytes.len() - 1
}

#[test]
fn every_changed_byte_is_refused_and_the_host_is_untouched() {
    let scene = Scene::new();
    let id = scene.publisher.publish(1, None).to_string();
    let before = outside(&scene);
    for file in read_by_hosts(&scene, &id) {
        let bytes = fs_err::read(&file).unwrap();
        let step = (bytes.len() / 150).max(1);
        for at in counting(&file, &bytes).step_by(step) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            fs_err::write(&file, changed).unwrap();
            let error = scene.master().expect_err(&format!("{file}: byte {at}"));
            assert_clear(&error, &file, at);
        }
        fs_err::write(&file, &bytes).unwrap();
    }
    assert_untouched(&scene, &before);
    scene.master().unwrap();
}

#[test]
fn every_truncated_file_is_refused_and_the_host_is_untouched() {
    let scene = Scene::new();
    let id = scene.publisher.publish(1, None).to_string();
    let before = outside(&scene);
    for file in read_by_hosts(&scene, &id) {
        let bytes = fs_err::read(&file).unwrap();
        let step = (bytes.len() / 100).max(1);
        for length in (0..bytes.len() - 1).step_by(step) {
            fs_err::write(&file, &bytes[..length]).unwrap();
            let error = scene.master().expect_err(&format!("{file}: {length} bytes"));
            assert_clear(&error, &file, length);
        }
        fs_err::write(&file, &bytes).unwrap();
    }
    assert_untouched(&scene, &before);
    scene.master().unwrap();
}

/// What a host consists of outside of the install root, into which packages are put before their use.
fn outside(scene: &Scene) -> String {
    listing(&scene.fake.world.top, &["root", "archives"], true)
}

/// Nothing is live or changed; the install root has no more than its receipt and packages that are good.
fn assert_untouched(scene: &Scene, before: &str) {
    let world = &scene.fake.world;
    let after = outside(scene);
    let new: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
    assert_eq!((new, after.len()), (vec![], before.len()));
    let mut root = names(&world.host.paths.root);
    root.retain(|name| !name.starts_with(".lock"));
    assert_eq!(root, ["packages", "receipt.json"]);
    for id in world.host.store.list().unwrap() {
        assert_eq!(id.name().as_str(), "base");
    }
}

/// The error says which file, or that its content cannot be trusted.
fn assert_clear(error: &InstallError, file: &Utf8PathBuf, at: usize) {
    let is_clear = matches!(
        error,
        InstallError::Untrusted { .. }
            | InstallError::OtherBundle { .. }
            | InstallError::Store(StoreError::Wrong { .. })
    );
    assert!(is_clear, "{file} at {at}: {error:?}");
}

#[test]
fn a_mirror_that_lies_about_one_file_of_many_is_found_over_http() {
    let scene = Scene::new();
    scene.publisher.publish(1, None);
    let server = HttpServer::start().unwrap();
    serve(&scene, &server);
    let path = "packages/app/app--1.tar.zst";
    let mut bytes = fs_err::read(scene.publisher.folder.join(path)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    server.on(&format!("/{path}"), [Answer::file(bytes)]);
    let repository = Repository::parse(&server.url("/"), "/".into()).unwrap();
    let repository = repository.with_downloader(downloader());
    let request = Install { repository, ..scene.request(&["master"]) };
    let error = scene.install(&request).unwrap_err();
    let said = scene.fake.world.said(&error);
    assert!(said.contains("its SHA-256 is"), "{said}");
    assert!(scene.fake.world.host.active().is_err());
    serve(&scene, &server);
    scene.install(&request).unwrap();
}
