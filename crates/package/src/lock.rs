//! A lock file that one process holds at a time, or many together; whoever waits for it can be told
//! to stop.

use std::fs::TryLockError;
use std::io;
use std::time::Duration;

use camino::Utf8Path;

use crate::{Cancel, Cancelled};

/// How often somebody who waits looks at the cancel flag.
const POLL: Duration = Duration::from_millis(50);

/// Held until it is dropped. The file stays: deleting it would let two in.
#[derive(Debug)]
pub struct Lock {
    _file: fs_err::File,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum LockError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl Lock {
    /// Takes the lock at `path`; `wait` is called once if somebody else has it.
    pub fn take(path: &Utf8Path, cancel: &Cancel, wait: &dyn Fn()) -> Result<Self, LockError> {
        Self::when_free(path, cancel, wait, std::fs::File::try_lock)
    }

    /// Takes the lock at `path` together with all others who share it.
    pub fn share(path: &Utf8Path, cancel: &Cancel, wait: &dyn Fn()) -> Result<Self, LockError> {
        Self::when_free(path, cancel, wait, std::fs::File::try_lock_shared)
    }

    /// Takes the lock at `path` if nobody has it.
    pub fn try_take(path: &Utf8Path) -> io::Result<Option<Self>> {
        let file = open(path)?;
        match file.file().try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Waits until nobody holds the lock at `path` alone; `wait` is called once if somebody does.
    /// Writes nothing, so that whoever may only read can ask.
    pub fn wait_until_free(
        path: &Utf8Path,
        cancel: &Cancel,
        wait: &dyn Fn(),
    ) -> Result<(), LockError> {
        let mut is_told = false;
        while Self::is_held(path)? {
            cancel.check()?;
            if !std::mem::replace(&mut is_told, true) {
                wait();
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Whether somebody holds the lock at `path` alone.
    pub fn is_held(path: &Utf8Path) -> io::Result<bool> {
        let file = match fs_err::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            // Who may not even ask cannot be told.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
            file => file?,
        };
        match file.file().try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn when_free(
        path: &Utf8Path,
        cancel: &Cancel,
        wait: &dyn Fn(),
        try_lock: impl Fn(&std::fs::File) -> Result<(), TryLockError>,
    ) -> Result<Self, LockError> {
        let mut file = open(path)?;
        let mut is_told = false;
        loop {
            match try_lock(file.file()) {
                Ok(()) if crate::platform::is_at(file.file(), path)? => {
                    return Ok(Self { _file: file });
                }
                // Whoever held it took it away: what we hold keeps nobody out.
                Ok(()) => file = open(path)?,
                Err(TryLockError::Error(error)) => return Err(error.into()),
                Err(TryLockError::WouldBlock) => {
                    cancel.check()?;
                    if !std::mem::replace(&mut is_told, true) {
                        wait();
                    }
                    std::thread::sleep(POLL);
                }
            }
        }
    }
}

fn open(path: &Utf8Path) -> io::Result<fs_err::File> {
    if let Some(folder) = path.parent() {
        crate::durable::create_folders(folder)?;
    }
    let file = fs_err::File::options().create(true).truncate(false).write(true).open(path)?;
    // Whoever may read it may hold it, and keep everybody waiting.
    if crate::platform::mode_of(&file.metadata()?) != PRIVATE {
        // Not ours to change: then it is not ours to protect.
        drop(crate::platform::set_file_mode(file.file(), PRIVATE));
    }
    Ok(file)
}

/// For its owner alone.
const PRIVATE: u32 = 0o600;
