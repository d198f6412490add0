//! A tree, the one file that is made of it, and the folder in which a cluster is configured.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use testing::files::write_files;

use crate::root::all;

/// The name of the one file.
pub(crate) const FILE: &str = "test_generate_config.sh";

/// A script that takes a package as it lies in the folder `extra` of the package.
const SCRIPT: &str = "#!/bin/sh\ncp -R /pkg/extra/. \"$PKG_PATH/\"\n";

const PARAMETERS: &str = "include: [cluster]\nroles: [master, slave]\nparameters:\n  greeting:\n    \
                          type: string\n    default: hello\n    description: What to say.\n";

pub(crate) struct Site {
    _folder: tempfile::TempDir,
    pub(crate) folder: Utf8PathBuf,
}

impl Site {
    /// A site with version 1 built.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().to_owned();
        let site = Self { _folder: folder, folder: path };
        site.build("1");
        site
    }

    pub(crate) fn path(&self, path: &str) -> Utf8PathBuf {
        self.folder.join(path)
    }

    /// Writes the tree in a version, and makes the one file of it.
    pub(crate) fn build(&self, version: &str) {
        let distribution =
            format!("name = \"test\"\nversion = \"{version}\"\nupgrade_from = [\"1\"]\n");
        let kv = format!("#!/bin/sh\necho kv {version}\n");
        write_files(
            &self.path("tree"),
            &[
                ("distribution.toml", distribution.as_str(), 0o644),
                ("config/parameters.yaml", PARAMETERS, 0o644),
                ("config/files/etc/greeting", "{{ greeting }} from {{ cluster_name }}\n", 0o644),
                ("config/files/bin/greet", "#!/bin/sh\ncat /opt/test/etc/greeting\n", 0o755),
                ("kv/buildinfo.json", "{}", 0o644),
                ("kv/build", SCRIPT, 0o755),
                ("kv/extra/bin/kv", &kv, 0o755),
                ("kv/extra/etc_master/leads", "", 0o644),
                ("kv/extra/etc_slave/follows", "", 0o644),
                ("kv/extra/test.target.wants_master/kv-leader.service", UNIT, 0o644),
                ("kv/extra/test.target.wants/kv.service", UNIT, 0o644),
                ("base/buildinfo.json", "{}", 0o644),
                ("base/build", SCRIPT, 0o755),
                ("base/extra/bin/base", "#!/bin/sh\necho base\n", 0o755),
            ],
        )
        .unwrap();
        let program = static_program();
        let words = ["build", "tree", "-o", FILE, "--program", program.as_str()];
        self.monobloc(&words);
    }

    /// Writes what the cluster is told to be.
    pub(crate) fn write_config(&self, url: &str) {
        let text = format!(
            "cluster_name: Harbour\nbootstrap_url: {url}\nmaster_discovery: static\n\
             master_list: [127.0.0.1]\n\
             agent_list: [127.0.0.2]\ngreeting: good day\n"
        );
        write_files(&self.path("genconf"), &[("config.yaml", text, 0o644)]).unwrap();
    }

    pub(crate) fn monobloc(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}\n{}", all(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monobloc"));
        command.args(words).current_dir(&self.folder);
        command.env("XDG_CACHE_HOME", self.path("cache")).env_remove("MONOBLOC_PROGRAM");
        command
    }

    /// Serves a folder or a file on loopback.
    pub(crate) fn serve(&self, words: &[&str]) -> Server {
        let words = [&["serve", "--listen", "127.0.0.1:0"], words].concat();
        let mut child =
            self.command(&words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines.find_map(|line| {
            let line = line.unwrap();
            line.split_whitespace()
                .find(|word| word.starts_with("http://"))
                .map(|url| url.trim_end_matches(['/', ',', '.']).to_owned())
        });
        // Whoever stops reading would stop the server.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, url: url.unwrap() }
    }
}

const UNIT: &str = "[Service]\nExecStart=/opt/test/bin/kv\n";

/// The program as hosts get it.
pub(crate) fn static_program() -> Utf8PathBuf {
    let program = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/dist/monobloc");
    let found = program.canonicalize_utf8();
    found.unwrap_or_else(|_| {
        panic!("`{program}` is missing: `cargo xtask dist` makes it, as `./check` does")
    })
}

/// A server that ends with the test.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
