//! What to get, within which limits, and when to try again.

use std::fmt;
use std::time::Duration;

use camino::Utf8Path;
use package::Cancel;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    ConnectProxyConnector, Connector as _, RustlsConnector, TcpConnector,
};
use url::Url;

use crate::forward::ForwardConnector;
use crate::part::Part;
use crate::transfer::{self, Setback};
use crate::{Checksum, DownloadError, Fault, backoff, local, proxy, redacted};

/// An attempt that brought this much starts the count of attempts anew: a large file on a poor line
/// arrives in many pieces, and every piece is progress.
const PROGRESS_BYTES: u64 = 1024 * 1024;

/// Patience and its limits.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long resolving a name and connecting may each take.
    pub connect_timeout: Duration,
    /// How long a server may send nothing.
    pub idle_timeout: Duration,
    /// How many attempts without progress there are, the first included.
    pub attempts_max: u32,
    /// The wait after the first attempt; it doubles with each further one.
    pub backoff_first: Duration,
    /// The longest wait between two attempts.
    pub backoff_max: Duration,
    /// The longest wait that a server can ask for with `Retry-After`.
    pub retry_after_max: Duration,
    /// How many redirects are followed.
    pub redirects_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_mins(1),
            attempts_max: 5,
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_secs(30),
            retry_after_max: Duration::from_mins(2),
            redirects_max: 10,
        }
    }
}

/// How much of a file has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are there.
    pub done_bytes: u64,
    /// Bytes of the whole file, where the server tells.
    pub total_bytes: Option<u64>,
}

/// What is wanted of one download.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// What the file must be.
    pub checksum: Option<Checksum>,
    /// Whether the caller checks the file itself and calls again, after deleting it, if it is wrong.
    pub checked_later: bool,
    /// How large it may be.
    pub size_max_bytes: u64,
    /// Ends the download.
    pub cancel: &'a Cancel,
    /// Hears about every piece that arrives.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("checksum", &self.checksum)
            .field("size_max_bytes", &self.size_max_bytes)
            .finish_non_exhaustive()
    }
}

impl<'a> Options<'a> {
    /// No expectation, no limit of size, no report.
    pub fn new(cancel: &'a Cancel) -> Self {
        Self {
            checksum: None,
            checked_later: false,
            size_max_bytes: u64::MAX,
            cancel,
            progress: &|_| {},
        }
    }

    /// Whether a wrong continuation of an earlier download would be noticed.
    pub(crate) fn may_inherit(&self) -> bool {
        self.checksum.is_some() || self.checked_later
    }

    pub(crate) fn check_size(&self, url: &Url, size_bytes: u64) -> Result<(), DownloadError> {
        if size_bytes <= self.size_max_bytes {
            return Ok(());
        }
        Err(DownloadError::TooLarge { url: redacted(url), size_max_bytes: self.size_max_bytes })
    }

    pub(crate) fn report(&self, part: &Part) {
        (self.progress)(Progress { done_bytes: part.length(), total_bytes: part.total });
    }
}

/// What a finished download tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where the file came from in the end, after redirects.
    pub url: Url,
    /// How large it is.
    pub size_bytes: u64,
    /// Whether an earlier call brought a part of it.
    pub inherited: bool,
}

/// Gets files. Clones share connections; make one and keep it.
#[derive(Debug, Clone)]
pub struct Downloader {
    /// For what is not encrypted.
    plain: ureq::Agent,
    encrypted: ureq::Agent,
    settings: Settings,
}

impl Default for Downloader {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Downloader {
    /// A downloader that trusts the certificates that the machine trusts, and goes through the proxy
    /// that the environment names.
    pub fn new(settings: Settings) -> Self {
        let [plain, encrypted] =
            ["http_proxy", "https_proxy"].map(|variable| agent(&settings, proxy::named(variable)));
        Self { plain, encrypted, settings }
    }

    /// The same that never goes through a proxy: for servers that are near.
    pub fn direct(settings: Settings) -> Self {
        Self { plain: agent(&settings, None), encrypted: agent(&settings, None), settings }
    }

    /// Gets `url` to `target`. On any error nothing is at `target` that was not there before.
    ///
    /// Bytes that an earlier call left in `TARGET.part` are used again if somebody will tell whether
    /// they were the right ones: the checksum, or the caller; otherwise they are thrown away.
    pub fn fetch(
        &self,
        url: &Url,
        target: &Utf8Path,
        options: &Options<'_>,
    ) -> Result<Fetched, DownloadError> {
        let write = |cause| DownloadError::Write { url: redacted(url), cause };
        let remote = match url.scheme() {
            "http" | "https" => true,
            "file" => false,
            _ => return Err(DownloadError::Scheme { url: redacted(url) }),
        };
        options.cancel.check()?;
        let mut part = Part::open(target, remote && options.may_inherit()).map_err(write)?;
        if let Some(expected) = options.checksum
            && part.inherited
            && part.digest(expected).map_err(write)? == expected
        {
            // The earlier run ended between the last byte and the rename.
            return finish(part, url.clone()).map_err(write);
        }
        loop {
            let result = if remote {
                self.fetch_remote(url, &mut part, options)
            } else {
                local::copy(url, &mut part, options).map(|()| url.clone())
            };
            let from = match result {
                Ok(from) => from,
                Err(error) => {
                    abandon(part, remote, options).map_err(write)?;
                    return Err(error);
                }
            };
            let Some(expected) = options.checksum else {
                return finish(part, from).map_err(write);
            };
            let found = part.digest(expected).map_err(write)?;
            if found == expected {
                return finish(part, from).map_err(write);
            }
            if part.inherited {
                // The start was of another file: this can happen once, for then it is gone.
                part.restart().map_err(write)?;
                continue;
            }
            let corrupt = part.condemn().map_err(write)?;
            return Err(DownloadError::WrongChecksum {
                url: redacted(url),
                expected,
                found,
                corrupt,
            });
        }
    }

    /// Tries until the whole file is in `part`, and returns where it came from.
    fn fetch_remote(
        &self,
        url: &Url,
        part: &mut Part,
        options: &Options<'_>,
    ) -> Result<Url, DownloadError> {
        let agent = if url.scheme() == "https" { &self.encrypted } else { &self.plain };
        let mut attempts = 0;
        let mut without_progress = 0;
        loop {
            let before = part.length();
            attempts += 1;
            without_progress += 1;
            let (fault, asked) = match transfer::attempt(agent, &self.settings, url, part, options)
            {
                Ok(from) => return Ok(from),
                Err(Setback::Final(error)) => return Err(error),
                Err(Setback::Hopeless(fault)) => return Err(failed(url, attempts, fault)),
                Err(Setback::Passing { fault, retry_after }) => (fault, retry_after),
            };
            if part.length() >= before.saturating_add(PROGRESS_BYTES) {
                without_progress = 1;
            }
            if without_progress >= self.settings.attempts_max {
                return Err(failed(url, attempts, fault));
            }
            let Settings { backoff_first, backoff_max, retry_after_max, .. } = self.settings;
            let own = backoff::wait(backoff_first, backoff_max, without_progress);
            let asked = asked.unwrap_or_default().min(retry_after_max);
            backoff::sleep(own.max(asked), options.cancel)?;
        }
    }
}

/// What asks servers, through a proxy if there is one.
fn agent(settings: &Settings, proxy: Option<ureq::Proxy>) -> ureq::Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = ureq::Agent::config_builder()
        .tls_config(tls)
        .proxy(proxy)
        .user_agent(concat!("monobloc/", env!("CARGO_PKG_VERSION")))
        // Ranges and lengths are those of the file only if nobody compresses it on the way.
        .accept_encoding("identity")
        .http_status_as_error(false)
        .max_redirects(settings.redirects_max)
        .save_redirect_history(true)
        .timeout_resolve(Some(settings.connect_timeout))
        .timeout_connect(Some(settings.connect_timeout))
        .timeout_per_read(Some(settings.idle_timeout))
        .timeout_per_write(Some(settings.idle_timeout))
        .build();
    let forward = ForwardConnector {
        connect_timeout: settings.connect_timeout,
        idle_timeout: settings.idle_timeout,
    };
    let connector =
        ().chain(forward)
            .chain(ConnectProxyConnector::default())
            .chain(TcpConnector::default())
            .chain(RustlsConnector::default());
    ureq::Agent::with_parts(config, connector, DefaultResolver::default())
}

fn failed(url: &Url, attempts: u32, fault: Fault) -> DownloadError {
    DownloadError::Failed { url: redacted(url), attempts, fault }
}

fn finish(part: Part, url: Url) -> std::io::Result<Fetched> {
    let (size_bytes, inherited) = (part.length(), part.inherited);
    part.finish()?;
    Ok(Fetched { url, size_bytes, inherited })
}

/// Keeps the part only where a later call can use it.
fn abandon(part: Part, remote: bool, options: &Options<'_>) -> std::io::Result<()> {
    let useful = remote && options.may_inherit() && part.length() > 0;
    if useful && part.length() <= options.size_max_bytes { Ok(()) } else { part.discard() }
}
