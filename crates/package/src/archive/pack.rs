//! Packs a folder: the manifest first, then every entry in order, with fixed times and owner 0. The
//! same folder gives the same bytes on every machine and with any number of cores.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek as _, Write};

use camino::Utf8Path;
use tar::EntryType;

use super::error::PackError;
use super::format::Format;
use super::walk::{Content, Found, scan, walk};
use crate::cancel::Cancel;
use crate::durable;
use crate::manifest::{Entry, MANIFEST, Manifest};
use crate::path::PackagePath;

/// The level that packages are compressed with: packed once, unpacked on every host.
pub const DEFAULT_LEVEL: i32 = 9;

/// How to pack.
#[derive(Debug, Clone)]
pub struct PackOptions {
    /// The time of every entry, in seconds since 1970 (`SOURCE_DATE_EPOCH`).
    pub mtime: u64,
    /// The zstd level of a `.tar.zst`.
    pub level: i32,
    /// Threads that compress; the bytes do not depend on it.
    pub threads: u32,
    /// Stops the work.
    pub cancel: Cancel,
}

impl Default for PackOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            mtime: 0,
            level: DEFAULT_LEVEL,
            threads: u32::try_from(cores).unwrap_or(1),
            cancel: Cancel::new(),
        }
    }
}

/// Packs `folder` into the new archive `output`, whose name tells the format (`.tar.zst` or `.zip`).
///
/// A `manifest.json` that lies in the folder is replaced. The archive appears when it is complete.
pub fn pack(
    folder: &Utf8Path,
    output: &Utf8Path,
    options: &PackOptions,
) -> Result<Manifest, PackError> {
    let io_error = |source| PackError::Io { folder: folder.to_owned(), source };
    let format = Format::of(output).map_err(|error| io_error(io::Error::other(error)))?;
    let mut file = durable::create_beside(output).map_err(io_error)?;
    let manifest = match format {
        Format::TarZst => write_tar(folder, file.as_file_mut(), options)?,
        Format::Zip => write_zip(folder, file.as_file_mut(), options)?,
        _ => {
            let message = format!("cannot write `{output}`: packages are `.tar.zst` or `.zip`");
            return Err(io_error(io::Error::other(message)));
        }
    };
    durable::persist(file, output).map_err(io_error)?;
    Ok(manifest)
}

/// The manifest stands first but is known last, so it is a zstd frame of its own: the entries are
/// hashed while they are compressed, and their frame is put behind it.
fn write_tar(
    folder: &Utf8Path,
    output: &mut File,
    options: &PackOptions,
) -> Result<Manifest, PackError> {
    let io_error = |source| PackError::Io { folder: folder.to_owned(), source };
    let mut rest = tempfile::tempfile_in(folder.parent().unwrap_or(folder)).map_err(io_error)?;
    let buffer =
        BufWriter::with_capacity(256 * 1024, encoder(&mut rest, options).map_err(io_error)?);
    let mut tar = Tar { builder: tar::Builder::new(buffer), mtime: options.mtime };
    let mut entries = BTreeMap::new();
    for (path, found) in walk(folder)? {
        options.cancel.check()?;
        let entry = match found {
            Found::File { mode } => {
                let mut content = Content::open(folder, &path).map_err(io_error)?;
                tar.file(path.as_str(), mode.bits(), content.size, &mut content)
                    .map_err(io_error)?;
                content.entry(mode)?
            }
            Found::Other(entry) => {
                match &entry {
                    Entry::Link { target } => tar.link(&path, target),
                    Entry::Directory { mode } => tar.directory(&path, mode.bits()),
                    Entry::File { .. } => unreachable!("files are read above"),
                }
                .map_err(io_error)?;
                entry
            }
        };
        entries.insert(path, entry);
    }
    let finish = |tar: Tar<BufWriter<zstd::Encoder<'_, _>>>| {
        tar.builder.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
    };
    finish(tar).map_err(io_error)?;
    let manifest = Manifest::new(entries).map_err(|error| io_error(io::Error::other(error)))?;
    write_first_frame(&manifest, output, options)
        .and_then(|()| rest.rewind())
        .and_then(|()| io::copy(&mut rest, output))
        .map_err(io_error)?;
    Ok(manifest)
}

fn write_first_frame(
    manifest: &Manifest,
    output: &mut File,
    options: &PackOptions,
) -> io::Result<()> {
    let bytes = manifest.to_json();
    let mut tar = Tar { builder: tar::Builder::new(Vec::new()), mtime: options.mtime };
    tar.file(MANIFEST, 0o644, bytes.len() as u64, &mut bytes.as_slice())?;
    let mut stream = tar.builder.into_inner()?;
    // Without the end mark, two empty blocks, the next frame goes on with the same stream.
    stream.truncate(stream.len() - 1024);
    let mut encoder = encoder(output, options)?;
    encoder.write_all(&stream)?;
    encoder.finish()?;
    Ok(())
}

fn encoder<W: Write>(writer: W, options: &PackOptions) -> io::Result<zstd::Encoder<'static, W>> {
    let mut encoder = zstd::Encoder::new(writer, options.level)?;
    encoder.include_checksum(true)?;
    // With workers the bytes are the same for any number of them, but not the same as without.
    encoder.multithread(options.threads.max(1))?;
    Ok(encoder)
}

/// Writes entries that differ in nothing but what a manifest states.
struct Tar<W: Write> {
    builder: tar::Builder<W>,
    mtime: u64,
}

impl<W: Write> Tar<W> {
    fn header(&self, kind: EntryType, mode: u32, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_mtime(self.mtime);
        header.set_uid(0);
        header.set_gid(0);
        header
    }

    fn file(&mut self, path: &str, mode: u32, size: u64, content: &mut dyn Read) -> io::Result<()> {
        let mut header = self.header(EntryType::Regular, mode, size);
        self.builder.append_data(&mut header, path, content)
    }

    fn directory(&mut self, path: &PackagePath, mode: u32) -> io::Result<()> {
        let mut header = self.header(EntryType::Directory, mode, 0);
        self.builder.append_data(&mut header, format!("{path}/"), io::empty())
    }

    /// The builder's own way to write a link would tidy up what the link says.
    fn link(&mut self, path: &PackagePath, target: &str) -> io::Result<()> {
        const HEADER_MAX: usize = 100;
        let mut header = self.header(EntryType::Symlink, 0o777, 0);
        if target.len() > HEADER_MAX {
            let mut long = self.header(EntryType::GNULongLink, 0o644, target.len() as u64 + 1);
            long.set_path("././@LongLink")?;
            long.set_cksum();
            self.builder.append(&long, format!("{target}\0").as_bytes())?;
        }
        header.set_link_name_literal(&target.as_bytes()[..target.len().min(HEADER_MAX)])?;
        self.builder.append_data(&mut header, path.as_str(), io::empty())
    }
}

/// A zip has no frames to put aside, so every file is hashed before it is packed, and again then.
fn write_zip(
    folder: &Utf8Path,
    output: &mut File,
    options: &PackOptions,
) -> Result<Manifest, PackError> {
    let io_error = |source| PackError::Io { folder: folder.to_owned(), source };
    let zip_error = |error: zip::result::ZipError| io_error(error.into());
    let manifest = scan(folder, &options.cancel)?;
    refuse_for_windows(folder, &manifest)?;
    // The format begins in 1980; its first moment stands for every earlier one.
    let plain = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default());
    let mut zip = zip::ZipWriter::new(BufWriter::new(output));
    zip.start_file(MANIFEST, plain.unix_permissions(0o644)).map_err(zip_error)?;
    zip.write_all(&manifest.to_json()).map_err(io_error)?;
    for (path, entry) in manifest.entries() {
        options.cancel.check()?;
        match entry {
            Entry::Directory { mode } => {
                let options = plain.unix_permissions(mode.bits());
                zip.add_directory(path.as_str(), options).map_err(zip_error)?;
            }
            Entry::Link { target } => {
                zip.add_symlink(path.as_str(), target.as_str(), plain).map_err(zip_error)?;
            }
            Entry::File { mode, size, .. } => {
                let large = *size >= u64::from(u32::MAX);
                let options = plain.unix_permissions(mode.bits()).large_file(large);
                zip.start_file(path.as_str(), options).map_err(zip_error)?;
                let mut content = Content::open(folder, path).map_err(io_error)?;
                io::copy(&mut content, &mut zip).map_err(io_error)?;
                if content.entry(*mode)? != *entry {
                    return Err(PackError::Changed(folder.join(path.as_str())));
                }
            }
        }
    }
    zip.finish().map_err(zip_error)?.flush().map_err(io_error)?;
    Ok(manifest)
}

/// Names that would not arrive on Windows as they left.
fn refuse_for_windows(folder: &Utf8Path, manifest: &Manifest) -> Result<(), PackError> {
    let mut lower_case: BTreeMap<String, &PackagePath> = BTreeMap::new();
    let mut problems = Vec::new();
    for path in manifest.entries().keys() {
        if let Some(problem) = path.windows_problem() {
            problems.push(format!("`{path}`: {problem}"));
        }
        if let Some(earlier) = lower_case.insert(path.as_str().to_lowercase(), path) {
            problems.push(format!("`{path}`: it differs from `{earlier}` only in case"));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(PackError::Refused { folder: folder.to_owned(), problems })
}
