//! How a host is reached: what the inventory says, and for the rest what `ssh` would do.
//!
//! `ssh -G` tells what the configuration of SSH means for a host, so that it means here what it means
//! everywhere. It is asked once for all hosts that the configuration treats alike: those whose name
//! stands in the same `Host` lines.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::sync::{Mutex, OnceCell};

use super::known_hosts::glob;
use super::platform;
use crate::fault::{Fault, FaultKind};
use crate::inventory::Host;
use crate::transport::shell::last_words;

/// How deep files may include others; OpenSSH's own limit.
const INCLUDE_DEPTH: usize = 16;
/// How long `ssh -G` may take: it may ask name servers.
const RESOLVE: Duration = Duration::from_secs(20);

/// How one host is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// What it is called by those who configured it.
    pub(super) asked: String,
    /// The name or address to connect to.
    pub(super) address: String,
    pub(super) port: u16,
    pub(super) user: String,
    /// What it is called in files of known hosts, if not by its address.
    pub(super) alias: Option<String>,
    pub(super) keys: Vec<Utf8PathBuf>,
    pub(super) certificates: Vec<Utf8PathBuf>,
    /// Only those keys, whatever else an agent has.
    pub(super) only_keys: bool,
    /// The agent's socket; none: there is no agent.
    pub(super) agent: Option<Utf8PathBuf>,
    /// Files of known hosts.
    pub(super) known_hosts: Vec<Utf8PathBuf>,
    /// Where a new one is written.
    pub(super) pin: Option<Utf8PathBuf>,
    /// Keys that no host may show.
    pub(super) revoked: Option<Utf8PathBuf>,
    pub(super) hash_names: bool,
    /// Through whom, the first of them first.
    pub(super) jumps: Vec<Jump>,
    /// Through a command that leads to it.
    pub(super) proxy: Option<String>,
    /// How long it may take to reach it, if somebody said.
    pub(super) timeout: Option<Duration>,
    pub(super) family: Family,
}

/// Which addresses of a host are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Any,
    V4,
    V6,
}

impl Family {
    pub(super) fn has(self, address: &SocketAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

/// A host on the way to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Jump {
    pub(super) user: Option<String>,
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl std::fmt::Display for Jump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Jump {
    /// Reads `[USER@]HOST[:PORT]`, several with commas between them.
    pub(super) fn parse_all(text: &str) -> Result<Vec<Self>, Fault> {
        let jumps = text.split(',').map(|jump| {
            let jump = jump.trim();
            let jump = jump.strip_prefix("ssh://").unwrap_or(jump);
            Self::parse(jump).ok_or_else(|| {
                Fault::new(FaultKind::Setup, format!("`{jump}` is no jump host"))
                    .remedy("write it as [USER@]HOST[:PORT]")
            })
        });
        jumps.collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, text),
        };
        let (host, port) = if let Some(rest) = rest.strip_prefix('[') {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':'))
        } else if rest.matches(':').count() == 1 {
            let (host, port) = rest.split_once(':')?;
            (host, Some(port))
        } else {
            (rest, None)
        };
        let port = port.map(str::parse).transpose().ok()?;
        is_name(host).then(|| Self { user, host: host.to_owned(), port })
    }

    pub(super) fn as_host(&self) -> Host {
        Host {
            name: self.host.clone(),
            address: self.host.clone(),
            port: self.port,
            user: self.user.clone(),
            key: None,
            jump: None,
            roles: std::collections::BTreeSet::new(),
            rack: None,
            labels: std::collections::BTreeMap::new(),
        }
    }
}

/// Whether a text can be a host and no option of a program.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.chars().all(|c| c.is_alphanumeric() || ".-_:%".contains(c))
}

/// Reads what the configuration of SSH says, and keeps it.
#[derive(Debug)]
pub(super) struct Resolver {
    /// In place of the user's and the system's configuration.
    config: Option<Utf8PathBuf>,
    patterns: OnceCell<Patterns>,
    answers: Mutex<HashMap<Alike, Arc<OnceCell<Answer>>>>,
}

/// What a host must share with another so that both mean the same to `ssh`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Alike {
    /// Which of the patterns its name matches; its name if nobody can tell.
    patterns: Result<Vec<usize>, String>,
    user: Option<String>,
    port: Option<u16>,
}

/// Which names a configuration has something to say about.
#[derive(Debug, Default)]
struct Patterns {
    /// None but those that every name matches.
    hosts: Vec<String>,
    /// What a name means cannot be told without asking.
    must_ask: bool,
    /// There is nothing at all: nobody has to be asked.
    empty: bool,
}

type Answer = HashMap<String, Vec<String>>;

impl Resolver {
    pub(super) fn new(config: Option<Utf8PathBuf>) -> Self {
        Self { config, patterns: OnceCell::new(), answers: Mutex::default() }
    }

    /// How a host is reached.
    pub(super) async fn resolve(&self, host: &Host) -> Result<Options, Fault> {
        if !is_name(&host.address) {
            let cause = format!("`{}` is neither a name nor an address", host.address);
            return Err(
                Fault::new(FaultKind::Setup, cause).remedy("correct the address in the inventory")
            );
        }
        let patterns = self.patterns.get_or_init(|| async { self.read_patterns() }).await;
        let answer =
            if patterns.empty { Answer::new() } else { self.ask_once(patterns, host).await? };
        options(host, &answer)
    }

    async fn ask_once(&self, patterns: &Patterns, host: &Host) -> Result<Answer, Fault> {
        let name = host.address.to_ascii_lowercase();
        let matched = patterns.hosts.iter().enumerate();
        let matched = matched.filter(|(_, pattern)| glob(pattern, &name)).map(|(index, _)| index);
        let alike = Alike {
            patterns: if patterns.must_ask { Err(name.clone()) } else { Ok(matched.collect()) },
            user: host.user.clone(),
            port: host.port,
        };
        let cell = Arc::clone(self.answers.lock().await.entry(alike).or_default());
        let answer = cell.get_or_try_init(|| self.ask(host)).await?;
        let value = |key: &str| answer.get(key).and_then(|values| values.first());
        // Who was asked about has a name of its own for the address: so may this one.
        let (asked, address) = (value("host"), value("hostname"));
        if asked == address || asked.is_some_and(|asked| *asked == host.address) {
            let mut answer = answer.clone();
            if asked == address {
                answer.remove("hostname");
            }
            return Ok(answer);
        }
        self.ask(host).await
    }

    /// Runs `ssh -G`. Without such a program there is no configuration.
    async fn ask(&self, host: &Host) -> Result<Answer, Fault> {
        let mut command = tokio::process::Command::new("ssh");
        command.arg("-G").stdin(Stdio::null()).kill_on_drop(true);
        if let Some(config) = &self.config {
            command.arg("-F").arg(config);
        }
        if let Some(port) = host.port {
            command.arg("-p").arg(port.to_string());
        }
        if let Some(user) = &host.user {
            command.arg("-l").arg(user);
        }
        command.arg("--").arg(&host.address);
        let output = match tokio::time::timeout(RESOLVE, command.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Answer::new());
            }
            Ok(Err(error)) => {
                return Err(Fault::of(FaultKind::Unreachable, &error).during("ssh -G"));
            }
            Err(_) => {
                return Err(Fault::new(FaultKind::Unreachable, "`ssh -G` does not end")
                    .remedy("look for a `Match exec` in the configuration of SSH"));
            }
        };
        if !output.status.success() {
            let talk = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Fault::new(FaultKind::Setup, last_words(&talk))
                .during("the configuration of SSH cannot be read")
                .remedy(format!("run `ssh -G {}` and correct what it says", host.address)));
        }
        let mut answer = Answer::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some((key, value)) = line.split_once(' ') {
                answer.entry(key.to_ascii_lowercase()).or_default().push(value.to_owned());
            }
        }
        Ok(answer)
    }

    fn read_patterns(&self) -> Patterns {
        let mut patterns = Patterns { empty: true, ..Patterns::default() };
        let files = match &self.config {
            Some(config) => vec![config.clone()],
            None => platform::config_files(),
        };
        for file in files {
            // A file that is named takes the place of the user's own, wherever it lies.
            let folder = match (&self.config, file.parent()) {
                (None, Some(folder)) => folder.to_owned(),
                _ => platform::home().join(".ssh"),
            };
            read_config(&file, &folder, INCLUDE_DEPTH, &mut patterns);
        }
        patterns
    }
}

/// Collects which names a file and those it includes have something to say about. What cannot be read
/// means nothing to `ssh` either, or it says so when it is asked.
fn read_config(file: &Utf8Path, folder: &Utf8Path, depth: usize, patterns: &mut Patterns) {
    let Ok(text) = fs_err::read_to_string(file) else { return };
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        patterns.empty = false;
        let (keyword, rest) =
            line.split_once(|c: char| c.is_whitespace() || c == '=').unwrap_or((line, ""));
        let words = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '=');
        let words = words.split_whitespace().map(|word| word.trim_matches('"'));
        match keyword.to_ascii_lowercase().as_str() {
            "host" => {
                let names = words.map(|word| word.trim_start_matches('!').to_ascii_lowercase());
                patterns.hosts.extend(names.filter(|name| name != "*"));
            }
            // For all names alike; Fedora and its kin have one that is read when all else was.
            "match" if words.clone().all(is_for_all) => {}
            // What it means depends on the name in other ways.
            "match" | "canonicalizehostname" => patterns.must_ask = true,
            "include" => {
                for word in words {
                    match files_like(&folder.join(expand_home(word))) {
                        Some(files) if depth > 0 => {
                            for file in files {
                                read_config(&file, folder, depth - 1, patterns);
                            }
                        }
                        _ => patterns.must_ask = true,
                    }
                }
            }
            // `ssh -G` tells them with the values of the host that it was asked about.
            "userknownhostsfile" | "globalknownhostsfile" | "identityagent" | "revokedhostkeys"
                if has_tokens(rest) =>
            {
                patterns.must_ask = true;
            }
            _ => {}
        }
    }
}

/// Whether a condition of `Match` is the same for every name.
fn is_for_all(word: &str) -> bool {
    ["all", "final", "canonical"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Whether a path has parts that stand for others.
fn has_tokens(path: &str) -> bool {
    path.contains('%') || path.contains("${")
}

/// The files that a path with `*` and `?` in its last part means; none if only `ssh` can tell.
fn files_like(path: &Utf8Path) -> Option<Vec<Utf8PathBuf>> {
    let (Some(folder), Some(pattern)) = (path.parent(), path.file_name()) else {
        return Some(Vec::new());
    };
    let is_pattern = |path: &str| path.contains(['*', '?']);
    if has_tokens(path.as_str())
        || path.as_str().contains(['[', '~'])
        || is_pattern(folder.as_str())
    {
        return None;
    }
    if !is_pattern(pattern) {
        return Some(vec![path.to_owned()]);
    }
    let Ok(entries) = folder.read_dir_utf8() else { return Some(Vec::new()) };
    let names = entries.flatten().filter(|entry| glob(pattern, entry.file_name()));
    let mut files: Vec<_> = names.map(|entry| entry.path().to_owned()).collect();
    files.sort();
    Some(files)
}

fn expand_home(path: &str) -> Utf8PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => platform::home().join(rest),
        None => Utf8PathBuf::from(path),
    }
}

/// Puts together what the inventory says, what `ssh` says, and what `ssh` does by itself.
fn options(host: &Host, answer: &Answer) -> Result<Options, Fault> {
    let first = |key: &str| {
        let value = answer.get(key).and_then(|values| values.first())?;
        (value != "none").then(|| value.clone())
    };
    let is_yes = |key: &str| first(key).is_some_and(|value| value == "yes" || value == "true");
    let address = first("hostname").unwrap_or_else(|| host.address.clone());
    let user = host.user.clone().or_else(|| first("user")).unwrap_or_else(platform::user);
    let port = host.port.or_else(|| first("port")?.parse().ok()).unwrap_or(22);
    let expand = |path: &str| expand_tokens(path, &address, &user, port);
    let paths = |key: &str| -> Option<Vec<Utf8PathBuf>> {
        Some(
            answer
                .get(key)?
                .iter()
                .filter(|path| *path != "none")
                .map(|path| expand(path))
                .collect(),
        )
    };
    // `none` is no file, rather than the usual ones.
    let words = |key: &str| -> Option<Vec<Utf8PathBuf>> {
        let words = answer.get(key)?.first()?;
        Some(words.split_whitespace().filter(|path| *path != "none").map(expand).collect())
    };
    let ssh = platform::home().join(".ssh");
    let keys = match &host.key {
        Some(key) => vec![expand(key.as_str())],
        None => paths("identityfile").unwrap_or_else(|| {
            ["id_rsa", "id_ecdsa", "id_ed25519"].iter().map(|name| ssh.join(name)).collect()
        }),
    };
    let jump = host.jump.clone().or_else(|| first("proxyjump"));
    let mut known_hosts =
        words("userknownhostsfile").unwrap_or_else(|| vec![ssh.join("known_hosts")]);
    let pin = known_hosts.first().cloned();
    known_hosts.extend(
        words("globalknownhostsfile").unwrap_or_else(|| platform::system_known_hosts().into()),
    );
    let proxy = first("proxycommand").filter(|_| jump.is_none());
    let proxy = proxy.map(|command| proxy_command(&command, host, &address, &user, port));
    let timeout = first("connecttimeout").and_then(|seconds| seconds.parse().ok());
    Ok(Options {
        asked: host.address.clone(),
        proxy: proxy.transpose()?,
        timeout: timeout.filter(|seconds| *seconds > 0).map(Duration::from_secs),
        family: match first("addressfamily").as_deref() {
            Some("inet") => Family::V4,
            Some("inet6") => Family::V6,
            _ => Family::Any,
        },
        alias: first("hostkeyalias"),
        certificates: paths("certificatefile").unwrap_or_default(),
        // A key that somebody names is the one to be used.
        only_keys: host.key.is_some() || is_yes("identitiesonly"),
        agent: agent(answer, expand),
        known_hosts,
        pin,
        revoked: first("revokedhostkeys").map(|file| expand(&file)),
        hash_names: is_yes("hashknownhosts"),
        jumps: jump.map(|jump| Jump::parse_all(&jump)).transpose()?.unwrap_or_default(),
        keys,
        address,
        port,
        user,
    })
}

/// The socket of the agent, if there is one.
fn agent(answer: &Answer, expand: impl Fn(&str) -> Utf8PathBuf) -> Option<Utf8PathBuf> {
    let variable = |name: &str| std::env::var(name).ok().filter(|path| !path.is_empty());
    let said = answer.get("identityagent").and_then(|values| values.first());
    match said.map_or("SSH_AUTH_SOCK", String::as_str) {
        "none" => None,
        "SSH_AUTH_SOCK" => variable("SSH_AUTH_SOCK").map(Into::into),
        socket => match socket.strip_prefix('$') {
            Some(name) => variable(name).map(Into::into),
            None => Some(expand(socket)),
        },
    }
}

/// The command that leads to a host, for a shell: no name may mean more to it than a name.
fn proxy_command(
    command: &str,
    host: &Host,
    address: &str,
    user: &str,
    port: u16,
) -> Result<String, Fault> {
    if is_name(user) && is_name(address) {
        let command = command.replace("%n", &host.address);
        return Ok(expand_tokens(&command, address, user, port).into_string());
    }
    let cause = format!("`{user}` at `{address}` cannot be part of a ProxyCommand");
    Err(Fault::new(FaultKind::Setup, cause).remedy("correct the user and the address"))
}

/// Puts values in the place of what `ssh` lets people write in paths.
fn expand_tokens(path: &str, address: &str, user: &str, port: u16) -> Utf8PathBuf {
    let path = expand_home(path).into_string();
    if !path.contains('%') {
        return path.into();
    }
    let home = platform::home();
    let mut text = String::new();
    let mut characters = path.chars();
    while let Some(c) = characters.next() {
        match (c, if c == '%' { characters.next() } else { None }) {
            ('%', Some('h')) => text.push_str(address),
            ('%', Some('r')) => text.push_str(user),
            ('%', Some('u')) => text.push_str(&platform::user()),
            ('%', Some('d')) => text.push_str(home.as_str()),
            ('%', Some('p')) => text.push_str(&port.to_string()),
            ('%', Some(other)) if other != '%' => text.extend(['%', other]),
            _ => text.push(c),
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolver(config: &str) -> (tempfile::TempDir, Resolver) {
        let folder = tempfile::tempdir().unwrap();
        let file = Utf8PathBuf::try_from(folder.path().join("config")).unwrap();
        fs_err::write(&file, config).unwrap();
        (folder, Resolver::new(Some(file)))
    }

    fn host(address: &str) -> Host {
        Jump::parse(address).unwrap().as_host()
    }

    #[tokio::test]
    async fn hosts_that_a_configuration_treats_alike_are_asked_about_once() {
        let config = "User deploy\nHost db*\n  Port 2222\nHost *\n  IdentitiesOnly yes\n";
        let (_guard, resolver) = resolver(config);
        for number in 0..50 {
            let web = resolver.resolve(&host(&format!("web{number}"))).await.unwrap();
            assert_eq!((web.address, web.port), (format!("web{number}"), 22));
            assert_eq!((web.user.as_str(), web.only_keys), ("deploy", true));
            let db = resolver.resolve(&host(&format!("db{number}"))).await.unwrap();
            assert_eq!((db.address, db.port), (format!("db{number}"), 2222));
        }
        assert_eq!(resolver.answers.lock().await.len(), 2);
    }

    #[tokio::test]
    async fn what_is_matched_by_all_names_is_asked_about_once() {
        let config = "Match final all\n  User deploy\nMatch canonical all\n  Port 2222\nMatch all\n  Port 23\n";
        let (_guard, resolver) = resolver(config);
        for number in 0..20 {
            let web = resolver.resolve(&host(&format!("web{number}"))).await.unwrap();
            assert_eq!((web.address, web.user), (format!("web{number}"), "deploy".to_owned()));
        }
        assert_eq!(resolver.answers.lock().await.len(), 1);
    }

    #[tokio::test]
    async fn names_that_stand_for_others_are_asked_about_each() {
        let (_guard, resolver) = resolver("Host web*\n  HostName %h.example\n");
        for number in 0..3 {
            let web = resolver.resolve(&host(&format!("web{number}"))).await.unwrap();
            assert_eq!(web.address, format!("web{number}.example"));
        }
    }

    #[tokio::test]
    async fn without_a_configuration_nobody_is_asked() {
        let (_guard, resolver) = resolver("# nothing\n");
        let one = resolver.resolve(&host("root@[fe80::1]:2200")).await.unwrap();
        assert_eq!((one.address.as_str(), one.port, one.user.as_str()), ("fe80::1", 2200, "root"));
        assert!(resolver.answers.lock().await.is_empty());
    }

    #[tokio::test]
    async fn files_that_are_named_after_hosts_are_not_shared_by_hosts_that_are_alike() {
        for (line, told) in [
            ("UserKnownHostsFile /k/%h", "/k/"),
            ("UserKnownHostsFile /k/%k", "/k/"),
            ("globalknownhostsfile=/k/%h", "/k/"),
            ("IdentityAgent /k/%h", "/k/"),
            ("RevokedHostKeys /k/%h", "/k/"),
        ] {
            let (_guard, resolver) = resolver(&format!("{line}\n"));
            for name in ["web1", "web2"] {
                let web = resolver.resolve(&host(name)).await.unwrap();
                let mut files = web.known_hosts;
                files.extend(web.agent.into_iter().chain(web.revoked));
                let path = Utf8PathBuf::from(format!("{told}{name}"));
                assert!(files.contains(&path), "{line}: {files:?}");
            }
        }
    }

    #[tokio::test]
    async fn none_is_neither_an_agent_nor_a_file() {
        let config = "IdentityAgent none\nUserKnownHostsFile none\nGlobalKnownHostsFile none\n";
        let (_guard, resolver) = resolver(config);
        let web = resolver.resolve(&host("web")).await.unwrap();
        assert_eq!((web.agent, web.known_hosts, web.pin), (None, Vec::new(), None));
    }

    #[tokio::test]
    async fn hosts_are_alike_only_if_all_included_files_are_known() {
        for include in ["*/config", "[ab].conf", "%d/config", "${HOME}/config", "~root/config"] {
            let (_guard, resolver) = resolver(&format!("Include /nowhere/{include}\n"));
            assert!(resolver.read_patterns().must_ask, "{include}");
        }
        let (guard, resolver) = resolver("Include one-*.conf\n");
        fs_err::write(guard.path().join("one-1.conf"), "Host a\n").unwrap();
        // It lies beside a file that was named, and so not where names without a folder are looked for.
        let patterns = resolver.read_patterns();
        assert!(!patterns.must_ask && patterns.hosts.is_empty());
    }

    #[test]
    fn jump_hosts_have_users_ports_and_addresses_of_either_family() {
        let jumps = Jump::parse_all("a,me@b.example:2222,[fe80::1]:22,fe80::2").unwrap();
        let told: Vec<String> = jumps.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["a", "me@b.example:2222", "fe80::1:22", "fe80::2"]);
        assert!(Jump::parse_all("-oProxyCommand=x").is_err());
    }
}
