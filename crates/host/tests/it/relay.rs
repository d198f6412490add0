//! What a host hands to others is what the bundle names, and it hands out nothing for ever.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
use host::preflight::Facts;
use host::step::{self, Doer, Launcher, Serve, Serving, Steps};
use host::wire::{Failed, Order, Relay, Report, Request, Said, StepId, VERSION};
use package::bundle::{BUNDLE, Bundle};
use package::{Cancel, PackageId, Sha256};
use testing::http::{Answer, HttpServer};

use crate::install::Scene;
use crate::world::{Noon, ids, listing};

/// Serves nobody.
pub(crate) struct Nobody;

impl Serve for Nobody {
    fn open(&self, _: &Utf8Path) -> io::Result<Box<dyn Serving>> {
        Err(io::Error::other("there is nobody"))
    }
}

/// Would serve if somebody came, and counts how often it does at the moment.
struct Somebody(&'static AtomicUsize);

/// One that waits for its end.
struct Waiting(&'static AtomicUsize);

impl Serve for Somebody {
    fn open(&self, _: &Utf8Path) -> io::Result<Box<dyn Serving>> {
        Ok(Box::new(Waiting(self.0)))
    }
}

impl Serving for Waiting {
    fn port(&self) -> u16 {
        40_000
    }

    fn serve(self: Box<Self>, stop: &Cancel) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        while !stop.is_cancelled() {
            std::thread::yield_now();
        }
        self.0.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

/// A host with the bundle's own files, and another one that has the packages.
struct Site {
    scene: Scene,
    bundle: Sha256,
    facts: Facts,
    /// What this host hands out.
    folder: Utf8PathBuf,
    source: HttpServer,
}

impl Site {
    fn new() -> Self {
        let scene = Scene::new();
        let bundle = scene.publisher.publish(1, None);
        let folder = scene.fake.world.top.join("handed");
        let described = format!("{}/{BUNDLE}", Bundle::folder(&bundle));
        fs_err::create_dir_all(folder.join(Bundle::folder(&bundle))).unwrap();
        fs_err::copy(scene.publisher.folder.join(&described), folder.join(&described)).unwrap();
        let facts = Facts::of_folder(scene.fake.world.top.join("facts"), "");
        let site = Self { scene, bundle, facts, folder, source: HttpServer::start().unwrap() };
        for id in &site.packages() {
            site.offer(id, site.archive(id));
        }
        site
    }

    fn packages(&self) -> BTreeSet<PackageId> {
        ids(&["app--1", "base--1"])
    }

    fn path(&self, id: &PackageId) -> String {
        self.scene.publisher.bundle.archive(id).unwrap().0.to_string()
    }

    fn archive(&self, id: &PackageId) -> Vec<u8> {
        fs_err::read(self.scene.publisher.folder.join(self.path(id))).unwrap()
    }

    /// Has the other host answer with this when it is asked for a package.
    fn offer(&self, id: &PackageId, content: Vec<u8>) {
        self.source.on(&format!("/{}", self.path(id)), [Answer::file(content)]);
    }

    fn relay(&self, seconds: u64) -> Relay {
        Relay {
            folder: self.folder.to_string(),
            bundle: self.bundle,
            from: Some(self.source.url("")),
            packages: self.packages(),
            seconds,
        }
    }

    fn doer<T>(&self, serve: &dyn Serve, then: impl FnOnce(&Doer<'_>) -> T) -> T {
        let world = &self.scene.fake.world;
        then(&Doer {
            host: &world.host,
            facts: &self.facts,
            here: &world.top,
            by: world.job().by,
            clock: &Noon,
            cancel: &world.cancel,
            serve,
        })
    }

    fn run(&self, order: &Order, serve: &dyn Serve) {
        self.doer(serve, |doer| step::run(doer, order, &mut io::sink())).unwrap();
    }

    /// What a caller hears.
    fn report(&self, order: &Order) -> Option<Report> {
        let said = std::sync::Mutex::new(None);
        let launcher =
            Launcher { program: "/bin/false".into(), arguments: Vec::new(), has_systemd: false };
        let say = |heard: &Said| {
            if let Said::Report { report, .. } = heard {
                *said.lock().unwrap() = Some((**report).clone());
            }
        };
        self.doer(&Nobody, |doer| step::call(doer, order, &launcher, &say)).unwrap();
        said.into_inner().unwrap()
    }

    /// Does a step that serves nobody, and returns how it ended.
    fn done(&self, relay: Relay) -> Report {
        let order = order(relay);
        self.run(&order, &Nobody);
        self.report(&order).unwrap()
    }

    fn failed(&self, relay: Relay) -> Failed {
        match self.done(relay) {
            Report::Failed(failed) => failed,
            report => panic!("{report:?}"),
        }
    }

    /// Everything that is handed out besides the bundle's own files.
    fn handed(&self) -> Vec<String> {
        let all = listing(&self.folder, &[], false);
        all.lines().filter(|line| line.contains("tar.zst")).map(str::to_owned).collect()
    }

    fn steps(&self) -> Steps {
        Steps::of(&self.scene.fake.world.host)
    }
}

fn order(relay: Relay) -> Order {
    let id = StepId::try_from("run.relay".to_owned()).unwrap();
    Order { version: VERSION, id, limit_seconds: 600, request: Request::Relay(relay) }
}

fn somebody() -> Somebody {
    Somebody(Box::leak(Box::default()))
}

#[test]
fn what_another_host_has_is_fetched_and_handed_on() {
    let site = Site::new();
    let bytes = site.packages().iter().map(|id| site.archive(id).len() as u64).sum();
    assert_eq!(site.done(site.relay(60)), Report::Relaying { port: None, bytes });
    for id in &site.packages() {
        assert_eq!(fs_err::read(site.folder.join(site.path(id))).unwrap(), site.archive(id));
    }
    // What is there is not fetched again.
    let asked = site.source.requests().len();
    site.steps().forget("*").unwrap();
    assert_eq!(site.done(site.relay(60)), Report::Relaying { port: None, bytes });
    assert_eq!(site.source.requests().len(), asked);
}

#[test]
fn a_download_that_was_interrupted_goes_on_where_it_ended() {
    let site = Site::new();
    let id: PackageId = "app--1".parse().unwrap();
    let part = site.folder.join(format!("{}.part", site.path(&id)));
    fs_err::create_dir_all(part.parent().unwrap()).unwrap();
    fs_err::write(&part, &site.archive(&id)[..100]).unwrap();
    assert!(matches!(site.done(site.relay(60)), Report::Relaying { .. }));
    let asked = site.source.requests();
    assert!(asked.iter().any(|request| request.header("range") == Some("bytes=100-")), "{asked:?}");
}

#[test]
fn wrong_bytes_are_the_fault_of_who_sent_them_and_are_not_kept() {
    let site = Site::new();
    let id: PackageId = "app--1".parse().unwrap();
    let mut wrong = site.archive(&id);
    wrong[50] ^= 1;
    site.offer(&id, wrong);
    let failed = site.failed(site.relay(60));
    assert_eq!(failed.kind, "source", "{failed:?}");
    assert_eq!(site.handed(), [""; 0]);
}

#[test]
fn a_source_that_is_not_there_is_at_fault() {
    let site = Site::new();
    let from = Some("http://127.0.0.1:1".to_owned());
    assert_eq!(site.failed(Relay { from, ..site.relay(60) }).kind, "source");
    assert_eq!(site.handed(), [""; 0]);
}

#[test]
fn nothing_is_handed_on_that_is_not_what_the_bundle_names() {
    let site = Site::new();
    site.done(site.relay(60));
    let id: PackageId = "app--1".parse().unwrap();
    fs_err::write(site.folder.join(site.path(&id)), "something else").unwrap();
    site.steps().forget("*").unwrap();
    let failed = site.failed(Relay { from: None, ..site.relay(60) });
    assert_eq!(failed.kind, "missing_package", "{failed:?}");

    site.steps().forget("*").unwrap();
    let described = site.folder.join(Bundle::folder(&site.bundle)).join(BUNDLE);
    fs_err::write(&described, "{}").unwrap();
    assert_eq!(site.failed(site.relay(60)).kind, "other_bundle");
}

#[test]
fn a_host_serves_until_the_step_is_forgotten_and_leaves_nothing_behind() {
    let site = Site::new();
    let (serve, order) = (somebody(), order(site.relay(600)));
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| site.run(&order, &serve));
        while serve.0.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // Who asks is answered while it serves.
        let report = site.report(&order).unwrap();
        assert!(matches!(report, Report::Relaying { port: Some(40_000), .. }), "{report:?}");
        assert!(!serving.is_finished());
        assert_eq!(site.steps().forget("other").unwrap(), 0);
        assert!(!serving.is_finished());
        assert_eq!(site.steps().forget("run").unwrap(), 1);
        assert_eq!(serve.0.load(Ordering::SeqCst), 0);
        serving.join().unwrap();
    });
    assert!(!site.steps().folder().exists());
}

#[test]
fn a_host_that_nobody_tells_to_stop_stops_when_its_time_is_over() {
    let site = Site::new();
    let serve = somebody();
    site.run(&order(site.relay(0)), &serve);
    assert_eq!(serve.0.load(Ordering::SeqCst), 0);
}
