use std::os::unix::fs::PermissionsExt as _;

use camino::Utf8Path;
use package::archive::{
    self, ExtractOptions, Format, PackOptions, Strip, UnpackError, UnpackOptions,
};
use package::manifest::Manifest;
use package::{Cancel, Sha256};
use proptest::prelude::*;

use crate::{Folder, chain, sample};

fn packed(folder: &Folder, name: &str) -> (camino::Utf8PathBuf, Manifest) {
    sample(&folder.join("in"));
    let archive = folder.join(name);
    let manifest = archive::pack(&folder.join("in"), &archive, &PackOptions::default()).unwrap();
    (archive, manifest)
}

#[test]
fn what_was_packed_comes_out_the_same() {
    for name in ["a--1.tar.zst", "a--1.zip"] {
        let folder = Folder::new();
        let (archive, manifest) = packed(&folder, name);
        let unpacked =
            archive::unpack(&archive, &folder.join("out"), &UnpackOptions::default()).unwrap();
        assert!(unpacked.verified);
        assert_eq!(unpacked.manifest, manifest);
        assert_eq!(archive::scan(&folder.join("out"), &Cancel::new()).unwrap(), manifest, "{name}");
        assert_eq!(fs_err::read(folder.join("out/manifest.json")).unwrap(), manifest.to_json());
        let mode = fs_err::metadata(folder.join("out")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        assert_eq!(folder.names(), [name, "in", "out"]);
    }
}

#[test]
fn the_expected_digest_decides() {
    let folder = Folder::new();
    let (archive, manifest) = packed(&folder, "a--1.tar.zst");
    let options = |expected| UnpackOptions { expected: Some(expected), ..UnpackOptions::default() };
    archive::verify(&archive, &options(manifest.digest())).unwrap();
    let error =
        archive::unpack(&archive, &folder.join("out"), &options(Sha256::of(b""))).unwrap_err();
    assert!(matches!(error, UnpackError::WrongDigest { .. }), "{error:?}");
    assert_eq!(folder.names(), ["a--1.tar.zst", "in"]);
}

#[test]
fn a_taken_target_is_not_touched() {
    let folder = Folder::new();
    let (archive, _) = packed(&folder, "a--1.tar.zst");
    fs_err::write(folder.join("out"), "mine").unwrap();
    let error =
        archive::unpack(&archive, &folder.join("out"), &UnpackOptions::default()).unwrap_err();
    assert!(matches!(error, UnpackError::TargetExists(_)), "{error:?}");
    assert_eq!(fs_err::read(folder.join("out")).unwrap(), b"mine");
}

#[test]
fn a_cancelled_unpacking_leaves_nothing() {
    let folder = Folder::new();
    let (archive, _) = packed(&folder, "a--1.tar.zst");
    let options = UnpackOptions::default();
    options.cancel.cancel();
    let error = archive::unpack(&archive, &folder.join("out"), &options).unwrap_err();
    assert!(matches!(error, UnpackError::Cancelled(_)), "{error:?}");
    assert_eq!(folder.names(), ["a--1.tar.zst", "in"]);
}

#[test]
fn packages_of_the_reference_are_read_and_get_a_manifest() {
    for (flag, name) in [("-J", "a--1.tar.xz"), ("-z", "a--1.tar.gz"), ("-j", "a--1.tar.bz2")] {
        let folder = Folder::new();
        sample(&folder.join("in"));
        fs_err::hard_link(folder.join("in/bin/tool"), folder.join("in/bin/same")).unwrap();
        let status = std::process::Command::new("tar")
            .args([flag, "-cf", folder.join(name).as_str(), "-C", folder.join("in").as_str(), "."])
            .status()
            .unwrap();
        assert!(status.success());
        let unpacked =
            archive::unpack(folder.join(name), &folder.join("out"), &UnpackOptions::default())
                .unwrap();
        assert!(!unpacked.verified);
        assert_eq!(unpacked.manifest, archive::scan(&folder.join("in"), &Cancel::new()).unwrap());
        assert_eq!(unpacked.manifest, archive::scan(&folder.join("out"), &Cancel::new()).unwrap());
        let expected =
            UnpackOptions { expected: Some(unpacked.manifest.digest()), ..Default::default() };
        let error = archive::verify(folder.join(name), &expected).unwrap_err();
        assert!(matches!(error, UnpackError::NoManifest(_)), "{error:?}");
    }
}

fn files(folder: &Utf8Path) -> Vec<String> {
    let manifest = archive::scan(folder, &Cancel::new()).unwrap();
    manifest.entries().keys().map(ToString::to_string).collect()
}

#[test]
fn foreign_archives_lose_the_leading_parts_that_were_asked_for() {
    let folder = Folder::new();
    fs_err::create_dir_all(folder.join("top-1.0/src")).unwrap();
    fs_err::write(folder.join("top-1.0/src/a.c"), "").unwrap();
    fs_err::write(folder.join("top-1.0/configure"), "").unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let status =
            std::process::Command::new(program).args(arguments).current_dir(folder.path()).status();
        assert!(status.unwrap().success());
    };
    run("tar", &["-czf", "a.tar.gz", "top-1.0"]);
    run("zip", &["-qr", "a.zip", "top-1.0"]);
    fs_err::write(folder.join("beside"), "").unwrap();
    run("zip", &["-qr", "two.zip", "top-1.0", "beside"]);

    let extract = |archive: &str, target: &str, strip| {
        let options = ExtractOptions { strip, ..ExtractOptions::default() };
        let archive = folder.join(archive);
        archive::extract(&archive, Format::of(&archive).unwrap(), &folder.join(target), &options)
    };
    extract("a.tar.gz", "plain", Strip::None).unwrap();
    assert_eq!(
        files(&folder.join("plain")),
        ["top-1.0", "top-1.0/configure", "top-1.0/src", "top-1.0/src/a.c"]
    );
    extract("a.tar.gz", "first", Strip::First).unwrap();
    assert_eq!(files(&folder.join("first")), ["configure", "src", "src/a.c"]);
    extract("a.zip", "single", Strip::SingleTop).unwrap();
    assert_eq!(files(&folder.join("single")), ["configure", "src", "src/a.c"]);
    let error = extract("two.zip", "none", Strip::SingleTop).unwrap_err();
    let message = chain(&error).replace(folder.path().as_str(), "FOLDER");
    insta::assert_snapshot!(message, @"refused entry `beside` of `FOLDER/two.zip`: it lies outside the one top folder `top-1.0`");
    assert!(!folder.join("none").exists());
}

#[test]
fn times_of_sources_are_kept_so_that_make_sees_what_is_newer() {
    let folder = Folder::new();
    fs_err::create_dir(folder.join("in")).unwrap();
    fs_err::write(folder.join("in/f"), "").unwrap();
    let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_234_567_890);
    fs_err::File::open(folder.join("in/f")).unwrap().file().set_modified(then).unwrap();
    let status = std::process::Command::new("tar")
        .args(["-cf", "a.tar", "in"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    archive::extract(
        &folder.join("a.tar"),
        Format::Tar,
        &folder.join("out"),
        &ExtractOptions::default(),
    )
    .unwrap();
    let found = fs_err::metadata(folder.join("out/in/f")).unwrap().modified().unwrap();
    assert_eq!(found, then);
}

#[test]
fn files_from_before_1970_are_unpacked() {
    let folder = Folder::new();
    fs_err::create_dir(folder.join("in")).unwrap();
    fs_err::write(folder.join("in/f"), "old").unwrap();
    let status = std::process::Command::new("tar")
        .args(["--mtime=1965-01-01", "-cf", "a.tar", "in"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    let options = ExtractOptions::default();
    archive::extract(&folder.join("a.tar"), Format::Tar, &folder.join("out"), &options).unwrap();
    assert_eq!(fs_err::read_to_string(folder.join("out/in/f")).unwrap(), "old");
}

#[test]
fn links_are_refused_where_something_will_be_written_into_the_folder() {
    let folder = Folder::new();
    fs_err::create_dir(folder.join("in")).unwrap();
    std::os::unix::fs::symlink("/etc", folder.join("in/.cargo")).unwrap();
    let status = std::process::Command::new("tar")
        .args(["-cf", "a.tar", "in"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    let options = ExtractOptions { refuse_links: true, ..ExtractOptions::default() };
    let error = archive::extract(&folder.join("a.tar"), Format::Tar, &folder.join("out"), &options);
    let message = chain(&error.unwrap_err());
    assert!(message.contains("it is a link, which this archive must not have"), "{message}");
    assert!(!folder.join("out").exists());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_folder_comes_out_as_it_went_in(
        files in proptest::collection::btree_map("[a-z]{1,3}(/[A-Z]{1,3}){0,3}", (proptest::collection::vec(any::<u8>(), 0..2000), 0u32..0o1000), 0..12),
    ) {
        let folder = Folder::new();
        fs_err::create_dir(folder.join("in")).unwrap();
        for (path, (content, mode)) in files {
            let path = folder.join("in").join(path);
            // A name that is a folder already, or lies below a file, cannot be made.
            if fs_err::create_dir_all(path.parent().unwrap()).is_ok() && fs_err::write(&path, content).is_ok() {
                let mode = std::fs::Permissions::from_mode(mode | 0o400);
                fs_err::set_permissions(&path, mode).unwrap();
            }
        }
        let archive = folder.join("a.tar.zst");
        let manifest = archive::pack(&folder.join("in"), &archive, &PackOptions::default()).unwrap();
        archive::unpack(&archive, &folder.join("out"), &UnpackOptions::default()).unwrap();
        prop_assert_eq!(archive::scan(&folder.join("out"), &Cancel::new()).unwrap(), manifest);
    }

    #[test]
    fn damaged_archives_are_errors_and_leave_nothing(at in 0usize..2000, to: u8, cut in 0usize..2000) {
        let folder = Folder::new();
        fs_err::create_dir_all(folder.join("in/bin")).unwrap();
        fs_err::write(folder.join("in/bin/a"), "content of a").unwrap();
        let archive = folder.join("a.tar.zst");
        archive::pack(&folder.join("in"), &archive, &PackOptions::default()).unwrap();
        let good = fs_err::read(&archive).unwrap();
        let mut bad = good.clone();
        let length = bad.len();
        bad[at % length] = to;
        bad.truncate(length - cut % 8);
        fs_err::write(&archive, &bad).unwrap();
        let result = archive::unpack(&archive, &folder.join("out"), &UnpackOptions::default());
        if bad == good {
            prop_assert!(result.is_ok());
        } else if result.is_err() {
            prop_assert_eq!(folder.names(), ["a.tar.zst", "in"]);
        } else {
            // Bytes that mean nothing, such as a frame's reserved ones, may change: the files may not.
            let found = archive::scan(&folder.join("out"), &Cancel::new()).unwrap();
            prop_assert_eq!(found, archive::scan(&folder.join("in"), &Cancel::new()).unwrap());
        }
    }
}
