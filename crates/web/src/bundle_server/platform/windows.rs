//! Files by the means that every system has.

use std::fs::{File, Metadata};
use std::io;
use std::os::windows::fs::{FileExt as _, MetadataExt as _};

use camino::Utf8Path;
use socket2::Socket;
use tokio::net::TcpStream;

/// How many bytes of a file are copied at once.
const CHUNK_BYTES: u64 = 64 << 10;

/// Opens `path` below `folder`, if it is there; links must not lead out of the folder.
pub(crate) fn open_beneath(folder: &Utf8Path, path: &str) -> io::Result<Option<File>> {
    super::open_checked(folder, path)
}

/// What tells this file from any other content of its name.
#[expect(clippy::unnecessary_wraps, reason = "other systems may not know it")]
pub(crate) fn identity(about: &Metadata) -> io::Result<Vec<u64>> {
    Ok(vec![about.file_size(), about.creation_time(), about.last_write_time()])
}

/// Sends what can be sent now of so many bytes of a file.
pub(crate) fn send_file(
    stream: &TcpStream,
    file: &File,
    offset: u64,
    count: u64,
) -> io::Result<usize> {
    let mut bytes = vec![0; usize::try_from(count.min(CHUNK_BYTES)).unwrap_or_default()];
    let read = read_at(file, &mut bytes, offset)?;
    stream.try_write(&bytes[..read])
}

/// Sends what can be sent now.
pub(crate) fn send(stream: &TcpStream, bytes: &[u8], _: bool) -> io::Result<usize> {
    stream.try_write(bytes)
}

/// Reads at a place of a file.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(bytes, offset)
}

/// Whether an error says that too many files are open.
pub(crate) fn is_too_many_files(code: i32) -> bool {
    const ERROR_TOO_MANY_OPEN_FILES: i32 = 4;
    code == ERROR_TOO_MANY_OPEN_FILES
}

/// Here it would let another program take the address over.
#[expect(clippy::unnecessary_wraps, reason = "other systems may fail")]
pub(crate) fn reuse_address(_: &Socket) -> io::Result<()> {
    Ok(())
}

/// There is no limit to raise.
pub(crate) fn allow_many_files() {}
