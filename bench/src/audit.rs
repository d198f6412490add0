//! Auditing a host of 30,000 files and a gigabyte, beside `sha256sum` over the same files.

use std::process::Command;

use camino::Utf8Path;
use host::store::Trust;
use host::{Host, Paths};
use package::archive::{self, PackOptions};
use package::distribution::Distribution;
use package::{Cancel, PackageId};

use crate::measure::{Times, megabytes, program, settle};

const PACKAGES: usize = 60;
/// Small files of each package, and how long they are on average.
const FILES: usize = 500;
const SMALL_BYTES: usize = 7_000;
/// Packages with one large file more.
const LARGE: usize = 25;
const LARGE_BYTES: usize = 32 << 20;

pub(crate) fn run(args: &crate::Sides) -> anyhow::Result<()> {
    let monobloc = crate::monobloc(args.program.as_ref())?;
    let (_guard, work) = crate::work_folder()?;
    let root = work.join("root");
    let mut paths = Paths::of(&Distribution::default());
    (paths.root, paths.repository, paths.config) =
        (root.clone(), root.join("packages"), work.join("etc"));
    let host = Host::new(Distribution::default(), paths);
    let ids = fill_store(&host, &work)?;
    activate(&monobloc, &work, &ids)?;
    let bytes = ids.iter().map(|id| Ok(host.store.load(id)?.manifest.size()));
    let bytes: u64 = bytes.sum::<anyhow::Result<u64>>()?;
    println!("{PACKAGES} packages, {} files, {:.0} MB", PACKAGES * FILES + LARGE, megabytes(bytes));
    settle()?;

    let audit = |how: &[&str]| {
        let mut command = Command::new(&monobloc);
        command.args(["host", "--root", root.as_str(), "--config-dir"]).arg(work.join("etc"));
        program(command.arg("audit").args(how)).map(|_| ())
    };
    let sums = || {
        let pipe = "find \"$1\" -type f -print0 | xargs -0 -P 2 -n 64 sha256sum > /dev/null";
        program(Command::new("sh").args(["-c", pipe, "sh"]).arg(root.join("packages"))).map(|_| ())
    };
    // Both sides read from memory.
    sums()?;
    let (mut full, mut fast, mut theirs) = (Times::default(), Times::default(), Times::default());
    for _ in 0..args.rounds {
        full.add(|| audit(&[]))?;
        theirs.add(sums)?;
        fast.add(|| audit(&["--fast"]))?;
    }
    print("audit", bytes, &full);
    print("find, xargs, sha256sum", bytes, &theirs);
    println!(
        "{:<24} best {:.3} s; median {:.3} s",
        "audit --fast",
        fast.best().elapsed.as_secs_f64(),
        fast.median().elapsed.as_secs_f64()
    );
    println!(
        "speed against theirs: best {:.2}, median {:.2}",
        theirs.best().elapsed.as_secs_f64() / full.best().elapsed.as_secs_f64(),
        theirs.median().elapsed.as_secs_f64() / full.median().elapsed.as_secs_f64(),
    );
    Ok(())
}

fn print(name: &str, bytes: u64, times: &Times) {
    let (best, median) = (times.best(), times.median());
    let seconds = best.elapsed.as_secs_f64();
    println!(
        "{name:<24} best {seconds:.3} s, {:.0} MB/s, {:.2} cores; median {:.3} s",
        megabytes(bytes) / seconds,
        best.processors.as_secs_f64() / seconds,
        median.elapsed.as_secs_f64(),
    );
}

fn activate(monobloc: &Utf8Path, work: &Utf8Path, ids: &[PackageId]) -> anyhow::Result<()> {
    let mut command = Command::new(monobloc);
    command.args(["host", "--root", work.join("root").as_str(), "--config-dir"]);
    command.arg(work.join("etc")).arg("activate");
    program(command.args(ids.iter().map(ToString::to_string))).map(|_| ())
}

fn fill_store(host: &Host, work: &Utf8Path) -> anyhow::Result<Vec<PackageId>> {
    let mut noise = Noise(1);
    let mut ids = Vec::new();
    for package in 0..PACKAGES {
        let name = format!("component-{package:02}");
        let id: PackageId = format!("{name}--{package:040x}").parse()?;
        let folder = work.join("folder");
        for file in 0..FILES {
            let path =
                folder.join(format!("lib/{name}/part-{}", file % 10)).join(format!("{file}"));
            fs_err::create_dir_all(path.parent().expect("it lies in a folder"))?;
            // Between nothing and twice the average.
            fs_err::write(path, noise.bytes(SMALL_BYTES * 2 * file / FILES))?;
        }
        if package < LARGE {
            fs_err::create_dir_all(folder.join("bin"))?;
            fs_err::write(folder.join("bin").join(&name), noise.bytes(LARGE_BYTES))?;
        }
        fs_err::write(folder.join("pkginfo.json"), "{}")?;
        let packed = work.join(format!("{id}.tar.zst"));
        archive::pack(&folder, &packed, &PackOptions { level: 1, ..Default::default() })?;
        fs_err::remove_dir_all(&folder)?;
        host.store.add(&packed, &Trust::default(), &Cancel::new(), &host::event::Silent)?;
        fs_err::remove_file(&packed)?;
        ids.push(id);
    }
    Ok(ids)
}

/// Bytes that nothing compresses.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let words = std::iter::repeat_with(|| {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0.to_le_bytes()
        });
        words.flatten().take(count).collect()
    }
}
