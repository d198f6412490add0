//! Times of repeated work: elapsed, and of all processors together.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// How long one piece of work took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    pub(crate) elapsed: Duration,
    /// Of this process and of the programs it started, on all processors.
    pub(crate) processors: Duration,
}

/// The times of the same work done several times.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<Time>);

impl Times {
    /// Does the work once more.
    pub(crate) fn add(&mut self, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        settle()?;
        touch_memory();
        let (started, before) = (Instant::now(), processors()?);
        work()?;
        let elapsed = started.elapsed();
        self.0.push(Time { elapsed, processors: processors()?.saturating_sub(before) });
        Ok(())
    }

    /// The shortest time.
    pub(crate) fn best(&self) -> Time {
        self.sorted()[0]
    }

    /// The time that half of all are shorter than.
    pub(crate) fn median(&self) -> Time {
        self.sorted()[self.0.len() / 2]
    }

    /// The longest time.
    pub(crate) fn worst(&self) -> Time {
        self.sorted()[self.0.len() - 1]
    }

    fn sorted(&self) -> Vec<Time> {
        let mut times = self.0.clone();
        times.sort_by_key(|time| time.elapsed);
        times
    }
}

/// Takes memory and gives it back. A virtual machine that returned its free memory gets it again page
/// by page, which would count as the work of whoever needs it first.
fn touch_memory() {
    const BYTES: usize = 1 << 30;
    const PAGE: usize = 4096;
    let mut memory = vec![0_u8; BYTES];
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    std::hint::black_box(&memory);
}

/// The time that processors have worked for this process and for its children that ended.
fn processors() -> anyhow::Result<Duration> {
    /// Linux tells these times in hundredths of a second, whatever its own clock is.
    const TICKS_PER_SECOND: u32 = 100;
    let stat = fs_err::read_to_string("/proc/self/stat")?;
    // The second field is the program's name in parentheses; the times are fields 14 to 17.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(4).map(str::parse).collect::<Result<_, _>>()?;
    ensure!(ticks.len() == 4, "cannot read /proc/self/stat");
    Ok(Duration::from_secs(ticks.iter().sum()) / TICKS_PER_SECOND)
}

/// Runs a program to its end, fails unless it succeeds, and returns its output.
pub(crate) fn program(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed ({}): {}", output.status, talk.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes out what earlier work left in memory, so that no later work pays for it.
pub(crate) fn settle() -> anyhow::Result<()> {
    program(&mut Command::new("sync")).map(|_| ())
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
