//! What can go wrong, and what to do about it.

use std::io;
use std::time::Duration;

use camino::Utf8PathBuf;
use package::Cancelled;
use package::lock::LockError;

use crate::image::Suite;
use crate::network::Subnet;
use crate::tool::ToolError;

/// Why something could not be done with the hosts of this machine.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum LocalError {
    #[error("hosts on this machine need {}", .missing.join(", "))]
    Needs { missing: Vec<String>, packages: Vec<&'static str> },
    #[error("`{value}` cannot be the name of a {kind}: {expected}")]
    Name { kind: &'static str, value: String, expected: &'static str },
    #[error("there is no image `{0}`")]
    Suite(String),
    #[error("`{0}` is not a network like `10.77.0.0/24`")]
    Subnet(String),
    #[error("the network `{0}` is in use on this machine")]
    SubnetUsed(Subnet),
    #[error("no network is free for one more cluster on this machine")]
    SubnetsUsed,
    #[error("the network `{subnet}` has room for {max} hosts, not for {count}")]
    SubnetSmall { subnet: Subnet, max: usize, count: usize },
    #[error("a cluster has at least 1 host and at most {max}, not {count}")]
    HostCount { max: usize, count: usize },
    #[error("two hosts have the name `{0}`")]
    HostTwice(String),
    #[error("cannot show hosts `{0}`: it is not there")]
    BindMissing(Utf8PathBuf),
    #[error("the cluster `{0}` is already up")]
    AlreadyUp(String),
    #[error("there is no cluster `{name}`")]
    NotUp { name: String, others: Vec<String> },
    #[error("the cluster `{0}` is not whole: the machine was restarted, or `up` was interrupted")]
    NotWhole(String),
    #[error("the cluster `{cluster}` has no host `{host}`")]
    NoHost { cluster: String, host: String, others: Vec<String> },
    #[error("host `{0}` is off")]
    Off(String),
    #[error("host `{0}` is already on")]
    On(String),
    #[error(
        "the disk of a host has at least {min} MiB, and the disks of {hosts} hosts together have at most the {memory} MiB \
         of this machine's memory"
    )]
    Disk { min: u64, hosts: usize, memory: u64 },
    #[error("this machine has an interface `{0}`, and no cluster made it")]
    LinkUsed(String),
    #[error("host `{0}` is frozen")]
    Frozen(String),
    #[error("host `{0}` has no disk of its own to fill")]
    NoDisk(String),
    #[error("host `{host}` did not start{}", quoted(.log))]
    NotStarted { host: String, log: String },
    #[error("host `{host}` {what} after {} seconds", .limit.as_secs_f32())]
    TooSlow { host: String, what: String, limit: Duration },
    #[error("`{program}` in host `{host}` ended with {status}{}", quoted(.stderr))]
    Failed { host: String, program: String, status: std::process::ExitStatus, stderr: String },
    #[error("processes of `{0}` do not end")]
    Undead(Utf8PathBuf),
    #[error("cannot build the image `{suite}`")]
    Image {
        suite: Suite,
        #[source]
        cause: Box<LocalError>,
    },
    #[error("the configuration of apt on this machine names no mirror of {0}")]
    NoMirror(&'static str),
    #[error("the package `ubuntu-keyring` lacks the key of the archive")]
    NoKeyring,
    #[error("`{path}` is not what this program wrote")]
    Record {
        path: Utf8PathBuf,
        #[source]
        cause: serde_json::Error,
    },
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl LocalError {
    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Needs { missing, packages } if packages.is_empty() => {
                if missing.iter().any(|what| what == "root") {
                    "run it as root".to_owned()
                } else {
                    "a container has that only if it was started with all rights (privileged)"
                        .to_owned()
                }
            }
            Self::Needs { packages, .. } => {
                format!("as root on Debian or Ubuntu: apt-get install {}", packages.join(" "))
            }
            Self::Suite(_) => {
                let suites: Vec<_> = Suite::ALL.iter().map(|suite| suite.as_str()).collect();
                format!("there are {}", suites.join(", "))
            }
            Self::AlreadyUp(name) | Self::NotWhole(name) => {
                format!("`monobloc local down --name {name}` removes it")
            }
            Self::NotUp { others, .. } if others.is_empty() => {
                "`monobloc local up` makes one".to_owned()
            }
            Self::NotUp { others, .. } | Self::NoHost { others, .. } => {
                format!("there is {}", others.join(", "))
            }
            Self::Off(_) => "`monobloc local start` turns it on".to_owned(),
            Self::Frozen(_) => "`monobloc local heal` lets it go on".to_owned(),
            Self::NoDisk(_) => "make the cluster with `--disk SIZE`".to_owned(),
            Self::LinkUsed(_) => "give the cluster another name with `--name`".to_owned(),
            Self::SubnetUsed(_) => "give the cluster another one".to_owned(),
            Self::NoMirror(_) => "name one with `--mirror URL`".to_owned(),
            Self::Image { cause, .. } => return cause.hint(),
            _ => return None,
        })
    }
}

impl From<LockError> for LocalError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Io(error) => Self::Io(error),
            LockError::Cancelled(cancelled) => Self::Cancelled(cancelled),
        }
    }
}

impl From<rustix::io::Errno> for LocalError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

/// How many lines of what a program said a message shows.
const LINES_SHOWN: usize = 12;

/// The last lines of a text, as a block that follows a message.
pub(crate) fn quoted(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
    shown.iter().fold(String::new(), |block, line| block + "\n    " + line)
}
