//! One host, packages for it, and the program on it.

use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use local::{BOOT_MAX, Cluster, Guard, Host, HostSpec, Job, Machine, Options, Suite};
use package::Sha256;
use package::archive::{self, PackOptions};
use testing::files::write_files;

/// Where the host finds the program, and the packages.
const PROGRAM: &str = "/monobloc/monobloc";
const PACKAGES: &str = "/packages";

/// How long anything on a host may take.
const LIMIT: Duration = Duration::from_mins(2);

pub(crate) struct Site {
    cluster: Guard,
    packages: tempfile::TempDir,
}

/// A package to be.
pub(crate) struct Package<'a> {
    pub(crate) id: &'a str,
    pub(crate) info: &'a str,
    /// Paths, contents, modes.
    pub(crate) files: Vec<(&'a str, &'a str, u32)>,
}

impl Site {
    /// A host of this release. `test` names it, so that what a killed run left can be removed.
    pub(crate) fn new(release: Suite, test: &str) -> Self {
        let packages = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(packages.path()).unwrap();
        let program = Utf8PathBuf::from(env!("CARGO_BIN_EXE_monobloc"));
        // Short, and the same in every run.
        let name = format!("{test:.2}{:.8}", Sha256::of(test.as_bytes()).to_string());
        let host = HostSpec::new("h1", release)
            .bind(program.parent().unwrap(), "/monobloc")
            .bind(folder, PACKAGES);
        let machine = Machine::default();
        // There is something to remove only if a run was killed.
        drop(Cluster::remove(&machine, &name, &Job::default()));
        let options = Options::new(name, vec![host], program);
        let cluster = Cluster::up(&machine, &options, &Job::default()).unwrap().guard();
        Self { cluster, packages }
    }

    pub(crate) fn host(&self) -> &Host {
        self.cluster.host("h1").unwrap()
    }

    /// Makes the archive of a package.
    pub(crate) fn pack(&self, package: &Package<'_>) -> Utf8PathBuf {
        let folder = self.packages();
        let unpacked = folder.join("unpacked");
        let mut files = vec![("pkginfo.json", package.info, 0o644)];
        files.extend(&package.files);
        write_files(&unpacked, &files).unwrap();
        let archive = folder.join(format!("{}.tar.zst", package.id));
        archive::pack(&unpacked, &archive, &PackOptions::default()).unwrap();
        fs_err::remove_dir_all(unpacked).unwrap();
        archive
    }

    /// Makes a package and adds it to the store of the host.
    pub(crate) fn add(&self, package: &Package<'_>) {
        self.pack(package);
        self.monobloc(&["add", &format!("{PACKAGES}/{}.tar.zst", package.id)]);
    }

    /// Where things lie that the host sees at `/packages`.
    pub(crate) fn packages(&self) -> &Utf8Path {
        Utf8Path::from_path(self.packages.path()).unwrap()
    }

    /// Puts a package into a repository that the host can fetch from.
    pub(crate) fn offer(&self, id: &str) {
        let folder = self.packages();
        let place = folder.join("repository/packages").join(id.split("--").next().unwrap());
        fs_err::create_dir_all(&place).unwrap();
        let archive = format!("{id}.tar.zst");
        fs_err::copy(folder.join(&archive), place.join(archive)).unwrap();
    }

    /// A service `NAME` that says its version and runs until it is stopped.
    pub(crate) fn add_service(&self, name: &str, version: &str, info: &str) {
        self.add_program(name, version, info, "echo version $1\nexec sleep infinity");
    }

    /// The same that does something else.
    pub(crate) fn add_program(&self, name: &str, version: &str, info: &str, script: &str) {
        let id = format!("{name}--{version}");
        let script = format!("#!/bin/sh\nset -- {version}\n{script}\n");
        let unit = format!(
            "[Unit]\nDescription={name} {version}\n[Service]\nExecStart=/opt/mesosphere/bin/{name}\n"
        );
        let (bin, wants) = (format!("bin/{name}"), format!("dcos.target.wants/{name}.service"));
        let files = vec![(bin.as_str(), script.as_str(), 0o755), (&wants, &unit, 0o644)];
        self.add(&Package { id: &id, info, files });
    }

    /// `monobloc host` that must succeed.
    pub(crate) fn monobloc(&self, arguments: &[&str]) -> String {
        let output = self.try_monobloc(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        format!("{}{said}", String::from_utf8_lossy(&output.stdout))
    }

    /// `monobloc host` however it ends.
    pub(crate) fn try_monobloc(&self, arguments: &[&str]) -> Output {
        let mut command = vec![PROGRAM, "host"];
        command.extend(arguments);
        self.host().exec_within(LIMIT, &command).unwrap()
    }

    /// `monobloc host` that goes on while the test does.
    pub(crate) fn begin(&self, arguments: &[&str]) -> Child {
        let mut command = vec![PROGRAM, "host"];
        command.extend(arguments);
        let mut command = self.host().command(&command).unwrap();
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap()
    }

    /// What a command on the host says; it must succeed.
    pub(crate) fn run(&self, command: &[&str]) -> String {
        self.host().run(command).unwrap().trim().to_owned()
    }

    /// The process id of a service.
    pub(crate) fn pid(&self, unit: &str) -> u32 {
        let pid = self.run(&["systemctl", "show", "--property=MainPID", "--value", unit]);
        pid.parse().unwrap()
    }

    pub(crate) fn is_active(&self, unit: &str) -> bool {
        self.host().exec(&["systemctl", "is-active", "--quiet", unit]).unwrap().status.success()
    }

    /// The last line that a service logged in this boot, once it did.
    pub(crate) fn said(&self, unit: &str) -> String {
        let command =
            ["journalctl", "--quiet", "--output=cat", "--boot", "_SYSTEMD_UNIT", "-n", "1"];
        let unit = format!("_SYSTEMD_UNIT={unit}");
        let command: Vec<&str> = command
            .iter()
            .map(|part| if *part == "_SYSTEMD_UNIT" { &*unit } else { part })
            .collect();
        self.eventually("the service says something", || {
            Some(self.run(&command)).filter(|said| !said.is_empty())
        })
    }

    /// The number of the live generation.
    pub(crate) fn live(&self) -> u64 {
        let target = fs_err::read_link(self.path("/opt/mesosphere/current")).unwrap();
        target.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    /// A file of the host, on this machine.
    pub(crate) fn path(&self, path: &str) -> Utf8PathBuf {
        self.host().root().join(path.trim_start_matches('/'))
    }

    /// Waits for what `look` finds.
    pub(crate) fn eventually<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(begun.elapsed() < LIMIT, "not in time: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Boots the host again after its power was cut.
    pub(crate) fn boot(&self) {
        self.host().start().unwrap();
        self.host().wait_booted(BOOT_MAX).unwrap();
    }

    /// The services of exactly one generation run, and nothing of another one is left.
    pub(crate) fn assert_whole(&self, services: &[(&str, &str)]) {
        self.eventually("the target is up", || self.is_active("dcos.target").then_some(()));
        for (name, version) in services {
            let unit = format!("{name}.service");
            self.eventually("the service is up", || self.is_active(&unit).then_some(()));
            assert_eq!(self.said(&unit), format!("version {version}"));
            let live = self.path("/opt/mesosphere/current/dcos.target.wants").join(&unit);
            let text =
                fs_err::read_to_string(self.path("/etc/systemd/system").join(&unit)).unwrap();
            assert_eq!(text, fs_err::read_to_string(live).unwrap());
            let loaded = ["systemctl", "show", "--property=NeedDaemonReload", "--value", &unit];
            assert_eq!(self.run(&loaded), "no", "{unit}");
        }
        assert!(!self.path("/opt/mesosphere/trial.json").exists());
        let mut wanted: Vec<String> =
            services.iter().map(|(name, _)| format!("{name}.service")).collect();
        wanted.sort();
        let mut found: Vec<String> =
            fs_err::read_dir(self.path("/etc/systemd/system/dcos.target.wants"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
        found.sort();
        assert_eq!(found, wanted);
    }
}
