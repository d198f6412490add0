//! Files as Linux opens and sends them.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use camino::Utf8Path;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::Resource;
use socket2::Socket;
use tokio::net::TcpStream;

/// How often a path is looked up when something was renamed meanwhile, or it led nowhere: the publication
/// that it led to may just have been removed.
const ATTEMPTS: usize = 64;
const ATTEMPTS_MISSING: usize = 3;

/// Opens `path` below `folder`, if it is there; links must not lead out of the folder.
pub(crate) fn open_beneath(folder: &Utf8Path, path: &str) -> io::Result<Option<File>> {
    let plain = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened =
        rustix::fs::openat(CWD, folder.as_std_path(), plain | OFlags::DIRECTORY, Mode::empty());
    let top = match opened {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        opened => opened?,
    };
    // Something that is no file must not make us wait.
    let flags = plain | OFlags::NONBLOCK | OFlags::NOCTTY;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut missing = 0;
    for _ in 0..ATTEMPTS {
        match rustix::fs::openat2(&top, path, flags, Mode::empty(), within) {
            Ok(file) => return Ok(Some(file.into())),
            Err(Errno::NOENT) if missing + 1 < ATTEMPTS_MISSING => missing += 1,
            Err(Errno::AGAIN | Errno::INTR) => {}
            // An older kernel, or one that is told not to.
            Err(Errno::NOSYS | Errno::PERM) => break,
            Err(error) if leads_nowhere(error) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    super::open_checked(folder, path)
}

/// Whether the path is none of a file below the folder.
fn leads_nowhere(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG | Errno::NXIO
    )
}

/// What tells this file from any other content of its name.
#[expect(clippy::unnecessary_wraps, reason = "other systems may not know it")]
pub(crate) fn identity(about: &Metadata) -> io::Result<Vec<u64>> {
    let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
    let times = times.map(i64::cast_unsigned);
    Ok([&[about.ino(), about.len()], &times[..]].concat())
}

/// Sends what can be sent now of so many bytes of a file, without copying them.
pub(crate) fn send_file(
    stream: &TcpStream,
    file: &File,
    mut offset: u64,
    count: u64,
) -> io::Result<usize> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(rustix::fs::sendfile(stream, file, Some(&mut offset), count)?)
}

/// Sends what can be sent now; with `more`, it may wait for what follows.
pub(crate) fn send(stream: &TcpStream, bytes: &[u8], more: bool) -> io::Result<usize> {
    let flags = if more { SendFlags::MORE } else { SendFlags::empty() };
    Ok(rustix::net::send(stream, bytes, flags | SendFlags::NOSIGNAL)?)
}

/// Reads at a place of a file.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(bytes, offset)
}

/// Whether an error says that too many files are open.
pub(crate) fn is_too_many_files(code: i32) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|error| error.raw_os_error() == code)
}

/// Lets a server listen where one just stopped.
pub(crate) fn reuse_address(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_address(true)
}

/// Lets this process open as many files as it is allowed to; what it gets by default is for programs that
/// count on less.
pub(crate) fn allow_many_files() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it fewer connections are served at once, and none is refused.
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}
