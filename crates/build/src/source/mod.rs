//! Sources: where the files that a build starts from come from, and the cache they are kept in.
//!
//! Everything is fetched before it is checked out, into a cache that all trees of a machine can
//! share; nothing is in the cache before it is complete and verified. A checkout uses the cache
//! alone. What a source is for the id of a package is its content and never its address.

mod archive;
mod blob;
mod cache;
mod cargo;
mod client;
mod context;
mod deb;
mod error;
mod git;
mod identity;
mod location;
mod lockfile;
mod npm;
mod pip;
mod pypi;
mod spec;
mod url;
mod value;

pub use cache::SourceCache;
pub use context::{SourceContext, SourceWarning};
pub use error::{Action, IndexFile, SourceError, SourceFault};
pub use location::{GitUrl, RelativePath, SourceUrl};
pub use spec::{Pinned, Registry, SourceSpec};
pub use value::{Architecture, GitCommit, InvalidValue, RefOrigin};
