//! The process as commands see it: arguments, environment, terminal, working directory, Ctrl-C.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};

use build::program::Environment;
use camino::{Utf8Path, Utf8PathBuf};
use package::Cancel;

use crate::failure::Failure;

/// Everything that a command may know of the process it runs in.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Environment,
    /// Whether somebody watches standard error.
    pub(crate) interactive: bool,
    /// Whether somebody can be asked.
    pub(crate) can_ask: bool,
    /// Raised by Ctrl-C and by a request to end.
    pub(crate) cancel: Cancel,
}

impl Context {
    /// Asks the process, once.
    pub(crate) fn of_process() -> Self {
        let cancel = Cancel::new();
        // A lost terminal ends work as a request to end does; who does not care about it does not here.
        let hangup = Some(signal_hook::consts::SIGHUP).filter(|_| !ignores_hangup());
        let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
        for signal in signals.into_iter().chain(hangup) {
            // The first one asks us to stop; a second one does not ask.
            let armed = signal_hook::flag::register_conditional_default(signal, cancel.flag())
                .and_then(|_| signal_hook::flag::register(signal, cancel.flag()));
            debug_assert!(armed.is_ok(), "these signals can be handled");
        }
        remove_own_folder();
        Self {
            arguments: std::env::args_os().collect(),
            environment: Environment::of_process(),
            interactive: io::stderr().is_terminal(),
            can_ask: io::stderr().is_terminal() && io::stdin().is_terminal(),
            cancel,
        }
    }

    /// The value of an environment variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name)?.to_str().filter(|value| !value.is_empty())
    }

    /// The artifact that this program came in, if it came in one.
    pub(crate) fn artifact(&self) -> Option<&Utf8Path> {
        self.variable("MONOBLOC_ARTIFACT").map(Utf8Path::new)
    }

    /// The program that runs.
    pub(crate) fn program(&self) -> Result<Utf8PathBuf, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("cannot find this program itself: {error}")))?;
        if !program.exists() {
            // What runs is there for itself and its children, whatever became of its name.
            return Ok(SELF.into());
        }
        Utf8PathBuf::from_path_buf(program)
            .map_err(|path| Failure::new(format!("`{}` is not UTF-8", path.display())))
    }

    /// `path` as an absolute path, without a slash at its end: it becomes a part of texts.
    pub(crate) fn absolute(&self, path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
        camino::absolute_utf8(path)
            .map(|path| path.components().collect())
            .map_err(|error| Failure::new(format!("cannot use the path `{path}`: {error}")))
    }

    /// Where sources are kept that trees share.
    pub(crate) fn source_cache(&self) -> Result<Utf8PathBuf, Failure> {
        let base = match (self.variable("XDG_CACHE_HOME"), self.variable("HOME")) {
            (Some(cache), _) => Utf8PathBuf::from(cache),
            (None, Some(home)) => Utf8Path::new(home).join(".cache"),
            (None, None) => {
                return Err(Failure::usage("neither `XDG_CACHE_HOME` nor `HOME` is set")
                    .hint("say where to keep sources with `--source-cache`"));
            }
        };
        Ok(base.join("monobloc/sources"))
    }
}

/// This program, as it runs.
const SELF: &str = "/proc/self/exe";

/// Removes the folder that a script copied this program to, and only that: who is killed later leaves
/// nothing behind.
fn remove_own_folder() {
    let named = std::env::var_os("MONOBLOC_REMOVE_FOLDER").map(std::path::PathBuf::from);
    let (Some(named), Ok(program)) = (named, std::env::current_exe()) else { return };
    let is_ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(".monobloc-run-");
    if program.parent().and_then(|folder| folder.file_name()).is_some_and(is_ours)
        && named.canonicalize().is_ok_and(|named| program.parent() == Some(&named))
        && fs_err::remove_file(&program).is_ok()
    {
        // It is empty but for that; if not, it stays.
        let _ = fs_err::remove_dir(named);
    }
}

/// Whether whoever started this process wants it to outlive the terminal, as `nohup` does.
fn ignores_hangup() -> bool {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
