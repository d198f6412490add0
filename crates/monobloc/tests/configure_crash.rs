//! Promise: whatever happens while a cluster is configured, what is served is whole, the old or the new,
//! with the keys that belong to it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use package::archive::{self, PackOptions};
use package::bundle::{self, BUNDLE, Bundle, LATEST, Latest};
use package::secret::{RoleKey, Secrets};
use package::sign::PublicKey;
use package::{PackageId, Sha256};
use testing::crash;
use testing::disk::{Disk, Roots};
use testing::files::write_files;
use testing::trace::{self, Calls, Errno, Program};

const DECLARATIONS: &str = "
roles: [master]
parameters:
  name: { type: string, required: true }
  password: { type: secret, required: true }
";

/// A tree that counts as built, and a folder to configure in.
struct Site {
    _folder: tempfile::TempDir,
    root: Utf8PathBuf,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().to_owned();
        write_files(
            &root.join("world/tree"),
            &[
                ("distribution.toml", "name = \"test\"\nversion = \"1\"\n", 0o644),
                ("config/parameters.yaml", DECLARATIONS, 0o644),
                ("config/files/etc/name", "{{ name }}\n", 0o644),
                ("config/files/etc/password", "{{ password }}\n", 0o644),
                (
                    "cache/complete/complete.latest.json",
                    r#"{"bootstrap":null,"packages":["kv--1"]}"#,
                    0o644,
                ),
            ],
        )
        .unwrap();
        write_files(&root.join("kv"), &[("bin/kv", "", 0o755), ("pkginfo.json", "{}", 0o644)])
            .unwrap();
        fs_err::create_dir_all(root.join("world/tree/cache/packages/kv")).unwrap();
        let archive = root.join("world/tree/cache/packages/kv/kv--1.tar.zst");
        archive::pack(&root.join("kv"), &archive, &PackOptions::default()).unwrap();
        fs_err::create_dir(root.join("world/genconf")).unwrap();
        Self { _folder: folder, root }
    }

    /// The folder whose every change is recorded.
    fn world(&self) -> Utf8PathBuf {
        self.root.join("world")
    }

    /// The part of it in which a cluster is configured.
    fn genconf(&self) -> Utf8PathBuf {
        self.world().join("genconf")
    }

    /// Writes the configuration with this name in it.
    fn write(&self, name: &str) {
        let text = format!("name: {name}\npassword: secret of {name}\n");
        write_files(&self.genconf(), &[("config.yaml", text, 0o644)]).unwrap();
    }

    fn words(&self, genconf: &Utf8Path) -> [String; 7] {
        let config = genconf.join("config.yaml");
        let tree = self.root.join("world/tree");
        // Hosts get something small, for every change is tried.
        let program = self.root.join("kv/bin/kv");
        let (tree, config, program) = (tree.as_str(), config.as_str(), program.as_str());
        ["configure", "--tree", tree, "--config", config, "--program", program].map(str::to_owned)
    }

    fn program(&self) -> Program {
        Program::new(env!("CARGO_BIN_EXE_monobloc")).args(self.words(&self.genconf()))
    }

    fn configure(&self, genconf: &Utf8Path) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monobloc"));
        let output = command.args(self.words(genconf)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The published bundle, after looking at every byte of it; `None` if nothing was published.
fn published(genconf: &Utf8Path, says: &dyn Fn() -> String) -> Option<Sha256> {
    let serve = genconf.join("serve");
    if fs_err::symlink_metadata(serve.join("current")).is_err() {
        return None;
    }
    let read = |path: Utf8PathBuf| {
        fs_err::read(&path).unwrap_or_else(|error| panic!("{error}\n{}", says()))
    };
    let text = |path: Utf8PathBuf| String::from_utf8(read(path)).unwrap();
    let public = PublicKey::parse(&text(genconf.join("keys/cluster.pub"))).unwrap();
    text(genconf.join("keys/cluster.key"));
    for name in [LATEST, BUNDLE, "test_install.sh"] {
        let signature = text(serve.join(format!("{name}.minisig")));
        let verified = public.verify_document(name, &read(serve.join(name)), &signature, "test");
        verified.unwrap_or_else(|error| panic!("{name}: {error}\n{}", says()));
    }
    let latest = Latest::parse(&read(serve.join(LATEST))).unwrap();
    let bytes = read(serve.join(BUNDLE));
    assert_eq!(Bundle::id(&bytes), latest.bundle, "{}", says());
    let found = Bundle::parse(&bytes).unwrap();
    for (path, file) in &found.files {
        let sha256 = Sha256::of(&read(serve.join(path.as_str())));
        assert_eq!(sha256, file.sha256, "{path}\n{}", says());
    }
    for id in found.secrets.keys() {
        let key: RoleKey = text(genconf.join("keys/master.agekey")).parse().unwrap();
        let sealed = read(serve.join(bundle::secret_path(id)));
        opened(&sealed, key, id).unwrap_or_else(|error| panic!("{error}\n{}", says()));
    }
    Some(latest.bundle)
}

fn opened(
    sealed: &[u8],
    key: RoleKey,
    id: &PackageId,
) -> Result<Secrets, package::secret::SecretError> {
    Secrets::open(sealed, &[key], id)
}

/// What was published before and after, and the disk before.
struct Known {
    base: Disk,
    before: Option<Sha256>,
    after: Option<Sha256>,
}

impl Known {
    /// Configures `name` where `before` was configured, or nothing.
    fn of(site: &Site, before: Option<&str>, name: &str) -> Self {
        let genconf = site.genconf();
        if let Some(before) = before {
            site.write(before);
            site.configure(&genconf);
        }
        site.write(name);
        let base = Disk::read(&site.world()).unwrap();
        let quiet = || String::new();
        let before = published(&genconf, &quiet);
        site.configure(&genconf);
        let after = published(&genconf, &quiet);
        assert_ne!(before, after);
        base.write(&site.world(), Roots::Keep).unwrap();
        Self { base, before, after }
    }

    fn check(&self, found: Option<Sha256>, is_done: bool, says: &dyn Fn() -> String) {
        // Keys that are made anew make another bundle: all that counts is that it is whole.
        let is_new = found != self.before;
        assert!(is_new || !is_done, "it said that it was done\n{}", says());
        if self.before.is_some() && is_new {
            assert_eq!(found, self.after, "{}", says());
        }
    }
}

fn survives_crashes(before: Option<&str>) {
    let site = Site::new();
    let known = Known::of(&site, before, "new");
    let record = trace::record(&site.program(), &site.world()).unwrap();
    assert!(record.status.success(), "{}", String::from_utf8_lossy(&record.stderr));
    let mut count = 0;
    let place = site.root.join("crashed");
    for state in crash::states(&record, &known.base, 8) {
        count += 1;
        state.write(&place).unwrap();
        let is_done = state.calls == record.calls.len();
        let says = || format!("{state}\n{}", record.text());
        known.check(published(&place.join("genconf"), &says), is_done, &says);
        // Each tenth of them is set right.
        if count % 10 == 0 {
            site.configure(&place.join("genconf"));
            known.check(published(&place.join("genconf"), &says), true, &says);
        }
    }
    assert!(count > record.calls.len(), "only {count} states");
}

#[test]
fn a_first_bundle_is_whole_or_not_there_after_any_crash() {
    survives_crashes(None);
}

#[test]
fn a_second_bundle_is_whole_or_the_first_one_is_after_any_crash() {
    survives_crashes(Some("old"));
}

#[test]
fn killed_at_any_moment_it_leaves_the_old_bundle_or_the_new_and_a_second_try_ends_it() {
    let site = Site::new();
    let known = Known::of(&site, Some("old"), "new");
    let genconf = site.genconf();
    for n in 0.. {
        let outcome = trace::kill_at(&site.program(), &site.world(), n).unwrap();
        let Some(hit) = &outcome.hit else {
            assert!(n > 3, "only {n} calls");
            break;
        };
        let says = || format!("killed at {n}: {hit}");
        known.check(published(&genconf, &says), false, &says);
        site.configure(&genconf);
        assert_eq!(published(&genconf, &says), known.after, "{}", says());
        let left: Vec<_> = names_below(&genconf.join("serve"));
        assert!(!left.iter().any(|name| name.starts_with(".tmp-")), "{left:?} {}", says());
        known.base.write(&site.world(), Roots::Keep).unwrap();
    }
}

#[test]
fn a_full_disk_is_an_error_and_the_old_bundle_stays() {
    fails_cleanly(Errno::ENOSPC, Calls::Changes, "No space left on device");
}

#[test]
fn a_forbidden_folder_is_an_error_and_the_old_bundle_stays() {
    fails_cleanly(Errno::EACCES, Calls::Changes, "Permission denied");
}

#[test]
fn a_broken_disk_is_an_error_and_the_old_bundle_stays() {
    fails_cleanly(Errno::EIO, Calls::All, "Input/output error");
}

/// Lets every call fail in turn.
fn fails_cleanly(errno: Errno, calls: Calls, text: &str) {
    let site = Site::new();
    let known = Known::of(&site, Some("old"), "new");
    let genconf = site.genconf();
    for n in 0.. {
        let program = site.program();
        let outcome = trace::fail_at(&program, &site.world(), n, errno, calls).unwrap();
        let Some(hit) = &outcome.hit else {
            assert!(n > 3, "only {n} calls");
            break;
        };
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        let says = || format!("{errno} at {n}: {hit}\nstderr: {stderr}");
        let is_done = outcome.status.code() == Some(0);
        if !is_done {
            assert_eq!(outcome.status.code(), Some(1), "{}", says());
            assert!(stderr.contains(text), "{}", says());
        }
        known.check(published(&genconf, &says), is_done, &says);
        if n % 4 == 0 {
            site.configure(&genconf);
            assert_eq!(published(&genconf, &says), known.after, "{}", says());
        }
        known.base.write(&site.world(), Roots::Keep).unwrap();
    }
}

fn names_below(folder: &Utf8Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in folder.read_dir_utf8().unwrap().map(Result::unwrap) {
        names.push(entry.file_name().to_owned());
        if entry.file_type().unwrap().is_dir() {
            names.extend(names_below(entry.path()));
        }
    }
    names
}
