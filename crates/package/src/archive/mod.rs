//! Archives: how a package travels. Same folder in, same bytes out; nothing is unpacked that the
//! manifest does not promise, and nothing outside the target is ever touched.

mod error;
mod format;
mod layout;
mod pack;
mod peek;
mod read;
mod unpack;
mod walk;

pub use error::{PackError, UnpackError};
pub use format::{Format, UnknownFormat};
pub use pack::{DEFAULT_LEVEL, PackOptions, pack};
pub use peek::{read_file, read_files, read_manifest, stated_id};
pub use read::decompress;
pub use unpack::{
    ExtractOptions, Limits, Strip, UnpackOptions, Unpacked, extract, extract_tar, unpack, verify,
};
pub use walk::scan;
