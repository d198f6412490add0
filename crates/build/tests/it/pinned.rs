//! Builds on a pinned root file system, and packages that somebody else built on the same one.

use camino::{Utf8Path, Utf8PathBuf};

use crate::world::{SCRIPT, Watcher, World};

/// A root file system of one program; the machine must have a static busybox.
fn busybox_root(folder: &Utf8Path) {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .map(Utf8Path::new)
        .find(|path| path.exists());
    let busybox = busybox.expect("the tests need busybox-static, which ./check installs");
    fs_err::create_dir_all(folder.join("bin")).unwrap();
    fs_err::copy(busybox, folder.join("bin/busybox")).unwrap();
    for name in ["sh", "mkdir", "cp", "id", "ls", "cat"] {
        std::os::unix::fs::symlink("busybox", folder.join("bin").join(name)).unwrap();
    }
    for name in ["etc", "usr", "opt/other", "dev", "proc", "tmp"] {
        fs_err::create_dir_all(folder.join(name)).unwrap();
    }
    fs_err::write(folder.join("opt/other/file"), "of the root").unwrap();
}

const FILES: [(&str, &str); 2] = [
    ("a/buildinfo.json", ""),
    (
        "a/build",
        "#!/bin/sh\nset -e\nmkdir $PKG_PATH/bin\nls / /opt > $PKG_PATH/bin/a\ncat /opt/other/file >> $PKG_PATH/bin/a\n",
    ),
];

/// A tree that is built on `root`; its digest is asked of the error that a wrong one gives.
fn world_on(root: &Utf8Path) -> World {
    let world = World::new(&FILES);
    let toml = |digest: &str| {
        format!(
            "name = \"dcos\"\nversion = \"1\"\n[build]\nroot = \"{root}\"\nroot_sha256 = \"{digest}\"\n"
        )
    };
    world.write(&[("distribution.toml", &toml(&"0".repeat(64)))]);
    let message = world.session().unwrap_err().to_string();
    let found = message
        .split("has the digest ")
        .nth(1)
        .expect(&message)
        .split(',')
        .next()
        .unwrap()
        .to_owned();
    world.write(&[("distribution.toml", &toml(&found))]);
    world
}

fn archived(root: &Utf8Path) -> Utf8PathBuf {
    let archive = root.with_extension("tar.gz");
    let status = std::process::Command::new("tar")
        .args(["-czf", archive.as_str(), "-C", root.as_str(), "."])
        .status();
    assert!(status.unwrap().success());
    archive
}

#[test]
fn a_root_folder_or_archive_is_all_that_a_build_sees() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap().join("root");
    busybox_root(&root);
    for root in [archived(&root), root] {
        let world = world_on(&root);
        assert_eq!(world.build()["a"], "built");
        let seen = world.text("a", "bin/a");
        assert_eq!(
            seen,
            "/:\nbin\ndev\netc\nopt\npkg\nproc\nrun\ntmp\nusr\nvar\n\n/opt:\ndcos\nother\nof the root"
        );
        assert_eq!(world.build()["a"], "cached");
    }
}

#[test]
fn a_root_that_was_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap().join("root");
    busybox_root(&root);
    let world = world_on(&root);
    world.session().unwrap();
    fs_err::write(root.join("opt/other/file"), "changed").unwrap();
    let error = world.session().unwrap_err();
    assert!(error.to_string().contains("`distribution.toml` says"), "{error}");
    assert!(error.hint().unwrap().contains("put its digest into `distribution.toml`"));
}

#[test]
fn packages_come_from_a_remote_cache_of_the_same_root_after_they_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap().join("root");
    busybox_root(&root);
    let theirs = world_on(&root);
    assert_eq!(theirs.build()["a"], "built");
    let url: url::Url = format!("file://{}/cache", theirs.tree()).parse().unwrap();

    let mut ours = world_on(&root);
    ours.cache_url = Some(url.clone());
    assert_eq!(ours.build()["a"], "remote");
    assert_eq!(
        fs_err::read(ours.archive("a")).unwrap(),
        fs_err::read(theirs.archive("a")).unwrap()
    );

    // Another package under the same name, and a damaged one: both are built instead.
    let good = fs_err::read(theirs.archive("a")).unwrap();
    let other = World::new(&[("a/buildinfo.json", ""), ("a/build", SCRIPT)]);
    other.build();
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    for bad in [fs_err::read(other.archive("a")).unwrap(), damaged] {
        fs_err::write(theirs.archive("a"), bad).unwrap();
        let mut ours = world_on(&root);
        ours.cache_url = Some(url.clone());
        let watcher = Watcher::default();
        assert_eq!(ours.build_watched(&watcher)["a"], "built");
        let warnings = watcher.warnings.into_inner().unwrap();
        assert!(warnings[0].starts_with("not taken from the remote cache: "), "{warnings:?}");
        assert_eq!(fs_err::read(ours.archive("a")).unwrap(), good);
    }
}

#[test]
fn a_remote_cache_is_not_asked_when_the_root_is_the_machines_own() {
    let mut world = World::new(&[("a/buildinfo.json", ""), ("a/build", SCRIPT)]);
    world.cache_url = Some("http://127.0.0.1:1/".parse().unwrap());
    assert!(world.session().unwrap().ignores_cache_url());
    assert_eq!(world.build()["a"], "built");
}
