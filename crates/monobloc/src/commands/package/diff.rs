//! `monobloc package diff`: what differs between two packages.

use camino::Utf8PathBuf;
use package::manifest::Entry;
use serde_json::json;

use super::manifest_of;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Show what differs between two packages; like `diff`, exits with 1 if something does
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// The archive to compare with
    old: Utf8PathBuf,
    /// The other archive
    new: Utf8PathBuf,
}

pub(super) fn run(
    context: &Context,
    arguments: &DiffArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let old = manifest_of(context, &arguments.old)?.manifest;
    let new = manifest_of(context, &arguments.new)?.manifest;
    let differences: Vec<_> = old
        .differences(&new)
        .map(|(path, before, after)| match (before, after) {
            (None, _) => ("+", path, String::new()),
            (_, None) => ("-", path, String::new()),
            (Some(before), Some(after)) => ("~", path, changes(before, after)),
        })
        .collect();
    if output.is_json() {
        let change = |sign| match sign {
            "+" => "added",
            "-" => "removed",
            _ => "changed",
        };
        let differences: Vec<_> = differences
            .iter()
            .map(|(sign, path, _)| {
                json!({ "path": path.as_str(), "change": change(*sign), "old": old.get(path.as_str()), "new": new.get(path.as_str()) })
            })
            .collect();
        output.json(&json!({ "schema": "monobloc.package.diff/1", "equal": differences.is_empty(), "differences": differences }))?;
    } else {
        for (sign, path, what) in &differences {
            output.line(format!("{sign} {path} {what}").trim_end())?;
        }
    }
    Ok(if differences.is_empty() { Outcome::Done } else { Outcome::Failed })
}

fn changes(before: &Entry, after: &Entry) -> String {
    match (before, after) {
        (Entry::Directory { mode: before }, Entry::Directory { mode: after }) => {
            format!("mode {before} → {after}")
        }
        (Entry::Link { target: before }, Entry::Link { target: after }) => {
            format!("link {before} → {after}")
        }
        (
            Entry::File { mode: old_mode, size: old_size, sha256: old_sha256 },
            Entry::File { mode, size, sha256 },
        ) => {
            let mut changes = Vec::new();
            if old_mode != mode {
                changes.push(format!("mode {old_mode} → {mode}"));
            }
            if old_size != size {
                changes.push(format!("size {old_size} → {size}"));
            } else if old_sha256 != sha256 {
                changes.push("content".to_owned());
            }
            changes.join(", ")
        }
        _ => "type".to_owned(),
    }
}
