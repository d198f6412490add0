//! The access log: a line for each request, written by a thread of its own so that no client waits for
//! whoever reads it.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use jiff::Timestamp;
use serde_json::json;
use web::bundle_server::{Access, AccessLog};

/// How many lines wait to be written; more are lost, and counted.
const WAITING_MAX: usize = 16 << 10;

/// Whoever writes the lines of a log.
#[derive(Debug)]
pub(crate) struct AccessLines {
    writer: JoinHandle<()>,
    lost: Arc<AtomicU64>,
}

/// Where requests are told to.
#[derive(Debug)]
struct Sender {
    lines: SyncSender<Access>,
    lost: Arc<AtomicU64>,
}

impl AccessLines {
    /// Writes to `file`, in JSON or in the form that web servers have in common. The lines end when the log
    /// is dropped.
    pub(crate) fn write_to(
        file: impl Write + Send + 'static,
        is_json: bool,
    ) -> (Self, Box<dyn AccessLog>) {
        let (lines, waiting) = sync_channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = std::thread::spawn(move || {
            // A log that cannot be written does not keep anybody from being served.
            let _ = write_all(&waiting, io::BufWriter::new(file), is_json);
        });
        let log = Sender { lines, lost: Arc::clone(&lost) };
        (Self { writer, lost }, Box::new(log))
    }

    /// Waits until all is written, and returns how many lines were lost.
    pub(crate) fn end(self) -> u64 {
        // It has written what it could, even if it failed.
        drop(self.writer.join());
        self.lost.load(Ordering::Relaxed)
    }
}

impl AccessLog for Sender {
    fn record(&self, access: Access) {
        if self.lines.try_send(access).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_all(waiting: &Receiver<Access>, mut file: impl Write, is_json: bool) -> io::Result<()> {
    while let Ok(access) = waiting.recv() {
        writeln!(file, "{}", line(&access, is_json))?;
        // What is known is shown before we wait for more.
        while let Ok(access) = waiting.try_recv() {
            writeln!(file, "{}", line(&access, is_json))?;
        }
        file.flush()?;
    }
    Ok(())
}

fn line(access: &Access, is_json: bool) -> String {
    let time = Timestamp::try_from(access.time).unwrap_or_default();
    let (method, path, status) = (&access.method, &access.path, access.status.as_u16());
    let version = format!("{:?}", access.version);
    if is_json {
        let line = json!({
            "schema": "monobloc.serve.access/1",
            "time": time.to_string(),
            "client": access.client.ip().to_string(),
            "method": method.as_str(),
            "path": path,
            "protocol": version,
            "status": status,
            "bytes": access.bytes,
            "complete": access.complete,
            "seconds": access.took.as_secs_f64(),
        });
        return line.to_string();
    }
    let (client, bytes) = (access.client.ip(), access.bytes);
    let time = time.strftime("%d/%b/%Y:%H:%M:%S +0000");
    format!("{client} - - [{time}] \"{method} {} {version}\" {status} {bytes}", plain(path))
}

/// The path without anything that could be taken for another part of the line.
fn plain(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter.is_ascii_graphic() && letter != '"' && letter != '\\' {
            text.push(letter);
        } else {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                // A text takes everything that is written to it.
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text
}
