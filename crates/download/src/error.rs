//! Why a file could not be had.

use std::io;
use std::time::Duration;

use camino::Utf8PathBuf;
use package::Cancelled;

use crate::Checksum;

/// Why a download failed. URLs in it are shown without credentials.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The URL is of a kind that is not known.
    #[error(
        "cannot download `{url}`: expected a URL that starts with `http:`, `https:` or `file:`"
    )]
    Scheme {
        /// The URL.
        url: String,
    },
    /// A `file:` URL that is no path on this machine.
    #[error("cannot download `{url}`: it names no file of this machine")]
    NotAFile {
        /// The URL.
        url: String,
    },
    /// The server or the way to it failed, after every retry that made sense.
    #[error("cannot download `{url}`{}", tries(*.attempts))]
    Failed {
        /// The URL.
        url: String,
        /// How often it was tried.
        attempts: u32,
        /// What went wrong the last time.
        #[source]
        fault: Fault,
    },
    /// The file is larger than the caller allows.
    #[error("cannot download `{url}`: it is larger than the limit of {size_max_bytes} bytes")]
    TooLarge {
        /// The URL.
        url: String,
        /// The limit.
        size_max_bytes: u64,
    },
    /// The file is not the one that was asked for.
    #[error(
        "`{url}` is not the expected file: expected {expected}, found {}, kept as `{corrupt}`",
        .found.hex()
    )]
    WrongChecksum {
        /// The URL.
        url: String,
        /// What was asked for.
        expected: Checksum,
        /// What arrived.
        found: Checksum,
        /// Where the wrong file is now.
        corrupt: Utf8PathBuf,
    },
    /// The file that a `file:` URL names could not be read.
    #[error("cannot download `{url}`")]
    Read {
        /// The URL.
        url: String,
        /// What the file system said.
        #[source]
        cause: io::Error,
    },
    /// What arrived could not be written.
    #[error("cannot keep what was downloaded from `{url}`")]
    Write {
        /// The URL.
        url: String,
        /// What the file system said.
        #[source]
        cause: io::Error,
    },
    /// The caller does not want the file any more.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl DownloadError {
    /// The status that the server answered with, if that was the fault.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Failed { fault: Fault::Status { status }, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Read { cause, .. } => cause.kind() == io::ErrorKind::NotFound,
            error => matches!(error.status(), Some(404 | 410)),
        }
    }
}

/// What went wrong in one attempt.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The server answered, but not with the file.
    #[error("the server answered {status}{}", reason(*.status))]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// The server could not be reached or did not speak HTTP.
    #[error(transparent)]
    Transport(Box<ureq::Error>),
    /// The server sent nothing for too long.
    #[error("nothing arrived for {} seconds", .limit.as_secs_f32())]
    Idle {
        /// The time limit.
        limit: Duration,
    },
    /// The connection ended before the file did.
    #[error("the connection ended after {received} of {expected} bytes")]
    Short {
        /// How much of the file is there.
        received: u64,
        /// How much the server had announced.
        expected: u64,
    },
    /// The server continued at another place than the one asked for, or another file.
    #[error("the server did not continue the file at byte {offset}, where it was cut off")]
    WrongRange {
        /// What was asked for.
        offset: u64,
    },
    /// A server that was asked with encryption sent us to one without.
    #[error("the server redirects from https to unencrypted http")]
    InsecureRedirect,
}

fn tries(attempts: u32) -> String {
    if attempts > 1 { format!(", tried {attempts} times") } else { String::new() }
}

fn reason(status: u16) -> String {
    let known = ureq::http::StatusCode::from_u16(status).ok();
    known.and_then(|status| status.canonical_reason()).map_or_else(String::new, |r| format!(" {r}"))
}
