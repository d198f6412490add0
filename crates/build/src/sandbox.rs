//! Where a build script runs: namespaces of its own, no network, a root that cannot be written to,
//! and nothing of the machine but its programs. No daemon: bubblewrap makes it and it ends with us.

mod terminal;

use std::fs::File;
use std::io;
use std::process::ExitStatus;

use camino::{Utf8Path, Utf8PathBuf};
use package::Cancel;

use crate::platform;
use crate::program::{Environment, Program, ProgramError};
use crate::root::{BuildRoot, Entry};

/// Files of `/etc` that tell one machine from another and nothing else.
const TELLTALES: [&str; 2] = ["machine-id", "hostname"];

/// Who the build is. Not root: `tar` and `cp -a` then do not try to keep owners that do not exist.
const PASSWD: &str = "root:x:0:0:root:/tmp:/bin/sh\nbuild:x:1000:1000:build:/tmp:/bin/sh\n\
                      nobody:x:65534:65534:nobody:/tmp:/bin/sh\n";
const GROUP: &str = "root:x:0:\nbuild:x:1000:\nnogroup:x:65534:\n";

/// Where programs are found, bubblewrap among them.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Times before this cannot be written into a zip file, and tools stumble over them.
pub(crate) const EPOCH_MIN: u64 = 315_532_800;

const HINT: &str =
    "install bubblewrap (Debian, Fedora, Alpine and Arch call the package `bubblewrap`)";

/// A sandbox for one build.
#[derive(Debug)]
pub(crate) struct Sandbox<'a> {
    pub(crate) root: &'a BuildRoot,
    pub(crate) install_root: &'a Utf8Path,
    /// Folders to show: from, to, and whether they can be written to. Outer ones come first.
    pub(crate) binds: Vec<(Utf8PathBuf, Utf8PathBuf, bool)>,
    /// `PKG_NAME` and the like.
    pub(crate) variables: Vec<(&'static str, String)>,
    pub(crate) epoch: u64,
    pub(crate) network: bool,
    /// Where the files are written that the sandbox shows instead of the machine's.
    pub(crate) scratch: &'a Utf8Path,
}

/// Why no sandbox can be had.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The machine does not allow it.
    #[error("this machine does not let bubblewrap make a sandbox")]
    Refused(#[source] ProgramError),
    /// The program is not there or could not be run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Something could not be prepared.
    #[error("cannot prepare the sandbox")]
    Io(#[from] io::Error),
}

impl SandboxError {
    /// What the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Refused(_) => Some(
                "builds need user namespaces: as root set `sysctl -w kernel.unprivileged_userns_clone=1` \
                 or `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, whichever exists, or \
                 build as root",
            ),
            Self::Program(error) => error.hint(),
            Self::Io(_) => None,
        }
    }
}

/// Finds out whether this machine lets us make sandboxes, before any work is done.
pub(crate) fn probe(cancel: &Cancel) -> Result<(), SandboxError> {
    // Not all of `/`: what others mount and unmount there meanwhile would make it fail.
    let mut arguments = vec!["--unshare-all", "--ro-bind", "/usr", "/usr"];
    for folder in ["/bin", "/lib", "/lib64"] {
        arguments.extend(["--ro-bind-try", folder, folder]);
    }
    arguments.extend(["--proc", "/proc", "--", "true"]);
    let program =
        Program::new("bwrap", Environment::empty().with("PATH", PATH)).args(arguments).hint(HINT);
    match program.run(cancel) {
        Ok(_) => Ok(()),
        Err(error @ ProgramError::Failed { .. }) => Err(SandboxError::Refused(error)),
        Err(error) => Err(error.into()),
    }
}

impl Sandbox<'_> {
    /// Runs the build script at `path` of the sandbox; its output goes to `log`.
    pub(crate) fn run(
        &self,
        path: &str,
        log: File,
        cancel: &Cancel,
    ) -> Result<ExitStatus, SandboxError> {
        // The shell is there for the umask, which no option of bubblewrap sets.
        let command = ["/bin/sh", "-c", "umask 022; exec \"$@\"", "sh", path];
        let program = self.program(&["--new-session"], &command)?.output_to(log);
        Ok(program.outcome(cancel)?.status)
    }

    /// Opens a shell in the sandbox on the user's terminal, a `terminal`.
    pub(crate) fn shell(&self, terminal: &str) -> Result<(), SandboxError> {
        let script = "umask 022; [ -x /bin/bash ] && exec /bin/bash -i; exec /bin/sh -i";
        let command = ["/bin/sh", "-c", script];
        let filter = self.scratch.join("terminal-filter");
        fs_err::write(&filter, terminal::filter())?;
        let filter = fs_err::File::open(filter)?;
        let descriptor = platform::inherit(filter.file())?.to_string();
        // Not `--new-session`: in another session than the terminal's, a shell has no jobs.
        let options = ["--setenv", "TERM", terminal, "--seccomp", &descriptor];
        self.program(&options, &command)?.interact()?;
        Ok(())
    }

    fn program(&self, options: &[&str], command: &[&str]) -> Result<Program, SandboxError> {
        let arguments = self.arguments()?;
        let program = Program::new("bwrap", self.environment()).hint(HINT);
        Ok(program.args(arguments).args(options).arg("--").args(command))
    }

    fn environment(&self) -> Environment {
        let environment = Environment::empty()
            .with("PATH", PATH)
            .with("HOME", "/tmp")
            .with("USER", "build")
            .with("LC_ALL", "C.UTF-8")
            .with("TZ", "UTC")
            .with("SOURCE_DATE_EPOCH", self.epoch.max(EPOCH_MIN).to_string());
        self.variables
            .iter()
            .fold(environment, |environment, (name, value)| environment.with(*name, value))
    }

    fn arguments(&self) -> io::Result<Vec<String>> {
        let mut arguments = Arguments::default();
        arguments.add(&[
            "--unshare-user",
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-uts",
            "--unshare-cgroup-try",
        ]);
        if !self.network {
            arguments.add(&["--unshare-net"]);
        }
        arguments.add(&[
            "--uid",
            "1000",
            "--gid",
            "1000",
            "--hostname",
            "build",
            "--die-with-parent",
        ]);
        self.show_root(&mut arguments)?;
        arguments.add(&["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run"]);
        self.hide_secrets(&mut arguments)?;
        for (from, to, writable) in &self.binds {
            let how = if *writable { "--bind" } else { "--ro-bind" };
            arguments.add(&[how, from.as_str(), to.as_str()]);
        }
        arguments.add(&["--remount-ro", "/", "--chdir", "/pkg/src"]);
        Ok(arguments.0)
    }

    fn show_root(&self, arguments: &mut Arguments) -> io::Result<()> {
        // The install root is mounted below this one, which therefore cannot be shown as a whole.
        let above = self.install_root.as_str().split('/').nth(1).unwrap_or_default();
        for (name, entry) in &self.root.entries {
            match entry {
                Entry::Link(says) => arguments.add(&["--symlink", says, &format!("/{name}")]),
                Entry::Shown(path) if name == above && path.is_dir() => {
                    for child in path.read_dir_utf8()? {
                        let child = child?;
                        let to = format!("/{name}/{}", child.file_name());
                        if to == self.install_root.as_str() {
                            continue;
                        }
                        match child.path().read_link_utf8() {
                            Ok(says) => arguments.add(&["--symlink", says.as_str(), &to]),
                            Err(_) => arguments.add(&["--ro-bind", child.path().as_str(), &to]),
                        }
                    }
                }
                Entry::Shown(path) => {
                    arguments.add(&["--ro-bind", path.as_str(), &format!("/{name}")]);
                }
            }
        }
        match self.root.entries.get("var") {
            // Below a shown folder only what exists can be mounted on.
            Some(Entry::Shown(var)) if !var.join("tmp").is_dir() => {}
            _ => arguments.add(&["--tmpfs", "/var/tmp"]),
        }
        Ok(())
    }

    /// Whoever builds may be allowed to read more than a build: what is not for everybody is hidden.
    fn hide_secrets(&self, arguments: &mut Arguments) -> io::Result<()> {
        let Some(Entry::Shown(etc)) = self.root.entries.get("etc") else {
            return Ok(());
        };
        let empty = self.scratch.join("empty");
        fs_err::write(&empty, "")?;
        let mut walk = walkdir::WalkDir::new(etc).min_depth(1).into_iter();
        while let Some(entry) = walk.next() {
            // What we cannot look at, the build cannot either.
            let Ok(entry) = entry else { continue };
            let Ok(relative) = entry.path().strip_prefix(etc) else {
                continue;
            };
            let Some(relative) = relative.to_str() else {
                continue;
            };
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let at = format!("/etc/{relative}");
            if metadata.is_dir() && !platform::is_public(&metadata) {
                arguments.add(&["--tmpfs", &at, "--remount-ro", &at]);
                walk.skip_current_dir();
            } else if metadata.is_file()
                && (!platform::is_public(&metadata) || TELLTALES.contains(&relative))
            {
                arguments.add(&["--ro-bind", empty.as_str(), &at]);
            }
        }
        for (name, content) in [("passwd", PASSWD), ("group", GROUP)] {
            if etc.join(name).is_file() {
                let own = self.scratch.join(name);
                fs_err::write(&own, content)?;
                platform::set_mode(&own, 0o644)?;
                arguments.add(&["--ro-bind", own.as_str(), &format!("/etc/{name}")]);
            }
        }
        if self.network
            && let Ok(resolver) = Utf8Path::new("/etc/resolv.conf").canonicalize_utf8()
        {
            // Often a link to a place that the sandbox does not show.
            arguments.add(&["--ro-bind", resolver.as_str(), resolver.as_str()]);
        }
        Ok(())
    }
}

#[derive(Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn add(&mut self, arguments: &[&str]) {
        self.0.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    }
}
