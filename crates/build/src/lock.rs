//! A lock file that one process holds at a time; whoever waits for it can be told to stop.

use std::fs::TryLockError;
use std::io;
use std::time::Duration;

use camino::Utf8Path;
use package::{Cancel, Cancelled};

/// How often somebody who waits looks at the cancel flag.
const POLL: Duration = Duration::from_millis(50);

/// Held until it is dropped. The file stays: deleting it would let two in.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: fs_err::File,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl Lock {
    /// Takes the lock at `path`; `wait` is called once if somebody else has it.
    pub(crate) fn take(
        path: &Utf8Path,
        cancel: &Cancel,
        wait: &dyn Fn(),
    ) -> Result<Self, LockError> {
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder)?;
        }
        let file = fs_err::File::options().create(true).truncate(false).write(true).open(path)?;
        let mut is_told = false;
        loop {
            match file.file().try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
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
