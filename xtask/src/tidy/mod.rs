//! `cargo xtask tidy`: the rules of the project that neither the compiler nor clippy knows, as code.
//!
//! Every rule is a function from text or from `cargo metadata` to [`Problem`]s, so that each is
//! tested on small inputs. All problems of the workspace are told at once.

mod graph;
mod licence;
mod text;

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// A rule that is broken at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    /// Path from the root of the workspace, with `/`.
    file: String,
    /// Counted from one.
    line: usize,
    message: String,
}

impl Problem {
    fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// Checks the workspace at `root`; fails if any rule is broken.
pub(crate) fn tidy(root: &Path) -> anyhow::Result<()> {
    let files = files(root)?;
    let mut problems = Vec::new();
    for file in &files {
        problems.extend(text::check_name(file));
        let bytes = fs_err::read(root.join(file))?;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            problems.extend(text::check(file, text));
        }
    }
    let metadata = metadata(root)?;
    let read = |file: &str| fs_err::read_to_string(root.join(file));
    for member in graph::members(&metadata, root)? {
        problems.extend(graph::check_direction(&member, &read(&member.manifest)?));
    }
    let lock = read("Cargo.lock")?;
    problems.extend(graph::check_runtimes(&metadata, &lock)?);
    problems.extend(licence::check(&metadata, &lock)?);

    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => println!("tidy: {} files keep every rule", files.len()),
        count => bail!("{count} broken rule(s)"),
    }
    Ok(())
}

/// Every file that git tracks or would track, as paths from `root`.
fn files(root: &Path) -> anyhow::Result<Vec<String>> {
    let listed = output(Command::new("git").current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    // A file that was just deleted is still in git's index; a link to a folder is no text.
    let files: Vec<_> = listed
        .split('\0')
        .filter(|file| !file.is_empty() && root.join(file).is_file())
        .map(str::to_owned)
        .collect();
    ensure!(!files.is_empty(), "git knows no files in `{}`", root.display());
    Ok(files)
}

fn metadata(root: &Path) -> anyhow::Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let text = output(Command::new(cargo).current_dir(root).args([
        "metadata",
        "--locked",
        "--format-version=1",
    ]))?;
    serde_json::from_str(&text).context("cannot read what `cargo metadata` says")
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed ({}): {}", output.status, talk.trim());
    String::from_utf8(output.stdout).context("output is not UTF-8")
}

/// The line of the first line of `text` for which `found` holds, or 1.
fn line_where(text: &str, found: impl Fn(&str) -> bool) -> usize {
    text.lines().position(found).map_or(1, |index| index + 1)
}

/// The array `value[key]`.
fn array<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("`cargo metadata` has no list `{key}`"))
}

/// The text `value[key]`.
fn string<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    value[key].as_str().with_context(|| format!("`cargo metadata` has no text `{key}`"))
}
