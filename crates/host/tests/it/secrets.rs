//! Secrets: only the files meant for them hold them, only their users read them, and nothing that
//! anybody says or writes down helps to guess them.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use host::audit::{Depth, Source};
use host::install::Install;
use host::machine::Account;
use package::secret::{RoleKey, SecretFile, Secrets};
use package::{PackageId, Sha256};

use crate::fakes::Fake;
use crate::install::Scene;
use crate::world::{Listener, names};

const SECRET: &str = "correct horse battery staple";

/// A bundle whose masters have a service with a user of its own and a password.
fn scene() -> (Scene, PackageId) {
    let mut scene = Scene::new();
    scene.package(
        "master",
        "web--1",
        r#"{"username":"dcos_web"}"#,
        "dcos.target.wants/web.service",
    );
    let files = [("etc/web.password", SECRET, Some("dcos_web")), ("etc/root.key", SECRET, None)];
    let id = scene.publisher.secrets("master", &files);
    scene.publisher.publish(1, None);
    (scene, id)
}

/// The number of a user who is not the one who runs the tests, as far as that can be.
fn somebody() -> u32 {
    let me = rustix::process::getuid();
    if me.is_root() { 4711 } else { me.as_raw() }
}

fn has_user(fake: &Fake) {
    let account = Account { uid: somebody(), groups: vec!["dcos_web".to_owned()] };
    fake.people.0.lock().unwrap().insert("dcos_web".to_owned(), account);
}

fn mode_and_owner(path: &Utf8Path) -> (u32, u32) {
    let found = fs_err::symlink_metadata(path).unwrap();
    (found.permissions().mode() & 0o7777, found.uid())
}

/// All files below a folder, with their contents.
fn files(folder: &Utf8Path) -> Vec<(Utf8PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for name in names(folder) {
        let path = folder.join(name);
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        } else if path.is_file() && !path.is_symlink() {
            let content = fs_err::read(&path).unwrap();
            found.push((path, content));
        }
    }
    found
}

fn holds(content: &[u8], text: &str) -> bool {
    content.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_secret_is_in_its_file_alone_and_its_digest_is_nobody_s() {
    let (scene, id) = scene();
    has_user(&scene.fake);
    let world = &scene.fake.world;
    let listener = Listener::default();
    let installed =
        world.host.install(&scene.request(&["master"]), &world.job_for("", &listener)).unwrap();
    let package = world.packages().join(id.to_string());
    let me = rustix::process::getuid().as_raw();
    assert_eq!(mode_and_owner(&package.join("etc/web.password")), (0o400, somebody()));
    assert_eq!(mode_and_owner(&package.join("etc/root.key")), (0o400, me));
    assert_eq!(fs_err::read_to_string(world.root().join("etc/web.password")).unwrap(), SECRET);
    let key = scene.publisher.role_key.to_file("");
    let key = key.lines().last().unwrap();
    let digest = Sha256::of(SECRET.as_bytes()).to_string();
    for (path, content) in files(&world.top) {
        let below = path.strip_prefix(&world.top).unwrap();
        let is_file = path.starts_with(package.join("etc"));
        assert_eq!(holds(&content, SECRET), is_file, "{below}");
        let is_key = path.starts_with(world.host.paths.keys());
        assert_eq!(holds(&content, key), is_key, "{below}");
        let is_manifest = path == package.join("manifest.unverified.json");
        assert_eq!(holds(&content, &digest), is_manifest, "{below}");
        if is_file || is_key || is_manifest || below.starts_with("root/late") {
            assert_eq!(mode_and_owner(&path).0 & 0o077, 0, "{below}");
        }
    }
    for folder in ["keys", "late"] {
        assert_eq!(mode_and_owner(&world.root().join(folder)), (0o700, me));
    }
    let said = format!("{installed:?}\n{}", listener.heard().join("\n"));
    for hidden in [SECRET, &digest, key] {
        assert!(!said.contains(hidden), "{said}");
    }
}

/// Needs a process of its own: the umask is the whole process's, which nextest gives each test.
#[test]
fn a_secret_is_private_from_its_first_moment_under_any_umask() {
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let (scene, id) = scene();
    scene.master().unwrap();
    rustix::process::umask(before);
    let package = scene.fake.world.packages().join(id.to_string());
    for path in ["etc/web.password", "etc/root.key", "secrets.salt", "manifest.unverified.json"] {
        assert_eq!(mode_and_owner(&package.join(path)).0 & 0o077, 0, "{path}");
    }
}

#[test]
fn a_user_who_is_made_with_the_set_gets_its_secrets_before_units_start() {
    let (scene, id) = scene();
    let plan = scene.master().unwrap().plan;
    let text = serde_json::to_string(&plan).unwrap();
    let (user, owner, start) = (
        text.find(r#""change":"user""#).unwrap(),
        text.find(r#""change":"owner""#).unwrap(),
        text.find(r#""step":"start""#).unwrap(),
    );
    assert!(user < owner && owner < start, "{text}");
    assert!(text.contains(&format!("{id}/etc/web.password")), "{text}");
}

#[test]
fn an_owner_whom_nobody_makes_is_told_before_anything_changes() {
    let mut scene = Scene::new();
    scene.publisher.secrets("master", &[("etc/password", SECRET, Some("dcos_nobody"))]);
    scene.publisher.publish(1, None);
    let said = scene.fake.world.said(&scene.master().unwrap_err());
    assert!(said.contains("there is no user `dcos_nobody`, to whom"), "{said}");
    assert!(scene.fake.world.host.active().is_err());
    assert!(names(&scene.fake.world.host.paths.roles()).is_empty());
}

#[test]
fn an_audit_finds_what_was_done_to_secrets_and_a_repair_puts_it_right() {
    let (scene, id) = scene();
    has_user(&scene.fake);
    scene.master().unwrap();
    let world = &scene.fake.world;
    let audit = |depth| world.host.audit(depth, &world.job()).unwrap();
    for depth in [Depth::Fast, Depth::Full] {
        let report = audit(depth);
        assert!(report.is_clean() && report.unchecked.is_empty(), "{report:?}");
    }
    let package = world.packages().join(id.to_string());
    let set_mode = |path: &Utf8Path, mode| {
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let key = world.host.paths.keys().join(&names(&world.host.paths.keys())[0]);
    set_mode(&package.join("etc/root.key"), 0o444);
    set_mode(&package.join("manifest.unverified.json"), 0o644);
    set_mode(&key, 0o640);
    set_mode(&world.host.paths.sealed(&id), 0o644);
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(package.join("etc/web.password"), Some(0), None).unwrap();
    }
    let report = audit(Depth::Full);
    let is_root = rustix::process::getuid().is_root();
    assert_eq!(report.differences.len(), if is_root { 5 } else { 4 }, "{report:?}");
    let repaired = world.host.repair(&Source::default(), &world.job()).unwrap();
    assert!(repaired.report.is_clean(), "{repaired:?}");
    // Other content, and a file that is gone: made again, with its owner.
    fs_err::remove_file(package.join("etc/root.key")).unwrap();
    fs_err::write(package.join("etc/root.key"), SECRET.replace('c', "d")).unwrap();
    fs_err::remove_file(package.join("etc/web.password")).unwrap();
    let digest = Sha256::of(SECRET.as_bytes()).to_string();
    let report = audit(Depth::Full);
    assert!(!report.is_clean());
    let said = format!("{report:?} {}", serde_json::to_string(&report).unwrap());
    let other = Sha256::of(SECRET.replace('c', "d").as_bytes()).to_string();
    assert!(!said.contains(&digest) && !said.contains(&other), "{said}");
    let repaired = world.host.repair(&Source::default(), &world.job()).unwrap();
    assert!(repaired.report.is_clean(), "{repaired:?}");
    assert_eq!(mode_and_owner(&package.join("etc/web.password")), (0o400, somebody()));
    assert_eq!(fs_err::read_to_string(package.join("etc/root.key")).unwrap(), SECRET);
    // What it is made of is lost: that is told too, and the next install brings it back.
    fs_err::remove_dir_all(world.host.paths.keys()).unwrap();
    assert!(!audit(Depth::Full).is_clean());
    scene.master().unwrap();
    assert!(audit(Depth::Full).is_clean());
}

#[test]
fn the_next_secrets_open_with_the_key_that_was_given_once() {
    let (mut scene, old) = scene();
    scene.master().unwrap();
    scene.publisher.bundle.secrets.clear();
    let new = scene.publisher.secrets("master", &[("etc/web.password", "another", None)]);
    scene.publisher.publish(2, None);
    let again = Install { role_keys: Vec::new(), key: None, ..scene.request(&[]) };
    scene.install(&again).unwrap();
    let world = &scene.fake.world;
    let read = || fs_err::read_to_string(world.root().join("etc/web.password")).unwrap();
    assert_eq!(read(), "another");
    world.rollback_to(1).unwrap();
    assert_eq!(read(), SECRET);
    scene.install(&again).unwrap();
    // Collected, they leave nothing but the key.
    fs_err::remove_dir_all(world.host.paths.generation(1)).unwrap();
    world.host.collect(1, &world.job()).unwrap();
    assert!(!world.packages().join(old.to_string()).exists());
    assert_eq!(names(&world.root().join("late")), [format!("{new}.age")]);
    let left: Vec<_> =
        files(world.root()).into_iter().filter(|(_, content)| holds(content, SECRET)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_key_is_kept_while_something_on_disk_needs_it_and_says_whose_secrets_it_opens() {
    let (mut scene, _) = scene();
    let keys = |scene: &Scene| -> Vec<String> {
        let folder = scene.fake.world.host.paths.keys();
        names(&folder).iter().map(|name| name.trim_end_matches(".key").to_owned()).collect()
    };
    let old = scene.publisher.role_key.recipient().to_string();
    scene.install(&scene.request(&["master", "slave"])).unwrap();
    let key = scene.fake.world.host.paths.keys().join(format!("{old}.key"));
    let text = fs_err::read_to_string(key).unwrap();
    assert_eq!(text.lines().next(), Some("# reads the secrets of master"));
    scene.publisher.role_key = RoleKey::generate();
    let new = scene.publisher.role_key.recipient().to_string();
    scene.publisher.bundle.secrets.clear();
    scene.publisher.secrets("master", &[("etc/web.password", "another", None)]);
    scene.publisher.publish(2, None);
    scene.install(&scene.request(&[])).unwrap();
    let mut both = vec![old, new.clone()];
    both.sort();
    assert_eq!(keys(&scene), both);
    scene.fake.world.rollback_to(1).unwrap();
    scene.install(&scene.request(&[])).unwrap();
    let world = &scene.fake.world;
    fs_err::remove_dir_all(world.host.paths.generation(1)).unwrap();
    world.host.collect(1, &world.job()).unwrap();
    scene.install(&scene.request(&[])).unwrap();
    assert_eq!(keys(&scene), [new]);
}

#[test]
fn secrets_that_somebody_exchanged_are_refused() {
    let (mut scene, id) = scene();
    let other = scene.publisher.secrets("slave", &[("etc/password", "of slaves", None)]);
    scene.publisher.publish(2, None);
    let path = |id: &PackageId| scene.publisher.folder.join(package::bundle::secret_path(id));
    fs_err::copy(path(&other), path(&id)).unwrap();
    let refusal = || {
        let error = scene.master().unwrap_err();
        assert!(!scene.fake.world.root().exists());
        let said = scene.fake.world.said(&error);
        said.replace(&id.to_string(), "ID")
    };
    let mut said = vec![refusal()];
    // Anybody can encrypt for a role.
    let own =
        SecretFile { content: "own".into(), mode: package::manifest::Mode::new(0o400), user: None };
    let own =
        Secrets::new(Sha256::of(b"salt"), [("etc/web.password".parse().unwrap(), own)].into());
    let key = scene.publisher.role_key.recipient();
    fs_err::write(path(&id), own.seal(&[key]).unwrap()).unwrap();
    said.push(refusal());
    fs_err::write(path(&id), own.seal(&[RoleKey::generate().recipient()]).unwrap()).unwrap();
    said.push(refusal());
    fs_err::write(path(&id), "no secrets").unwrap();
    said.push(refusal());
    fs_err::remove_file(path(&id)).unwrap();
    said.push(refusal());
    insta::assert_snapshot!(said.join("\n"), @"
    cannot use the secrets `ID` for `master`: these are not the secrets of `ID`, but others
    cannot use the secrets `ID` for `master`: these are not the secrets of `ID`, but others
    cannot use the secrets `ID` for `master`: the secrets are for other roles than this key
    cannot use the secrets `ID` for `master`: the encrypted secrets are damaged: Header is invalid
    cannot download `file://TOP/served/secrets/ID.age`: failed to open file `TOP/served/secrets/ID.age`: No such file or directory (os error 2)
    ");
}

#[test]
fn a_secret_cannot_be_what_everybody_reads() {
    let mut said = Vec::new();
    for path in [
        "pkginfo.json",
        "buildinfo.full.json",
        "manifest.json",
        "manifest.unverified.json",
        "secrets.salt",
        "dcos.target.wants/web.service",
        "dcos.target.wants_master/web.service",
        "secrets.salt/x",
    ] {
        let mut scene = Scene::new();
        let id = scene.publisher.secrets("master", &[(path, SECRET, None)]);
        scene.publisher.publish(1, None);
        let error = scene.master().unwrap_err();
        assert!(!scene.fake.world.root().exists());
        said.push(scene.fake.world.said(&error).replace(&id.to_string(), "ID"));
    }
    insta::assert_snapshot!(said.join("\n"), @"
    cannot use the secrets `ID` for `master`: `pkginfo.json` cannot be a secret: everybody reads a file of that name
    cannot use the secrets `ID` for `master`: `buildinfo.full.json` cannot be a secret: everybody reads a file of that name
    cannot use the secrets `ID` for `master`: `manifest.json` is a name that this program keeps for itself
    cannot use the secrets `ID` for `master`: `manifest.unverified.json` is a name that this program keeps for itself
    cannot use the secrets `ID` for `master`: `secrets.salt` is a name that this program keeps for itself
    cannot use the secrets `ID` for `master`: `dcos.target.wants/web.service` cannot be a secret: everybody reads a file of that name
    cannot use the secrets `ID` for `master`: `dcos.target.wants_master/web.service` cannot be a secret: everybody reads a file of that name
    cannot use the secrets `ID` for `master`: `secrets.salt/x` is a name that this program keeps for itself
    ");
}

#[test]
fn a_unit_restarts_for_another_secret_and_tells_nobody_which() {
    let mut scene = Scene::new();
    let info = r#"{"units":{"web.service":{"reads":{"files":["etc/password"]}}}}"#;
    scene.package("master", "web--1", info, "dcos.target.wants/web.service");
    let unit =
        |scene: &Scene| scene.fake.world.host.live().unwrap().running.units["web.service"].digest;
    // The last one differs only in another file of the package.
    let contents = [("a", "x"), ("b", "x"), ("b", "y")];
    let mut digests = Vec::new();
    for (sequence, (password, more)) in (1..).zip(contents) {
        scene.publisher.bundle.secrets.clear();
        let files = [("etc/password", password, None), ("etc/more", more, None)];
        scene.publisher.secrets("master", &files);
        scene.publisher.publish(sequence, None);
        scene.master().unwrap();
        digests.push(unit(&scene));
    }
    assert!(digests[0] != digests[1] && digests[1] != digests[2], "{digests:?}");
}

#[test]
fn no_secret_outlives_the_installation_in_a_store_elsewhere() {
    let (mut scene, id) = scene();
    let store = scene.fake.world.top.join("elsewhere");
    scene.fake.world.host.paths.repository = store.clone();
    scene.fake.world.host.store = host::store::Store::new(store.clone());
    scene.master().unwrap();
    assert!(store.join(id.to_string()).exists());
    scene.fake.world.host.uninstall(false, &scene.fake.world.job()).unwrap();
    assert!(!store.join(id.to_string()).exists());
    assert!(store.join("app--1").exists());
}
