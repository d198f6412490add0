//! What a call is about to do to the files below the root, and, once it returned, what it did.

use std::io;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use nix::libc;
use nix::unistd::Pid;

use super::change::{Call, Change, Entry, FileId, Made, Onto};
use super::numbers::Kind;
use super::place::{self, Ids, Place};

/// The most bytes one call is looked at for.
const BYTES_MAX: usize = 1 << 30;
/// The most parts of one `writev`, as in the kernel.
const PARTS_MAX: usize = 1024;

/// What kind of a call on the files below the root this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Change,
    Sync,
    Read,
}

/// A call on the files below the root, before it is made.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) class: Class,
    /// The call with its path, for messages.
    pub(super) text: String,
    /// Whether it returns a file descriptor, of which there may be too many.
    pub(super) opens: bool,
    /// Whether it may wait for another process, which must not wait for it in turn.
    pub(super) waits: bool,
    plan: Plan,
}

/// What will have happened if the call succeeds.
#[derive(Debug)]
enum Plan {
    Nothing,
    Known(Change),
    Make {
        entry: Entry,
        path: Utf8PathBuf,
        what: What,
    },
    MakeUnnamed,
    /// Permission bits, or an owner or an access list, which change them.
    Attributes {
        file: FileId,
        reach: Utf8PathBuf,
        follow: bool,
    },
    /// A write of which nobody wants to know the bytes.
    Written,
    /// The file gets the content of another.
    Copied {
        file: FileId,
        fd: i32,
    },
    Write {
        file: FileId,
        fd: i32,
        offset: u64,
        from: Source,
        durable: bool,
    },
}

#[derive(Debug)]
enum What {
    File,
    Directory,
    Link(String),
}

/// Where the bytes of a write are found once it is done.
#[derive(Debug)]
enum Source {
    Memory(Vec<(u64, u64)>),
    File,
}

/// A call as the kernel gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) pid: Pid,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) args: [u64; 6],
}

impl Request {
    /// The argument as the kernel takes an `int`: its lower half.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half of the register is not used"
    )]
    fn int(&self, index: usize) -> i32 {
        self.args[index] as i32
    }

    fn text(&self, index: usize) -> io::Result<Option<String>> {
        place::text(self.pid, self.args[index])
    }

    fn refuse(&self, path: &Utf8Path, why: &str) -> io::Error {
        io::Error::other(format!("`{}` of `{path}` is not supported: {why}", self.name))
    }
}

/// What a run pays attention to.
#[derive(Debug)]
pub(super) struct Watch {
    /// Without links in its path.
    pub(super) root: Utf8PathBuf,
    pub(super) ids: Ids,
    /// Whether calls that only read are of interest.
    pub(super) reads: bool,
    /// Whether what a call did is of interest, not only that it was made.
    pub(super) whole: bool,
}

impl Watch {
    /// What this call is about to do; nothing if it does not concern the files below the root.
    pub(super) fn look(&mut self, call: Request) -> io::Result<Option<Seen>> {
        match call.name {
            "open" | "openat" | "openat2" | "creat" => self.open(call),
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "copy_file_range"
            | "sendfile" | "splice" => self.write(call),
            "fallocate" | "ftruncate" | "fchmod" | "fchown" | "fsetxattr" | "fremovexattr"
            | "fsync" | "fdatasync" | "sync_file_range" | "syncfs" => self.by_fd(call),
            "sync" => Ok(Some(self.seen(call, Class::Sync, "", Plan::Known(Change::SyncAll)))),
            "mkdir" | "mkdirat" | "mknod" | "mknodat" | "symlink" | "symlinkat" => self.make(call),
            "link" | "linkat" => self.link(call),
            "rename" | "renameat" | "renameat2" => self.rename(call),
            "unlink" | "unlinkat" | "rmdir" => self.remove(call),
            "ioctl" if call.args[1] == libc::FICLONE => self.copy(call),
            "mmap" | "ioctl" | "bind" | "io_uring_setup" => self.hidden(call).map(|()| None),
            _ if call.kind == Kind::Read => self.read(call),
            _ => self.attributes(call),
        }
    }

    fn seen(&self, call: Request, class: Class, what: &str, plan: Plan) -> Seen {
        let text = if what.is_empty() { call.name.into() } else { format!("{} {what}", call.name) };
        Seen { class, text, opens: false, waits: call.name == "splice", plan }
    }

    /// A path for messages; nothing if it is not below the root.
    fn below<'a>(&self, path: &'a Utf8Path) -> Option<&'a str> {
        let relative = path.strip_prefix(&self.root).ok()?;
        Some(if relative == "" { "." } else { relative.as_str() })
    }

    /// The directory and the name of a path below the root.
    fn entry(&mut self, call: Request, path: &Utf8Path) -> io::Result<Entry> {
        let (Some(parent), Some(name), true) = (path.parent(), path.file_name(), path != self.root)
        else {
            return Err(call.refuse(path, "the root itself must stay"));
        };
        Ok(Entry { directory: self.id(parent, false)?, name: name.to_owned() })
    }

    fn id(&mut self, path: &Utf8Path, follow: bool) -> io::Result<FileId> {
        let gone = || io::Error::other(format!("`{path}` is gone while a call is about to use it"));
        self.ids.of(path, follow)?.ok_or_else(gone)
    }

    fn open(&mut self, call: Request) -> io::Result<Option<Seen>> {
        let (fd, path, flags) = match call.name {
            "open" => (libc::AT_FDCWD, 0, call.int(1)),
            "creat" => (libc::AT_FDCWD, 0, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC),
            "openat" => (call.int(0), 1, call.int(2)),
            _ => {
                let flags = place::number(call.pid, call.args[2])?;
                (call.int(0), 1, i32::try_from(flags).map_err(io::Error::other)?)
            }
        };
        let unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let changes = unnamed || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
        if !changes && !self.reads {
            return Ok(None);
        }
        let Some(path) = call.text(path)? else { return Ok(None) };
        let exclusive = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
        let follow = flags & libc::O_NOFOLLOW == 0 && !exclusive;
        let Some(place) = place::resolve(call.pid, fd, &path, follow) else { return Ok(None) };
        let path = place.path().to_owned();
        let Some(relative) = self.below(&path).map(str::to_owned) else { return Ok(None) };
        let found = place.reach(call.pid);
        let found = match place {
            Place::Path(_) => found.symlink_metadata(),
            Place::Open(..) => found.metadata(),
        };
        let (class, plan) = match found {
            Ok(_) if unnamed => (Class::Change, Plan::MakeUnnamed),
            Ok(found) if flags & libc::O_TRUNC != 0 && found.is_file() && found.len() > 0 => {
                let follow = matches!(place, Place::Open(..));
                let file = self.id(&place.reach(call.pid), follow)?;
                (Class::Change, Plan::Known(Change::Resize { file, length: 0 }))
            }
            Err(_) if flags & libc::O_CREAT != 0 => {
                let entry = self.entry(call, &path)?;
                (Class::Change, Plan::Make { entry, path: path.clone(), what: What::File })
            }
            _ => (Class::Read, Plan::Nothing),
        };
        let seen = self.seen(call, class, &relative, plan);
        Ok((self.reads || class != Class::Read).then_some(Seen { opens: true, ..seen }))
    }

    fn write(&mut self, call: Request) -> io::Result<Option<Seen>> {
        let fd = match call.name {
            "copy_file_range" | "splice" => call.int(2),
            _ => call.int(0),
        };
        let Some(path) = place::of_fd(call.pid, fd) else { return Ok(None) };
        let Some(relative) = self.below(&path) else { return Ok(None) };
        if !self.whole {
            return Ok(Some(self.seen(call, Class::Change, relative, Plan::Written)));
        }
        let (flags, position) = place::open_state(call.pid, fd)?;
        let offset = match call.name {
            // Such a write appends wherever it asks for.
            _ if flags & libc::O_APPEND != 0 => place::handle(call.pid, fd).metadata()?.len(),
            "pwrite64" | "pwritev" => call.args[3],
            "pwritev2" if call.args[3] != u64::MAX => call.args[3],
            "copy_file_range" | "splice" if call.args[3] != 0 => {
                place::number(call.pid, call.args[3])?
            }
            _ => position,
        };
        let from = match call.name {
            "write" | "pwrite64" => Source::Memory(vec![(call.args[1], call.args[2])]),
            "copy_file_range" | "sendfile" | "splice" => Source::File,
            _ => {
                let count = usize::try_from(call.args[2]).unwrap_or(PARTS_MAX).min(PARTS_MAX);
                let table = place::memory(call.pid, call.args[1], count * 16)?;
                let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                let parts = table.chunks_exact(16);
                Source::Memory(parts.map(|part| (word(&part[..8]), word(&part[8..]))).collect())
            }
        };
        let mut durable = flags & libc::O_DSYNC != 0;
        if call.name == "pwritev2" {
            let asked = call.int(5);
            durable |= asked & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0;
            if asked & libc::RWF_APPEND != 0 {
                return Err(call.refuse(&path, "`RWF_APPEND`"));
            }
        }
        let text = relative.to_owned();
        let file = self.id(&place::handle(call.pid, fd), true)?;
        let plan = Plan::Write { file, fd, offset, from, durable };
        Ok(Some(self.seen(call, Class::Change, &text, plan)))
    }

    /// A copy that shares its blocks with the original; most file systems cannot.
    fn copy(&mut self, call: Request) -> io::Result<Option<Seen>> {
        let fd = call.int(0);
        let Some(path) = place::of_fd(call.pid, fd) else { return Ok(None) };
        let Some(relative) = self.below(&path).map(str::to_owned) else { return Ok(None) };
        let file = self.id(&place::handle(call.pid, fd), true)?;
        Ok(Some(self.seen(call, Class::Change, &relative, Plan::Copied { file, fd })))
    }

    fn by_fd(&mut self, call: Request) -> io::Result<Option<Seen>> {
        let fd = call.int(0);
        let Some(path) = place::of_fd(call.pid, fd) else { return Ok(None) };
        let handle = place::handle(call.pid, fd);
        if call.name == "syncfs" {
            let same = handle.metadata()?.dev() == self.root.metadata()?.dev();
            let seen = || self.seen(call, Class::Sync, "", Plan::Known(Change::SyncAll));
            return Ok(same.then(seen));
        }
        let Some(relative) = self.below(&path).map(str::to_owned) else { return Ok(None) };
        let file = self.id(&handle, true)?;
        let (class, plan) = match call.name {
            "fsync" => (Class::Sync, Plan::Known(Change::Sync { file, only_data: false })),
            "fdatasync" => (Class::Sync, Plan::Known(Change::Sync { file, only_data: true })),
            // It promises nothing about a crash.
            "sync_file_range" => (Class::Sync, Plan::Nothing),
            "ftruncate" => {
                (Class::Change, Plan::Known(Change::Resize { file, length: call.args[1] }))
            }
            "fallocate" => {
                let size = handle.metadata()?.len();
                (Class::Change, Plan::Known(allocate(call, &path, file, size)?))
            }
            _ => (Class::Change, Plan::Attributes { file, reach: handle, follow: true }),
        };
        Ok(Some(self.seen(call, class, &relative, plan)))
    }

    fn make(&mut self, call: Request) -> io::Result<Option<Seen>> {
        let (fd, path) = match call.name {
            "mkdir" | "mknod" => (libc::AT_FDCWD, 0),
            "mkdirat" | "mknodat" => (call.int(0), 1),
            "symlink" => (libc::AT_FDCWD, 1),
            _ => (call.int(1), 2),
        };
        let Some(text) = call.text(path)? else { return Ok(None) };
        let Some(Place::Path(path)) = place::resolve(call.pid, fd, &text, false) else {
            return Ok(None);
        };
        let Some(relative) = self.below(&path).map(str::to_owned) else { return Ok(None) };
        // Where something is already, the call fails, and that is all.
        let what = match call.name {
            "mkdir" | "mkdirat" => What::Directory,
            "symlink" | "symlinkat" => What::Link(call.text(0)?.unwrap_or_default()),
            name => {
                let mode = call.int(if name == "mknod" { 1 } else { 2 }).cast_unsigned();
                if ![0, libc::S_IFREG].contains(&(mode & libc::S_IFMT)) {
                    return Err(call.refuse(&path, "only files, directories and links"));
                }
                What::File
            }
        };
        let plan = if path == self.root {
            Plan::Nothing
        } else {
            Plan::Make { entry: self.entry(call, &path)?, path, what }
        };
        Ok(Some(self.seen(call, Class::Change, &relative, plan)))
    }

    fn link(&mut self, call: Request) -> io::Result<Option<Seen>> {
        let (old, new, flags) = match call.name {
            "link" => ((libc::AT_FDCWD, 0), (libc::AT_FDCWD, 1), 0),
            _ => ((call.int(0), 1), (call.int(2), 3), call.int(4)),
        };
        let (Some(from), Some(to)) = (call.text(old.1)?, call.text(new.1)?) else {
            return Ok(None);
        };
        let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
        let from = place::resolve(call.pid, old.0, &from, follow);
        let to = place::resolve(call.pid, new.0, &to, false);
        let (Some(from), Some(Place::Path(to))) = (from, to) else { return Ok(None) };
        let reach = from.reach(call.pid);
        let (Some(before), Some(after)) = (self.below(from.path()), self.below(&to)) else {
            let inside = self.below(&to).is_some() && reach.symlink_metadata().is_ok();
            let error = || call.refuse(&to, "a link to a file from outside of the root");
            return if inside { Err(error()) } else { Ok(None) };
        };
        let text = format!("{before} -> {after}");
        let plan = match self.ids.of(&reach, matches!(from, Place::Open(..)))? {
            Some(file) => Plan::Known(Change::Link { entry: self.entry(call, &to)?, file }),
            None => Plan::Nothing,
        };
        Ok(Some(self.seen(call, Class::Change, &text, plan)))
    }

    fn rename(&mut self, call: Request) -> io::Result<Option<Seen>> {
        let (old, new, flags) = match call.name {
            "rename" => ((libc::AT_FDCWD, 0), (libc::AT_FDCWD, 1), 0),
            "renameat" => ((call.int(0), 1), (call.int(2), 3), 0),
            _ => ((call.int(0), 1), (call.int(2), 3), call.args[4]),
        };
        let (Some(from), Some(to)) = (call.text(old.1)?, call.text(new.1)?) else {
            return Ok(None);
        };
        let from = place::resolve(call.pid, old.0, &from, false);
        let to = place::resolve(call.pid, new.0, &to, false);
        let (Some(Place::Path(from)), Some(Place::Path(to))) = (from, to) else { return Ok(None) };
        let (before, after) = match (self.below(&from), self.below(&to)) {
            (Some(before), Some(after)) => (before, after),
            (None, None) => return Ok(None),
            _ if from.symlink_metadata().is_err() => return Ok(None),
            _ => return Err(call.refuse(&from, "a rename into the root or out of it")),
        };
        let (onto, arrow) = match flags {
            _ if flags & u64::from(libc::RENAME_EXCHANGE) != 0 => (Onto::Exchange, "<->"),
            _ if flags & u64::from(libc::RENAME_NOREPLACE) != 0 => (Onto::Refuse, "->"),
            _ => (Onto::Replace, "->"),
        };
        let text = format!("{before} {arrow} {after}");
        let moved = self.ids.of(&from, false)?;
        let replaced = self.ids.of(&to, false)?;
        let plan = match moved {
            // Two names of one file: the kernel leaves both.
            Some(_) if moved == replaced => Plan::Nothing,
            Some(file) => {
                let (from, to) = (self.entry(call, &from)?, self.entry(call, &to)?);
                Plan::Known(Change::Rename { from, to, file, replaced, onto })
            }
            None => Plan::Nothing,
        };
        Ok(Some(self.seen(call, Class::Change, &text, plan)))
    }

    fn remove(&mut self, call: Request) -> io::Result<Option<Seen>> {
        let (fd, path) =
            if call.name == "unlinkat" { (call.int(0), 1) } else { (libc::AT_FDCWD, 0) };
        let Some(text) = call.text(path)? else { return Ok(None) };
        let Some(Place::Path(path)) = place::resolve(call.pid, fd, &text, false) else {
            return Ok(None);
        };
        let Some(relative) = self.below(&path).map(str::to_owned) else { return Ok(None) };
        let plan = match self.ids.of(&path, false)? {
            Some(file) => {
                let directory = path.symlink_metadata()?.is_dir();
                Plan::Known(Change::Remove { entry: self.entry(call, &path)?, file, directory })
            }
            None => Plan::Nothing,
        };
        Ok(Some(self.seen(call, Class::Change, &relative, plan)))
    }

    /// Calls that name a file by its path and change what is known about it.
    fn attributes(&mut self, call: Request) -> io::Result<Option<Seen>> {
        let nofollow = |flags: i32| flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        let (fd, path, follow) = match call.name {
            "fchmodat" | "futimesat" => (call.int(0), 1, true),
            "fchmodat2" | "utimensat" => (call.int(0), 1, nofollow(call.int(3))),
            "fchownat" => (call.int(0), 1, nofollow(call.int(4))),
            "lchown" | "lsetxattr" | "lremovexattr" => (libc::AT_FDCWD, 0, false),
            _ => (libc::AT_FDCWD, 0, true),
        };
        // Some of these take no path where the file is open already.
        let text = if call.args[path] == 0 { Some(String::new()) } else { call.text(path)? };
        let Some(text) = text else { return Ok(None) };
        let Some(place) = place::resolve(call.pid, fd, &text, follow) else { return Ok(None) };
        let Some(relative) = self.below(place.path()).map(str::to_owned) else { return Ok(None) };
        let reach = place.reach(call.pid);
        let follow = matches!(place, Place::Open(..));
        let plan = match (self.ids.of(&reach, follow)?, call.name) {
            (None, _) => Plan::Nothing,
            (Some(file), "truncate") => Plan::Known(Change::Resize { file, length: call.args[1] }),
            (Some(file), "utime" | "utimes" | "futimesat" | "utimensat") => {
                Plan::Known(Change::Attributes { file })
            }
            (Some(file), _) => Plan::Attributes { file, reach, follow },
        };
        Ok(Some(self.seen(call, Class::Change, &relative, plan)))
    }

    fn read(&mut self, call: Request) -> io::Result<Option<Seen>> {
        let follow = |flags: i32| flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        let path = match call.name {
            "stat" | "access" | "statfs" | "getxattr" | "listxattr" => {
                Some((libc::AT_FDCWD, 0, true))
            }
            "lstat" | "readlink" | "lgetxattr" | "llistxattr" => Some((libc::AT_FDCWD, 0, false)),
            "newfstatat" | "faccessat2" => Some((call.int(0), 1, follow(call.int(3)))),
            "statx" => Some((call.int(0), 1, follow(call.int(2)))),
            "readlinkat" => Some((call.int(0), 1, false)),
            "faccessat" => Some((call.int(0), 1, true)),
            _ => None,
        };
        let found = match path {
            None => place::of_fd(call.pid, call.int(0)),
            Some((fd, path, follow)) => {
                let text =
                    if call.args[path] == 0 { Some(String::new()) } else { call.text(path)? };
                let place = text.and_then(|text| place::resolve(call.pid, fd, &text, follow));
                place.map(|place| place.path().to_owned())
            }
        };
        let relative = found.as_deref().and_then(|path| self.below(path));
        Ok(relative.map(|relative| self.seen(call, Class::Read, relative, Plan::Nothing)))
    }

    /// Refuses what would change files unseen.
    fn hidden(&self, call: Request) -> io::Result<()> {
        let fd = match call.name {
            "io_uring_setup" => {
                return Err(call.refuse(&self.root, "its calls cannot be seen"));
            }
            "bind" => {
                let length =
                    usize::try_from(call.args[2]).unwrap_or(0).min(size_of::<libc::sockaddr_un>());
                let address = place::memory(call.pid, call.args[1], length)?;
                let local = address.first().copied() == u8::try_from(libc::AF_UNIX).ok();
                if local && address.get(2).is_some_and(|byte| *byte != 0) {
                    let path = String::from_utf8_lossy(&address[2..]);
                    let path = path.trim_end_matches('\0');
                    let place = place::resolve(call.pid, libc::AT_FDCWD, path, false);
                    if place.is_some_and(|place| self.below(place.path()).is_some()) {
                        return Err(call.refuse(path.into(), "only files, directories and links"));
                    }
                }
                return Ok(());
            }
            "mmap" => {
                // Private mappings never reach the file.
                let shared = call.int(3) & libc::MAP_TYPE != libc::MAP_PRIVATE;
                if !shared || call.int(3) & libc::MAP_ANONYMOUS != 0 {
                    return Ok(());
                }
                call.int(4)
            }
            _ => call.int(0),
        };
        let Some(path) = place::of_fd(call.pid, fd) else { return Ok(()) };
        if self.below(&path).is_none() {
            return Ok(());
        }
        let (flags, _) = place::open_state(call.pid, fd)?;
        if call.name == "mmap" && flags & libc::O_ACCMODE != libc::O_RDONLY {
            return Err(call.refuse(&path, "what a shared mapping changes cannot be seen"));
        }
        let asks = [libc::TCGETS, libc::FIONREAD, libc::FIOCLEX, libc::FIONCLEX, libc::TIOCGWINSZ];
        if call.name == "ioctl" && !asks.contains(&call.args[1]) {
            return Err(call.refuse(&path, "it may change the file in ways that are not modelled"));
        }
        Ok(())
    }

    /// Whether a call that returned this took effect.
    pub(super) fn took_effect(seen: &Seen, result: i64) -> bool {
        match seen.plan {
            Plan::Nothing => false,
            Plan::Written | Plan::Write { .. } => result > 0,
            _ => result >= 0,
        }
    }

    /// What a call did, now that it succeeded with `result`.
    pub(super) fn done(&mut self, pid: Pid, seen: Seen, result: i64) -> io::Result<Vec<Call>> {
        let Seen { mut text, plan, .. } = seen;
        let mut sync = None;
        let change = match plan {
            Plan::Nothing | Plan::Written => return Ok(Vec::new()),
            Plan::Known(change) => change,
            Plan::Make { entry, path, what } => {
                let (file, mode) = self.ids.made(&path, false)?;
                let kind = match what {
                    What::File => Made::File(mode),
                    What::Directory => Made::Directory(mode),
                    What::Link(target) => {
                        text = format!("{text} -> {target}");
                        Made::Link(target)
                    }
                };
                Change::Make { entry, file, made: kind }
            }
            Plan::MakeUnnamed => {
                let fd = i32::try_from(result).map_err(io::Error::other)?;
                let (file, mode) = self.ids.made(&place::handle(pid, fd), true)?;
                text.push_str(" (a file without a name)");
                Change::MakeUnnamed { file, mode }
            }
            Plan::Attributes { file, reach, follow } => {
                let found = if follow { reach.metadata() } else { reach.symlink_metadata() }?;
                if found.is_symlink() {
                    Change::Attributes { file }
                } else {
                    Change::Mode { file, mode: found.mode() & 0o7777 }
                }
            }
            Plan::Copied { file, fd } => {
                let bytes = fs_err::read(place::handle(pid, fd))?;
                text = format!("{text} ({} bytes copied)", bytes.len());
                Change::Write { file, offset: 0, bytes }
            }
            Plan::Write { file, fd, offset, from, durable } => {
                let length = usize::try_from(result).map_err(io::Error::other)?;
                let bytes = from.bytes(pid, fd, offset, length)?;
                text = format!("{text} ({length} bytes at {offset})");
                let only_data = true;
                let then = Call { change: Change::Sync { file, only_data }, text: text.clone() };
                sync = durable.then_some(then);
                Change::Write { file, offset, bytes }
            }
        };
        Ok([Call { change, text }].into_iter().chain(sync).collect())
    }
}

impl Source {
    fn bytes(&self, pid: Pid, fd: i32, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if length > BYTES_MAX {
            return Err(io::Error::other(format!("a write of {length} bytes is too long to keep")));
        }
        match self {
            Self::Memory(parts) => {
                let mut bytes = Vec::with_capacity(length);
                for (address, part) in parts {
                    let left = length - bytes.len();
                    let part = usize::try_from(*part).unwrap_or(left).min(left);
                    bytes.extend(place::memory(pid, *address, part)?);
                }
                Ok(bytes)
            }
            Self::File => {
                use std::os::unix::fs::FileExt as _;
                let mut bytes = vec![0; length];
                let file = std::fs::File::open(place::handle(pid, fd))?;
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
        }
    }
}

/// What `fallocate` does to a file of this size.
fn allocate(call: Request, path: &Utf8Path, file: FileId, size: u64) -> io::Result<Change> {
    let (mode, offset, end) = (call.int(1), call.args[2], call.args[2] + call.args[3]);
    let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
    let clears = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
    let known = libc::FALLOC_FL_KEEP_SIZE
        | libc::FALLOC_FL_PUNCH_HOLE
        | libc::FALLOC_FL_ZERO_RANGE
        | libc::FALLOC_FL_UNSHARE_RANGE;
    if mode & !known != 0 {
        return Err(call.refuse(path, "moving ranges of a file"));
    }
    let end = if keeps_size { end.min(size) } else { end };
    Ok(if clears && end > offset {
        let length = usize::try_from(end - offset).map_err(io::Error::other)?;
        Change::Write { file, offset, bytes: vec![0; length] }
    } else if end > size {
        Change::Resize { file, length: end }
    } else {
        Change::Attributes { file }
    })
}
