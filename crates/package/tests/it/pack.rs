use package::Cancel;
use package::archive::{self, PackError, PackOptions};
use package::manifest::Entry;

use crate::{Folder, chain, sample};

#[test]
fn the_same_folder_gives_the_same_bytes_with_any_number_of_threads_and_whatever_the_times() {
    let folder = Folder::new();
    let mut archives = Vec::new();
    for (name, threads) in [("one", 1), ("two", 2), ("five", 5)] {
        let from = folder.join(name);
        sample(&from);
        let archive = folder.join(&format!("{name}.tar.zst"));
        let options = PackOptions { threads, ..PackOptions::default() };
        archive::pack(&from, &archive, &options).unwrap();
        archives.push(fs_err::read(archive).unwrap());
    }
    assert!(archives.iter().all(|archive| *archive == archives[0]));
}

#[test]
fn zip_archives_are_reproducible_too() {
    let folder = Folder::new();
    let packed = ["one", "two"].map(|name| {
        sample(&folder.join(name));
        let archive = folder.join(&format!("{name}.zip"));
        archive::pack(&folder.join(name), &archive, &PackOptions::default()).unwrap();
        fs_err::read(archive).unwrap()
    });
    assert_eq!(packed[0], packed[1]);
}

#[test]
fn stock_tar_reads_what_was_packed_with_the_manifest_first_and_no_owner() {
    let folder = Folder::new();
    sample(&folder.join("in"));
    let archive = folder.join("a--1.tar.zst");
    let options = PackOptions { mtime: 1_600_000_000, ..PackOptions::default() };
    archive::pack(&folder.join("in"), &archive, &options).unwrap();
    let output = std::process::Command::new("tar")
        .args(["-I", "zstd", "--full-time", "--utc", "-tvf", archive.as_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listing = String::from_utf8(output.stdout).unwrap();
    assert!(listing.lines().next().unwrap().ends_with("manifest.json"), "{listing}");
    assert!(listing.lines().all(|line| line.contains(" 0/0 ")), "{listing}");
    assert!(listing.lines().all(|line| line.contains("2020-09-13 12:26:40")), "{listing}");
    assert!(listing.contains("lib/odd -> ./a//b/../c"), "{listing}");
}

#[test]
fn a_manifest_states_type_mode_size_digest_and_target() {
    let folder = Folder::new();
    sample(&folder.join("in"));
    let manifest =
        archive::pack(&folder.join("in"), &folder.join("a.tar.zst"), &PackOptions::default())
            .unwrap();
    assert_eq!(manifest, archive::scan(&folder.join("in"), &Cancel::new()).unwrap());
    let shown = |path: &str| serde_json::to_string(manifest.get(path).unwrap()).unwrap();
    insta::assert_snapshot!(["bin/suid", "bin/link", "lib/deep", "lib/nothing", "empty"].map(shown).join("\n"), @r#"
    {"type":"file","mode":"4755","size":1,"sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}
    {"type":"link","target":"tool"}
    {"type":"directory","mode":"0555"}
    {"type":"directory","mode":"0755"}
    {"type":"file","mode":"0444","size":0,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    "#);
    assert!(matches!(manifest.get("lib/large"), Some(Entry::File { size: 3_000_000, .. })));
}

#[test]
fn everything_that_cannot_be_packed_is_named_at_once_and_no_archive_is_left() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = Folder::new();
    let from = folder.join("in");
    fs_err::create_dir(&from).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    fs_err::write(from.as_std_path().join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    fs_err::write(from.join("a\nb"), "").unwrap();
    let error =
        archive::pack(&from, &folder.join("a.tar.zst"), &PackOptions::default()).unwrap_err();
    let message = chain(&error).replace(folder.path().as_str(), "FOLDER");
    insta::assert_snapshot!(message, @r"
    cannot pack `FOLDER/in`:
      `FOLDER/in/�`: its name is not UTF-8
      `a\nb` is not a path inside a package: it holds a control character
      `socket`: it is a device, pipe or socket
    ");
    assert_eq!(folder.names(), ["in"]);
}

#[test]
fn names_that_windows_cannot_hold_are_refused_in_zip_packages() {
    let folder = Folder::new();
    for name in ["README", "readme", "con.txt"] {
        fs_err::create_dir_all(folder.join("in")).unwrap();
        fs_err::write(folder.join("in").join(name), "").unwrap();
    }
    let error = archive::pack(&folder.join("in"), &folder.join("a.zip"), &PackOptions::default())
        .unwrap_err();
    let message = chain(&error).replace(folder.path().as_str(), "FOLDER");
    insta::assert_snapshot!(message, @r"
    cannot pack `FOLDER/in`:
      `con.txt`: the name is a device on Windows
      `readme`: it differs from `README` only in case
    ");
    assert_eq!(folder.names(), ["in"]);
}

#[test]
fn a_cancelled_packing_leaves_nothing() {
    let folder = Folder::new();
    sample(&folder.join("in"));
    let options = PackOptions::default();
    options.cancel.cancel();
    let error = archive::pack(&folder.join("in"), &folder.join("a.tar.zst"), &options).unwrap_err();
    assert!(matches!(error, PackError::Cancelled(_)), "{error:?}");
    assert_eq!(folder.names(), ["in"]);
}

#[test]
fn other_formats_are_not_written() {
    let folder = Folder::new();
    sample(&folder.join("in"));
    for name in ["a.tar.xz", "a.rar"] {
        assert!(
            archive::pack(&folder.join("in"), &folder.join(name), &PackOptions::default()).is_err()
        );
    }
    assert_eq!(folder.names(), ["in"]);
}
