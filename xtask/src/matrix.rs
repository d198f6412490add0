//! `cargo xtask matrix`: `docs/matrix.md`, from what the tests on every release noted, one file for each in
//! `target/tmp/matrix`. `./check --matrix` runs both.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::Value;

const TABLE: &str = "docs/matrix.md";
const HEAD: &str = "# Releases\n\n\
    On each of these, a master and an agent of a small distribution are installed by script, upgraded, go back by themselves from a version\n\
    whose checks fail, are rolled back by hand and uninstalled; then files, units, users, mounts, kernel settings,\n\
    addresses and firewall are compared with what they were before. Last, users become root by the release's `sudo`, with a\n\
    password and without, over SSH. `./check --matrix` does it and writes this page.\n\n";

/// Writes the table; fails if a release did not do all of it.
pub(crate) fn matrix(root: &Path) -> anyhow::Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let folder = root.join(target.unwrap_or_else(|| "target".into())).join("tmp/matrix");
    let mut files = fs_err::read_dir(&folder)
        .context("no release noted anything; `./check --matrix` runs the tests")?
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    // Their names begin with numbers.
    files.sort();
    let mut releases = Vec::new();
    for file in files {
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = name.split_once('-').map_or(name, |(_, name)| name).to_owned();
        releases.push((name, serde_json::from_slice(&fs_err::read(&file)?)?));
    }
    let (text, is_whole) = table(&releases);
    fs_err::write(root.join(TABLE), format!("{HEAD}{text}"))?;
    println!("{TABLE}\n{text}");
    ensure!(is_whole, "not every release did everything");
    Ok(())
}

/// The table of what releases noted, and whether all of them did everything.
fn table(releases: &[(String, Value)]) -> (String, bool) {
    let words = |value: &Value| -> Vec<String> {
        let words = value.as_array().into_iter().flatten();
        words.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let steps = releases.first().map(|(_, noted)| words(&noted["steps"])).unwrap_or_default();
    let mut text = format!("| release | | systemd | glibc | {} |\n", steps.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(4 + steps.len()));
    let mut is_whole = !steps.is_empty();
    for (name, noted) in releases {
        let passed = words(&noted["passed"]);
        let cell = |key: &str| noted[key].as_str().unwrap_or("?");
        let _ = write!(
            text,
            "| `{name}` | {} | {} | {} |",
            cell("system"),
            cell("systemd"),
            cell("glibc")
        );
        for step in &steps {
            let is_passed = passed.contains(step);
            is_whole &= is_passed;
            let _ = write!(text, " {} |", if is_passed { "yes" } else { "**no**" });
        }
        text.push('\n');
    }
    (text, is_whole)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_release_that_did_not_do_everything_is_told() {
        let noted = |passed: &[&str]| json!({ "system": "One 1", "systemd": "2", "glibc": "3", "steps": ["a", "b"], "passed": passed });
        let releases = [("x".to_owned(), noted(&["a", "b"])), ("y".to_owned(), noted(&["a"]))];
        assert_eq!(
            table(&releases),
            (
                "| release | | systemd | glibc | a | b |\n|---|---|---|---|---|---|\n\
                 | `x` | One 1 | 2 | 3 | yes | yes |\n| `y` | One 1 | 2 | 3 | yes | **no** |\n"
                    .to_owned(),
                false
            )
        );
        assert!(table(&releases[..1]).1);
        // One that failed before there was a host.
        let none = json!({ "steps": ["a"], "passed": [] });
        let (text, is_whole) = table(&[("z".to_owned(), none)]);
        assert!(text.ends_with("| `z` | ? | ? | ? | **no** |\n") && !is_whole, "{text}");
        assert!(!table(&[]).1, "nothing is not everything");
    }
}
