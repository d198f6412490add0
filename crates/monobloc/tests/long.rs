//! What takes minutes: the whole example distribution.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};

/// Builds a copy of the example tree in `folder` and returns its archives by file name.
fn build(folder: &Utf8Path, sources: &Utf8Path) -> BTreeMap<String, Vec<u8>> {
    let example = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/atoll");
    let tree = folder.join("atoll");
    fs_err::create_dir_all(folder).unwrap();
    let status = Command::new("cp").args(["-r", example.as_str(), tree.as_str()]).status().unwrap();
    assert!(status.success());
    // A cache that somebody left in the example would be no clean build.
    let cache = tree.join("cache");
    if cache.exists() {
        fs_err::remove_dir_all(&cache).unwrap();
    }
    let status = Command::new(env!("CARGO_BIN_EXE_monobloc"))
        .args(["build", tree.as_str(), "--source-cache", sources.as_str()])
        .status()
        .unwrap();
    assert!(status.success());
    let archives = walk(&cache.join("packages"));
    archives
        .into_iter()
        .map(|path| (path.file_name().unwrap().to_owned(), fs_err::read(path).unwrap()))
        .collect()
}

fn walk(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let packages = folder.read_dir_utf8().unwrap().map(Result::unwrap);
    let files =
        packages.flat_map(|package| package.path().read_dir_utf8().unwrap().map(Result::unwrap));
    files
        .map(|file| file.path().to_owned())
        .filter(|path| path.extension() == Some("zst"))
        .collect()
}

#[test]
#[ignore = "long: compiles a component twice"]
fn two_clean_builds_of_the_example_tree_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(folder.path()).unwrap();
    let sources = folder.join("sources");
    let one = build(&folder.join("one"), &sources);
    let two = build(&folder.join("a/place/with/another/name"), &sources);
    assert!(one.len() >= 6, "{:?}", one.keys());
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>());
    for (name, archive) in &one {
        assert!(*archive == two[name], "{name} differs");
    }
}
