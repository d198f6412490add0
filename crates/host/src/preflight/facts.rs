//! Where facts of a machine come from: files below a root, programs, and the resolver of names.
//!
//! Judges get what was read and look at nothing themselves, so that tests bring what was recorded.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, Read as _};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use package::Cancel;

use super::script;
use crate::check::Verdict;
use crate::platform;

/// How much of a file is read.
const TEXT_MAX_BYTES: u64 = 8 << 20;
/// How long a program of the machine may take to tell something.
const PROGRAM_MAX: Duration = Duration::from_secs(10);
/// Where programs are, those for administrators included, which are not on everybody's path.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A machine to look at.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The folder that is its `/`.
    pub root: Utf8PathBuf,
    /// Where programs are searched for.
    pub path: String,
    /// What is no file.
    pub outside: Arc<dyn Outside>,
    /// Whether all of it is looked at, even if an installation leaves the machine alone.
    pub is_machine: bool,
}

/// What a machine tells by other means than files.
pub trait Outside: Debug + Send + Sync {
    /// Runs a program to its end.
    fn run(&self, program: &str, arguments: &[&str], cancel: &Cancel) -> Said;
    /// The addresses of a name.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// What a program said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// Whether there is such a program.
    pub is_there: bool,
    /// Whether it ended well.
    pub is_good: bool,
    /// What it wrote.
    pub text: String,
    /// What it wrote to standard error.
    pub errors: String,
}

impl Said {
    /// What it wrote, if it ended well.
    pub(super) fn good(&self) -> Option<&str> {
        self.is_good.then_some(self.text.trim())
    }

    /// The last line that says why it failed.
    pub(super) fn reason(&self) -> String {
        let lines = self.errors.lines().chain(self.text.lines());
        let lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
        let kept = if self.errors.trim().is_empty() { lines.last() } else { lines.first() };
        kept.map_or_else(|| "it said nothing".to_owned(), |line| line.escape_debug().to_string())
    }
}

/// The machine that this program runs on.
#[derive(Debug, Clone)]
pub struct ThisMachine {
    path: String,
}

impl Outside for ThisMachine {
    fn run(&self, program: &str, arguments: &[&str], cancel: &Cancel) -> Said {
        let Some(found) = find(Utf8Path::new("/"), &self.path, program) else {
            return Said::default();
        };
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        let environment = BTreeMap::from([
            ("PATH".to_owned(), self.path.clone()),
            ("LC_ALL".to_owned(), "C".to_owned()),
        ]);
        match script::run(&found, arguments, PROGRAM_MAX, &environment, cancel) {
            Ok(ran) => {
                let is_good = ran.verdict == Verdict::Passed;
                Said { is_there: true, is_good, text: ran.output, errors: ran.errors }
            }
            Err(_) => Said { is_there: true, ..Said::default() },
        }
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut found: Vec<IpAddr> = (name, 0).to_socket_addrs()?.map(|at| at.ip()).collect();
        found.sort();
        found.dedup();
        Ok(found)
    }
}

impl Facts {
    /// The machine that this program runs on; `path` is the search path of who asks.
    pub fn this(path: &str) -> Self {
        let path = format!("{path}:{USUAL_PATH}");
        let outside = Arc::new(ThisMachine { path: path.clone() });
        Self { root: "/".into(), path, outside, is_machine: false }
    }

    /// A machine in a folder, such as an image that is mounted: its programs cannot be asked.
    pub fn of_folder(root: Utf8PathBuf, path: &str) -> Self {
        let outside = Arc::new(ThisMachine { path: String::new() });
        Self { root, outside, is_machine: true, ..Self::this(path) }
    }

    /// Where a path of the machine lies.
    pub(super) fn at(&self, path: impl AsRef<Utf8Path>) -> Utf8PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file; nothing if it cannot be read.
    pub(crate) fn text(&self, path: impl AsRef<Utf8Path>) -> Option<String> {
        let mut bytes = Vec::new();
        let file = fs_err::File::open(self.at(path)).ok()?;
        file.take(TEXT_MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The same in one line.
    pub(crate) fn line(&self, path: impl AsRef<Utf8Path>) -> Option<String> {
        self.text(path).map(|text| text.trim().to_owned())
    }

    pub(super) fn exists(&self, path: impl AsRef<Utf8Path>) -> bool {
        fs_err::symlink_metadata(self.at(path)).is_ok()
    }

    /// The names in a folder, sorted; none if there is no such folder.
    pub(super) fn names(&self, path: impl AsRef<Utf8Path>) -> Vec<String> {
        let entries = fs_err::read_dir(self.at(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// What a link says.
    pub(super) fn link(&self, path: impl AsRef<Utf8Path>) -> Option<String> {
        let target = fs_err::read_link(self.at(path)).ok()?;
        Some(target.to_string_lossy().into_owned())
    }

    /// Where a program is.
    pub(super) fn program(&self, name: &str) -> Option<Utf8PathBuf> {
        find(&self.root, &self.path, name)
    }
}

/// Searches for a program; one with a slash in its name is a path.
fn find(root: &Utf8Path, path: &str, name: &str) -> Option<Utf8PathBuf> {
    let is_program = |path: &Utf8PathBuf| {
        let at = root.join(path.strip_prefix("/").unwrap_or(path));
        fs_err::metadata(at)
            .is_ok_and(|found| found.is_file() && platform::process::is_executable(&found))
    };
    if name.contains('/') {
        return Some(Utf8PathBuf::from(name)).filter(is_program);
    }
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders.map(|folder| Utf8Path::new(folder).join(name)).find(is_program)
}
