//! `monobloc package sign`: Ed25519 signatures that the stock `minisign` verifies.

use camino::Utf8PathBuf;
use package::archive::{self, UnpackOptions};
use package::durable;
use package::sign::{SecretKey, SignatureError};
use serde_json::json;

use super::{id_of, signature_of};
use crate::commands::keys::PASSWORD;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Sign packages: writes ARCHIVE.minisig beside each
///
/// The signature covers the manifest, which covers every byte, and the package's name. An encrypted
/// key is opened with the password in `MONOBLOC_KEY_PASSWORD`.
#[derive(Debug, clap::Args)]
pub(crate) struct SignArgs {
    /// The archives
    #[arg(required = true)]
    archives: Vec<Utf8PathBuf>,

    /// The secret key file
    #[arg(long, value_name = "FILE")]
    secret_key: Utf8PathBuf,
}

pub(super) fn run(
    context: &Context,
    arguments: &SignArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let text = fs_err::read_to_string(&arguments.secret_key)?;
    let password = context.variable(PASSWORD).map(str::to_owned);
    let key = SecretKey::parse(&text, password).map_err(|error| {
        let failure = Failure::of(&error).at(&arguments.secret_key);
        match error {
            SignatureError::Password => failure.hint(format!("put it into `{PASSWORD}`")),
            _ => failure,
        }
    })?;
    let mut signed = Vec::new();
    for archive in &arguments.archives {
        context.cancel.check()?;
        let id = id_of(archive)?;
        // A signature vouches for every byte, so every byte is looked at first.
        let (bytes, manifest) = archive::read_manifest(archive)?;
        let options = UnpackOptions {
            expected: Some(manifest.digest()),
            cancel: context.cancel.clone(),
            ..Default::default()
        };
        archive::verify(archive, &options)?;
        // It vouches for the name, too, which anybody can give to a file.
        if let Some(stated) = archive::stated_id(archive)?.filter(|stated| *stated != id) {
            return Err(Failure::new(format!("`{archive}` is the package `{stated}`"))
                .hint("a package is signed under its own name only: give the file that name"));
        }
        let signature = key.sign_package(&bytes, &id)?;
        let file = signature_of(archive);
        durable::write(&file, signature.as_bytes())?;
        if !output.is_json() {
            output.line(&format!("signed {file}"))?;
        }
        signed.push(file);
    }
    if output.is_json() {
        output.json(&json!({ "schema": "monobloc.package.sign/1", "signatures": signed }))?;
    }
    Ok(Outcome::Done)
}
