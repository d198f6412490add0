//! A tree in a temporary folder, and somebody who watches it being built.

use std::collections::BTreeMap;
use std::sync::Mutex;

use build::event::{Event, How, Observer, Step};
use build::program::Environment;
use build::session::Ended;
use build::{Options, Plan, Report, Selection, Session, SessionError};
use camino::{Utf8Path, Utf8PathBuf};
use package::Cancel;
use package::archive::{self, UnpackOptions};
use testing::files::write_files;

/// A tree and the caches for it.
pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) cancel: Cancel,
    pub(crate) jobs: usize,
    pub(crate) cache_url: Option<url::Url>,
}

impl World {
    /// A tree of these files; everything named `build` can be executed.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = Self { folder, cancel: Cancel::new(), jobs: 2, cache_url: None };
        world.write(files);
        world
    }

    pub(crate) fn path(&self) -> &Utf8Path {
        Utf8Path::from_path(self.folder.path()).unwrap()
    }

    pub(crate) fn tree(&self) -> Utf8PathBuf {
        self.path().join("tree")
    }

    /// Writes or replaces files of the tree.
    pub(crate) fn write(&self, files: &[(&str, &str)]) {
        let mode = |path: &str| {
            if path.ends_with("build") { 0o755 } else { 0o644 }
        };
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, *text, mode(path))).collect();
        write_files(&self.tree(), &files).unwrap();
    }

    pub(crate) fn session(&self) -> Result<Session, SessionError> {
        Session::open(Options {
            tree: self.tree(),
            source_cache: self.path().join("sources"),
            jobs: self.jobs,
            offline: false,
            cache_url: self.cache_url.clone(),
            epoch: 0,
            keep_work: false,
            environment: Environment::of_process().with("SECRET_OF_THE_USER", "hunter2"),
            cancel: self.cancel.clone(),
        })
    }

    /// Builds everything and says how it went, by package.
    pub(crate) fn build(&self) -> BTreeMap<String, String> {
        let watcher = Watcher::default();
        self.build_watched(&watcher)
    }

    pub(crate) fn build_watched(&self, watcher: &dyn Observer) -> BTreeMap<String, String> {
        let session = self.session().unwrap();
        let plan = session.plan(&Selection::Everything).unwrap();
        outcomes(&session.build(&plan, watcher).unwrap())
    }

    pub(crate) fn plan(&self) -> Plan {
        self.session().unwrap().plan(&Selection::Everything).unwrap()
    }

    /// The ids of all packages, by name.
    pub(crate) fn ids(&self) -> BTreeMap<String, String> {
        let plan = self.plan();
        plan.identities.iter().map(|(key, found)| (key.to_string(), found.id.to_string())).collect()
    }

    /// The archive of the package `key`, which is built.
    pub(crate) fn archive(&self, name: &str) -> Utf8PathBuf {
        let session = self.session().unwrap();
        let plan = session.plan(&Selection::Everything).unwrap();
        let key = plan.order.iter().find(|key| key.to_string() == name).unwrap();
        session.cache.archive(&plan.identities[key].id, &key.variant)
    }

    /// The text of a file of a built package.
    pub(crate) fn text(&self, package: &str, path: &str) -> String {
        let bytes = archive::read_file(self.archive(package), path).unwrap();
        String::from_utf8(bytes.expect("the package has the file")).unwrap()
    }

    /// Everything that must hold for each archive of the cache, whatever happened before.
    pub(crate) fn assert_cache_is_whole(&self) {
        let packages = self.tree().join("cache/packages");
        for archive in walkdir::WalkDir::new(packages).into_iter().flatten() {
            let path = Utf8Path::from_path(archive.path()).unwrap();
            if path.as_str().ends_with(".tar.zst") {
                archive::verify(path, &UnpackOptions::default()).unwrap();
            }
        }
    }
}

/// How it went, by package, in one word and the reason.
pub(crate) fn outcomes(report: &Report) -> BTreeMap<String, String> {
    let outcome = |ended: &Ended| match ended {
        Ended::Made(_, How::Built) => "built".to_owned(),
        Ended::Made(_, How::Cached) => "cached".to_owned(),
        Ended::Made(_, How::Remote) => "remote".to_owned(),
        Ended::Fetched => "fetched".to_owned(),
        Ended::Failed(failure) => format!("failed: {}", failure.causes.join(": ")),
        Ended::Skipped(needed) => format!("skipped: {needed}"),
        Ended::Cancelled => "cancelled".to_owned(),
    };
    report.packages.iter().map(|(key, ended)| (key.to_string(), outcome(ended))).collect()
}

/// Keeps the warnings and calls `on_step` at every step.
pub(crate) struct Watcher<F = fn(&str, Step)> {
    pub(crate) warnings: Mutex<Vec<String>>,
    on_step: F,
}

impl Default for Watcher {
    fn default() -> Self {
        Self::new(|_, _| {})
    }
}

impl<F: Fn(&str, Step) + Sync> Watcher<F> {
    pub(crate) fn new(on_step: F) -> Self {
        Self { warnings: Mutex::default(), on_step }
    }
}

impl<F: Fn(&str, Step) + Sync> Observer for Watcher<F> {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Step { key, step } => (self.on_step)(&key.to_string(), *step),
            Event::Warning { message, .. } => {
                self.warnings.lock().unwrap().push((*message).to_owned());
            }
            Event::Left { error } => self.warnings.lock().unwrap().push(error.to_string()),
            Event::Waiting => (self.on_step)("waiting", Step::Fetching),
            _ => {}
        }
    }
}

/// A script that makes one file.
pub(crate) const SCRIPT: &str = "#!/bin/sh\nset -eu\nmkdir -p \"$PKG_PATH/bin\"\necho \"$PKG_NAME\" > \"$PKG_PATH/bin/$PKG_NAME\"\n";

/// A script that fails.
pub(crate) const BROKEN: &str = "#!/bin/sh\necho about to fail\nexit 3\n";
