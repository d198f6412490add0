//! Packing and unpacking, ours against `tar` and `zstd`, on real bytes of this machine.
//!
//! Both sides do their work in turns, so that whatever else the machine does meets both.

use std::io::Write as _;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use package::Sha256;
use package::archive::{self, DEFAULT_LEVEL, PackOptions, UnpackOptions};

use crate::measure::{Times, megabytes, program, settle};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each side does each piece of work
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Levels to pack with
    #[arg(long, default_values_t = [3, DEFAULT_LEVEL])]
    level: Vec<i32>,
}

const BINARIES: usize = 7;
const BINARY_BYTES: usize = 30 << 20;
const SMALL_FILES: usize = 5000;
/// A file is small up to here, and binaries are put together from larger ones.
const SMALL_BYTES: u64 = 64 << 10;

/// One piece of work as both sides did it.
#[derive(Debug)]
struct Pair {
    what: String,
    ours: Times,
    theirs: Times,
    /// Compressed sizes.
    sizes: Option<[u64; 2]>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (_guard, work) = crate::work_folder()?;
    let input = work.join("input");
    let bytes = make_input(&input)?;
    let mut pairs = Vec::new();
    for level in &args.level {
        pairs.push(measure_pack(&work, &input, *level, args.rounds)?);
    }
    let packed = work.join("package.tar.zst");
    archive::pack(&input, &packed, &PackOptions::default())?;
    pairs.push(measure_unpack("unpack, to disk", &packed, &work, args.rounds)?);
    // The disk bounds both sides; without it the work itself can be compared.
    match tempfile::tempdir_in("/dev/shm") {
        Ok(memory) => {
            let memory = Utf8Path::from_path(memory.path()).context("a path that is not UTF-8")?;
            pairs.push(measure_unpack("unpack, to mem.", &packed, memory, args.rounds)?);
        }
        Err(error) => println!("no unpacking to memory: {error}"),
    }
    print_table(&pairs, bytes);
    print_bounds(&work, bytes)
}

/// Copies files of this machine: a few large binaries and thousands of small files. Returns how
/// many bytes that is.
pub(crate) fn make_input(input: &Utf8Path) -> anyhow::Result<u64> {
    let mut found = Vec::new();
    for folder in ["/usr/bin", "/usr/lib", "/usr/share"] {
        list(Utf8Path::new(folder), &mut found);
    }
    found.sort();
    let (small, large): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, size)| *size <= SMALL_BYTES);

    fs_err::create_dir_all(input.join("lib"))?;
    let (mut files, mut bytes) = (0, 0);
    // Every n-th, so that all folders have a share.
    for (path, _) in small.iter().step_by((small.len() / SMALL_FILES).max(1)).take(SMALL_FILES) {
        let folder = input.join(format!("share/{:02}", files / 50));
        fs_err::create_dir_all(&folder)?;
        if let Ok(copied) = fs_err::copy(path, folder.join(format!("file-{files:04}"))) {
            bytes += copied;
            files += 1;
        }
    }
    let mut large = large.iter().filter(|(path, _)| !path.starts_with("/usr/share"));
    let mut binaries = 0;
    for number in 0..BINARIES {
        let mut binary = Vec::with_capacity(BINARY_BYTES);
        while binary.len() < BINARY_BYTES
            && let Some((path, _)) = large.next()
        {
            binary.extend(fs_err::read(path).unwrap_or_default());
        }
        binary.truncate(BINARY_BYTES);
        if !binary.is_empty() {
            bytes += binary.len() as u64;
            binaries += 1;
            fs_err::write(input.join(format!("lib/binary-{number}")), binary)?;
        }
    }
    println!(
        "input: {binaries} binaries, {files} small files, {:.0} MB in all\n",
        megabytes(bytes)
    );
    ensure!(binaries > 0 && files > 0, "found no files to copy below /usr");
    Ok(bytes)
}

/// Finds the regular files below `folder` with their sizes; what cannot be read is left out.
fn list(folder: &Utf8Path, found: &mut Vec<(Utf8PathBuf, u64)>) {
    for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => list(entry.path(), found),
            Ok(metadata) if metadata.is_file() => {
                found.push((entry.path().to_owned(), metadata.len()));
            }
            _ => {}
        }
    }
}

fn measure_pack(
    work: &Utf8Path,
    input: &Utf8Path,
    level: i32,
    rounds: u32,
) -> anyhow::Result<Pair> {
    let (ours, theirs) = (work.join("ours.tar.zst"), work.join("theirs.tar.zst"));
    let options = PackOptions { level, ..PackOptions::default() };
    let tar = "tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C \"$1\" -cf - . \
               | zstd -q -f -T0 \"-$2\" -o \"$3\"";
    let mut pair = Pair::new(format!("pack, level {level}"));
    for round in 0..rounds {
        pair.round(
            round,
            || Ok(archive::pack(input, &ours, &options).map(|_| ())?),
            || {
                let level = level.to_string();
                program(Command::new("sh").args([
                    "-c",
                    tar,
                    "sh",
                    input.as_str(),
                    &level,
                    theirs.as_str(),
                ]))
                .map(|_| ())
            },
        )?;
    }
    pair.sizes = Some([fs_err::metadata(&ours)?.len(), fs_err::metadata(&theirs)?.len()]);
    Ok(pair)
}

fn measure_unpack(
    what: &str,
    packed: &Utf8Path,
    into: &Utf8Path,
    rounds: u32,
) -> anyhow::Result<Pair> {
    let mut pair = Pair::new(what.to_owned());
    for round in 0..rounds {
        // Nothing is removed between the rounds: ext4 avoids the inodes of files that were removed in
        // the last minutes, and searching past thousands of them would be most of what is measured.
        let (ours, theirs) =
            (into.join(format!("ours-{round}")), into.join(format!("theirs-{round}")));
        fs_err::create_dir(&theirs)?;
        pair.round(
            round,
            || Ok(archive::unpack(packed, &ours, &UnpackOptions::default()).map(|_| ())?),
            || {
                let to = ["-C", theirs.as_str()];
                program(Command::new("tar").args(["-I", "zstd", "-xf", packed.as_str()]).args(to))
                    .map(|_| ())
            },
        )?;
    }
    Ok(pair)
}

impl Pair {
    fn new(what: String) -> Self {
        Self { what, ours: Times::default(), theirs: Times::default(), sizes: None }
    }

    /// Lets both sides work once; who begins changes from round to round.
    fn round(
        &mut self,
        round: u32,
        ours: impl FnOnce() -> anyhow::Result<()>,
        theirs: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if round.is_multiple_of(2) {
            self.ours.add(ours)?;
            self.theirs.add(theirs)
        } else {
            self.theirs.add(theirs)?;
            self.ours.add(ours)
        }
    }
}

fn print_table(pairs: &[Pair], bytes: u64) {
    println!(
        "{:<16}{:<12}{:>8}{:>8}{:>8}{:>8}{:>7}{:>10}",
        "", "", "best s", "med. s", "MB/s", "CPU s", "cores", "size MB"
    );
    for pair in pairs {
        let theirs = if pair.sizes.is_some() { "tar | zstd" } else { "tar -I zstd" };
        for (index, (who, times)) in
            [("monobloc", &pair.ours), (theirs, &pair.theirs)].iter().enumerate()
        {
            let (best, median) = (times.best(), times.median());
            let seconds = best.elapsed.as_secs_f64();
            let processors = best.processors.as_secs_f64();
            let size =
                pair.sizes.map_or(String::new(), |sizes| format!("{:.1}", megabytes(sizes[index])));
            println!(
                "{:<16}{who:<12}{seconds:>8.2}{:>8.2}{:>8.0}{processors:>8.2}{:>7.2}{size:>10}",
                if index == 0 { &pair.what } else { "" },
                median.elapsed.as_secs_f64(),
                megabytes(bytes) / seconds,
                processors / seconds,
            );
        }
        let ratio = |of: fn(&Times) -> f64| of(&pair.theirs) / of(&pair.ours);
        let best = ratio(|times| times.best().elapsed.as_secs_f64());
        let median = ratio(|times| times.median().elapsed.as_secs_f64());
        println!("{:<16}speed against theirs: best {best:.2}, median {median:.2}\n", "");
    }
}

/// Says what bounds the figures: the work that only one side does, and how the processors were busy.
fn print_bounds(work: &Utf8Path, bytes: u64) -> anyhow::Result<()> {
    let sample = fs_err::read(work.join("input/lib/binary-0"))?;
    let size = megabytes(sample.len() as u64);
    let started = Instant::now();
    ensure!(Sha256::of(&sample) != Sha256::of(b""), "the first binary is empty");
    let hash = size / started.elapsed().as_secs_f64();

    settle()?;
    let started = Instant::now();
    let mut file = fs_err::File::create(work.join("probe"))?;
    file.write_all(&sample)?;
    file.sync_all()?;
    let disk = size / started.elapsed().as_secs_f64();

    let cores = std::thread::available_parallelism()?;
    println!(
        "Only monobloc computes SHA-256 ({hash:.0} MB/s on one core: {:.2} s for the input)",
        megabytes(bytes) / hash
    );
    println!("and syncs what it writes ({disk:.0} MB/s here).");
    println!(
        "\"cores\" near {cores}, all there are: bound by the processors; well below: by the disk, or by one thread."
    );
    Ok(())
}
