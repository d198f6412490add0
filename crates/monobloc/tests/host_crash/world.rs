//! A host in a temporary folder, with packages to put on it.

use camino::{Utf8Path, Utf8PathBuf};
use host::event::Silent;
use host::history::By;
use host::machine::Machine;
use host::plan::Wanted;
use host::setup::SetupError;
use host::store::Trust;
use host::{Host, Job, Paths, SystemClock};
use package::archive::{self, PackOptions};
use package::distribution::Distribution;
use package::{Cancel, PackageId};
use testing::files::write_files;
use testing::trace::Program;

/// The folder, gone when it is dropped.
pub(crate) struct World {
    _guard: tempfile::TempDir,
    pub(crate) folder: Utf8PathBuf,
    pub(crate) root: Utf8PathBuf,
}

impl World {
    /// A machine with nothing on it but the role `master`, and a repository of packages beside it.
    pub(crate) fn new() -> Self {
        // What lasts is decided by the model; in memory, waiting for a disk costs nothing.
        let guard = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let folder = Utf8PathBuf::try_from(guard.path().to_owned()).unwrap();
        let root = folder.join("root");
        fs_err::create_dir_all(&root).unwrap();
        let world = Self { _guard: guard, folder, root };
        world.config("roles/master", "");
        for (name, version) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "1")] {
            world.pack(name, version);
        }
        world
    }

    /// Writes a file of the machine's configuration.
    pub(crate) fn config(&self, path: &str, content: &str) {
        write_files(&self.folder.join("etc"), &[(path, content, 0o644)]).unwrap();
    }

    fn pack(&self, name: &str, version: &str) {
        let unit = format!("[Service]\nExecStart=/bin/{name} {version}\n");
        let info = format!(r#"{{"environment":{{"{}":"{version} x"}}}}"#, name.to_uppercase());
        let files = [
            ("pkginfo.json".to_owned(), info, 0o644),
            (format!("bin/{name}"), format!("{name} {version}"), 0o755),
            (format!("etc/{name}.conf"), format!("{name} {version}"), 0o644),
            (format!("etc_master/{name}.role"), format!("master {version}"), 0o644),
            (format!("etc_slave/{name}.role"), format!("slave {version}"), 0o644),
            (format!("lib/{name}/own"), format!("{name} {version}"), 0o644),
            (format!("lib/shared/{name}"), format!("{name} {version}"), 0o644),
            (format!("dcos.target.wants/{name}.service"), unit, 0o644),
        ];
        let folder = self.folder.join("unpacked");
        write_files(&folder, &files).unwrap();
        archive::pack(&folder, &self.archive(name, version), &PackOptions::default()).unwrap();
        fs_err::remove_dir_all(folder).unwrap();
    }

    /// Where the archive of a package is.
    pub(crate) fn archive(&self, name: &str, version: &str) -> Utf8PathBuf {
        let path = format!("repository/packages/{name}/{name}--{version}.tar.zst");
        self.folder.join(path)
    }

    /// The installation at `root`, which is this world's or a crashed copy of it.
    pub(crate) fn host(&self, root: &Utf8Path) -> Host {
        let mut paths = Paths::of(&Distribution::default());
        (paths.root, paths.repository) = (root.to_owned(), root.join("packages"));
        paths.config = self.folder.join("etc");
        let mut host = Host::new(Distribution::default(), paths);
        host.machine = Some(Machine::below(root));
        host
    }

    /// What boot does.
    pub(crate) fn setup(&self, root: &Utf8Path) -> Result<(), SetupError> {
        with_job(|job| self.host(root).setup(&self.folder, job).map(drop))
    }

    /// Adds packages.
    pub(crate) fn add(&self, ids: &[&str]) {
        for id in ids {
            let (name, version) = id.split_once("--").unwrap();
            let archive = self.archive(name, version);
            let store = self.host(&self.root).store;
            store.add(&archive, &Trust::default(), &Cancel::new(), &Silent).unwrap();
        }
    }

    /// Makes packages live.
    pub(crate) fn activate(&self, ids: &[&str]) {
        let ids = ids.iter().map(|id| id.parse::<PackageId>().unwrap()).collect();
        with_job(|job| self.host(&self.root).activate(&Wanted::Packages(ids), job)).unwrap();
    }

    /// `monobloc host` on this world.
    pub(crate) fn program(&self, arguments: &[&str]) -> Program {
        Program::new(env!("CARGO_BIN_EXE_monobloc"))
            .args(["host", "--root", self.root.as_str(), "--config-dir"])
            .arg(self.folder.join("etc").as_str())
            .args(arguments.iter().copied())
    }
}

fn with_job<T>(work: impl FnOnce(&Job<'_>) -> T) -> T {
    let by = By { user: "test".into(), command: "test".into(), program: "test".into() };
    let (reason, cancel) = ("test".to_owned(), Cancel::new());
    work(&Job { by, reason, clock: &SystemClock, cancel: &cancel, observer: &Silent })
}
