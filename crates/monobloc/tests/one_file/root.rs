//! A machine with nothing on it but busybox, in namespaces of its own.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use camino::{Utf8Path, Utf8PathBuf};
use testing::files::write_files;

/// Calls that came after Linux 4.8 have this number or a higher one.
const FIRST_NEW_CALL: u32 = 329;

/// How old the kernel is that a root seems to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// That of this machine.
    Own,
    /// One that knows no call that came after 4.8.
    Old,
}

/// A root file system that lasts as long as the test.
pub(crate) struct Root {
    folder: Utf8PathBuf,
    kernel: Kernel,
    /// Folders of this machine that are seen in it.
    binds: Vec<(Utf8PathBuf, &'static str)>,
    variables: Vec<(&'static str, String)>,
}

impl Root {
    /// A fresh one in `folder`.
    pub(crate) fn new(folder: Utf8PathBuf, kernel: Kernel) -> Self {
        let busybox = "/bin/busybox";
        for place in ["bin", "tmp", "proc", "dev", "opt", "var/tmp", "var/lib", "host", "run"] {
            fs_err::create_dir_all(folder.join(place)).unwrap();
        }
        fs_err::copy(busybox, folder.join("bin/busybox")).unwrap();
        let listed = Command::new(busybox).arg("--list").output().unwrap();
        for name in String::from_utf8(listed.stdout).unwrap().lines() {
            if name != "busybox" {
                std::os::unix::fs::symlink("busybox", folder.join("bin").join(name)).unwrap();
            }
        }
        write_files(
            &folder.join("etc"),
            &[
                ("passwd", "root:x:0:0:root:/root:/bin/sh\n", 0o644),
                ("group", "root:x:0:\n", 0o644),
                ("hosts", "127.0.0.1 localhost bare\n", 0o644),
                ("hostname", "bare\n", 0o644),
                ("machine-id", "7d4c5e0a1b9f42d8a3c6e5f701928b4d\n", 0o444),
            ],
        )
        .unwrap();
        let filter = folder.with_extension("filter");
        fs_err::write(filter, old_kernel()).unwrap();
        Self { folder, kernel, binds: Vec::new(), variables: Vec::new() }
    }

    /// The same with a folder or file of this machine in it, at `place`.
    pub(crate) fn bind(mut self, from: &Utf8Path, place: &'static str) -> Self {
        // What is mounted over stays behind.
        let over = self.folder.join(place.trim_start_matches('/'));
        if from.is_dir() {
            fs_err::create_dir_all(over).unwrap();
        } else {
            write_files(over.parent().unwrap(), &[(over.file_name().unwrap(), "", 0o644)]).unwrap();
        }
        self.binds.push((from.to_owned(), place));
        self
    }

    /// The same with a variable in the environment of what runs in it.
    pub(crate) fn variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    pub(crate) fn path(&self, path: &str) -> Utf8PathBuf {
        self.folder.join(path)
    }

    /// Runs a line of shell as root, where nothing in `/tmp` can be executed, with a strict umask.
    pub(crate) fn try_sh(&self, line: &str) -> Output {
        let mut command = Command::new("sh");
        let filter = self.folder.with_extension("filter");
        command.args(["-c", "filter=$1; shift; exec bwrap \"$@\" 9<\"$filter\"", "sh"]);
        command.arg(filter);
        if self.kernel == Kernel::Old {
            command.args(["--seccomp", "9"]);
        }
        command.args([
            "--unshare-user",
            "--uid",
            "0",
            "--gid",
            "0",
            "--unshare-pid",
            "--die-with-parent",
        ]);
        command.args(["--cap-add", "CAP_SYS_ADMIN", "--bind"]).arg(&self.folder).arg("/");
        command.args(["--proc", "/proc", "--dev", "/dev", "--unshare-uts", "--hostname", "bare"]);
        for (from, place) in &self.binds {
            command.args(["--bind", from.as_str(), place]);
        }
        command.args(["--clearenv", "--setenv", "PATH", "/bin", "--setenv", "HOME", "/host"]);
        for (name, value) in &self.variables {
            command.args(["--setenv", name, value]);
        }
        let line = format!("mount -t tmpfs -o noexec tmpfs /tmp; umask 077; {line}");
        command.args(["--chdir", "/host", "/bin/sh", "-c", &line]);
        command.output().unwrap()
    }

    /// The same of what must succeed; returns what it said.
    pub(crate) fn sh(&self, line: &str) -> String {
        let output = self.try_sh(line);
        let said = all(&output);
        assert!(output.status.success(), "{line}: {}\n{said}", output.status);
        said
    }

    /// Every path in it, with what links say.
    pub(crate) fn listing(&self) -> BTreeSet<String> {
        let mut listing = BTreeSet::new();
        let mut waiting = vec![self.folder.clone()];
        while let Some(folder) = waiting.pop() {
            for entry in folder.read_dir_utf8().unwrap() {
                let entry = entry.unwrap();
                let path = entry.path().strip_prefix(&self.folder).unwrap();
                let kind = entry.file_type().unwrap();
                let target = if kind.is_symlink() {
                    format!(" -> {}", entry.path().read_link_utf8().unwrap())
                } else {
                    String::new()
                };
                listing.insert(format!("{path}{target}"));
                if kind.is_dir() {
                    waiting.push(entry.path().to_owned());
                }
            }
        }
        listing
    }

    /// Fails unless everything is there that was before, and nothing else.
    pub(crate) fn assert_same(&self, before: &BTreeSet<String>) {
        let after = self.listing();
        let changed: Vec<_> = after.symmetric_difference(before).collect();
        assert!(changed.is_empty(), "{changed:?}");
    }
}

/// Everything that a command said.
pub(crate) fn all(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// A filter for system calls: those of later kernels are answered with ENOSYS.
fn old_kernel() -> Vec<u8> {
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X86_64: u32 = 0xc000_003e;
    const ALLOW: u32 = 0x7fff_0000;
    const NO_SUCH_CALL: u32 = 0x0005_0000 + 38;
    let program = [
        (LOAD, 0, 0, 4),
        (JUMP_IF_EQUAL, 0, 2, X86_64),
        (LOAD, 0, 0, 0),
        (JUMP_IF_AT_LEAST, 1, 0, FIRST_NEW_CALL),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, NO_SUCH_CALL),
    ];
    let mut bytes = Vec::new();
    for (code, yes, no, value) in program {
        bytes.extend(u16::to_le_bytes(code));
        bytes.extend([yes, no]);
        bytes.extend(u32::to_le_bytes(value));
    }
    bytes
}
