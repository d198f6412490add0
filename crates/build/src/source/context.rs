//! What sources need to know of the world around them.

use std::fmt;

use camino::Utf8Path;
use download::{Downloader, Progress};
use package::Cancel;

use super::value::{GitCommit, RefOrigin};
use crate::program::Environment;

/// The world as one source sees it.
#[derive(Clone, Copy)]
pub struct SourceContext<'a> {
    /// The folder of the package, an absolute path: relative sources start there.
    pub package_folder: &'a Utf8Path,
    /// Whether only the cache may be used.
    pub offline: bool,
    /// Ends the work.
    pub cancel: &'a Cancel,
    /// What `git`, `npm`, `pip`, `apt-get` and `cargo` get; its `PATH` says where they are.
    pub environment: &'a Environment,
    /// What gets files.
    pub downloader: &'a Downloader,
    /// Hears how much of a download has arrived.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// Hears what is odd but no error.
    pub warn: &'a (dyn Fn(SourceWarning) + Sync),
}

impl fmt::Debug for SourceContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceContext")
            .field("package_folder", &self.package_folder)
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

/// Something odd about a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceWarning {
    /// The branch or tag that a commit was taken from is somewhere else now.
    RefOriginMoved {
        /// The repository, without credentials.
        url: String,
        /// The branch or tag.
        ref_origin: RefOrigin,
        /// The commit that the tree names.
        commit: GitCommit,
        /// Where the branch or tag is.
        found: String,
    },
}

impl fmt::Display for SourceWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RefOriginMoved { url, ref_origin, commit, found } => write!(
                f,
                "`ref_origin` `{ref_origin}` of `{url}` is at commit `{found}` now; `ref` says `{commit}`"
            ),
        }
    }
}
