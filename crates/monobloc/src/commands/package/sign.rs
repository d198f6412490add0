//! `monobloc package sign` and `keygen`: Ed25519 signatures that the stock `minisign` verifies.

use camino::Utf8PathBuf;
use package::archive::{self, UnpackOptions};
use package::durable;
use package::sign::{KeyPair, SecretKey, SignatureError};
use serde_json::json;

use super::{id_of, signature_of};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// The variable that holds the password of a secret key: an argument could be read by everybody.
const PASSWORD: &str = "MONOBLOC_KEY_PASSWORD";

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

/// Make a pair of keys: NAME.key signs, NAME.pub verifies
///
/// With a password in `MONOBLOC_KEY_PASSWORD` the secret key is encrypted.
#[derive(Debug, clap::Args)]
pub(crate) struct KeygenArgs {
    /// The files' name without ending
    name: Utf8PathBuf,
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

pub(super) fn keygen(
    context: &Context,
    arguments: &KeygenArgs,
    output: &Output,
) -> Result<Outcome, Failure> {
    let [secret, public] =
        ["key", "pub"].map(|ending| Utf8PathBuf::from(format!("{}.{ending}", arguments.name)));
    for file in [&secret, &public] {
        if file.exists() {
            return Err(Failure::new(format!("`{file}` exists already; no key was made")));
        }
    }
    let password = context.variable(PASSWORD).map(str::to_owned);
    let pair = KeyPair::generate(password)?;
    durable::create_private(&secret, pair.secret.as_bytes())?;
    durable::write(&public, pair.public.as_bytes())?;
    if output.is_json() {
        output.json(&json!({ "schema": "monobloc.package.keygen/1", "secret_key": secret, "public_key": public }))?;
    } else {
        output.line(&format!("{secret}  signs: keep it to yourself"))?;
        output.line(&format!("{public}  verifies: give it to everybody"))?;
    }
    Ok(Outcome::Done)
}
