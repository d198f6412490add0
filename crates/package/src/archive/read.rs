//! Reads the entries of an archive one after another, whatever its format, without judging them.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::rc::Rc;

use camino::Utf8Path;
use tar::EntryType;

use super::error::UnpackError;
use super::format::Format;
use crate::piece::{Piece, PieceReader};

/// How many bytes may follow the end mark of a tar archive.
const TRAILING_MAX: u64 = 1 << 20;

/// How many bytes may stand between the contents of two entries: headers, long names, attributes.
/// They are read into memory as a whole.
const HEADERS_MAX: u64 = 1 << 20;

/// A reader that gives no more than the budget of the moment.
struct Metered<R> {
    reader: R,
    budget: Rc<Cell<u64>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let budget = self.budget.get();
        if budget == 0 && !buffer.is_empty() {
            return Err(io::Error::other("a header of an entry is too long"));
        }
        let most = usize::try_from(budget).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.reader.read(&mut buffer[..most])?;
        self.budget.set(budget - count as u64);
        Ok(count)
    }
}

/// One entry as the archive states it.
pub(super) struct Item<'a> {
    /// Its path, `./` in front and `/` behind removed; empty for the top itself.
    pub(super) path: String,
    /// What it is.
    pub(super) kind: Kind,
    /// Permission bits.
    pub(super) mode: u32,
    /// Which of them the format can hold.
    pub(super) mode_mask: u32,
    /// Seconds since 1970.
    pub(super) mtime: u64,
    /// The content of a file.
    pub(super) content: &'a mut dyn Read,
}

/// What an entry is.
pub(super) enum Kind {
    Directory,
    File {
        size: u64,
    },
    Link {
        target: String,
    },
    /// The same file as an earlier entry.
    HardLink {
        target: String,
    },
    /// A device, a pipe, or a kind this program does not know.
    Other(&'static str),
}

/// What looks at the entries, in order.
pub(super) type Visitor<'a> = dyn FnMut(Item<'_>) -> Result<Flow, UnpackError> + 'a;

/// Whether to go on reading.
#[derive(PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Stop,
}

/// Shows every entry of the archive to `visit`.
pub(super) fn read(
    piece: &Piece,
    format: Format,
    visit: &mut Visitor<'_>,
) -> Result<(), UnpackError> {
    let open = || piece.open().map_err(UnpackError::Open);
    if format == Format::Zip {
        return read_zip(piece.shown(), open, visit);
    }
    let reader = decompress(open()?, format).map_err(|source| damaged(piece.shown(), source))?;
    read_tar(piece.shown(), reader, visit)
}

/// The plain tar stream inside a compressed one.
pub fn decompress(
    reader: impl Read + Send + 'static,
    format: Format,
) -> io::Result<Box<dyn Read + Send>> {
    let reader = BufReader::with_capacity(256 * 1024, reader);
    Ok(match format {
        Format::TarZst => {
            let mut decoder = zstd::Decoder::with_buffer(reader)?;
            decoder.window_log_max(27)?;
            Box::new(decoder)
        }
        Format::TarXz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(reader)),
        Format::TarGz => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
        Format::TarBz2 => Box::new(bzip2::bufread::MultiBzDecoder::new(reader)),
        Format::Tar => Box::new(reader),
        Format::Zip => {
            return Err(io::Error::other("a zip archive is not a compressed tar stream"));
        }
    })
}

pub(super) fn read_tar(
    archive: &Utf8Path,
    reader: impl Read,
    visit: &mut Visitor<'_>,
) -> Result<(), UnpackError> {
    let damaged = |source| damaged(archive, source);
    let budget = Rc::new(Cell::new(HEADERS_MAX));
    let mut tar = tar::Archive::new(Metered { reader, budget: Rc::clone(&budget) });
    let mut entries = tar.entries().map_err(damaged)?;
    let mut skipped = 0_u64;
    loop {
        // What the last entry was not asked for is skipped first.
        budget.set(HEADERS_MAX.saturating_add(skipped));
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(damaged)?;
        skipped = entry.size();
        budget.set(u64::MAX);
        let kind = match entry.header().entry_type() {
            // Written by `git archive`; says nothing about a file.
            EntryType::XGlobalHeader => continue,
            EntryType::Regular | EntryType::Continuous => Kind::File { size: entry.size() },
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Link { target: link_name(archive, &entry)? },
            EntryType::Link => Kind::HardLink { target: plain(&link_name(archive, &entry)?) },
            EntryType::Char | EntryType::Block => Kind::Other("a device"),
            EntryType::Fifo => Kind::Other("a named pipe"),
            _ => Kind::Other("of an unknown type"),
        };
        let path = plain(&text(archive, &entry.path_bytes())?);
        let mode = entry.header().mode().map_err(damaged)?;
        let mtime = entry.header().mtime().map_err(damaged)?;
        if visit(Item { path, kind, mode, mode_mask: 0o7777, mtime, content: &mut entry })?
            == Flow::Stop
        {
            return Ok(());
        }
    }
    // The end mark of the archive is not the end of the stream: reach it, so that its checksum counts.
    // Tools fill up a block; whatever is longer was put there to keep us busy.
    budget.set(u64::MAX);
    let mut rest = tar.into_inner().take(TRAILING_MAX + 1);
    if io::copy(&mut rest, &mut io::sink()).map_err(damaged)? > TRAILING_MAX {
        return Err(damaged(io::Error::other("more follows after the end of the archive")));
    }
    Ok(())
}

fn link_name(archive: &Utf8Path, entry: &tar::Entry<'_, impl Read>) -> Result<String, UnpackError> {
    text(archive, &entry.link_name_bytes().unwrap_or_default())
}

fn read_zip(
    archive: &Utf8Path,
    open: impl Fn() -> Result<PieceReader, UnpackError>,
    visit: &mut Visitor<'_>,
) -> Result<(), UnpackError> {
    let damaged = |error: zip::result::ZipError| damaged(archive, error.into());
    let mut zip = zip::ZipArchive::new(BufReader::new(open()?)).map_err(damaged)?;
    check_directory(archive, open()?, zip.central_directory_start(), zip.len())?;
    for index in 0..zip.len() {
        let mut file = zip.by_index(index).map_err(damaged)?;
        let path = plain(&text(archive, file.name_raw())?);
        let mode = file.unix_mode().unwrap_or(if file.is_dir() { 0o755 } else { 0o644 });
        let kind = if file.is_dir() {
            Kind::Directory
        } else if file.is_symlink() {
            let mut target = Vec::new();
            // A link target is a path: what is longer is not one, and refused where it would be made.
            file.by_ref()
                .take(crate::path::LENGTH_MAX as u64 + 1)
                .read_to_end(&mut target)
                .map_err(|source| self::damaged(archive, source))?;
            Kind::Link { target: text(archive, &target)? }
        } else {
            Kind::File { size: file.size() }
        };
        if visit(Item { path, kind, mode, mode_mask: 0o777, mtime: 0, content: &mut file })?
            == Flow::Stop
        {
            break;
        }
    }
    Ok(())
}

/// Refuses a zip file that names something twice: the crate keeps one entry of each name, `known` in
/// all, and does not say so. The directory itself is read, for the numbers that are stated elsewhere
/// can be anything.
fn check_directory(
    archive: &Utf8Path,
    file: PieceReader,
    start: u64,
    known: usize,
) -> Result<(), UnpackError> {
    const HEADER: &[u8] = b"PK\x01\x02";
    let damaged = |source| damaged(archive, source);
    let mut file = BufReader::new(file);
    file.seek(SeekFrom::Start(start)).map_err(damaged)?;
    let mut names = HashSet::new();
    loop {
        let mut signature = Vec::new();
        file.by_ref().take(4).read_to_end(&mut signature).map_err(damaged)?;
        if signature != HEADER {
            break;
        }
        let mut header = [0; 42];
        file.read_exact(&mut header).map_err(damaged)?;
        let length = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let mut name = vec![0; length(24).into()];
        file.read_exact(&mut name).map_err(damaged)?;
        file.seek_relative(i64::from(length(26)) + i64::from(length(28))).map_err(damaged)?;
        if names.contains(&name) {
            return Err(UnpackError::Refused {
                archive: archive.to_owned(),
                entry: String::from_utf8_lossy(&name).into_owned(),
                reason: "it appears twice".to_owned(),
            });
        }
        names.insert(name);
    }
    if names.len() == known {
        return Ok(());
    }
    let message = format!("it lists {} entries where it states {known}", names.len());
    Err(damaged(io::Error::other(message)))
}

fn text(archive: &Utf8Path, bytes: &[u8]) -> Result<String, UnpackError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| UnpackError::Refused {
        archive: archive.to_owned(),
        entry: String::from_utf8_lossy(bytes).into_owned(),
        reason: "its name is not UTF-8".to_owned(),
    })
}

/// `./a/b/` as `a/b`; anything else that is odd stays, to be refused.
fn plain(path: &str) -> String {
    let path = if path == "." { "" } else { path };
    let mut path = path;
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    path.strip_suffix('/').unwrap_or(path).to_owned()
}

pub(super) fn damaged(archive: &Utf8Path, source: io::Error) -> UnpackError {
    UnpackError::Damaged { archive: archive.to_owned(), source }
}
