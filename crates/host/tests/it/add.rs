//! What gets into the store, what does not, and that nothing of it stays then.

use camino::Utf8PathBuf;
use host::store::Trust;
use package::archive;
use package::manifest::{Entry, Manifest, Mode};
use package::sign::{KeyPair, PublicKey, SecretKey};
use package::{PackageId, Sha256};

use crate::world::{World, names};

/// An archive as the reference made it, or as nobody should.
fn raw(world: &World, name: &str, members: &[(&str, &str)]) -> Utf8PathBuf {
    let members: Vec<_> = members.iter().map(|(path, text)| (*path, *text, 0o644)).collect();
    let tar = testing::archive::tar(&members).unwrap();
    let path = world.top.join("archives").join(name);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    let bytes = if name.ends_with(".tar.xz") {
        let mut packed = Vec::new();
        std::io::copy(&mut liblzma::read::XzEncoder::new(tar.as_slice(), 0), &mut packed).unwrap();
        packed
    } else {
        tar
    };
    fs_err::write(&path, bytes).unwrap();
    path
}

/// The refusal, after a check that the store holds nothing of the archive.
fn refusal(world: &World, archive: &Utf8PathBuf, trust: &Trust) -> String {
    let error = world.add_archive(archive, trust).expect_err("it must be refused");
    assert_eq!(world.stored(), Vec::<String>::new(), "something was left behind");
    world.said(&error)
}

fn signed_by(pair: &KeyPair, archive: &Utf8PathBuf, id: &str) {
    let (manifest, _) = archive::read_manifest(archive).unwrap();
    let key = SecretKey::parse(&pair.secret, None).unwrap();
    let id: PackageId = id.parse().unwrap();
    let signature = key.sign_package(&manifest, &id).unwrap();
    fs_err::write(format!("{archive}.minisig"), signature).unwrap();
}

fn trusting(pair: &KeyPair) -> Trust {
    Trust { key: Some(PublicKey::parse(&pair.public).unwrap()), ..Trust::default() }
}

#[test]
fn a_package_is_added_once_and_is_there_the_second_time() {
    let world = World::new();
    let archive = world.archive("a--1", "{}", &[("bin/a", "x")]);
    let added = world.add_archive(&archive, &Trust::default()).unwrap();
    assert_eq!((added.id.to_string().as_str(), added.already), ("a--1", false));
    // What is there is not read again.
    fs_err::write(&archive, "no archive any more").unwrap();
    assert!(world.add_archive(&archive, &Trust::default()).unwrap().already);
    assert_eq!(world.stored(), ["a--1"]);
    assert_eq!(names(&world.packages().join("a--1")), ["bin", "manifest.json", "pkginfo.json"]);
    let package = world.host.store.load(&added.id).unwrap();
    assert!(package.verified);
    assert_eq!(world.host.store.verify(&added.id, &world.cancel).unwrap(), []);
}

#[test]
fn a_package_of_the_reference_is_taken_and_marked_as_unverified() {
    let world = World::new();
    let archive = raw(&world, "a--1.tar.xz", &[("./pkginfo.json", "{}"), ("./bin/a", "x")]);
    let id = world.add_archive(&archive, &Trust::default()).unwrap().id;
    assert_eq!(
        names(&world.packages().join("a--1")),
        ["bin", "manifest.unverified.json", "pkginfo.json"]
    );
    assert!(!world.host.store.load(&id).unwrap().verified);
    assert_eq!(world.host.store.verify(&id, &world.cancel).unwrap(), []);
}

#[test]
fn a_zip_archive_is_a_package_too() {
    let world = World::new();
    let archive = world.archive_as("a--1.zip", "{}", &[("bin/a.exe", "x")]);
    world.add_archive(&archive, &Trust::default()).unwrap();
    assert_eq!(world.stored(), ["a--1"]);
}

#[test]
fn a_name_that_is_no_package_is_refused() {
    let world = World::new();
    let mut said = Vec::new();
    for name in ["a--1.rar", "a.tar.zst", "a--1--2.tar.zst", "a--1 .tar.xz", ".tar.zst"] {
        let path = world.top.join(name);
        fs_err::write(&path, "").unwrap();
        said.push(refusal(&world, &path, &Trust::default()));
    }
    insta::assert_snapshot!(said.join("\n"), @"
    `TOP/a--1.rar` does not name a package: expected `NAME--VERSION.tar.zst` or `.tar.xz`: `a--1.rar` is not a known archive: expected a name ending in `.tar.zst`, `.tar.xz`, `.tar.gz`, `.tgz`, `.tar.bz2`, `.tar` or `.zip`
    `TOP/a.tar.zst` does not name a package: expected `NAME--VERSION.tar.zst` or `.tar.xz`: `a` is not a valid package id: expected `NAME--VERSION`, the version without `-`
    `TOP/a--1--2.tar.zst` does not name a package: expected `NAME--VERSION.tar.zst` or `.tar.xz`: `a--1--2` is not a valid package id: expected `NAME--VERSION`, the version without `-`
    `TOP/a--1 .tar.xz` does not name a package: expected `NAME--VERSION.tar.zst` or `.tar.xz`: `a--1 ` is not a valid package id: expected `NAME--VERSION`, the version without `-`
    `TOP/.tar.zst` does not name a package: expected `NAME--VERSION.tar.zst` or `.tar.xz`: `` is not a valid package id: expected `NAME--VERSION`, the version without `-`
    ");
}

#[test]
fn what_does_not_hold_the_package_that_it_is_named_after_is_refused() {
    let world = World::new();
    let buildinfo = r#"{"name":"b","package_version":"1"}"#;
    let cases: [(&str, &[(&str, &str)]); 6] = [
        ("a--1.tar", &[("bin/a", "x")]),
        ("a--2.tar", &[("pkginfo.json", "{")]),
        ("a--3.tar", &[("pkginfo.json", "[]")]),
        ("a--4.tar", &[("pkginfo.json", "{}"), ("buildinfo.full.json", buildinfo)]),
        ("a--5.tar", &[("pkginfo.json", "{}"), ("buildinfo.full.json", "{")]),
        ("a--6.tar.xz", &[("pkginfo.json", "{}"), ("manifest.unverified.json", "{}")]),
    ];
    let said: Vec<String> = cases
        .iter()
        .map(|(name, members)| refusal(&world, &raw(&world, name, members), &Trust::default()))
        .collect();
    insta::assert_snapshot!(said.join("\n"), @"
    `TOP/archives/a--1.tar` is not package `a--1`: package `a--1` cannot be read: it has no `pkginfo.json`
    `TOP/archives/a--2.tar` is not package `a--2`: package `a--2` cannot be read: invalid `pkginfo.json`: EOF while parsing an object at line 1 column 1
    `TOP/archives/a--3.tar` is not package `a--3`: package `a--3` cannot be read: invalid `pkginfo.json`: invalid type: sequence, expected a map at line 1 column 0
    `TOP/archives/a--4.tar` is not package `a--4`: it says that it is `b--1`
    `TOP/archives/a--5.tar` is not package `a--5`: package `a--5` cannot be read: `buildinfo.full.json` is damaged: EOF while parsing an object at line 1 column 1
    `TOP/archives/a--6.tar.xz` holds `manifest.unverified.json`, a name that this program keeps for itself
    ");
}

#[test]
fn an_archive_that_cannot_be_read_is_refused() {
    let world = World::new();
    let good = fs_err::read(world.archive("a--1", "{}", &[("bin/a", "x")])).unwrap();
    let missing = world.top.join("gone--1.tar.zst");
    let (cut, junk) = (world.top.join("cut--1.tar.zst"), world.top.join("junk--1.tar.zst"));
    fs_err::write(&cut, &good[..good.len() - 20]).unwrap();
    fs_err::write(&junk, "this is no archive").unwrap();
    for archive in [missing, cut, junk] {
        let said = refusal(&world, &archive, &Trust::default());
        assert!(said.contains(archive.file_name().unwrap()), "{said}");
    }
}

#[test]
fn content_that_is_not_what_the_manifest_says_is_refused() {
    let world = World::new();
    let file = |text: &str| Entry::File {
        mode: Mode::new(0o644),
        size: text.len() as u64,
        sha256: Sha256::of(text.as_bytes()),
    };
    let manifest = Manifest::new(
        [("data", file("good")), ("pkginfo.json", file("{}"))]
            .into_iter()
            .map(|(path, entry)| (path.parse().unwrap(), entry))
            .collect(),
    )
    .unwrap();
    let manifest = String::from_utf8(manifest.to_json()).unwrap();
    let bad: [&[(&str, &str)]; 3] = [
        &[("data", "evil"), ("pkginfo.json", "{}")],
        &[("data", "good")],
        &[("data", "good"), ("more", "x"), ("pkginfo.json", "{}")],
    ];
    let mut said = Vec::new();
    for members in bad {
        let mut all = vec![("manifest.json", manifest.as_str())];
        all.extend_from_slice(members);
        said.push(refusal(&world, &raw(&world, "a--1.tar", &all), &Trust::default()));
    }
    insta::assert_snapshot!(said.join("\n"), @"
    `TOP/archives/a--1.tar` does not match its manifest: `data`: SHA-256 is b5c1fb2efc6d6b4674c2fdcc48ce01b43a3b7c03763c0c3355de0099ee0f8c73, expected 770e607624d689265ca6c44884d0807d9b054d23c473c106c72be9de08b7376c
    `TOP/archives/a--1.tar` does not match its manifest: `pkginfo.json`: it is missing
    `TOP/archives/a--1.tar` does not match its manifest: `more`: the manifest does not list it
    ");
    let good = [("manifest.json", manifest.as_str()), ("data", "good"), ("pkginfo.json", "{}")];
    world.add_archive(&raw(&world, "a--1.tar", &good), &Trust::default()).unwrap();
}

#[test]
fn a_key_wants_its_own_signature_of_this_very_package() {
    let world = World::new();
    let (ours, theirs) = (KeyPair::generate(None).unwrap(), KeyPair::generate(None).unwrap());
    let archive = world.archive("a--1", "{}", &[("bin/a", "x")]);
    let mut said = vec![refusal(&world, &archive, &trusting(&ours))];
    signed_by(&theirs, &archive, "a--1");
    said.push(refusal(&world, &archive, &trusting(&ours)));
    signed_by(&ours, &archive, "a--2");
    said.push(refusal(&world, &archive, &trusting(&ours)));
    fs_err::write(format!("{archive}.minisig"), "no signature").unwrap();
    said.push(refusal(&world, &archive, &trusting(&ours)));
    let foreign = raw(&world, "a--1.tar.xz", &[("./pkginfo.json", "{}")]);
    said.push(refusal(&world, &foreign, &trusting(&ours)));
    insta::assert_snapshot!(said.join("\n"), @"
    `TOP/archives/a--1.tar.zst` is not signed: there is no `TOP/archives/a--1.tar.zst.minisig`
    the signature of `TOP/archives/a--1.tar.zst` is not good: the signature does not match: made by another key, or the content was changed
    the signature of `TOP/archives/a--1.tar.zst` is not good: the signature is for `monobloc package a--2`, expected `monobloc package a--1`
    the signature of `TOP/archives/a--1.tar.zst` is not good: cannot read the signature: Invalid encoding in minisign data
    `TOP/archives/a--1.tar.xz` has no `manifest.json` as its first entry: it cannot be verified
    ");
    signed_by(&ours, &archive, "a--1");
    world.add_archive(&archive, &trusting(&ours)).unwrap();
    assert_eq!(world.stored(), ["a--1"]);
}

#[test]
fn a_digest_must_be_the_one_that_is_expected() {
    let world = World::new();
    let archive = world.archive("a--1", "{}", &[("bin/a", "x")]);
    let trust = |digest| Trust { digest: Some(digest), ..Trust::default() };
    let said = refusal(&world, &archive, &trust(Sha256::of(b"something else")));
    insta::assert_snapshot!(said, @"`TOP/archives/a--1.tar.zst` is another package than expected: content digest 35a7488f3dc26d7e245e2e67d4fe67f957a4c2e236b90b59169b725c1ff71390, expected f41f3fa625ff120ddca7ef456bf66371ecea23c129f4e4c32367101edb516cf8");
    let (_, manifest) = archive::read_manifest(&archive).unwrap();
    world.add_archive(&archive, &trust(manifest.digest())).unwrap();
    let foreign = raw(&world, "b--1.tar.xz", &[("./pkginfo.json", "{}")]);
    let error = world.add_archive(&foreign, &trust(manifest.digest())).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"`TOP/archives/b--1.tar.xz` is not package `b--1`: its content digest is ea8d3df015db2292df41ce94cefff83b7b24228f19b6ec989c6c8c3557d48297, expected 35a7488f3dc26d7e245e2e67d4fe67f957a4c2e236b90b59169b725c1ff71390");
    assert_eq!(world.stored(), ["a--1"]);
}

#[test]
fn a_package_that_is_there_with_another_digest_is_not_taken_for_the_expected_one() {
    let world = World::new();
    let archive = world.archive("a--1", "{}", &[("bin/a", "x")]);
    world.add_archive(&archive, &Trust::default()).unwrap();
    let trust = Trust { digest: Some(Sha256::of(b"something else")), ..Trust::default() };
    let error = world.add_archive(&archive, &trust).unwrap_err();
    insta::assert_snapshot!(world.said(&error), @"package `a--1` in the store has content digest 35a7488f3dc26d7e245e2e67d4fe67f957a4c2e236b90b59169b725c1ff71390, expected f41f3fa625ff120ddca7ef456bf66371ecea23c129f4e4c32367101edb516cf8");
    assert_eq!(world.stored(), ["a--1"]);
}

#[test]
fn a_cancelled_addition_leaves_nothing() {
    let world = World::new();
    let archive = world.archive("a--1", "{}", &[("bin/a", "x")]);
    world.cancel.cancel();
    insta::assert_snapshot!(refusal(&world, &archive, &Trust::default()), @"cancelled");
}
