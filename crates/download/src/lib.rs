//! Getting one file from a URL to a path: streamed, resumed, retried, verified, and under its final
//! name only when it is complete.
//!
//! This crate knows nothing of what it gets. While a download runs, its bytes are in `PATH.part`
//! beside the target; a file whose digest is wrong is kept as `PATH.corrupt`. One target may have
//! one download at a time: whoever calls holds a lock where several could.

mod address;
mod backoff;
mod checksum;
mod downloader;
mod error;
mod forward;
mod local;
mod part;
mod proxy;
mod transfer;

pub use address::redacted;
pub use checksum::{Checksum, ParseSha1Error, Sha1};
pub use downloader::{Downloader, Fetched, Options, Progress, Settings};
pub use error::{DownloadError, Fault};
