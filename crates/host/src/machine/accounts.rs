//! Users and groups of the machine.

use std::fmt::Debug;
use std::io;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};

use super::program;

/// Knows, makes and removes users.
pub trait Accounts: Debug + Send + Sync {
    /// The user of this name.
    fn user(&self, name: &str) -> io::Result<Option<Account>>;
    /// Whether there is a group of this name.
    fn has_group(&self, name: &str) -> io::Result<bool>;
    /// Makes a user.
    fn add(&self, user: &NewUser<'_>) -> io::Result<()>;
    /// Removes a user, and the group of its name if it is nobody else's.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// A user of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The number.
    pub uid: u32,
    /// The groups, by name.
    pub groups: Vec<String>,
}

/// A user to make: one that services run as and nobody logs in as.
#[derive(Debug, Clone, Copy)]
pub struct NewUser<'a> {
    /// The name.
    pub name: &'a str,
    /// The primary group, which must exist; `None`: one of its own.
    pub group: Option<&'a str>,
    /// The home, which is not made.
    pub home: &'a Utf8Path,
    /// What people read.
    pub comment: &'a str,
}

/// The programs that every distribution for servers has: `id`, `getent`, `useradd`, `userdel`.
#[derive(Debug, Clone, Copy)]
pub struct Shadow;

impl Accounts for Shadow {
    fn user(&self, name: &str) -> io::Result<Option<Account>> {
        // The name was parsed: it is no option.
        let Some(uid) = ask("id", &["-u", name])? else {
            return Ok(None);
        };
        let uid =
            uid.parse().map_err(|_| io::Error::other(format!("`id -u {name}` says `{uid}`")))?;
        let groups = ask("id", &["-Gn", name])?.unwrap_or_default();
        Ok(Some(Account { uid, groups: groups.split_whitespace().map(str::to_owned).collect() }))
    }

    fn has_group(&self, name: &str) -> io::Result<bool> {
        Ok(ask("getent", &["group", name])?.is_some())
    }

    fn add(&self, user: &NewUser<'_>) -> io::Result<()> {
        let mut arguments = vec!["--system", "--no-create-home", "--home-dir", user.home.as_str()];
        let shell = no_login();
        arguments.extend(["--shell", shell.as_str(), "--comment", user.comment]);
        match user.group {
            Some(group) => arguments.extend(["--gid", group]),
            None => arguments.push("--user-group"),
        }
        arguments.push(user.name);
        run("useradd", &arguments)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if self.user(name)?.is_some() {
            run("userdel", &[name])?;
        }
        let own = ask("getent", &["group", name])?;
        // `NAME:x:ID:` has nobody in it.
        if own.is_some_and(|line| line.ends_with(':')) {
            run("groupdel", &[name])?;
        }
        Ok(())
    }
}

/// A shell that lets nobody in.
fn no_login() -> Utf8PathBuf {
    let known = ["/usr/sbin/nologin", "/sbin/nologin"];
    let there = known.into_iter().find(|path| fs_err::metadata(path).is_ok());
    there.unwrap_or("/bin/false").into()
}

/// Programs for administrators are not on everybody's path.
fn administrators(name: &str) -> Command {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let found = folders.iter().map(|folder| format!("{folder}/{name}"));
    let found = found.into_iter().find(|path| fs_err::metadata(path).is_ok());
    Command::new(found.unwrap_or_else(|| name.to_owned()))
}

/// What a program answers; `None` if it knows nothing of that name.
fn ask(name: &str, arguments: &[&str]) -> io::Result<Option<String>> {
    let output = program::run(administrators(name).args(arguments))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success().then_some(text))
}

fn run(name: &str, arguments: &[&str]) -> io::Result<()> {
    program::check(name, &program::run(administrators(name).args(arguments))?)
}
