//! What the tests of all kinds share.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use build::program::{Environment, Program};
use build::source::{
    Pinned, Registry, SourceCache, SourceContext, SourceError, SourceSpec, SourceWarning,
};
use camino::{Utf8Path, Utf8PathBuf};
use download::{Downloader, Settings};
use package::{Cancel, Sha256};
use tempfile::TempDir;
use testing::files::write_files;

/// A folder with a package folder, a cache, and places to check out to.
pub(super) struct Bench {
    folder: TempDir,
    pub(super) environment: Environment,
    pub(super) offline: bool,
    pub(super) cancel: Cancel,
    downloader: Downloader,
    warnings: Mutex<Vec<SourceWarning>>,
}

impl Bench {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["package", "home", "bin"] {
            fs_err::create_dir(folder.path().join(name)).unwrap();
        }
        let home = folder.path().join("home");
        let settings = Settings { backoff_first: Duration::from_millis(1), ..Settings::default() };
        Self {
            environment: Environment::of_process()
                .with("HOME", &home)
                .with("XDG_CONFIG_HOME", &home)
                .with("CARGO_HOME", home.join("cargo")),
            folder,
            offline: false,
            cancel: Cancel::new(),
            downloader: Downloader::new(settings),
            warnings: Mutex::default(),
        }
    }

    pub(super) fn path(&self, name: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.folder.path()).unwrap().join(name)
    }

    fn cache(&self) -> SourceCache {
        SourceCache::new(self.path("cache"))
    }

    pub(super) fn with_context<T>(&self, act: impl FnOnce(&SourceContext<'_>) -> T) -> T {
        let package = self.path("package");
        act(&SourceContext {
            package_folder: &package,
            offline: self.offline,
            cancel: &self.cancel,
            environment: &self.environment,
            downloader: &self.downloader,
            progress: &|_| {},
            warn: &|warning| self.warnings.lock().unwrap().push(warning),
        })
    }

    pub(super) fn fetch(&self, spec: &SourceSpec) -> Result<(), SourceError> {
        self.with_context(|context| self.cache().fetch(spec, context))
    }

    /// Checks out to `out`.
    pub(super) fn checkout(&self, spec: &SourceSpec) -> Result<(), SourceError> {
        let target = self.path("out");
        self.with_context(|context| self.cache().checkout(spec, context, &target))
    }

    pub(super) fn identity(&self, spec: &SourceSpec) -> Result<String, SourceError> {
        self.with_context(|context| spec.identity(context)).map(|value| value.to_string())
    }

    /// Fetches and checks out, then again without network from the cache alone.
    pub(super) fn checked_out(&mut self, spec: &SourceSpec) -> BTreeMap<String, String> {
        self.fetch(spec).unwrap();
        self.checkout(spec).unwrap();
        let files = self.files("out");
        fs_err::remove_dir_all(self.path("out")).unwrap();
        self.offline = true;
        self.fetch(spec).unwrap();
        self.checkout(spec).unwrap();
        assert_eq!(self.files("out"), files);
        files
    }

    /// The files below a folder: their paths, and their contents after their permission bits.
    /// Folders of git are left out.
    pub(super) fn files(&self, folder: &str) -> BTreeMap<String, String> {
        let root = self.path(folder);
        let mut files = BTreeMap::new();
        let entries = walkdir::WalkDir::new(&root).into_iter();
        for entry in entries.filter_entry(|entry| entry.file_name() != ".git") {
            let entry = entry.unwrap();
            let path = Utf8Path::from_path(entry.path()).unwrap();
            if entry.file_type().is_file() {
                let name = path.strip_prefix(&root).unwrap().to_string();
                let content = String::from_utf8_lossy(&fs_err::read(path).unwrap()).into_owned();
                files.insert(name, format!("{:o} {content}", mode(path)));
            }
        }
        files
    }

    /// Asserts that nothing was checked out and nothing half-done is left anywhere.
    pub(super) fn assert_nothing_left(&self) {
        let entries = walkdir::WalkDir::new(self.folder.path()).into_iter();
        for entry in entries.filter_entry(|entry| entry.file_name() != "home") {
            let entry = entry.unwrap();
            let name = entry.file_name().to_str().unwrap();
            let half_done =
                name.contains(".part") || entry.depth() > 0 && name.starts_with(".tmp-");
            assert!(!half_done && name != "out", "{}", entry.path().display());
        }
    }

    /// The files in the cache that something is known by; locks are not.
    pub(super) fn cached(&self) -> Vec<String> {
        let mut files = BTreeMap::new();
        if self.path("cache").exists() {
            files = self.files("cache");
        }
        files.into_keys().filter(|file| !file.starts_with("locks/")).collect()
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap().iter().map(ToString::to_string).collect()
    }

    /// Makes a program that is found before the real one.
    pub(super) fn program(&mut self, name: &str, script: &str) {
        let script = format!("#!/bin/sh\nset -eu\n{script}\n");
        write_files(&self.path("bin"), &[(name, script, 0o755)]).unwrap();
        let path = self.environment.get("PATH").unwrap().to_str().unwrap();
        let path = format!("{}:{path}", self.path("bin"));
        self.environment = self.environment.clone().with("PATH", path);
    }

    /// Makes all programs missing but those that were made here.
    pub(super) fn without_programs(&mut self) {
        let path = self.path("bin").into_string();
        self.environment = self.environment.clone().with("PATH", path);
    }

    /// Runs git in a folder.
    pub(super) fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let mut environment = self.environment.clone();
        for role in ["AUTHOR", "COMMITTER"] {
            environment = environment
                .with(format!("GIT_{role}_NAME"), "Test")
                .with(format!("GIT_{role}_EMAIL"), "test@localhost")
                .with(format!("GIT_{role}_DATE"), "2020-01-01T00:00:00Z");
        }
        let program = Program::new("git", environment).args(arguments.iter().copied());
        let output = program.directory(&self.path(folder)).run(&Cancel::new()).unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Makes a repository with a commit of a plain file and a program, and returns the commit.
    pub(super) fn repository(&self, folder: &str) -> String {
        fs_err::create_dir_all(self.path(folder)).unwrap();
        self.git(folder, &["init", "--quiet", "--initial-branch=main"]);
        let files = [("plain", "one\n", 0o664), ("program", "#!/bin/sh\n", 0o775)];
        write_files(&self.path(folder), &files).unwrap();
        self.commit(folder)
    }

    pub(super) fn commit(&self, folder: &str) -> String {
        self.git(folder, &["add", "."]);
        self.git(folder, &["commit", "--quiet", "--message=x"]);
        self.git(folder, &["rev-parse", "HEAD"])
    }
}

/// The error with all its causes, as the command line prints it.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

pub(super) fn pinned(registry: Registry, name: &str, version: &str, content: &[u8]) -> Pinned {
    Pinned::new(registry, name, version, Sha256::of(content)).unwrap()
}

/// The path in the cache of a file with this content.
pub(super) fn blob(content: &[u8]) -> String {
    let hex = Sha256::of(content).to_string();
    format!("sha256/{}/{hex}", &hex[..2])
}

/// What a checkout is expected to have.
pub(super) fn expected(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect()
}

fn mode(path: &Utf8Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::metadata(path).unwrap().permissions().mode() & 0o7777
}
