//! The arguments of `pkgpanda`, read as the reference reads them: options stand anywhere, each at
//! most once, and a long one may be cut short as long as it is clear which is meant.
//!
//! What is wrong with an option is told in one line; everything else that does not fit is answered
//! with the usage alone.

use std::ffi::OsString;

use crate::commands::host::ServiceArgs;

/// How the commands are called.
pub(super) const USAGE: &str = "\
Usage:
  pkgpanda activate ID... [options]
  pkgpanda swap ID [options]
  pkgpanda active [options]
  pkgpanda fetch --repository-url=URL ID... [options]
  pkgpanda add TARBALL [options]
  pkgpanda list [options]
  pkgpanda remove ID... [options]
  pkgpanda setup [options]
  pkgpanda uninstall [options]
  pkgpanda check [--list] [options]
";

const TITLE: &str = "The packages of this host, under the name and with the words of the reference";

const OPTIONS: &str = "\
Options:
  --config-dir=FOLDER      The roles and setup flags of this machine [default: /etc/mesosphere]
  --list                   Only list the checks
  --no-systemd             Leave services alone
  --no-block-systemd       Do not wait until services are up
  --root=FOLDER            The install root [default: /opt/mesosphere]
  --repository=FOLDER      The unpacked packages [default: /opt/mesosphere/packages]
  --state-dir-root=FOLDER  Where packages keep their state [default: /var/lib/dcos]
  --rooted-systemd         Keep the links to units in ROOT/dcos.target.wants
  --silent                 Say nothing but what was asked for, and errors
  -h --help                Show this
";

/// The whole help.
pub(super) fn help() -> String {
    format!("{TITLE}\n\n{USAGE}\n{OPTIONS}")
}

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The help.
    Help,
    /// A command.
    Call(Call),
    /// Nothing that can be done; with the line that says why, where there is one.
    Wrong(Option<String>),
}

/// A command with its options.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) command: Command,
    pub(super) root: Option<String>,
    pub(super) repository: Option<String>,
    pub(super) config: Option<String>,
    pub(super) state: Option<String>,
    pub(super) services: ServiceArgs,
    pub(super) silent: bool,
}

/// What is to be done; ids are as they were typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Activate(Vec<String>),
    Swap(String),
    Active,
    Fetch { url: String, ids: Vec<String> },
    Add(String),
    List,
    Remove(Vec<String>),
    Setup,
    Uninstall,
    Check { list: bool },
}

/// A long option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    ConfigDir,
    NoSystemd,
    NoBlockSystemd,
    Root,
    Repository,
    StateDirRoot,
    RootedSystemd,
    Silent,
    Help,
    RepositoryUrl,
    List,
}

/// Every long option with whether it takes a value.
const LONG: [(&str, Name, bool); 11] = [
    ("--config-dir", Name::ConfigDir, true),
    ("--no-systemd", Name::NoSystemd, false),
    ("--no-block-systemd", Name::NoBlockSystemd, false),
    ("--root", Name::Root, true),
    ("--repository", Name::Repository, true),
    ("--state-dir-root", Name::StateDirRoot, true),
    ("--rooted-systemd", Name::RootedSystemd, false),
    ("--silent", Name::Silent, false),
    ("--help", Name::Help, false),
    ("--repository-url", Name::RepositoryUrl, true),
    ("--list", Name::List, false),
];

/// Arguments that were told apart, but not yet put together.
#[derive(Debug, Default)]
struct Parts {
    words: Vec<String>,
    /// With their values; that of a flag is empty.
    options: Vec<(Name, String)>,
    is_unknown: bool,
}

/// Reads the arguments that follow the name of the program.
pub(super) fn read(arguments: &[OsString]) -> Asked {
    let parts = match tell_apart(arguments) {
        Ok(parts) => parts,
        Err(line) => return Asked::Wrong(Some(line)),
    };
    if parts.options.iter().any(|(name, _)| *name == Name::Help) {
        return Asked::Help;
    }
    put_together(parts).map_or(Asked::Wrong(None), Asked::Call)
}

fn tell_apart(arguments: &[OsString]) -> Result<Parts, String> {
    let mut parts = Parts::default();
    let mut texts = Vec::new();
    for argument in arguments {
        let text = argument.to_str();
        texts.push(text.ok_or_else(|| format!("{} is not UTF-8", argument.to_string_lossy()))?);
    }
    let mut texts = texts.into_iter().peekable();
    while let Some(text) = texts.next() {
        if text == "--" {
            parts.words.extend(texts.map(str::to_owned));
            break;
        } else if text.starts_with("--") {
            let (typed, value) = match text.split_once('=') {
                Some((typed, value)) => (typed, Some(value)),
                None => (text, None),
            };
            let Some((full, name, takes_value)) = find(typed)? else {
                parts.is_unknown = true;
                continue;
            };
            let value = match (takes_value, value) {
                (false, None) => "",
                (false, Some(_)) => return Err(format!("{full} must not have an argument")),
                (true, Some(value)) => value,
                (true, None) => {
                    let value = texts.next_if(|next| *next != "--");
                    value.ok_or_else(|| format!("{full} requires argument"))?
                }
            };
            parts.options.push((name, value.to_owned()));
        } else if let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            for letter in letters.chars() {
                match letter {
                    'h' => parts.options.push((Name::Help, String::new())),
                    _ => parts.is_unknown = true,
                }
            }
        } else {
            parts.words.push(text.to_owned());
        }
    }
    Ok(parts)
}

/// The option that is meant: the one of this name, or else the only one that begins so.
fn find(typed: &str) -> Result<Option<(&'static str, Name, bool)>, String> {
    if let Some(exact) = LONG.iter().find(|(name, _, _)| *name == typed) {
        return Ok(Some(*exact));
    }
    let meant: Vec<_> = LONG.iter().filter(|(name, _, _)| name.starts_with(typed)).collect();
    match meant[..] {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        _ => {
            let names: Vec<&str> = meant.iter().map(|(name, _, _)| *name).collect();
            Err(format!("{typed} is not a unique prefix: {}?", names.join(", ")))
        }
    }
}

fn put_together(mut parts: Parts) -> Option<Call> {
    if parts.is_unknown || parts.words.is_empty() {
        return None;
    }
    let mut words = parts.words.split_off(1);
    let mut url = take(&mut parts, Name::RepositoryUrl);
    let mut list = take(&mut parts, Name::List);
    let command = match (parts.words[0].as_str(), words.len()) {
        ("activate", 1..) => Command::Activate(words),
        ("swap", 1) => Command::Swap(words.remove(0)),
        ("active", 0) => Command::Active,
        ("fetch", 1..) => Command::Fetch { url: url.take()?, ids: words },
        ("add", 1) => Command::Add(words.remove(0)),
        ("list", 0) => Command::List,
        ("remove", 1..) => Command::Remove(words),
        ("setup", 0) => Command::Setup,
        ("uninstall", 0) => Command::Uninstall,
        ("check", 0) => Command::Check { list: list.take().is_some() },
        _ => return None,
    };
    let mut value = |name| take(&mut parts, name);
    let (root, repository) = (value(Name::Root), value(Name::Repository));
    let (config, state) = (value(Name::ConfigDir), value(Name::StateDirRoot));
    let mut flag = |name| take(&mut parts, name).is_some();
    let silent = flag(Name::Silent);
    let services = ServiceArgs {
        no_systemd: flag(Name::NoSystemd),
        no_block_systemd: flag(Name::NoBlockSystemd),
        rooted_systemd: flag(Name::RootedSystemd),
    };
    let is_all_used = parts.options.is_empty() && url.is_none() && list.is_none();
    is_all_used.then_some(Call { command, root, repository, config, state, services, silent })
}

/// Takes an option out, once; a second of the name stays.
fn take(parts: &mut Parts, name: Name) -> Option<String> {
    let at = parts.options.iter().position(|(found, _)| *found == name)?;
    Some(parts.options.remove(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Asked {
        read(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    fn wrong(line: &str) -> Option<String> {
        match asked(line) {
            Asked::Wrong(line) => line,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn call(line: &str) -> Call {
        match asked(line) {
            Asked::Call(call) => call,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_stand_anywhere_and_values_with_or_without_a_sign() {
        let expected = call("fetch --root=/r --repository-url=u --silent a--1 b--2");
        assert_eq!(call("--silent --root /r fetch a--1 --repository-url u b--2"), expected);
        assert_eq!(expected.root.as_deref(), Some("/r"));
        let ids = vec!["a--1".to_owned(), "b--2".to_owned()];
        assert_eq!(expected.command, Command::Fetch { url: "u".to_owned(), ids });
    }

    #[test]
    fn a_value_may_look_like_an_option_or_have_a_sign_in_it() {
        assert_eq!(call("list --root -x").root.as_deref(), Some("-x"));
        assert_eq!(call("list --root=a=b").root.as_deref(), Some("a=b"));
        assert_eq!(call("list --root=").root.as_deref(), Some(""));
    }

    #[test]
    fn the_beginning_of_an_option_is_enough_if_it_is_clear() {
        assert_eq!(call("list --c /c").config.as_deref(), Some("/c"));
        assert_eq!(call("list --st=/s").state.as_deref(), Some("/s"));
        assert!(call("list --no-s").services.no_systemd);
        assert_eq!(call("list --repository /p").repository.as_deref(), Some("/p"));
        assert_eq!(call("list --root /r").root.as_deref(), Some("/r"));
        assert_eq!(call("list --roote").root, None);
        assert_eq!(
            call("fetch --repository- u a--1").command,
            Command::Fetch { url: "u".to_owned(), ids: vec!["a--1".to_owned()] }
        );
        assert_eq!(
            wrong("list --repo /p").as_deref(),
            Some("--repo is not a unique prefix: --repository, --repository-url?")
        );
    }

    #[test]
    fn after_two_dashes_everything_is_a_word() {
        assert_eq!(call("add -- --silent").command, Command::Add("--silent".to_owned()));
        assert_eq!(wrong("list --root -- x").as_deref(), Some("--root requires argument"));
    }

    #[test]
    fn what_does_not_fit_is_answered_with_the_usage_alone() {
        for line in [
            "",
            "bogus",
            "list more",
            "swap",
            "swap a--1 b--1",
            "activate",
            "fetch a--1",
            "fetch --repository-url=u",
            "list --repository-url=u",
            "list --list",
            "list --bogus",
            "list -x",
            "list --silent --silent",
            "list --root=a --root=b",
            "--version",
        ] {
            assert_eq!(wrong(line), None, "{line}");
        }
    }

    #[test]
    fn help_wins_over_what_does_not_fit_but_not_over_a_wrong_option() {
        for line in ["-h", "--help", "--he", "list --bogus --help", "-xh", "bogus -h"] {
            assert_eq!(asked(line), Asked::Help, "{line}");
        }
        assert_eq!(wrong("-h --no").map(|line| line.len() > 10), Some(true));
    }

    #[test]
    fn checks_are_run_or_listed() {
        assert_eq!(call("check --list").command, Command::Check { list: true });
        assert_eq!(call("check").command, Command::Check { list: false });
        assert_eq!(wrong("check name"), None);
    }
}
