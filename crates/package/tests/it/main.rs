//! The promises of the crate, tested through its public calls.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod active;
mod artifact;
mod hostile;
mod pack;
mod preflight;
mod unpack;

use camino::{Utf8Path, Utf8PathBuf};

/// A folder that is gone after the test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Utf8Path {
        Utf8Path::from_path(self.0.path()).unwrap()
    }

    fn join(&self, path: &str) -> Utf8PathBuf {
        self.path().join(path)
    }

    /// Everything in the folder, sorted.
    fn names(&self) -> Vec<String> {
        let entries = self.path().read_dir_utf8().unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_owned()).collect();
        names.sort();
        names
    }
}

/// An error and everything behind it, as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A small package folder with everything a package can hold.
fn sample(folder: &Utf8Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let files: [(&str, &[u8], u32); 5] = [
        ("pkginfo.json", b"{}", 0o644),
        ("bin/tool", b"#!/bin/sh\n", 0o755),
        ("bin/suid", b"x", 0o4755),
        ("lib/deep/er/data", b"data", 0o600),
        ("empty", b"", 0o444),
    ];
    for (path, content, mode) in files {
        let path = folder.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, content).unwrap();
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    // Large enough to be written in pieces, and not compressible.
    let mut state = 1u32;
    let large: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(3_000_000)
    .collect();
    fs_err::write(folder.join("lib/large"), large).unwrap();
    fs_err::create_dir(folder.join("lib/nothing")).unwrap();
    let links = [
        ("bin/link", "tool".to_owned()),
        ("lib/out", "../../../../etc/passwd".to_owned()),
        ("lib/odd", "./a//b/../c".to_owned()),
        ("lib/long", format!("/{}", "long/".repeat(40))),
    ];
    for (path, target) in links {
        std::os::unix::fs::symlink(target, folder.join(path)).unwrap();
    }
    let long = format!("lib/{}/{}", "n".repeat(120), "m".repeat(200));
    fs_err::create_dir_all(folder.join(&long).parent().unwrap()).unwrap();
    fs_err::write(folder.join(&long), "long name").unwrap();
    fs_err::set_permissions(folder.join("lib/deep"), std::fs::Permissions::from_mode(0o555))
        .unwrap();
}
