//! From a published bundle to a live generation: only what the publisher signed, and whole or not at
//! all.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use host::event::{Event, Observer};
use host::install::{Install, InstallError, Installed};
use host::store::Repository;
use package::secret::RoleKey;
use package::sign::{KeyPair, PublicKey};
use testing::http::{Answer, HttpServer};

use crate::fakes::Fake;
use crate::fetch::downloader;
use crate::publisher::Publisher;
use crate::world::{CancelAt, Listener, names};

/// A host, and somebody who publishes for it.
pub(crate) struct Scene {
    pub(crate) fake: Fake,
    pub(crate) publisher: Publisher,
}

impl Scene {
    /// A bundle with `app--1` for masters and `base--1` for all.
    pub(crate) fn new() -> Self {
        let fake = Fake::new();
        let publisher = Publisher::new(&fake.world.top.join("served"));
        let mut scene = Self { fake, publisher };
        scene.package("master", "app--1", "{}", "bin/app");
        for role in ["master", "slave"] {
            scene.package(role, "base--1", "{}", "bin/base");
        }
        scene
    }

    pub(crate) fn package(&mut self, role: &str, id: &str, info: &str, file: &str) {
        let archive = self.fake.world.archive(id, info, &[(file, id)]);
        self.publisher.package(role, &archive);
    }

    /// Puts `app--2` in the place of `app--1`.
    pub(crate) fn upgrade(&mut self) {
        let of_roles = self.publisher.bundle.packages.values_mut().flat_map(|all| all.values_mut());
        of_roles.for_each(|ids| ids.retain(|id| id.name().as_str() != "app"));
        self.package("master", "app--2", "{}", "bin/app");
    }

    pub(crate) fn request(&self, roles: &[&str]) -> Install {
        Install {
            repository: Repository::open("served", &self.fake.world.top).unwrap(),
            roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
            key: Some(PublicKey::parse(&self.publisher.public).unwrap()),
            role_keys: vec![self.publisher.role_key.clone()],
            bundle: None,
            allow_older: false,
            allow_expired: false,
            upgrade: None,
            preflight: None,
        }
    }

    pub(crate) fn install(&self, request: &Install) -> Result<Installed, InstallError> {
        self.fake.world.host.install(request, &self.fake.world.job())
    }

    pub(crate) fn master(&self) -> Result<Installed, InstallError> {
        self.install(&self.request(&["master"]))
    }

    /// What is said, after a check that nothing changed.
    pub(crate) fn refusal(&self, request: &Install) -> String {
        let before = self.fake.world.all();
        let error = self.install(request).expect_err("it must be refused");
        assert_eq!(self.fake.world.all(), before);
        self.fake.world.said(&error)
    }

    fn served(&self, path: &str) -> Utf8PathBuf {
        self.publisher.folder.join(path)
    }

    /// Changes one byte of what is served.
    fn damage(&self, path: &str) {
        let path = self.served(path);
        let mut bytes = fs_err::read(&path).unwrap();
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        fs_err::write(path, bytes).unwrap();
    }

    pub(crate) fn live(&self) -> Vec<String> {
        self.fake.world.active()
    }
}

/// Digests differ from run to run.
fn plain(said: &str) -> String {
    let mut plain = String::new();
    for part in said.split_inclusive(|char: char| !char.is_ascii_alphanumeric()) {
        let word = part.trim_end_matches(|char: char| !char.is_ascii_alphanumeric());
        let is_digest = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.push_str(&if is_digest { part.replace(word, "DIGEST") } else { part.to_owned() });
    }
    plain
}

#[test]
fn the_set_of_the_role_goes_live_and_again_nothing_is_done() {
    let scene = Scene::new();
    let id = scene.publisher.publish(1, None);
    let installed = scene.master().unwrap();
    assert_eq!((installed.latest.bundle, installed.latest.sequence), (id, 1));
    assert_eq!(scene.live(), ["app--1", "base--1"]);
    let world = &scene.fake.world;
    assert_eq!(names(&world.host.paths.roles()), ["master"]);
    assert_eq!(world.host.live().unwrap().roles.len(), 1);
    let before = world.all();
    // The key and the role are known by now.
    let again = Install { key: None, ..scene.request(&[]) };
    assert!(scene.install(&again).unwrap().plan.is_empty());
    assert!(scene.master().unwrap().plan.is_empty());
    assert_eq!(world.all(), before);
}

#[test]
fn several_roles_have_all_their_packages() {
    let mut scene = Scene::new();
    scene.package("slave", "agent--1", "{}", "bin/agent");
    scene.publisher.publish(1, None);
    scene.install(&scene.request(&["master", "slave"])).unwrap();
    assert_eq!(scene.live(), ["agent--1", "app--1", "base--1"]);
    // Fewer roles later: what is not needed goes from the set, and the file with it.
    scene.install(&scene.request(&["slave"])).unwrap();
    assert_eq!(scene.live(), ["agent--1", "base--1"]);
    assert_eq!(names(&scene.fake.world.host.paths.roles()), ["slave"]);
}

#[test]
fn a_role_that_somebody_else_gave_the_host_is_not_taken_away() {
    let scene = Scene::new();
    scene.publisher.publish(1, None);
    scene.fake.world.has_roles(&["slave"]);
    let said = scene.refusal(&scene.request(&["master"]));
    insta::assert_snapshot!(said, @"this host is `slave` too, as `TOP/config/roles/slave` says, which no installation wrote");
    scene.install(&scene.request(&["master", "slave"])).unwrap();
    scene.fake.world.host.uninstall(true, &scene.fake.world.job()).unwrap();
    assert_eq!(names(&scene.fake.world.host.paths.roles()), ["slave"]);
}

#[test]
fn an_upgrade_fetches_only_what_is_new_and_a_rollback_asks_nobody() {
    let mut scene = Scene::new();
    scene.publisher.publish(1, None);
    scene.master().unwrap();
    scene.upgrade();
    scene.publisher.publish(2, None);
    let listener = Listener::default();
    let world = &scene.fake.world;
    world.host.install(&scene.request(&[]), &world.job_for("", &listener)).unwrap();
    let heard = listener.heard().join("\n");
    assert!(heard.contains("Stored { id: \"app--2\", already: false }"), "{heard}");
    assert!(heard.contains("Stored { id: \"base--1\", already: true }"), "{heard}");
    assert_eq!(scene.live(), ["app--2", "base--1"]);
    // Whatever became of the publisher and of what is trusted.
    fs_err::remove_dir_all(&scene.publisher.folder).unwrap();
    fs_err::write(world.host.paths.trust(), "{").unwrap();
    world.rollback_to(1).unwrap();
    assert_eq!(scene.live(), ["app--1", "base--1"]);
}

#[test]
fn without_a_key_nothing_is_taken_and_another_key_is_refused() {
    let scene = Scene::new();
    scene.publisher.publish(1, None);
    let mut said = vec![scene.refusal(&Install { key: None, ..scene.request(&["master"]) })];
    let other = PublicKey::parse(&KeyPair::generate(None).unwrap().public).unwrap();
    let with_other = Install { key: Some(other.clone()), ..scene.request(&["master"]) };
    said.push(scene.refusal(&with_other));
    scene.master().unwrap();
    let refused = scene.refusal(&with_other);
    let pinned = PublicKey::parse(&scene.publisher.public).unwrap();
    said.push(refused.replace(&other.to_string(), "OTHER").replace(&pinned.to_string(), "PINNED"));
    insta::assert_snapshot!(said.join("\n"), @"
    nothing says whose bundles this host takes
    `latest.json` cannot be trusted: the signature does not match: made by another key, or the content was changed
    this host takes bundles that the key `PINNED` signed, not `OTHER`
    ");
}

#[test]
fn what_was_changed_on_the_way_is_refused() {
    let mut scene = Scene::new();
    scene.publisher.publish(1, None);
    scene.master().unwrap();
    scene.upgrade();
    let mut said = Vec::new();
    let bundle = "bundles/ID/bundle.json";
    for path in ["latest.json", "latest.json.minisig", bundle, "bundles/ID/bundle.json.minisig"] {
        let id = scene.publisher.publish(2, None).to_string();
        scene.damage(&path.replace("ID", &id));
        said.push(plain(&scene.refusal(&scene.request(&["master"]))));
    }
    for path in ["latest.json", bundle] {
        let id = scene.publisher.publish(2, None).to_string();
        fs_err::remove_file(scene.served(&path.replace("ID", &id))).unwrap();
        said.push(plain(&scene.refusal(&scene.request(&["master"]))));
    }
    insta::assert_snapshot!(said.join("\n"), @"
    `latest.json` cannot be trusted: the signature does not match: made by another key, or the content was changed
    `latest.json` cannot be trusted: cannot read the signature: Invalid encoding in minisign data
    bundle `DIGEST` is another one: its digest is DIGEST
    `bundles/DIGEST/bundle.json` cannot be trusted: cannot read the signature: Invalid encoding in minisign data
    cannot download `file://TOP/served/latest.json`: failed to open file `TOP/served/latest.json`: No such file or directory (os error 2)
    cannot download `file://TOP/served/bundles/DIGEST/bundle.json`: failed to open file `TOP/served/bundles/DIGEST/bundle.json`: No such file or directory (os error 2)
    ");
    scene.publisher.publish(2, None);
    scene.master().unwrap();
    assert_eq!(scene.live(), ["app--2", "base--1"]);
}

#[test]
fn parts_of_different_publications_do_not_go_together() {
    let mut scene = Scene::new();
    let old = scene.publisher.publish(1, None);
    scene.upgrade();
    let new = scene.publisher.publish(2, None);
    // The old bundle, signed as it is, under the name of the new one.
    for name in ["bundle.json", "bundle.json.minisig"] {
        let path = |id| scene.served(&format!("bundles/{id}/{name}"));
        fs_err::copy(path(old), path(new)).unwrap();
    }
    let said = plain(&scene.refusal(&scene.request(&["master"])));
    insta::assert_snapshot!(said, @"bundle `DIGEST` is another one: its digest is DIGEST");
    // The signature of one document is none of the other.
    scene.publisher.publish(2, None);
    let path = format!("bundles/{new}/bundle.json.minisig");
    fs_err::copy(scene.served("latest.json.minisig"), scene.served(&path)).unwrap();
    let said = plain(&scene.refusal(&scene.request(&["master"])));
    insta::assert_snapshot!(said, @"`bundles/DIGEST/bundle.json` cannot be trusted: the signature does not match: made by another key, or the content was changed");
}

#[test]
fn a_package_that_is_not_the_one_of_the_bundle_is_not_taken() {
    let mut scene = Scene::new();
    scene.publisher.publish(1, None);
    scene.master().unwrap();
    scene.upgrade();
    scene.publisher.publish(2, None);
    let archive = scene.served("packages/app/app--2.tar.zst");
    let good = fs_err::read(&archive).unwrap();
    scene.damage("packages/app/app--2.tar.zst");
    let mut said = vec![plain(&scene.refusal(&scene.request(&["master"])))];
    fs_err::write(&archive, &good[..good.len() - 1]).unwrap();
    said.push(plain(&scene.refusal(&scene.request(&["master"]))));
    fs_err::remove_file(&archive).unwrap();
    said.push(plain(&scene.refusal(&scene.request(&["master"]))));
    insta::assert_snapshot!(said.join("\n"), @"
    `TOP/served/packages/app/app--2.tar.zst` is not package `app--2`: its SHA-256 is DIGEST, expected DIGEST
    `TOP/served/packages/app/app--2.tar.zst` is not package `app--2`: it is 432 bytes long, expected 433
    package `app--2` is not at `file://TOP/served`: cannot download `file://TOP/served/packages/app/app--2.tar.zst`: failed to query resolved metadata `TOP/served/packages/app/app--2.tar.zst`: No such file or directory (os error 2)
    ");
    assert_eq!(scene.live(), ["app--1", "base--1"]);
    fs_err::write(&archive, good).unwrap();
    scene.master().unwrap();
}

#[test]
fn a_package_that_the_bundle_does_not_describe_is_refused() {
    let mut scene = Scene::new();
    let whole = scene.publisher.bundle.clone();
    scene.publisher.bundle.manifests.clear();
    scene.publisher.publish(1, None);
    let mut said = vec![scene.refusal(&scene.request(&["slave"]))];
    scene.publisher.bundle = whole;
    scene.publisher.bundle.files.clear();
    scene.publisher.publish(2, None);
    said.push(scene.refusal(&scene.request(&["slave"])));
    scene.publisher.bundle.packages.clear();
    scene.publisher.publish(3, None);
    said.push(scene.refusal(&scene.request(&["slave"])));
    insta::assert_snapshot!(said.join("\n"), @"
    the bundle is incomplete: it has no digest for package `base--1`
    the bundle is incomplete: it has no archive for package `base--1`
    the bundle has no packages for the operating system of this host
    ");
}

#[test]
fn an_older_or_doubled_or_expired_publication_is_refused_unless_it_is_allowed() {
    let mut scene = Scene::new();
    scene.publisher.publish(7, None);
    scene.master().unwrap();
    let mut said = Vec::new();
    scene.upgrade();
    scene.publisher.publish(7, None);
    said.push(scene.refusal(&scene.request(&["master"])));
    scene.publisher.publish(6, Some("2026-01-02T12:00:00Z"));
    said.push(scene.refusal(&scene.request(&["master"])));
    let older = Install { allow_older: true, ..scene.request(&["master"]) };
    said.push(scene.refusal(&older));
    scene.publisher.publish(8, Some("2026-01-02T12:00:00Z"));
    said.push(scene.refusal(&older));
    insta::assert_snapshot!(said.join("\n"), @"
    publication 7 names another bundle than it did before
    publication 6 is older than 7, which this host has seen already
    publication 6 expired at 2026-01-02T12:00:00Z
    publication 8 expired at 2026-01-02T12:00:00Z
    ");
    let seen = || {
        let pinned = fs_err::read_to_string(scene.fake.world.host.paths.trust()).unwrap();
        let pinned: serde_json::Value = serde_json::from_str(&pinned).unwrap();
        pinned["seen"]["sequence"].as_u64().unwrap()
    };
    scene.publisher.publish(6, None);
    scene.install(&older).unwrap();
    assert_eq!(scene.live(), ["app--2", "base--1"]);
    assert_eq!(seen(), 7, "what was seen stays seen");
    scene.publisher.publish(8, Some("2026-01-02T12:00:00Z"));
    scene.install(&Install { allow_expired: true, ..scene.request(&["master"]) }).unwrap();
    assert_eq!(seen(), 8);
}

#[test]
fn a_bundle_of_another_distribution_is_refused() {
    let mut scene = Scene::new();
    scene.publisher.bundle.distribution = package::distribution::Distribution::called("other", "1");
    scene.publisher.publish(1, None);
    let said = scene.refusal(&scene.request(&["master"]));
    insta::assert_snapshot!(said, @"`latest.json` cannot be trusted: the signature is for `monobloc latest.json of other`, expected `monobloc latest.json of dcos`");
}

#[test]
fn a_host_must_be_something_that_the_bundle_knows() {
    let scene = Scene::new();
    scene.publisher.publish(1, None);
    let said = [scene.refusal(&scene.request(&["maestro"])), scene.refusal(&scene.request(&[]))];
    insta::assert_snapshot!(said.join("\n"), @"
    the bundle has no role `maestro`; it has: `master`, `slave`
    nothing says what this host is
    ");
}

#[test]
fn a_set_that_cannot_be_active_leaves_the_roles_and_the_trust_as_they_were() {
    let mut scene = Scene::new();
    scene.publisher.publish(1, None);
    scene.install(&scene.request(&["slave"])).unwrap();
    scene.package("master", "app--1", r#"{"requires":["nothing"]}"#, "bin/app");
    scene.publisher.publish(2, None);
    let trust = fs_err::read(scene.fake.world.host.paths.trust()).unwrap();
    let error = scene.master().unwrap_err();
    insta::assert_snapshot!(scene.fake.world.said(&error), @"
    the packages cannot be active together:
      `app--1` requires nothing, which is not in the set
    ");
    assert_eq!(names(&scene.fake.world.host.paths.roles()), ["slave"]);
    assert_eq!(fs_err::read(scene.fake.world.host.paths.trust()).unwrap(), trust);
    assert_eq!(scene.live(), ["base--1"]);
}

#[test]
fn an_interrupted_install_can_be_repeated_at_every_step() {
    for at in ["Stored", "Building", "Syncing", "Starting", "Trying"] {
        let scene = Scene::new();
        scene.publisher.publish(1, None);
        let world = &scene.fake.world;
        let observer = CancelAt(at, &world.cancel);
        drop(world.host.install(&scene.request(&["master"]), &world.job_for("", &observer)));
        let cancel = package::Cancel::new();
        let job = host::Job { cancel: &cancel, ..world.job() };
        world.host.install(&scene.request(&["master"]), &job).unwrap();
        assert_eq!(scene.live(), ["app--1", "base--1"], "{at}");
        assert_eq!(names(&world.host.paths.roles()), ["master"], "{at}");
    }
}

/// Dies as soon as it hears something, as if the process were killed.
struct DieAt(&'static str);

impl Observer for DieAt {
    fn event(&self, event: &Event<'_>) {
        assert!(!format!("{event:?}").starts_with(self.0), "killed");
    }
}

impl Scene {
    fn seen(&self) -> Option<u64> {
        let pinned = fs_err::read_to_string(self.fake.world.host.paths.trust()).ok()?;
        let pinned: serde_json::Value = serde_json::from_str(&pinned).unwrap();
        pinned["seen"]["sequence"].as_u64()
    }

    fn roles(&self) -> Vec<String> {
        names(&self.fake.world.host.paths.roles())
    }

    /// Puts a unit into the set of a role.
    fn unit(&mut self, role: &str, name: &str) {
        self.package(
            role,
            &format!("{name}--1"),
            "{}",
            &format!("dcos.target.wants/{name}.service"),
        );
    }

    /// Installs until something is heard.
    fn killed(&self, request: &Install, at: &'static str) {
        let job = self.fake.world.job();
        let (host, observer) = (&self.fake.world.host, DieAt(at));
        let job = host::Job { observer: &observer, ..job };
        let dies = std::panic::AssertUnwindSafe(|| host.install(request, &job).map(drop));
        std::panic::catch_unwind(dies).expect_err("it was not killed");
    }
}

#[test]
fn what_is_live_is_trusted_whenever_an_install_is_killed() {
    let mut scene = Scene::new();
    scene.unit("master", "web");
    scene.publisher.publish(1, None);
    scene.killed(&scene.request(&["master"]), "Live");
    assert_eq!(scene.seen(), Some(1));
    let other = PublicKey::parse(&KeyPair::generate(None).unwrap().public).unwrap();
    let other = Install { key: Some(other), ..scene.request(&["master"]) };
    assert!(matches!(scene.install(&other), Err(InstallError::OtherKey { .. })));
    scene.master().unwrap();
    scene.upgrade();
    scene.publisher.publish(2, None);
    scene.killed(&scene.request(&["master"]), "Live");
    assert_eq!(scene.seen(), Some(2));
}

#[test]
fn a_host_that_went_back_by_itself_has_its_roles_again_and_takes_the_publication_again() {
    let mut scene = Scene::new();
    scene.unit("master", "web");
    scene.unit("slave", "agent");
    scene.publisher.publish(1, None);
    scene.master().unwrap();
    scene.publisher.publish(2, None);
    scene.killed(&scene.request(&["slave"]), "Starting");
    assert_eq!(scene.roles(), ["slave"]);
    let world = &scene.fake.world;
    world.host.setup(&world.top, &world.job()).unwrap();
    assert_eq!((world.live(), scene.roles()), (1, vec!["master".to_owned()]));
    scene.install(&scene.request(&["slave"])).unwrap();
    assert_eq!(scene.live(), ["agent--1", "base--1"]);
    assert_eq!(scene.roles(), ["slave"]);
    // Whoever comes next without a word about roles leaves them as they were.
    scene.publisher.publish(3, None);
    scene.killed(&scene.request(&["master"]), "Starting");
    scene.install(&scene.request(&[])).unwrap();
    assert_eq!(scene.live(), ["agent--1", "base--1"]);
    assert_eq!(scene.roles(), ["slave"]);
}

#[test]
fn a_set_that_fails_its_trial_leaves_the_roles_and_the_trust_as_they_were() {
    let mut scene = Scene::new();
    scene.unit("slave", "agent");
    scene.publisher.publish(1, None);
    scene.master().unwrap();
    scene.publisher.publish(2, None);
    scene.fake.manager.broken.lock().unwrap().insert("agent.service".to_owned());
    let error = scene.install(&scene.request(&["slave"])).unwrap_err();
    let returned = matches!(&error, InstallError::Host(host::HostError::Returned { .. }));
    assert!(returned, "{error:?}");
    assert_eq!((scene.seen(), scene.roles()), (Some(1), vec!["master".to_owned()]));
}

#[test]
fn a_first_set_that_cannot_be_active_leaves_no_trust() {
    let mut scene = Scene::new();
    scene.package("master", "app--1", r#"{"requires":["nothing"]}"#, "bin/app");
    scene.publisher.publish(1, None);
    scene.master().unwrap_err();
    assert!(!scene.fake.world.host.paths.trust().exists());
    assert!(scene.roles().is_empty());
}

#[test]
fn going_back_gives_the_host_the_roles_that_it_had() {
    let mut scene = Scene::new();
    scene.unit("slave", "agent");
    scene.publisher.publish(1, None);
    scene.master().unwrap();
    scene.install(&scene.request(&["slave"])).unwrap();
    let world = &scene.fake.world;
    *scene.fake.manager.refuses_to_stop.lock().unwrap() = true;
    world.rollback_to(1).unwrap_err();
    assert_eq!((world.live(), scene.roles()), (2, vec!["slave".to_owned()]));
    *scene.fake.manager.refuses_to_stop.lock().unwrap() = false;
    world.rollback_to(1).unwrap();
    assert_eq!((world.live(), scene.roles()), (1, vec!["master".to_owned()]));
    world.rollback_to(2).unwrap();
    assert_eq!((world.live(), scene.roles()), (2, vec!["slave".to_owned()]));
    // What is uninstalled later is still known.
    world.host.uninstall(true, &world.job()).unwrap();
    assert!(scene.roles().is_empty());
}

#[test]
fn roles_that_somebody_else_changed_stay_when_the_host_goes_back() {
    let scene = Scene::new();
    scene.publisher.publish(1, None);
    scene.master().unwrap();
    let world = &scene.fake.world;
    world.has_roles(&["slave"]);
    world.host.setup(&world.top, &world.job()).unwrap();
    assert_eq!(world.live(), 2);
    // The packages of then, for the roles of now.
    world.rollback_to(1).unwrap();
    assert_eq!((world.live(), scene.roles()), (3, vec!["slave".to_owned()]));
}

#[test]
fn a_bundle_for_another_install_root_is_refused_unless_somebody_named_the_root() {
    let mut scene = Scene::new();
    scene.publisher.publish(1, None);
    let paths = scene.fake.world.host.paths.clone();
    let machine = scene.fake.world.host.machine.clone();
    let own = package::distribution::Distribution {
        install_root: paths.root.clone(),
        ..scene.publisher.bundle.distribution.clone()
    };
    let named = scene.fake.world.host.clone();
    scene.fake.world.host = host::Host::new(own.clone(), paths);
    scene.fake.world.host.machine = machine;
    let said = scene.refusal(&scene.request(&["master"]));
    insta::assert_snapshot!(said, @"the bundle is made for `/opt/mesosphere`, and this host has its packages in `TOP/root`");
    scene.publisher.bundle.distribution = own;
    scene.publisher.publish(2, None);
    scene.master().unwrap();
    scene.fake.world.host = named;
    scene.master().unwrap();
}

/// Serves a folder, so that each file can be made to misbehave.
pub(crate) fn serve(scene: &Scene, server: &HttpServer) {
    let folder = &scene.publisher.folder;
    let mut waiting = vec![folder.clone()];
    while let Some(at) = waiting.pop() {
        for name in names(&at) {
            let path = at.join(name);
            if path.is_dir() {
                waiting.push(path);
            } else {
                let below = path.strip_prefix(folder).unwrap();
                server.on(&format!("/{below}"), [Answer::file(fs_err::read(&path).unwrap())]);
            }
        }
    }
}

pub(crate) fn over_http(scene: &Scene, server: &HttpServer) -> Install {
    let repository = Repository::parse(&server.url("/"), "/".into()).unwrap();
    Install { repository: repository.with_downloader(downloader()), ..scene.request(&["master"]) }
}

#[test]
fn a_server_that_breaks_off_is_asked_again() {
    let scene = Scene::new();
    let id = scene.publisher.publish(1, None);
    let server = HttpServer::start().unwrap();
    serve(&scene, &server);
    for path in ["latest.json", &format!("bundles/{id}/bundle.json"), "packages/app/app--1.tar.zst"]
    {
        let file = Answer::file(fs_err::read(scene.served(path)).unwrap());
        let answers = [Answer::status(503), file.clone().cut_after(10), file];
        server.on(&format!("/{path}"), answers);
    }
    scene.install(&over_http(&scene, &server)).unwrap();
    assert_eq!(scene.live(), ["app--1", "base--1"]);
}

#[test]
fn no_more_of_an_archive_is_taken_than_the_bundle_promises() {
    let scene = Scene::new();
    scene.publisher.publish(1, None);
    let server = HttpServer::start().unwrap();
    serve(&scene, &server);
    let path = "packages/app/app--1.tar.zst";
    let mut file = fs_err::read(scene.served(path)).unwrap();
    let size = file.len();
    file.resize(1 << 20, 0);
    for answer in [Answer::file(file.clone()), Answer::file(file).chunked()] {
        server.on(&format!("/{path}"), [answer]);
        let error = scene.install(&over_http(&scene, &server)).unwrap_err();
        let said = scene.fake.world.said(&error).replace(&server.url(""), "URL");
        assert!(said.contains(&format!("it is larger than the limit of {size} bytes")), "{said}");
    }
    let file = Answer::file(fs_err::read(scene.served(path)).unwrap());
    server.on(&format!("/{path}"), [file]);
    scene.install(&over_http(&scene, &server)).unwrap();
}

#[test]
fn a_publication_in_between_is_read_again_and_a_forged_one_only_once() {
    let mut scene = Scene::new();
    scene.publisher.publish(1, None);
    let old = fs_err::read(scene.served("latest.json")).unwrap();
    scene.upgrade();
    scene.publisher.publish(2, None);
    let server = HttpServer::start().unwrap();
    serve(&scene, &server);
    let new = fs_err::read(scene.served("latest.json")).unwrap();
    server.on("/latest.json", [Answer::file(old.clone()), Answer::file(new)]);
    scene.install(&over_http(&scene, &server)).unwrap();
    assert_eq!(scene.live(), ["app--2", "base--1"]);
    server.on("/latest.json", [Answer::file(old)]);
    let before = server.requests().len();
    let said = scene.refusal(&over_http(&scene, &server));
    insta::assert_snapshot!(said, @"`latest.json` cannot be trusted: the signature does not match: made by another key, or the content was changed");
    assert_eq!(server.requests().len(), before + 4);
}

#[test]
fn values_of_the_host_get_into_a_template_that_the_bundle_promises() {
    let mut scene = Scene::new();
    let template = "package:\n- path: etc/late\n  content: \
                    LATE_BIND_PLACEHOLDER_START_v_LATE_BIND_PLACEHOLDER_END\n";
    scene.publisher.bundle.late = Some("late--setup".parse().unwrap());
    let path = "packages/late/late--setup.dcos_config";
    scene.publisher.publish(1, None);
    // Nobody left values here.
    scene.master().unwrap();
    let world = &scene.fake.world;
    world.flag("late-config.yaml", "late_bound_package_id: late--setup\nbound_values:\n  v: 1\n");
    let mut said = vec![scene.refusal(&scene.request(&["master"]))];
    scene.publisher.file(path, template.as_bytes());
    scene.publisher.publish(2, None);
    scene.damage(path);
    said.push(scene.refusal(&scene.request(&["master"])));
    scene.publisher.file(path, template.as_bytes());
    scene.master().unwrap();
    assert_eq!(scene.live(), ["app--1", "base--1", "late--setup"]);
    let world = &scene.fake.world;
    assert_eq!(fs_err::read_to_string(world.root().join("etc/late")).unwrap(), "1");
    // A set that cannot be without it.
    for ids in scene.publisher.bundle.packages.values_mut().flat_map(|all| all.values_mut()) {
        ids.insert("late--setup".parse().unwrap());
    }
    scene.publisher.publish(3, None);
    fs_err::remove_file(world.host.paths.setup_flag("late-config.yaml")).unwrap();
    said.push(scene.refusal(&scene.request(&["master"])));
    insta::assert_snapshot!(said.join("\n"), @"
    the bundle is incomplete: it has no template for package `late--setup`
    `packages/late/late--setup.dcos_config` is not the file of the bundle
    package `late--setup` needs values of this host, and `TOP/config/setup-flags/late-config.yaml` does not name it
    ");
}

#[test]
fn values_that_an_installer_left_once_are_those_of_every_configuration() {
    let mut scene = Scene::new();
    let template = "package:\n- path: etc/late\n  content: \
                    LATE_BIND_PLACEHOLDER_START_v_LATE_BIND_PLACEHOLDER_END\n";
    let flag = |scene: &Scene, id: &str| {
        let text = format!("late_bound_package_id: {id}\nbound_values:\n  v: 1\n");
        scene.fake.world.flag("late-config.yaml", &text);
    };
    flag(&scene, "dcos-provider-c1-onprem--setup");
    for (sequence, configuration) in [(1, "c1"), (2, "c2")] {
        let name = format!("dcos-provider-{configuration}-onprem");
        let id: package::PackageId = format!("{name}--setup").parse().unwrap();
        for ids in scene.publisher.bundle.packages.values_mut().flat_map(|all| all.values_mut()) {
            ids.retain(|id| !id.name().as_str().contains("provider"));
            ids.insert(id.clone());
        }
        scene.publisher.bundle.late = Some(id.clone());
        let path = format!("packages/{name}/{id}.dcos_config");
        scene.publisher.file(&path, template.as_bytes());
        scene.publisher.publish(sequence, None);
        scene.master().unwrap();
        assert_eq!(scene.live(), ["app--1", "base--1", id.to_string().as_str()]);
        let late = scene.fake.world.root().join("etc/late");
        assert_eq!(fs_err::read_to_string(late).unwrap(), "1");
    }
    flag(&scene, "other-provider-c2-onprem--setup");
    let said = scene.refusal(&scene.request(&["master"]));
    insta::assert_snapshot!(said, @"package `dcos-provider-c2-onprem--setup` needs values of this host, and `TOP/config/setup-flags/late-config.yaml` does not name it");
}

#[test]
fn nothing_of_an_installation_is_left_after_it_is_removed() {
    let mut scene = Scene::new();
    scene.publisher.secrets("master", &[("etc/password", "hunter2", None)]);
    scene.publisher.publish(1, None);
    scene.master().unwrap();
    let world = &scene.fake.world;
    assert!(world.host.paths.keys().exists() && world.host.paths.trust().exists());
    world.host.uninstall(true, &world.job()).unwrap();
    assert!(!world.root().exists() && !world.host.paths.config.exists());
}

#[test]
fn a_key_for_secrets_is_asked_for_only_where_there_are_some() {
    let mut scene = Scene::new();
    scene.publisher.secrets("master", &[("etc/password", "hunter2", None)]);
    scene.publisher.publish(1, None);
    let none = Install { role_keys: Vec::new(), ..scene.request(&["slave"]) };
    scene.install(&none).unwrap();
    assert_eq!(scene.live(), ["base--1"]);
    assert!(!scene.fake.world.host.paths.keys().exists());
    let other = Install { role_keys: vec![RoleKey::generate()], ..scene.request(&["master"]) };
    let said: BTreeSet<String> = [Install { roles: other.roles.clone(), ..none }, other]
        .iter()
        .map(|request| {
            let said = scene.refusal(request);
            said.replace(&said[said.find("setup_").unwrap()..][..46], "setup_HASH")
        })
        .collect();
    insta::assert_snapshot!(said.into_iter().collect::<Vec<_>>().join("\n"), @"
    cannot use the secrets `secrets-master--setup_HASH` for `master`: the secrets are for other roles than this key
    cannot use the secrets `secrets-master--setup_HASH` for `master`: this host has no key for them
    ");
}
