//! What a program writes, read while it runs, so that it never waits for us.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long output is still read after a program ended: something it started may hold the pipe.
const DRAIN_GRACE: Duration = Duration::from_secs(2);

/// Which part of too much output is kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keep {
    /// The first bytes, up to this many and the rest of a read.
    First(usize),
    /// The last bytes, this many.
    Last(usize),
}

/// Reads a pipe to its end on a thread of its own.
#[derive(Debug)]
pub(super) struct Capture {
    kept: Arc<Mutex<Vec<u8>>>,
    done: Receiver<()>,
}

impl Capture {
    /// Starts to read.
    pub(super) fn start(mut pipe: impl Read + Send + 'static, keep: Keep) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (sender, done) = channel();
        let shared = Arc::clone(&kept);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 32 * 1024];
            loop {
                let count = match pipe.read(&mut buffer) {
                    Ok(count) if count > 0 => count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    _ => break,
                };
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match keep {
                    Keep::First(limit) if kept.len() > limit => {}
                    Keep::First(_) => kept.extend_from_slice(&buffer[..count]),
                    Keep::Last(limit) => {
                        kept.extend_from_slice(&buffer[..count]);
                        let surplus = kept.len().saturating_sub(limit);
                        kept.drain(..surplus);
                    }
                }
            }
            // Nobody waits any more if the grace is over.
            let _ = sender.send(());
        });
        Self { kept, done }
    }

    /// What was read.
    pub(super) fn finish(self) -> Vec<u8> {
        // A timeout leaves what has arrived, which is all that the program itself wrote.
        let _ = self.done.recv_timeout(DRAIN_GRACE);
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
