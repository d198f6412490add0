//! What Monobloc moves: package ids, `pkginfo.json`, file manifests, archives, digests, signatures,
//! bundles and the secrets beside them, and what a set of packages looks like when it is active.
//!
//! This crate knows nothing of hosts, networks, build trees or terminals. Everything it reads may
//! come from a stranger: parsers return errors and never panic.

pub mod about;
pub mod active;
pub mod archive;
pub mod artifact;
pub mod bundle;
pub mod cancel;
pub mod diagnostic;
pub mod digest;
pub mod distribution;
pub mod document;
pub mod durable;
pub mod id;
pub mod json;
pub mod lock;
pub mod manifest;
pub mod path;
pub mod piece;
pub mod pkginfo;
mod platform;
pub mod preflight;
pub mod quantity;
pub mod secret;
pub mod sign;
pub mod versioned;

pub use cancel::{Cancel, Cancelled};
pub use digest::Sha256;
pub use id::PackageId;
pub use piece::Piece;

/// What an error says and what the errors behind it say, the outermost first.
pub fn causes(error: &dyn std::error::Error) -> Vec<String> {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut causes: Vec<String> = chain.map(ToString::to_string).collect();
    // Transparent wrappers say what their source says.
    causes.dedup();
    causes
}
