//! Handing packages to other hosts: they are fetched from one that has them, compared with what the bundle
//! says they are, and served from then on, by the process that did the step, when its report is written.
//!
//! It serves as long as a file of the step is there. Whoever forgets the step removes that file and waits;
//! a controller that died never comes to that, and so there is a time as well.

use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use download::{Checksum, DownloadError, Downloader, Options, Progress, Settings};
use package::bundle::{BUNDLE, Bundle, BundleFile};
use package::{Cancel, Sha256, causes};
use url::Url;

use super::answer::Answer;
use super::limit::until;
use super::store::RELAY;
use super::{Doer, Say, Steps, failed};
use crate::failure::unless_full;
use crate::paths::is_absence;
use crate::wire::{Failed, Relay, Report, Said, StepId};

/// The longest that anybody is served.
const SERVE_MAX: Duration = Duration::from_hours(1);
/// How often progress is told at the most.
const EVERY: Duration = Duration::from_millis(500);
/// The word for what is the other host's fault, or that of the way to it.
const SOURCE: &str = "source";

/// Serves folders to other hosts, which takes more than this crate has.
pub trait Serve: Sync {
    /// Listens on every address of the machine, for who wants files of `folder`.
    fn open(&self, folder: &Utf8Path) -> io::Result<Box<dyn Serving>>;
}

/// Somebody who listens.
pub trait Serving {
    /// On which port.
    fn port(&self) -> u16;

    /// Serves until `stop` is raised, and then nobody any more.
    fn serve(self: Box<Self>, stop: &Cancel) -> io::Result<()>;
}

/// A step that hands packages to others.
pub(super) struct Relaying<'a> {
    doer: &'a Doer<'a>,
    relay: &'a Relay,
    /// While it is there, this is wanted.
    mark: Utf8PathBuf,
    serving: Option<Box<dyn Serving>>,
}

impl<'a> Relaying<'a> {
    pub(super) fn new(
        doer: &'a Doer<'a>,
        steps: &Steps,
        id: &StepId,
        relay: &'a Relay,
    ) -> io::Result<Self> {
        let mark = steps.path(id, RELAY);
        fs_err::write(&mark, "")?;
        Ok(Self { doer, relay, mark, serving: None })
    }

    /// Gets what is to be served, and listens.
    pub(super) fn get(&mut self, limit: Duration, say: &Say<'_>) -> Answer {
        let (relay, cancel, mark) = (self.relay, self.doer.cancel, &self.mark);
        let get = |cancel: &Cancel| Getting { relay, cancel, say }.all();
        let (got, is_late) = until(limit, &|| is_unwanted(cancel, mark), get);
        let bytes = match got {
            Ok(bytes) => bytes,
            Err(_) if self.doer.cancel.is_cancelled() => return Answer::Interrupted,
            Err(mut failed) => {
                if is_late {
                    SOURCE.clone_into(&mut failed.kind);
                    failed.causes.insert(0, format!("it took longer than {limit:?}"));
                }
                return Answer::Report(Report::Failed(*failed));
            }
        };
        match self.doer.serve.open(Utf8Path::new(&self.relay.folder)) {
            Ok(serving) => self.serving = Some(serving),
            // It has what it needs; others get it elsewhere.
            Err(error) => say(&Said::Line { text: format!("cannot serve others: {error}") }),
        }
        let port = self.serving.as_ref().map(|serving| serving.port());
        Answer::Report(Report::Relaying { port, bytes })
    }

    /// Serves others until nobody wants that any more.
    pub(super) fn serve(mut self) -> io::Result<()> {
        let Some(serving) = self.serving.take() else { return Ok(()) };
        let time = Duration::from_secs(self.relay.seconds).min(SERVE_MAX);
        let (cancel, mark) = (self.doer.cancel, &self.mark);
        until(time, &|| is_unwanted(cancel, mark), |stop| serving.serve(stop)).0
    }
}

fn is_unwanted(cancel: &Cancel, mark: &Utf8Path) -> bool {
    cancel.is_cancelled() || !mark.exists()
}

/// One attempt to get all packages.
struct Getting<'a> {
    relay: &'a Relay,
    cancel: &'a Cancel,
    say: &'a Say<'a>,
}

impl Getting<'_> {
    /// Sees to it that all packages are there, and returns how many bytes they have.
    fn all(&self) -> Result<u64, Box<Failed>> {
        let folder = Utf8Path::new(&self.relay.folder);
        let bundle = self.bundle(folder)?;
        let mut files = Vec::new();
        for id in &self.relay.packages {
            let (path, file) = bundle.archive(id).ok_or_else(|| {
                let reason = format!("the bundle has no archive for package `{id}`");
                Box::new(failed("incomplete_bundle", vec![reason], None))
            })?;
            files.push((folder.join(path.as_str()), path.as_str(), file));
        }
        let total: u64 = files.iter().map(|(_, _, file)| file.size).sum();
        let mut missing = Vec::new();
        for (target, path, file) in files {
            self.cancel.check().map_err(|_| gone())?;
            if !is_whole(&target, file).map_err(|error| own(&error))? {
                missing.push((target, path, file));
            }
        }
        if missing.is_empty() {
            return Ok(total);
        }
        let Some(from) = &self.relay.from else {
            let paths = missing.iter().map(|(_, path, _)| format!("`{path}` is not there"));
            return Err(Box::new(failed("missing_package", paths.collect(), None)));
        };
        let from = Url::parse(from)
            .map_err(|error| Box::new(failed("bad_order", causes(&error), None)))?;
        let lacking: u64 = missing.iter().map(|(_, _, file)| file.size).sum();
        let text = format!("getting {} packages, {lacking} bytes, from {from}", missing.len());
        (self.say)(&Said::Line { text });
        // Another source is near: to wait for this one would only take time.
        let settings = Settings {
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(20),
            attempts_max: 2,
            ..Settings::default()
        };
        let downloader = Downloader::direct(settings);
        let mut done = total - lacking;
        for (target, path, file) in missing {
            self.fetch(&downloader, &from, (path, file), &target, (done, total))?;
            done += file.size;
        }
        Ok(total)
    }

    /// What says what packages are; a controller put it there, and named it.
    fn bundle(&self, folder: &Utf8Path) -> Result<Bundle, Box<Failed>> {
        let path = folder.join(Bundle::folder(&self.relay.bundle)).join(BUNDLE);
        let bytes = fs_err::read(&path).map_err(|error| own(&error))?;
        let found = Bundle::id(&bytes);
        if !folder.is_absolute() || found != self.relay.bundle {
            let reason = format!("`{path}` is another bundle: {found}");
            return Err(Box::new(failed("other_bundle", vec![reason], None)));
        }
        Bundle::parse(&bytes)
            .map_err(|error| Box::new(failed("newer_format", causes(&error), None)))
    }

    fn fetch(
        &self,
        downloader: &Downloader,
        from: &Url,
        (path, file): (&str, &BundleFile),
        target: &Utf8Path,
        (before, total_bytes): (u64, u64),
    ) -> Result<(), Box<Failed>> {
        let told = Mutex::new(Instant::now());
        let progress = |Progress { done_bytes, .. }: Progress| {
            let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if told.elapsed() >= EVERY {
                *told = Instant::now();
                let done_bytes = before + done_bytes.min(file.size);
                (self.say)(&Said::Progress { done_bytes, total_bytes });
            }
        };
        let mut url = from.clone();
        url.set_path(&format!("{}/{path}", from.path().trim_end_matches('/')));
        let options = Options {
            checksum: Some(Checksum::Sha256(file.sha256)),
            size_max_bytes: file.size,
            progress: &progress,
            ..Options::new(self.cancel)
        };
        let Err(error) = downloader.fetch(&url, target, &options) else { return Ok(()) };
        let word = match &error {
            DownloadError::Write { .. } => unless_full(&error, "failed"),
            DownloadError::Cancelled(_) => return Err(gone()),
            _ => SOURCE,
        };
        if let DownloadError::WrongChecksum { corrupt, .. } = &error {
            // Nobody will look at it.
            drop(fs_err::remove_file(corrupt));
        }
        Err(Box::new(failed(word, causes(&error), None)))
    }
}

/// Whether a file is the one that the bundle names; if it is another it is gone.
fn is_whole(path: &Utf8Path, file: &BundleFile) -> io::Result<bool> {
    match fs_err::metadata(path) {
        Err(error) if is_absence(&error) => return Ok(false),
        found => {
            if found?.len() == file.size && Sha256::of_file(path)? == file.sha256 {
                return Ok(true);
            }
        }
    }
    fs_err::remove_file(path)?;
    Ok(false)
}

fn gone() -> Box<Failed> {
    Box::new(failed("cancelled", vec!["it was told to stop".to_owned()], None))
}

/// What is this host's own fault.
fn own(error: &io::Error) -> Box<Failed> {
    Box::new(failed(unless_full(error, "failed"), causes(error), None))
}
