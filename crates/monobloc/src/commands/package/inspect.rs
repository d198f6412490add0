//! `monobloc package inspect`: what is in an archive.

use camino::Utf8PathBuf;
use package::archive;
use package::manifest::Entry;
use package::pkginfo::{PKGINFO, PkgInfo};
use serde_json::json;

use super::{id_of, manifest_of};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{self, Output};

/// Show what is in a package: digest, what it needs, every file
#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    /// The archive
    archive: Utf8PathBuf,
}

pub(super) fn run(
    context: &Context,
    arguments: &InspectArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let archive = &arguments.archive;
    let id = id_of(archive)?;
    let unpacked = manifest_of(context, archive)?;
    let manifest = &unpacked.manifest;
    let info = match archive::read_file(archive, PKGINFO)? {
        Some(bytes) => PkgInfo::parse(&bytes)?,
        None => {
            return Err(Failure::new(format!(
                "`{archive}` is not a package: it has no `{PKGINFO}`"
            )));
        }
    };
    if output.is_json() {
        let entries: serde_json::Map<_, _> = manifest
            .entries()
            .iter()
            .map(|(path, entry)| Ok((path.to_string(), serde_json::to_value(entry)?)))
            .collect::<Result<_, serde_json::Error>>()?;
        output.json(&json!({
            "schema": "monobloc.package.inspect/1",
            "id": id,
            "digest": manifest.digest(),
            "has_manifest": unpacked.verified,
            "unpacked_bytes": manifest.size(),
            "pkginfo": info,
            "entries": entries,
        }))?;
        return Ok(Outcome::Done);
    }
    output.line(&format!("package   {id}"))?;
    output.line(&format!("digest    {}", manifest.digest()))?;
    if !unpacked.verified {
        output.line("manifest  none: made by the reference; this digest is of what was found")?;
    }
    let files = manifest
        .entries()
        .values()
        .filter(|entry| !matches!(entry, Entry::Directory { .. }))
        .count();
    output
        .line(&format!("content   {files} files and links, {}", render::bytes(manifest.size())))?;
    output.line(&format!("pkginfo   {}", info.to_json().replace('\n', "\n          ")))?;
    output.line("")?;
    for (path, entry) in manifest.entries() {
        output.line(&match entry {
            Entry::Directory { mode } => format!("{mode} {:>12} {path}/", ""),
            Entry::File { mode, size, .. } => format!("{mode} {size:>12} {path}"),
            Entry::Link { target } => format!("link {:>12} {path} -> {target}", ""),
        })?;
    }
    Ok(Outcome::Done)
}
