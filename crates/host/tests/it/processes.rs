//! Many at once: threads of this process, and processes.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
use host::event::Silent;
use host::store::{Repository, Trust};
use package::{Cancel, PackageId};
use testing::http::{Answer, HttpServer};

use crate::fetch::downloader;
use crate::setup::{bootstrapped, offer, setup};
use crate::world::{World, host_at, job, wanted};

/// Names what a child does; without it the tests for children do nothing.
const TOP: &str = "MONOBLOC_TEST_TOP";
const URL: &str = "MONOBLOC_TEST_URL";
/// A shell that sets the umask and becomes the child.
const UNDER_UMASK: &str = "umask $0; exec \"$@\"";

/// Runs one test of this file in a process of its own.
pub(crate) fn child(test: &str, top: &Utf8Path, url: &str, umask: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", UNDER_UMASK, umask])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads=1"])
        .env(TOP, top)
        .env(URL, url)
        .stdout(Stdio::null());
    command
}

/// What the parent said, in a child.
pub(crate) fn told() -> Option<(Utf8PathBuf, String)> {
    Some((std::env::var(TOP).ok()?.into(), std::env::var(URL).unwrap()))
}

fn serve(world: &World, count: usize) -> (HttpServer, Vec<PackageId>) {
    let server = HttpServer::start().unwrap();
    let mut ids = Vec::new();
    for number in 0..count {
        let id = format!("p{number}--1");
        let archive = world.archive(&id, "{}", &[("lib/x", &id)]);
        let path = format!("/packages/p{number}/{id}.tar.zst");
        server.on(&path, [Answer::file(fs_err::read(archive).unwrap())]);
        ids.push(id.parse().unwrap());
    }
    (server, ids)
}

fn assert_each_was_asked_for_once(server: &HttpServer, count: usize) {
    let mut paths: Vec<String> = server.requests().into_iter().map(|one| one.path).collect();
    paths.sort();
    let expected: Vec<String> =
        (0..count).map(|number| format!("/packages/p{number}/p{number}--1.tar.zst")).collect();
    assert_eq!(paths, expected);
}

fn fetch_all(top: &Utf8Path, url: &str, ids: &[PackageId]) {
    let cancel = Cancel::new();
    let repository = Repository::parse(url, top).unwrap().with_downloader(downloader());
    host_at(top).store.fetch_all(&repository, ids, &Trust::default(), &cancel, &Silent).unwrap();
}

#[test]
fn threads_that_want_the_same_packages_fetch_each_once() {
    let world = World::new();
    let (server, ids) = serve(&world, 6);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| fetch_all(&world.top, &server.url(""), &ids));
        }
    });
    assert_each_was_asked_for_once(&server, 6);
    assert_eq!(world.stored().len(), 6);
}

#[test]
fn processes_that_want_the_same_packages_fetch_each_once() {
    let world = World::new();
    let (server, _) = serve(&world, 6);
    let test = "processes::child_that_fetches_six_packages";
    let start = || child(test, &world.top, &server.url(""), "022").spawn().unwrap();
    let children: Vec<_> = std::iter::repeat_with(start).take(4).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_each_was_asked_for_once(&server, 6);
    assert_eq!(world.stored().len(), 6);
}

#[test]
fn child_that_fetches_six_packages() {
    if let Some((top, url)) = told() {
        let ids: Vec<PackageId> =
            (0..6).map(|number| format!("p{number}--1").parse().unwrap()).collect();
        fetch_all(&top, &url, &ids);
    }
}

#[test]
fn processes_that_switch_at_once_do_so_one_after_the_other() {
    let world = World::new();
    for (id, text) in [("a--1", "one"), ("a--2", "two")] {
        world.add(id, "{}", &[("bin/a", text)]);
    }
    let test = "processes::child_that_switches";
    let start = |id| child(test, &world.top, id, "022").spawn().unwrap();
    let children = ["a--1", "a--2", "a--1", "a--2"].map(start);
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let found = fs_err::read_to_string(world.root().join("bin/a")).unwrap();
    let expected = if world.active() == ["a--1"] { "one" } else { "two" };
    assert_eq!(found, expected);
    assert_eq!(world.host.history().unfinished().unwrap(), None);
}

#[test]
fn child_that_switches() {
    if let Some((top, id)) = told() {
        host_at(&top).activate(&wanted(&[&id]), &job(&Cancel::new())).unwrap();
    }
}

#[test]
fn whoever_changes_the_host_is_not_disturbed_by_those_who_add() {
    let world = World::new();
    let archives: Vec<Utf8PathBuf> =
        (0..12).map(|number| world.archive(&format!("p{number}--1"), "{}", &[])).collect();
    std::thread::scope(|scope| {
        for part in archives.chunks(6) {
            let world = &world;
            scope.spawn(move || {
                for archive in part {
                    let store = &world.host.store;
                    store.add(archive, &Trust::default(), &world.cancel, &Silent).unwrap();
                }
            });
        }
        for _ in 0..200 {
            drop(world.host.lock(&world.job()).unwrap());
        }
    });
    assert_eq!(world.stored().len(), 12);
}

#[test]
fn setup_is_not_disturbed_by_those_who_add() {
    let world = bootstrapped();
    let archive = world.archive("other--1", "{}", &[]);
    // Files enough that making the package takes a while.
    let file = |number| format!("- path: etc/{number}\n  content: x\n");
    let files = (0..50).map(file).collect::<Vec<_>>().concat();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::SeqCst) {
                    world.add_archive(&archive, &Trust::default()).unwrap();
                }
            });
        }
        let results: Vec<_> = (0..3)
            .map(|round| {
                let late = world.top.join(format!("late{round}--setup.dcos_config"));
                fs_err::write(&late, format!("package:\n{files}")).unwrap();
                offer(&world, &late);
                let id = format!("p{round}--1");
                offer(&world, &world.archive(&id, "{}", &[]));
                let config =
                    format!("late_bound_package_id: late{round}--setup\nbound_values: {{}}\n");
                world.flag("late-config.yaml", &config);
                world.flag("active.json", &format!(r#"["{id}"]"#));
                fs_err::write(world.host.paths.bootstrap_marker(), "").unwrap();
                setup(&world).map_err(|error| world.said(&error))
            })
            .collect();
        is_done.store(true, Ordering::SeqCst);
        for result in results {
            result.unwrap();
        }
    });
    assert_eq!(world.active(), ["late2--setup", "p2--1"]);
}
