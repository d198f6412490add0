//! The server of bundles: files of a folder and of an artifact, to hosts that verify what they get.
//!
//! HTTP/1.1 is spoken here, so that the kernel sends files without copying them; HTTP/2 is the
//! framework's. What is answered is decided in one place, `site.rs`, for both.

mod access;
pub mod head;
mod http1;
mod http2;
mod layer;
mod metrics;
mod path;
mod platform;
mod range;
mod server;
mod site;
mod tls;
mod wire;

pub use access::{Access, AccessLog};
pub use layer::{ArtifactFiles, Folder, Found, Layer};
pub use path::ServedPath;
pub use range::Wanted;
pub use server::{BundleServer, Limits, inherited, listen};
pub use tls::{Tls, TlsError};
