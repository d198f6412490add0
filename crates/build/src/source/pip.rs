//! Which Python index the machine is configured for, as its `pip` tells.
//!
//! No host name stands in this program: pip knows the index, by its configuration files, its
//! environment variables or its own default, and shows it in its help text.

use std::time::Duration;

use url::Url;

use super::client;
use super::context::SourceContext;
use super::error::SourceFault;
use crate::program::Program;

/// How long pip may take to show a text.
const TIME_MAX: Duration = Duration::from_mins(1);
/// What pip shows in place of a password.
const MASK: &str = "****";

/// The URL of the configured index, with credentials if it has any, and no slash at its end.
pub(super) fn index(context: &SourceContext<'_>) -> Result<Url, SourceFault> {
    let help = pip(context).args(["download", "--help"]).run(context.cancel)?;
    let help = String::from_utf8_lossy(&help.stdout);
    let shown = default_index(&help).ok_or(SourceFault::NoIndex)?;
    let text = if shown.contains(MASK) { unmask(&shown, context)? } else { shown };
    let text = text.trim_end_matches('/');
    match text.parse() {
        Ok(url) => Ok(url),
        // An index can be a folder, too.
        Err(error) => Url::from_file_path(text).map_err(|()| error.into()),
    }
}

fn pip(context: &SourceContext<'_>) -> Program {
    client::program("python3", context)
        // Wide enough that no line is broken; broken lines are understood all the same.
        .env("COLUMNS", "4000")
        .args(["-m", "pip"])
        .time_max(TIME_MAX)
        .hint("install Python 3 with pip: the packages `python3` and `python3-pip`")
}

/// Finds the default of `--index-url` in pip's help text.
fn default_index(help: &str) -> Option<String> {
    let (_, option) = help.split_once("--index-url")?;
    // The next option starts a line with a dash; what belongs to this one does not.
    let end = option.find("\n  -").unwrap_or(option.len());
    let (_, default) = option[..end].split_once("(default")?;
    // A URL has no spaces: whatever is there was put there to break the line.
    let default: String = default.split_whitespace().collect();
    let (url, _) = default.trim_start_matches(':').split_once(')')?;
    (!url.is_empty()).then(|| url.to_owned())
}

/// Finds the URL that pip shows with its password masked.
fn unmask(shown: &str, context: &SourceContext<'_>) -> Result<String, SourceFault> {
    let environment = context.environment.get("PIP_INDEX_URL");
    let environment = environment.and_then(|value| value.to_str()).map(str::to_owned);
    let listed = pip(context).args(["config", "list"]).run(context.cancel)?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let configured = listed.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim_matches(['\'', '"']);
        key.ends_with("index-url").then(|| value.to_owned())
    });
    environment
        .into_iter()
        .chain(configured)
        .find(|url| masked(url) == shown)
        .ok_or_else(|| SourceFault::NoIndexCredentials(shown.to_owned()))
}

/// A URL as pip shows it: `USER:PASSWORD@` as `USER:****@`, a mere `TOKEN@` as `****@`.
fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (rest, String::new()),
    };
    match authority.rsplit_once('@') {
        Some((credentials, host)) => match credentials.split_once(':') {
            Some((user, _)) => format!("{scheme}://{user}:{MASK}@{host}{path}"),
            None => format!("{scheme}://{MASK}@{host}{path}"),
        },
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_found_in_the_help_text() {
        for (help, index) in [
            (
                "  -i, --index-url <url>  Base URL of the Python Package Index (default \
                 http://host/simple). This should point to a\n",
                Some("http://host/simple"),
            ),
            (
                "  -i, --index-url <url>       Base URL of the Python Package Index (default\n\
                 \x20                             http://host/a-\n\
                 \x20                             long/simple). This should point to a\n\
                 \x20 --extra-index-url <url>     Extra URLs (default none)\n",
                Some("http://host/a-long/simple"),
            ),
            ("  -i, --index-url <url>  Base URL.\n  --other  (default x)\n", None),
            ("nothing", None),
        ] {
            assert_eq!(default_index(help).as_deref(), index, "{help}");
        }
    }

    #[test]
    fn masks_are_those_of_pip() {
        for (url, shown) in [
            ("http://user:secret@host:1/simple", "http://user:****@host:1/simple"),
            ("http://token@host", "http://****@host"),
            ("http://host/@x", "http://host/@x"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
