//! `--hash-password`: asks for a password, or takes one, and answers with its hash alone.

use std::io::{self, BufRead as _, IsTerminal as _};

use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Hashes `given`, or the password that the user types.
pub(crate) fn run(given: Option<&str>, output: &Output) -> Result<Outcome, Failure> {
    let password = match given {
        Some("") => String::new(),
        Some(password) => {
            output.warning(
                "the history of the shell has the password now; leave it out to be asked for it",
            );
            password.to_owned()
        }
        None => ask()?,
    };
    if password.is_empty() {
        return Err(Failure::usage("the password is empty"));
    }
    let hash = config::password::hash(&password)?;
    if output.is_json() {
        output.json(&json!({ "schema": "monobloc.hash-password/1", "hash": hash }))?;
    } else {
        output.line(&hash)?;
    }
    Ok(Outcome::Done)
}

/// Twice where somebody types blindly; one line of anything else.
fn ask() -> Result<String, Failure> {
    let cannot_read = |error: io::Error| Failure::new(format!("cannot read the password: {error}"));
    if !io::stdin().is_terminal() {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map_err(cannot_read)?;
        let line = line.strip_suffix('\n').unwrap_or(&line);
        return Ok(line.strip_suffix('\r').unwrap_or(line).to_owned());
    }
    let password = rpassword::prompt_password("Password: ").map_err(cannot_read)?;
    if password.is_empty() {
        return Ok(password);
    }
    let again = rpassword::prompt_password("The same again: ").map_err(cannot_read)?;
    if password == again { Ok(password) } else { Err(Failure::usage("the two passwords differ")) }
}
