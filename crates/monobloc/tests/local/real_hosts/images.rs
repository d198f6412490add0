//! Images: built once, whole or not at all. Building takes minutes, so most of this is for `./check --long`.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use camino::Utf8Path;
use local::{Cluster, Event, HostSpec, Image, Job, LocalError, Machine, Observer, Options, Suite};
use package::Cancel;

use super::eventually;

#[derive(Default)]
struct Count {
    built: AtomicUsize,
    cancel_at_step: Option<Cancel>,
}

impl Observer for Count {
    fn event(&self, event: &Event<'_>) {
        match (event, &self.cancel_at_step) {
            (Event::BuildingImage { .. }, _) => drop(self.built.fetch_add(1, Ordering::SeqCst)),
            (Event::ImageStep { text, .. }, Some(cancel)) if text.starts_with("installing") => {
                cancel.cancel();
            }
            _ => {}
        }
    }
}

#[test]
#[ignore = "long: builds an image"]
fn an_image_is_built_once_and_a_cancelled_build_leaves_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let state = Utf8Path::from_path(folder.path()).unwrap().join("state");
    let machine = Machine { state: state.clone(), ..Machine::default() };
    let folders = || {
        let entries = state.join("images").read_dir_utf8().unwrap().map(Result::unwrap);
        entries.filter(|entry| entry.path().is_dir()).count()
    };

    let cancel = Cancel::new();
    let count = Count { cancel_at_step: Some(cancel.clone()), ..Count::default() };
    let job = Job { observer: &count, cancel: &cancel };
    let error = Image::ensure(&machine, Suite::Bookworm, &job).unwrap_err();
    assert!(matches!(error, LocalError::Image { .. }), "{error}");
    assert_eq!(folders(), 0);

    let (count, cancel) = (Count::default(), Cancel::new());
    let job = Job { observer: &count, cancel: &cancel };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| Image::ensure(&machine, Suite::Bookworm, &job).unwrap());
        }
    });
    assert_eq!((count.built.load(Ordering::SeqCst), folders()), (1, 1));
}

/// For who builds an image in this folder and is killed in the middle of it.
const STATE: &str = "MONOBLOC_TEST_STATE";

/// Nothing by itself: the test below runs it as a program of its own.
#[test]
#[ignore = "long: builds an image"]
fn somebody_builds_an_image() {
    let Ok(state) = std::env::var(STATE) else { return };
    let machine = Machine { state: state.into(), ..Machine::default() };
    Image::ensure(&machine, Suite::Bookworm, &Job::default()).unwrap();
}

#[test]
#[ignore = "long: builds an image"]
fn a_build_that_is_killed_leaves_no_mount_and_the_next_one_leaves_the_machine_alone() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let state = Utf8Path::from_path(folder.path()).unwrap().join("state");
    let has =
        |list: &str| fs_err::read_to_string(list).is_ok_and(|list| list.contains(state.as_str()));
    let marker = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();

    let mut build = Command::new(std::env::current_exe().unwrap());
    build.args(["--ignored", "--exact", "real_hosts::images::somebody_builds_an_image"]);
    let build = build.env(STATE, &state).stdout(Stdio::null()).stderr(Stdio::null());
    let mut build = build.spawn().unwrap();
    let staged = || {
        let entries = state.join("images").read_dir_utf8().into_iter().flatten();
        entries.filter_map(Result::ok).find(|entry| entry.file_name().starts_with(".tmp-"))
    };
    let is_mounted = || processes().any(|process| has(&format!("/proc/{process}/mountinfo")));
    // Its programs run in it, with all that is mounted for them; until then it takes as long as it takes.
    while !is_mounted() {
        assert!(build.try_wait().unwrap().is_none(), "the build ended before anything was mounted");
        std::thread::sleep(Duration::from_millis(20));
    }
    build.kill().unwrap();
    build.wait().unwrap();
    assert!(!has("/proc/self/mountinfo"), "the machine sees no mount of a build");
    eventually(|| !is_mounted());

    // What older programs left mounted there is not deleted through either.
    let (other, left) = (folder.path().join("other"), staged().unwrap().path().join("root/left"));
    fs_err::create_dir_all(&left).unwrap();
    fs_err::create_dir(&other).unwrap();
    fs_err::write(other.join("kept"), "").unwrap();
    assert!(
        Command::new("mount")
            .arg("--bind")
            .args([&other, left.as_std_path()])
            .status()
            .unwrap()
            .success()
    );
    let machine = Machine { state: state.clone(), ..Machine::default() };
    Image::ensure(&machine, Suite::Bookworm, &Job::default()).unwrap();
    assert!(marker.path().exists() && other.join("kept").exists());
    assert!(!has("/proc/self/mountinfo"));
}

/// The processes of this machine.
fn processes() -> impl Iterator<Item = u32> {
    let entries = Utf8Path::new("/proc").read_dir_utf8().unwrap().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().parse().ok())
}

#[test]
#[ignore = "long: builds the image of every suite"]
fn every_suite_boots() {
    let machine = Machine::default();
    drop(Cluster::remove(&machine, "t-suites", &Job::default()));
    let hosts = Suite::ALL.iter().map(|suite| HostSpec::new(suite.as_str(), *suite));
    let program = env!("CARGO_BIN_EXE_monobloc").into();
    let options = Options::new("t-suites", hosts.collect(), program);
    let cluster = Cluster::up(&machine, &options, &Job::default()).unwrap().guard();
    for host in cluster.hosts() {
        assert_eq!(host.run(&["systemctl", "is-system-running"]).unwrap(), "running\n");
        let output = host.ssh("root", &["hostname"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), host.name(), "{output:?}");
    }
}
