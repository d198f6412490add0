//! A home, a working directory and a tree for one test, and the program run in them.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
use insta::internals::SettingsBindDropGuard;
use package::archive::{self, PackOptions};
use testing::files::write_files;

/// A script that installs a program.
pub(crate) const SCRIPT: &str = "#!/bin/sh\nset -eu\nmkdir \"$PKG_PATH/bin\"\n\
     echo '#!/bin/sh' > \"$PKG_PATH/bin/$PKG_NAME\"\nchmod 755 \"$PKG_PATH/bin/$PKG_NAME\"\n";

/// A script that says something and fails.
pub(crate) const BROKEN: &str = "#!/bin/sh\necho 'looking for libz'\necho 'no libz' >&2\nexit 3\n";

/// A file of a package: path, content and mode.
pub(crate) type File<'a> = (&'a str, &'a str, u32);

/// A folder of its own that is gone after the test; it is the working directory of the programs
/// that the test runs. While it lives, snapshots have no paths, ids, sizes and times in them.
pub(crate) struct TestEnv {
    folder: Utf8PathBuf,
    _filters: SettingsBindDropGuard,
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cli-{}-{number}", std::process::id());
        let folder = Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs_err::create_dir_all(folder.join("home")).unwrap();
        write_files(&folder, &[("home/program", &stand_in(), 0o755)]).unwrap();
        let mut settings = insta::Settings::clone_current();
        for (pattern, shown) in [
            (folder.as_str(), "[TEMP]"),
            (r"\bRW[A-Za-z0-9+/]{54}", "[KEY]"),
            (r"\b[0-9a-f]{64}\b", "[DIGEST]"),
            (r"\b[0-9a-f]{40}\b", "[HASH]"),
            (r"setup_[0-9a-f]{40}", "setup_[HASH]"),
            (r#""bytes": \d+"#, r#""bytes": [SIZE]"#),
            (r"\b\d+(\.\d+)? ([KM]iB|B)\b", "[SIZE]"),
            (r#"_bytes": \d+"#, r#"_bytes": [SIZE]"#),
            (r" +\d+ buildinfo\.full\.json", "       [SIZE] buildinfo.full.json"),
            (r"\b\d+\.\d s\b", "[TIME]"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[WHEN]"),
            (r#""seconds": [0-9.e-]+"#, r#""seconds": [TIME]"#),
        ] {
            settings.add_filter(pattern, shown);
        }
        Self { folder, _filters: settings.bind_to_scope() }
    }

    /// One with a tree of these files in `tree`.
    pub(crate) fn of_tree(files: &[(&str, &str)]) -> Self {
        let env = Self::new();
        env.write_tree(files);
        env
    }

    /// Writes or replaces files of the tree; everything named `build` can be executed.
    pub(crate) fn write_tree(&self, files: &[(&str, &str)]) {
        let mode = |path: &str| {
            if path.ends_with("build") { 0o755 } else { 0o644 }
        };
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, *text, mode(path))).collect();
        write_files(&self.path("tree"), &files).unwrap();
    }

    /// Writes or replaces `genconf/config.yaml`.
    pub(crate) fn write_config(&self, text: &str) {
        write_files(&self.path("genconf"), &[("config.yaml", text, 0o644)]).unwrap();
    }

    /// Packs these files into `name`, with a `pkginfo.json`.
    pub(crate) fn pack(&self, name: &str, files: &[File<'_>]) {
        let folder = self.path("to-pack");
        write_files(&folder, &[("pkginfo.json", r#"{"requires":["base"],"variant":null}"#, 0o644)])
            .unwrap();
        write_files(&folder, files).unwrap();
        archive::pack(&folder, &self.path(name), &PackOptions::default()).unwrap();
        fs_err::remove_dir_all(folder).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> Utf8PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs_err::read_to_string(self.path(name)).unwrap()
    }

    /// The names of the files in a folder, sorted.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = self.path(folder).read_dir_utf8().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_owned()).collect();
        names.sort();
        names
    }

    /// The one file below the tree's cache of packages whose name starts with `name` and ends with
    /// `suffix`.
    pub(crate) fn built(&self, name: &str, suffix: &str) -> Utf8PathBuf {
        let folder = format!("tree/cache/packages/{name}");
        let names = self.names(&folder);
        let found: Vec<_> = names.iter().filter(|name| name.ends_with(suffix)).collect();
        assert_eq!(found.len(), 1, "{names:?}");
        self.path(&folder).join(found[0])
    }

    /// A program that gets nothing of the environment of the test but `PATH`.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("home"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("MONOBLOC_PROGRAM", self.path("home/program"));
        command
    }

    pub(crate) fn monobloc(&self, arguments: &[&str]) -> Command {
        self.command(assert_cmd::cargo::cargo_bin!("monobloc").to_str().unwrap(), arguments)
    }

    /// The program under its old name, in a folder.
    pub(crate) fn mkpanda(&self, folder: &str, arguments: &[&str]) -> Command {
        let program = self.path("mkpanda");
        if !program.exists() {
            fs_err::os::unix::fs::symlink(assert_cmd::cargo::cargo_bin!("monobloc"), &program)
                .unwrap();
        }
        let mut command = self.command(program.as_str(), arguments);
        command.current_dir(self.path(folder));
        command
    }

    /// Runs `monobloc` and shows how it ended.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        show(&mut self.monobloc(arguments))
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        package::durable::remove_tree(&self.folder).unwrap();
    }
}

/// What hosts get for the program, which is large: a script that runs it.
fn stand_in() -> String {
    let program = assert_cmd::cargo::cargo_bin!("monobloc");
    format!("#!/bin/sh\nexec {} \"$@\"\n", program.display())
}

/// Runs a command and shows exit code, standard output and standard error.
pub(crate) fn show(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    format!("exit: {}\n--- stdout\n{stdout}--- stderr\n{stderr}", output.status.code().unwrap())
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}
