//! `--hash-password`: asks for a password, or takes one, and answers with its hash alone.
//! `--set-superuser-password` keeps the hash in the configuration instead.

use std::io::{self, BufRead as _, IsTerminal as _};

use camino::Utf8Path;
use package::document::Reader;
use package::durable;
use serde_json::json;

use crate::ask;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Where the reference keeps the hash of the first user's password.
const HASH: &str = "superuser_password_hash";

/// Hashes `given`, or the password that the user types.
pub(crate) fn run(
    context: &Context,
    given: Option<&str>,
    output: &Output,
) -> Result<Outcome, Failure> {
    let hash = hash(context, given, output)?;
    if output.is_json() {
        output.json(&json!({ "schema": "monobloc.hash-password/1", "hash": hash }))?;
    } else {
        output.line(&hash)?;
    }
    Ok(Outcome::Done)
}

/// Does the same, and writes the hash into a configuration instead of telling it.
pub(crate) fn keep(
    context: &Context,
    given: Option<&str>,
    path: &Utf8Path,
    output: &Output,
) -> Result<Outcome, Failure> {
    let text = fs_err::read_to_string(path)?;
    let hash = hash(context, given, output)?;
    let kept = with_hash(&text, &hash).filter(|kept| says(path, kept, &hash)).ok_or_else(|| {
        Failure::new(format!("`{path}` is written in a way that cannot be changed here"))
            .hint(format!("write `{HASH}` yourself, with what `--hash-password` says"))
    })?;
    durable::write(path, kept.as_bytes())?;
    if output.is_json() {
        output.json(&json!({ "schema": "monobloc.set-superuser-password/1", "file": path }))?;
    } else {
        output.line(&format!("`{path}` has `{HASH}` now"))?;
    }
    Ok(Outcome::Done)
}

/// The text with the hash in a line of its own, in place of the one that it had.
fn with_hash(text: &str, hash: &str) -> Option<String> {
    let line = format!("{HASH}: '{hash}'");
    let is_it = |line: &str| line.strip_prefix(HASH).is_some_and(|rest| rest.starts_with(':'));
    let mut lines: Vec<&str> = text.lines().filter(|line| *line != "...").collect();
    match lines.iter().position(|line| is_it(line)) {
        // What goes on in the next line cannot be replaced line by line.
        Some(at) if lines.get(at + 1).is_some_and(|next| next.starts_with([' ', '\t'])) => None,
        Some(at) => {
            lines[at] = &line;
            Some(lines.join("\n") + "\n")
        }
        None => {
            lines.push(&line);
            Some(lines.join("\n") + "\n")
        }
    }
}

/// Whether a configuration can be read, and has this hash.
fn says(path: &Utf8Path, text: &str, hash: &str) -> bool {
    let mut reader = Reader::new(path, text);
    let Some(node) = reader.yaml() else { return false };
    let has = reader.map(&node, "the configuration").and_then(|fields| fields.get(HASH));
    has.and_then(|node| reader.string(node, HASH)).is_some_and(|kept| kept == hash)
        && reader.diagnostics.is_empty()
}

fn hash(context: &Context, given: Option<&str>, output: &Output) -> Result<String, Failure> {
    let password = match given {
        Some("") => String::new(),
        Some(password) => {
            output.warning(
                "the history of the shell has the password now; leave it out to be asked for it",
            );
            password.to_owned()
        }
        None => typed(context)?,
    };
    if password.is_empty() {
        return Err(Failure::usage("the password is empty"));
    }
    Ok(config::password::hash(&password)?)
}

/// Twice where somebody types blindly; one line of anything else.
fn typed(context: &Context) -> Result<String, Failure> {
    let cannot_read = |error: io::Error| Failure::new(format!("cannot read the password: {error}"));
    if !io::stdin().is_terminal() {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map_err(cannot_read)?;
        let line = line.strip_suffix('\n').unwrap_or(&line);
        return Ok(line.strip_suffix('\r').unwrap_or(line).to_owned());
    }
    let password = ask::secret("Password: ", &context.cancel)?.map_err(cannot_read)?;
    if password.is_empty() {
        return Ok(password);
    }
    let again = ask::secret("The same again: ", &context.cancel)?.map_err(cannot_read)?;
    if password == again { Ok(password) } else { Err(Failure::usage("the two passwords differ")) }
}
