//! Images: built once, whole or not at all. Building takes minutes, so most of this is for `./check --long`.

use std::sync::atomic::{AtomicUsize, Ordering};

use camino::Utf8Path;
use local::{Cluster, Event, HostSpec, Image, Job, LocalError, Machine, Observer, Options, Suite};
use package::Cancel;

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
