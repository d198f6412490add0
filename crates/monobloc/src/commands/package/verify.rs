//! `monobloc package verify`: is every byte what the manifest says, and the manifest signed?

use camino::Utf8PathBuf;
use package::archive::{self, UnpackOptions};
use package::sign::PublicKey;
use serde_json::{Value, json};

use super::{id_of, signature_of};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Check every byte of packages against their manifests, and their signatures
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The archives
    #[arg(required = true)]
    archives: Vec<Utf8PathBuf>,

    /// Also check ARCHIVE.minisig with this public key file
    #[arg(long, value_name = "FILE")]
    public_key: Option<Utf8PathBuf>,
}

pub(super) fn run(
    context: &Context,
    arguments: &VerifyArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let key = match &arguments.public_key {
        Some(file) => {
            let text = fs_err::read_to_string(file)?;
            Some(PublicKey::parse(&text).map_err(|error| Failure::of(&error).at(file))?)
        }
        None => None,
    };
    let mut results: Vec<Value> = Vec::new();
    let mut outcome = Outcome::Done;
    for archive in &arguments.archives {
        context.cancel.check()?;
        match verify(context, archive, key.as_ref()) {
            Ok(digest) => {
                results.push(json!({ "archive": archive, "ok": true, "digest": digest, "signature": key.as_ref().map(|_| "good") }));
                if !output.is_json() {
                    let signed = if key.is_some() { ", signature good" } else { "" };
                    output.line(&format!("ok      {archive} {digest}{signed}"))?;
                }
            }
            Err(failure) => {
                outcome = Outcome::Failed;
                results
                    .push(json!({ "archive": archive, "ok": false, "error": failure.message() }));
                if !output.is_json() {
                    output.line(&format!("FAILED  {archive}: {}", failure.message()))?;
                }
            }
        }
    }
    if output.is_json() {
        output.json(&json!({ "schema": "monobloc.package.verify/1", "archives": results }))?;
    }
    Ok(outcome)
}

fn verify(
    context: &Context,
    archive: &Utf8PathBuf,
    key: Option<&PublicKey>,
) -> Result<String, Failure> {
    let id = id_of(archive)?;
    let (bytes, manifest) = archive::read_manifest(archive)?;
    if let Some(key) = key {
        let file = signature_of(archive);
        if !file.exists() {
            return Err(Failure::new(format!("it is not signed: there is no `{file}`")));
        }
        let signature = fs_err::read_to_string(file)?;
        key.verify_package(&bytes, &signature, &id)?;
    }
    let options = UnpackOptions {
        expected: Some(manifest.digest()),
        cancel: context.cancel.clone(),
        ..Default::default()
    };
    archive::verify(archive, &options)?;
    Ok(manifest.digest().to_string())
}
