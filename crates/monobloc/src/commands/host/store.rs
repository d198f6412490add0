//! The commands about packages: add, fetch, list, verify, remove, collect.

use camino::Utf8PathBuf;
use host::HostError;
use host::store::{Added, Repository, Trust};
use package::PackageId;
use package::manifest::Entry;
use serde_json::{Value, json};

use super::{Call, failure, read_key};
use crate::failure::{Failure, Outcome};
use crate::render::plural;

/// Add packages to the store from their archives
///
/// An archive is verified against its manifest while it is unpacked. An archive without one, as the
/// reference made them, can be added and is marked unverified.
#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    /// The archives, each named NAME--VERSION.tar.zst or .tar.xz
    #[arg(required = true, value_name = "ARCHIVE")]
    archives: Vec<Utf8PathBuf>,

    /// Take only what this public key signed, as ARCHIVE.minisig tells
    #[arg(long, value_name = "FILE|KEY")]
    public_key: Option<String>,
}

/// Get packages into the store from a repository
///
/// A download that was interrupted goes on where it ended. Packages that are there are not fetched.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  monobloc host fetch --repository-url https://mirror.example/stable etcd--3f1a caddy--09bc")]
pub(super) struct FetchArgs {
    /// The packages
    #[arg(required = true, value_name = "ID")]
    ids: Vec<PackageId>,

    /// Where the folder `packages` of the repository is: http, https or file
    #[arg(long, value_name = "URL")]
    repository_url: String,

    /// Take only what this public key signed
    #[arg(long, value_name = "FILE|KEY")]
    public_key: Option<String>,
}

/// List the packages in the store
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {}

/// Compare every byte of packages with their manifests
#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    /// The packages; all of the store if none is named
    #[arg(value_name = "ID")]
    ids: Vec<PackageId>,
}

/// Remove packages that no generation uses
#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    /// The packages
    #[arg(required = true, value_name = "ID")]
    ids: Vec<PackageId>,

    /// Give up the generations that use them; the live one never
    #[arg(long)]
    with_generations: bool,
}

/// Remove old generations, and every package that none of the others uses
///
/// The live generation and the one before it always stay. A package that was fetched for later is
/// used by none.
#[derive(Debug, clap::Args)]
pub(super) struct CollectArgs {
    /// How many of the newest generations to keep
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    keep: usize,
}

pub(super) fn add(call: &Call<'_>, arguments: &AddArgs) -> Result<Outcome, Failure> {
    let trust = Trust { key: read_key(arguments.public_key.as_deref())?, ..Trust::default() };
    let (cancel, archives) = (&call.context.cancel, &arguments.archives);
    report_added(call, &call.host.store.add_all(archives, &trust, cancel, call.progress)?)
}

pub(super) fn fetch(call: &Call<'_>, arguments: &FetchArgs) -> Result<Outcome, Failure> {
    let here = call.context.absolute(".".into())?;
    let repository = Repository::parse(&arguments.repository_url, &here)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let trust = Trust { key: read_key(arguments.public_key.as_deref())?, ..Trust::default() };
    let (cancel, ids) = (&call.context.cancel, &arguments.ids);
    report_added(call, &call.host.store.fetch_all(&repository, ids, &trust, cancel, call.progress)?)
}

fn report_added(call: &Call<'_>, added: &[Added]) -> Result<Outcome, Failure> {
    if call.output.is_json() {
        let packages: Vec<Value> =
            added.iter().map(|added| json!({ "id": added.id, "already": added.already })).collect();
        call.output.json(&json!({ "schema": "monobloc.host.add/1", "packages": packages }))?;
    }
    Ok(Outcome::Done)
}

pub(super) fn list(call: &Call<'_>, _: &ListArgs) -> Result<Outcome, Failure> {
    let ids = call.host.store.list()?;
    if call.output.is_json() {
        call.output.json(&json!({ "schema": "monobloc.host.list/1", "packages": ids }))?;
    } else {
        for id in &ids {
            call.output.line(&id.to_string())?;
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn verify(call: &Call<'_>, arguments: &VerifyArgs) -> Result<Outcome, Failure> {
    let ids =
        if arguments.ids.is_empty() { call.host.store.list()? } else { arguments.ids.clone() };
    let mut outcome = Outcome::Done;
    let mut results = Vec::new();
    for id in &ids {
        let (line, result) = match call.host.store.verify(id, &call.context.cancel) {
            Ok(differences) if differences.is_empty() => {
                let verified = call.host.store.load(id)?.verified;
                let note = if verified { "" } else { " (unverified: it came without a manifest)" };
                (
                    format!("ok      {id}{note}"),
                    json!({ "id": id, "ok": true, "verified": verified }),
                )
            }
            Ok(differences) => {
                // The digests of what is in it would help who guesses.
                let is_secret = call.host.store.load(id)?.is_secret();
                let lines: Vec<String> = differences
                    .iter()
                    .map(|(path, should, is)| {
                        format!("  {path}: {}", difference(should.as_ref(), is.as_ref()))
                    })
                    .collect();
                let paths: Vec<Value> = differences
                    .iter()
                    .map(|(path, should, is)| {
                        if is_secret {
                            return json!({ "path": path });
                        }
                        json!({ "path": path, "expected": should, "found": is })
                    })
                    .collect();
                (
                    format!("FAILED  {id}\n{}", lines.join("\n")),
                    json!({ "id": id, "ok": false, "differences": paths }),
                )
            }
            Err(error) => {
                let failure = Failure::of(&error);
                call.context.cancel.check()?;
                (
                    format!("FAILED  {id}: {}", failure.message()),
                    json!({ "id": id, "ok": false, "error": failure.message() }),
                )
            }
        };
        if result["ok"] == false {
            outcome = Outcome::Failed;
        }
        if !call.output.is_json() {
            call.output.line(&line)?;
        }
        results.push(result);
    }
    if call.output.is_json() {
        call.output.json(&json!({ "schema": "monobloc.host.verify/1", "packages": results }))?;
    }
    Ok(outcome)
}

fn difference(should: Option<&Entry>, is: Option<&Entry>) -> &'static str {
    match (should, is) {
        (None, _) => "it should not be there",
        (_, None) => "it is missing",
        (
            Some(Entry::File { size, sha256, .. }),
            Some(Entry::File { size: found_size, sha256: found, .. }),
        ) if (size, sha256) != (found_size, found) => "its content changed",
        (Some(Entry::Link { .. }), Some(Entry::Link { .. })) => "the link leads elsewhere",
        (Some(Entry::File { .. }), Some(Entry::File { .. }))
        | (Some(Entry::Directory { .. }), Some(Entry::Directory { .. })) => "its mode changed",
        _ => "it is of another type",
    }
}

pub(super) fn remove(call: &Call<'_>, arguments: &RemoveArgs) -> Result<Outcome, Failure> {
    let job = call.job("remove", "");
    for id in &arguments.ids {
        call.host
            .remove(id, arguments.with_generations, &job)
            .map_err(|error: HostError| failure(&error))?;
        if !call.output.is_json() {
            call.output.note(&format!("removed {id}"));
        }
    }
    if call.output.is_json() {
        let removed = &arguments.ids;
        call.output.json(&json!({ "schema": "monobloc.host.remove/1", "removed": removed }))?;
    }
    Ok(Outcome::Done)
}

pub(super) fn collect(call: &Call<'_>, arguments: &CollectArgs) -> Result<Outcome, Failure> {
    let job = call.job("collect", "");
    let collected =
        call.host.collect(arguments.keep, &job).map_err(|error: HostError| failure(&error))?;
    if call.output.is_json() {
        let (generations, packages) = (&collected.generations, &collected.packages);
        call.output.json(&json!({ "schema": "monobloc.host.collect/1", "generations": generations, "packages": packages }))?;
    } else {
        call.output.note(&format!(
            "removed {} and {}",
            plural(collected.generations.len(), "generation"),
            plural(collected.packages.len(), "package")
        ));
    }
    Ok(Outcome::Done)
}
