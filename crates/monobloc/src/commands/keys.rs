//! `monobloc keys`: pairs of keys that sign and verify.

use camino::{Utf8Path, Utf8PathBuf};
use package::durable;
use package::sign::{KeyPair, SecretKey, SignatureError};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// The variable that holds the password of a secret key: an argument could be read by everybody.
pub(crate) const PASSWORD: &str = "MONOBLOC_KEY_PASSWORD";

/// Make keys that sign
#[derive(Debug, clap::Subcommand)]
pub(crate) enum KeysCommand {
    Generate(GenerateArgs),
}

/// Make a pair of keys: NAME.key signs, NAME.pub verifies
///
/// With a password in `MONOBLOC_KEY_PASSWORD` the secret key is encrypted.
#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArgs {
    /// The files' name without ending
    name: Utf8PathBuf,
}

pub(crate) fn run(
    context: &Context,
    command: &KeysCommand,
    output: &Output,
) -> Result<Outcome, Failure> {
    match command {
        KeysCommand::Generate(arguments) => generate(context, arguments, output),
    }
}

/// The key that signs artifacts of a tree: the one that is named, or the tree's own, made the first time.
pub(crate) fn release_key(
    context: &Context,
    tree: &Utf8Path,
    given: Option<&Utf8Path>,
    output: &Output,
) -> Result<SecretKey, Failure> {
    let password = || context.variable(PASSWORD).map(str::to_owned);
    let path = given.map_or_else(|| tree.join("keys/release.key"), Utf8Path::to_owned);
    if given.is_none() && !fs_err::exists(&path)? {
        // A key must not get into a repository by mistake.
        durable::write(&path.with_file_name(".gitignore"), b"*\n")?;
        let pair = KeyPair::generate(password())?;
        durable::create_private(&path, pair.secret.as_bytes())?;
        durable::write(&path.with_extension("pub"), pair.public.as_bytes())?;
        output.note(&format!("made the key `{path}`, which signs artifacts: keep it to yourself"));
    }
    let text = fs_err::read_to_string(&path)?;
    SecretKey::parse(&text, password()).map_err(|error| match error {
        SignatureError::Password => Failure::of(&error).hint(format!("put it into `{PASSWORD}`")),
        error => Failure::of(&error).at(&path),
    })
}

fn generate(
    context: &Context,
    arguments: &GenerateArgs,
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
        output.json(&json!({ "schema": "monobloc.keys.generate/1", "secret_key": secret, "public_key": public }))?;
    } else {
        output.line(&format!("{secret}  signs: keep it to yourself"))?;
        output.line(&format!("{public}  verifies: give it to everybody"))?;
    }
    Ok(Outcome::Done)
}
