//! What hosts are told to do, done by shells that hosts have, in a folder of this machine.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::process::Command as Process;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use host::wire::{Report, Request, Said, VERSION};
use package::Sha256;
use package::bundle::{Bundle, LATEST, SIGNATURE};
use package::distribution::Distribution;

use super::kit::{Kit, Program, Supply};
use super::local::Here;
use super::remote::{Remote, Shared, order};
use super::shell::{Command, Exit, Heard, Shell, quoted};
use super::{Session as _, Unheard, push};
use crate::fault::{Fault, FaultKind};
use crate::inventory::Host;

const PROGRAM: &[u8] = b"program";
/// Where every write finds a disk that is full.
const FULL: &str = "/dev/full";

/// Shells that hosts have: the machine's own, and one that brings all programs itself.
const SHELLS: [&str; 2] = ["/bin/sh", "busybox"];

/// Runs commands in a folder that stands for all places of a host.
#[derive(Debug)]
struct InFolder {
    shell: &'static str,
    folder: Utf8PathBuf,
}

impl Shell for InFolder {
    async fn run(
        &mut self,
        mut command: Command<'_>,
        heard: &mut dyn Heard,
    ) -> Result<Exit, Fault> {
        let Self { shell, folder } = self;
        let script = command.script.replace("/var/lib /opt /root /run", folder.as_str());
        let (path, shell) = match *shell {
            "busybox" => (format!("{folder}/programs"), format!("{folder}/programs/sh")),
            shell => (format!("{folder}/programs:/usr/bin:/bin"), shell.to_owned()),
        };
        command.script = format!("PATH={path} exec {shell} -c {}", quoted(&script));
        Here.run(command, heard).await
    }
}

/// A host of a folder, and its guard.
struct Scene {
    guard: tempfile::TempDir,
    folder: Utf8PathBuf,
    shell: &'static str,
    shared: Arc<Shared>,
}

impl Scene {
    /// A host to which a bundle with so many files is pushed.
    fn new(shell: &'static str, files: usize) -> Self {
        let guard = tempfile::tempdir().unwrap();
        let folder = Utf8PathBuf::try_from(guard.path().to_owned()).unwrap();
        let programs = folder.join("programs");
        fs_err::create_dir(&programs).unwrap();
        if shell == "busybox" {
            let installed =
                Process::new("busybox").args(["--install", "-s"]).arg(&programs).status();
            assert!(installed.unwrap().success());
        }
        fs_err::write(folder.join("program"), PROGRAM).unwrap();
        let (id, serve) = (Sha256::of(b"bundle"), folder.join("serve"));
        let of_bundle = serve.join(Bundle::folder(&id));
        fs_err::create_dir_all(&of_bundle).unwrap();
        fs_err::write(serve.join(LATEST), "latest").unwrap();
        fs_err::write(serve.join(format!("{LATEST}{SIGNATURE}")), "signature").unwrap();
        for number in 0..files {
            // Some are longer than what a program reads at once.
            let content = format!("{number} ").repeat(number % 7 * 2_000 + 1);
            fs_err::write(of_bundle.join(format!("a-file-with-a-long-name-{number}")), content)
                .unwrap();
        }
        let distribution = Distribution::named("app", "1");
        let bundle = Supply {
            serve,
            id,
            bundle: Bundle::new(distribution.clone(), "configuration".into()),
            url: None,
            public_key: String::new(),
            role_keys: BTreeMap::new(),
        };
        let program = Program {
            path: folder.join("program"),
            sha256: Sha256::of(PROGRAM),
            bytes: PROGRAM.len() as u64,
            served: "monobloc".into(),
        };
        let shared = Shared::new(Kit { distribution, program, bundle: Some(bundle) });
        Self { guard, folder, shell, shared }
    }

    /// The same for hosts that fetch from a URL, with a program that does that.
    fn fetching(shell: &'static str, curl: &str) -> Self {
        let scene = Self::new(shell, 0);
        testing::files::write_files(&scene.folder.join("programs"), &[("curl", curl, 0o755)])
            .unwrap();
        let mut kit = scene.shared.kit.clone();
        kit.bundle.as_mut().unwrap().url = Some("http://bundle.example".into());
        Self { shared: Shared::new(kit), ..scene }
    }

    fn remote(&self) -> Remote<InFolder> {
        let host = Host {
            name: "a1".into(),
            address: "a1".into(),
            port: None,
            user: None,
            key: None,
            jump: None,
            roles: std::collections::BTreeSet::new(),
            rack: None,
            labels: BTreeMap::new(),
        };
        let shell = InFolder { shell: self.shell, folder: self.folder.clone() };
        Remote::new(shell, host, Arc::clone(&self.shared))
    }

    fn place(&self) -> Utf8PathBuf {
        self.folder.join(".monobloc-app")
    }

    fn part(&self) -> Utf8PathBuf {
        self.place().join(format!("{}.part", Sha256::of(PROGRAM)))
    }

    /// As if the disk were full from now on.
    fn fill(&self) {
        fs_err::create_dir_all(self.place()).unwrap();
        symlink(FULL, self.place().join("try")).unwrap();
    }
}

/// All files below a folder with their content, but for what stands for a full disk.
fn files(folder: &Utf8Path) -> BTreeMap<Utf8PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir_utf8().unwrap().flatten() {
            let path = entry.path().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if !path.is_symlink() {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                found.insert(name, fs_err::read(&path).unwrap());
            }
        }
    }
    found
}

#[tokio::test]
async fn a_bundle_of_more_files_than_fit_into_a_script_is_pushed_by_every_shell() {
    for shell in SHELLS {
        let scene = Scene::new(shell, 1_000);
        let mut remote = scene.remote();
        // Of the second only a half arrived before.
        let half = scene.place().join("bundle").join(Bundle::folder(&Sha256::of(b"bundle")));
        fs_err::create_dir_all(&half).unwrap();
        let of_second = "1 ".repeat(1_000);
        fs_err::write(half.join("a-file-with-a-long-name-1.part"), of_second).unwrap();
        push::begin(&mut remote, &mut Unheard).await.unwrap();
        let there = files(&scene.place().join("bundle"));
        assert!(there == files(&scene.folder.join("serve")), "{shell}: {} files", there.len());
        drop(scene.guard);
    }
}

#[tokio::test]
async fn the_program_is_put_on_a_host_by_every_shell_and_found_again() {
    for shell in SHELLS {
        let scene = Scene::new(shell, 0);
        scene.remote().prepare().await.unwrap();
        assert_eq!(fs_err::read(scene.place().join("monobloc")).unwrap(), PROGRAM, "{shell}");
        // Also when there is no room for another one.
        scene.fill();
        scene.remote().prepare().await.unwrap();
        assert_eq!(files(&scene.place()).len(), 1, "{shell}");
    }
}

#[tokio::test]
async fn a_program_whose_part_somebody_still_has_open_can_be_run() {
    for shell in SHELLS {
        let scene = Scene::new(shell, 0);
        fs_err::create_dir(scene.place()).unwrap();
        fs_err::write(scene.part(), &PROGRAM[..3]).unwrap();
        // As does what unpacks it for a connection that is only half gone.
        let open = fs_err::OpenOptions::new().append(true).open(scene.part()).unwrap();
        scene.remote().prepare().await.unwrap();
        let program = scene.place().join("monobloc");
        assert_eq!(fs_err::read(&program).unwrap(), PROGRAM, "{shell}");
        // It is nothing that runs; that somebody has it open would be told before.
        let not_run = Process::new(&program).status().unwrap_err();
        assert_ne!(not_run.kind(), std::io::ErrorKind::ExecutableFileBusy, "{shell}");
        assert_eq!(files(&scene.place()).len(), 1, "{shell}");
        drop(open);
    }
}

#[tokio::test]
async fn a_report_is_heard_whole_however_long_it_is() {
    let scene = Scene::new("/bin/sh", 0);
    let report = Report::Acted { output: "word ".repeat(40_000) };
    let said = Said::Report { version: VERSION, already: false, report: Box::new(report.clone()) };
    fs_err::write(scene.folder.join("report"), serde_json::to_vec(&said).unwrap()).unwrap();
    let program = format!("#!/bin/sh\ncat >/dev/null; cat {}/report\n", scene.folder);
    testing::files::write_files(&scene.folder, &[("reporting", program, 0o755)]).unwrap();
    let program = scene.folder.join("reporting");
    let mut remote = scene.remote().at(Vec::new(), program.as_str());
    let order = order("check", Request::Check { cluster: false }).unwrap();
    let answer = remote.step(&order, &mut Unheard).await.unwrap();
    assert!(answer.report == report);
}

#[tokio::test]
async fn a_full_disk_is_told_and_costs_nothing_that_is_there() {
    for shell in SHELLS {
        let scene = Scene::new(shell, 3);
        push::begin(&mut scene.remote(), &mut Unheard).await.unwrap();
        let before = files(&scene.place());
        for begin in [true, false] {
            scene.fill();
            let mut remote = scene.remote();
            let done = if begin {
                push::begin(&mut remote, &mut Unheard).await
            } else {
                remote.prepare().await
            };
            let fault = done.unwrap_err();
            assert_eq!(fault.kind, FaultKind::NoSpace, "{shell}: {fault}");
            assert_eq!(fault.remedy.as_deref(), Some("make room there"));
            assert!(fault.to_string().contains(scene.place().as_str()), "{fault}");
            assert!(files(&scene.place()) == before, "{shell}");
        }
    }
}

#[tokio::test]
async fn a_disk_that_the_program_fills_is_as_empty_as_before() {
    for shell in SHELLS {
        let scene = Scene::new(shell, 0);
        fs_err::create_dir(scene.place()).unwrap();
        symlink(FULL, scene.part()).unwrap();
        let fault = scene.remote().prepare().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::NoSpace, "{shell}: {fault}");
        assert!(!scene.place().exists(), "{shell}");
    }
}

#[tokio::test]
async fn a_disk_without_room_for_a_copy_of_the_program_is_as_empty_as_before() {
    let scene = Scene::new("/bin/sh", 0);
    let cp = "#!/bin/sh\necho 'cp: No space left on device' >&2\nexit 1\n";
    testing::files::write_files(&scene.folder.join("programs"), &[("cp", cp, 0o755)]).unwrap();
    let fault = scene.remote().prepare().await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::NoSpace, "{fault}");
    assert!(!scene.place().exists());
}

#[tokio::test]
async fn what_a_url_answers_that_is_not_the_program_is_thrown_away() {
    for shell in SHELLS {
        let scene = Scene::fetching(
            shell,
            "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho '<html>' >\"$2\"\n",
        );
        scene.remote().prepare().await.unwrap();
        assert_eq!(fs_err::read(scene.place().join("monobloc")).unwrap(), PROGRAM, "{shell}");
        assert_eq!(files(&scene.place()).len(), 1, "{shell}");
    }
}

#[tokio::test]
async fn what_a_host_fetches_is_not_sent() {
    for shell in SHELLS {
        let curl = "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nprintf program >\"$2\"\n";
        let scene = Scene::fetching(shell, curl);
        fs_err::remove_file(scene.folder.join("program")).unwrap();
        scene.remote().prepare().await.unwrap();
        assert_eq!(fs_err::read(scene.place().join("monobloc")).unwrap(), PROGRAM, "{shell}");
    }
}
