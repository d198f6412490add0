//! Which archive format a file has, told by its name.

use camino::Utf8Path;

/// The formats that can be read; `TarZst` and `Zip` can be written too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// What packages for Linux are made as.
    TarZst,
    /// What the reference made.
    TarXz,
    /// Common for sources.
    TarGz,
    /// Common for old sources.
    TarBz2,
    /// Uncompressed.
    Tar,
    /// What packages for Windows are made as.
    Zip,
}

/// A file name that tells no known archive format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a known archive: expected a name ending in {NAMES}")]
pub struct UnknownFormat(String);

const NAMES: &str = "`.tar.zst`, `.tar.xz`, `.tar.gz`, `.tgz`, `.tar.bz2`, `.tar` or `.zip`";

const SUFFIXES: [(&str, Format); 9] = [
    (".tar.zst", Format::TarZst),
    (".tar.xz", Format::TarXz),
    (".txz", Format::TarXz),
    (".tar.gz", Format::TarGz),
    (".tgz", Format::TarGz),
    (".tar.bz2", Format::TarBz2),
    (".tbz2", Format::TarBz2),
    (".tar", Format::Tar),
    (".zip", Format::Zip),
];

impl Format {
    /// The format that the end of the file name tells.
    pub fn of(path: &Utf8Path) -> Result<Self, UnknownFormat> {
        Self::split(path).map(|(_, format)| format)
    }

    /// The file name without its archive suffix, and the format.
    pub fn split(path: &Utf8Path) -> Result<(&str, Self), UnknownFormat> {
        let name = path.file_name().unwrap_or_default();
        SUFFIXES
            .iter()
            .find_map(|(suffix, format)| Some((name.strip_suffix(suffix)?, *format)))
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}
