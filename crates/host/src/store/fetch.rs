//! Packages from elsewhere: `URL/packages/NAME/ID.tar.zst`, or `.tar.xz` as the reference made them,
//! over HTTP, HTTPS, from a folder, or out of one file that has them all.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use download::{DownloadError, Downloader, Options, Progress};
use package::artifact::{Artifact, ArtifactError};
use package::{Cancel, PackageId, Piece};
use url::Url;

use super::{Added, Store, StoreError, Trust, remove_any, several};
use crate::event::{Event, Observer};

/// How the names of downloads in the store begin; what is there of one is used again.
pub(super) const DOWNLOAD: &str = ".download-";

/// The largest file that is taken.
const SIZE_MAX_BYTES: u64 = 16 << 30;
/// The largest signature, list or description that is taken.
const TEXT_MAX_BYTES: u64 = 16 << 20;

/// The endings that a package can have, the one we make first.
const ENDINGS: [&str; 2] = ["tar.zst", "tar.xz"];

/// A place to get packages from.
#[derive(Debug, Clone)]
pub struct Repository {
    base: Url,
    downloader: Downloader,
    /// The one file that has everything, if it is one.
    artifact: Option<Arc<Artifact>>,
}

/// A text that names no place to get packages from.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "`{}` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`",
    text.escape_debug()
)]
pub struct RepositoryError {
    text: String,
}

/// Why nothing can be had from where somebody said.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It names no place.
    #[error(transparent)]
    Place(#[from] RepositoryError),
    /// It names a file that is not what it should be.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// It names a file that no host can be installed from.
    #[error("`{0}` is not configured for a cluster yet")]
    NotConfigured(Utf8PathBuf),
}

impl Repository {
    /// The repository at a URL; blanks around it and slashes at its end do not count, and a `file:`
    /// path that is not absolute starts at `working_directory`.
    pub fn parse(text: &str, working_directory: &Utf8Path) -> Result<Self, RepositoryError> {
        let wrong = || RepositoryError { text: redact(text) };
        let trimmed = text.trim().trim_end_matches('/');
        let base = match trimmed.strip_prefix("file://") {
            Some(path) if !path.starts_with('/') => {
                Url::from_file_path(working_directory.join(path)).map_err(|()| wrong())?
            }
            _ => Url::parse(trimmed).map_err(|_| wrong())?,
        };
        match base.scheme() {
            "http" | "https" | "file" if !base.cannot_be_a_base() => {
                Ok(Self { base, downloader: Downloader::default(), artifact: None })
            }
            _ => Err(wrong()),
        }
    }

    /// The same, where a text that is no such URL names a folder of this machine, or a file that has
    /// everything.
    pub fn open(text: &str, working_directory: &Utf8Path) -> Result<Self, OpenError> {
        let mut repository = if text.contains("://") || text.trim().starts_with("file:") {
            Self::parse(text, working_directory)?
        } else {
            let base = Url::from_file_path(working_directory.join(text.trim_end_matches('/')))
                .map_err(|()| RepositoryError { text: redact(text) })?;
            Self { base, downloader: Downloader::default(), artifact: None }
        };
        if let Some(path) = repository.local(&repository.base)
            && fs_err::metadata(&path).is_ok_and(|found| found.is_file())
        {
            let artifact = Artifact::open(&path)?;
            if !artifact.is_configured() {
                return Err(OpenError::NotConfigured(path));
            }
            repository.artifact = Some(Arc::new(artifact));
        }
        Ok(repository)
    }

    /// The key that the one file names which has everything, if it is one: whoever runs that file
    /// trusts it already.
    pub fn own_key(&self) -> Option<&str> {
        self.artifact.as_ref().map(|artifact| artifact.key())
    }

    /// The same with another downloader.
    #[must_use]
    pub fn with_downloader(self, downloader: Downloader) -> Self {
        Self { downloader, ..self }
    }

    /// The address of a file of the repository.
    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{path}", self.base.path().trim_end_matches('/')));
        url
    }

    /// Where a file lies, if the repository is a folder of this machine.
    fn local(&self, url: &Url) -> Option<Utf8PathBuf> {
        // The conversion looks at the host alone: any server called `localhost` would do.
        let path = (url.scheme() == "file").then(|| url.to_file_path().ok())?;
        path.and_then(|path| Utf8PathBuf::try_from(path).ok())
    }

    /// The address without secrets.
    pub(crate) fn shown(&self) -> String {
        download::redacted(&self.base)
    }

    /// The name of the machine that it is on; nothing if that is this one, or an address.
    pub(crate) fn server(&self) -> Option<String> {
        self.base.domain().map(str::to_owned)
    }

    /// Whether packages come over a network, and lie on the disk twice for a while.
    pub(crate) fn is_remote(&self) -> bool {
        self.base.scheme() != "file"
    }

    /// Reads a small file.
    pub(crate) fn text(
        &self,
        path: &str,
        scratch: &Utf8Path,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, StoreError> {
        if let Some(artifact) = &self.artifact {
            return Ok(artifact.read(path)?);
        }
        let options = Options { size_max_bytes: TEXT_MAX_BYTES, ..Options::new(cancel) };
        self.downloader.fetch(&self.url(path), scratch, &options).map_err(Box::new)?;
        let text = fs_err::read(scratch)?;
        fs_err::remove_file(scratch)?;
        Ok(text)
    }
}

fn redact(text: &str) -> String {
    if let Ok(url) = Url::parse(text.trim()) {
        return download::redacted(&url);
    }
    // Something is wrong with it, but what stands before the host may be a password all the same.
    match (text.find("//"), text.rfind('@')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}***{}", &text[..start + 2], &text[end..])
        }
        _ => text.to_owned(),
    }
}

impl Store {
    /// Gets a package unless it is there. Interrupted, the next call goes on where this one ended.
    pub fn fetch(
        &self,
        repository: &Repository,
        id: &PackageId,
        trust: &Trust,
        cancel: &Cancel,
        observer: &dyn Observer,
    ) -> Result<Added, StoreError> {
        let mut added =
            self.fetch_all(repository, std::slice::from_ref(id), trust, cancel, observer)?;
        Ok(added.remove(0))
    }

    /// Gets many packages, several at a time. After a failure those that were complete are there.
    pub fn fetch_all(
        &self,
        repository: &Repository,
        ids: &[PackageId],
        trust: &Trust,
        cancel: &Cancel,
        observer: &dyn Observer,
    ) -> Result<Vec<Added>, StoreError> {
        let fetching = Fetching { store: self, repository, trust, cancel, observer };
        self.sweep()?;
        several::at_a_time(ids, |id| fetching.one(id))
    }

    /// The same, where each package must show something else.
    pub fn fetch_each(
        &self,
        repository: &Repository,
        packages: &[(PackageId, Trust)],
        cancel: &Cancel,
        observer: &dyn Observer,
    ) -> Result<Vec<Added>, StoreError> {
        self.sweep()?;
        several::at_a_time(packages, |(id, trust)| {
            Fetching { store: self, repository, trust, cancel, observer }.one(id)
        })
    }
}

impl Store {
    /// Gets a package and puts it in the place of what is there under its name.
    pub(crate) fn renew(
        &self,
        repository: &Repository,
        id: &PackageId,
        trust: &Trust,
        cancel: &Cancel,
        observer: &dyn Observer,
    ) -> Result<(), StoreError> {
        let _locks = self.work_on(id, cancel, observer)?;
        Fetching { store: self, repository, trust, cancel, observer }.any_ending(id)?;
        observer.event(&Event::Stored { id, already: false });
        Ok(())
    }
}

/// One request for packages.
#[derive(Clone, Copy)]
struct Fetching<'a> {
    store: &'a Store,
    repository: &'a Repository,
    trust: &'a Trust,
    cancel: &'a Cancel,
    observer: &'a dyn Observer,
}

impl Fetching<'_> {
    /// Gets a package, unless it is there.
    fn one(&self, id: &PackageId) -> Result<Added, StoreError> {
        let _locks = self.store.work_on(id, self.cancel, self.observer)?;
        let already = self.store.contains(id)?;
        if already {
            self.check_known(id)?;
        } else {
            self.any_ending(id)?;
        }
        self.observer.event(&Event::Stored { id, already });
        Ok(Added { id: id.clone(), already })
    }

    /// Makes sure that a package that is there is the one that is wanted.
    fn check_known(&self, id: &PackageId) -> Result<(), StoreError> {
        let signature = self.store.folder.join(format!("{DOWNLOAD}{id}.{}.minisig", ENDINGS[0]));
        self.get_signature(&place(id, ENDINGS[0]), &signature)?;
        let checked = self.store.check_known(id, &signature, self.trust);
        if fs_err::exists(&signature)? {
            remove_any(&signature)?;
        }
        checked
    }

    /// Gets the signature of a package where a key asks for one; that there is none is told later.
    fn get_signature(&self, place: &str, to: &Utf8Path) -> Result<(), StoreError> {
        if self.trust.key.is_none() {
            return Ok(());
        }
        let url = self.repository.url(&format!("{place}.minisig"));
        let options = Options { size_max_bytes: TEXT_MAX_BYTES, ..Options::new(self.cancel) };
        match self.repository.downloader.fetch(&url, to, &options) {
            Err(error) if !error.is_missing() => Err(Box::new(error).into()),
            _ => Ok(()),
        }
    }

    fn any_ending(&self, id: &PackageId) -> Result<(), StoreError> {
        let mut missing = None;
        let places = match &self.trust.archive {
            Some((path, _)) => vec![path.to_string()],
            None => ENDINGS.map(|ending| place(id, ending)).to_vec(),
        };
        for place in places {
            let url = self.repository.url(&place);
            let result = match (&self.repository.artifact, self.repository.local(&url)) {
                (Some(artifact), _) => self.part(id, artifact, &place),
                (None, Some(archive)) => self.local(id, &archive, &url),
                (None, None) => self.download(id, &url, &place),
            };
            match result {
                Err(StoreError::Download(error)) if error.is_missing() => missing = Some(error),
                result => return result,
            }
        }
        let source = missing.expect("every ending was missing");
        Err(StoreError::Missing { id: id.clone(), base: self.repository.shown(), source })
    }

    /// An archive in a larger file is read there.
    fn part(&self, id: &PackageId, artifact: &Artifact, place: &str) -> Result<(), StoreError> {
        let Some(piece) = artifact.piece(place) else {
            let (path, file) = (artifact.path().to_owned(), place.to_owned());
            return Err(ArtifactError::Missing { path, file }.into());
        };
        let signature = Utf8PathBuf::from(format!("{}.minisig", artifact.path()));
        self.store.add_new(id, &piece, &signature, self.trust, self.cancel)
    }

    /// An archive on this machine is read where it lies.
    fn local(&self, id: &PackageId, archive: &Utf8Path, url: &Url) -> Result<(), StoreError> {
        if let Err(cause) = fs_err::metadata(archive) {
            let url = download::redacted(url);
            return Err(StoreError::Download(Box::new(DownloadError::Read { url, cause })));
        }
        let signature = Utf8PathBuf::from(format!("{archive}.minisig"));
        self.store.add_new(id, &archive.into(), &signature, self.trust, self.cancel)
    }

    /// Downloads to a file that stays until the package is there.
    fn download(&self, id: &PackageId, url: &Url, place: &str) -> Result<(), StoreError> {
        let name = place.rsplit('/').next().unwrap_or(place);
        let archive = self.store.folder.join(format!("{DOWNLOAD}{name}"));
        let signature = Utf8PathBuf::from(format!("{archive}.minisig"));
        let progress = |Progress { done_bytes, total_bytes }: Progress| {
            self.observer.event(&Event::Fetching { id, done_bytes, total_bytes });
        };
        let promised = self.trust.archive.as_ref().map(|(_, file)| file.size);
        let options = Options {
            checked_later: true,
            size_max_bytes: promised.unwrap_or(SIZE_MAX_BYTES).min(SIZE_MAX_BYTES),
            progress: &progress,
            ..Options::new(self.cancel)
        };
        loop {
            let downloader = &self.repository.downloader;
            let fetched = downloader.fetch(url, &archive, &options).map_err(Box::new)?;
            self.get_signature(place, &signature)?;
            let piece = Piece::from(&archive);
            let added = self.store.add_new(id, &piece, &signature, self.trust, self.cancel);
            if let Err(StoreError::Cancelled(_)) = added {
                return added;
            }
            for file in [&archive, &signature] {
                if fs_err::exists(file)? {
                    remove_any(file)?;
                }
            }
            let Err(error) = added else { return Ok(()) };
            // The start that an earlier run left may have been of another file: that is gone now.
            let may_be_another = matches!(
                error,
                StoreError::Unpack(_) | StoreError::Wrong { .. } | StoreError::Signature { .. }
            );
            if !(fetched.inherited && may_be_another) {
                let (url, source) = (download::redacted(url), Box::new(error));
                return Err(StoreError::Downloaded { url, source });
            }
        }
    }
}

/// Where an archive of a package lies in a repository.
fn place(id: &PackageId, ending: &str) -> String {
    format!("packages/{}/{id}.{ending}", id.name())
}
