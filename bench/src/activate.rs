//! Activating 80 packages with 20,000 files, beside what the reference does with them.

use std::cell::Cell;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use host::event::{Event, Observer};
use host::history::By;
use host::plan::Wanted;
use host::store::Trust;
use host::{Host, Job, Paths, SystemClock};
use package::archive::{self, PackOptions};
use package::distribution::Distribution;
use package::{Cancel, PackageId};

use crate::measure::{Times, program, settle};

/// How long the reference took for this on the machine that the figures are of, and how much of it
/// was the start of its interpreter.
const REFERENCE: Duration = Duration::from_millis(1800);
const REFERENCE_START: Duration = Duration::from_millis(900);

const PACKAGES: usize = 80;
const FILES: usize = 250;
/// Folders that the files of a package lie in.
const FOLDERS: usize = 10;

pub(crate) fn run(args: &crate::Sides) -> anyhow::Result<()> {
    let monobloc = crate::monobloc(args.program.as_ref())?;
    let (_guard, work) = crate::work_folder()?;
    println!("{PACKAGES} packages, {} files", PACKAGES * FILES);
    // Of ten folders of each package, so many are its own.
    for (shape, own) in [("every folder shared", 0), ("4 of 5 files in own folders", 8)] {
        let place = work.join(format!("own-{own}"));
        measure(&monobloc, &place, shape, own, args.rounds)?;
    }
    println!(
        "\nThe reference itself took {:.1} s, {:.1} s of it to start; theirs here does its file operations only.",
        REFERENCE.as_secs_f64(),
        REFERENCE_START.as_secs_f64()
    );
    Ok(())
}

fn measure(
    monobloc: &Utf8Path,
    place: &Utf8Path,
    shape: &str,
    own: usize,
    rounds: u32,
) -> anyhow::Result<()> {
    let root = place.join("root");
    let mut paths = Paths::of(&Distribution::default());
    (paths.root, paths.repository, paths.config) =
        (root.clone(), root.join("packages"), place.join("etc"));
    let host = Host::new(Distribution::default(), paths);
    let sets = fill_store(&host, place, own)?;
    settle()?;

    let (mut ours, mut theirs) = (Times::default(), Times::default());
    let mut phases = Vec::new();
    let turn = Cell::new(0);
    let next = || {
        turn.set(turn.get() + 1);
        &sets[turn.get() % 2]
    };
    for round in 0..rounds {
        let set = next();
        ours.add(|| {
            let mut command = Command::new(monobloc);
            command.args(["host", "--root", root.as_str(), "--config-dir"]);
            command.arg(place.join("etc")).arg("activate");
            program(command.args(set.iter().map(ToString::to_string))).map(|_| ())
        })?;
        theirs.add(|| {
            let mut command = Command::new("python3");
            // A new root each time: it would remove the set before the last, and ext4 makes whoever
            // comes next search past the inodes of what was just removed.
            let theirs = place.join(format!("theirs-{round}"));
            command.args(["-c", include_str!("activate.py"), theirs.as_str()]);
            command.arg(root.join("packages"));
            program(command.args(set.iter().map(ToString::to_string))).map(|_| ())
        })?;
        phases.push(by_phase(&host, next())?);
    }
    print(shape, &ours, &theirs, phases);
    Ok(())
}

fn print(shape: &str, ours: &Times, theirs: &Times, mut phases: Vec<Phases>) {
    phases.sort_by_key(|phases| phases.total);
    let middle = &phases[phases.len() / 2];
    let seconds = |time: Duration| time.as_secs_f64();
    println!("\n{shape}: {} links, {} folders", middle.links, middle.folders);
    for (name, times) in [("monobloc, with sync", ours), ("the reference's way", theirs)] {
        println!(
            "  {name:<22} best {:.3} s, median {:.3} s",
            seconds(times.best().elapsed),
            seconds(times.median().elapsed)
        );
    }
    println!(
        "  median of monobloc by phase: observe and plan {:.3}, write {:.3}, sync and switch {:.3} s",
        seconds(middle.plan),
        seconds(middle.write),
        seconds(middle.sync)
    );
    let without_sync = seconds(ours.median().elapsed) - seconds(middle.sync);
    println!(
        "  speed against theirs: {:.2} with sync, {:.2} without; against the reference's {:.1} s: {:.1} and {:.1}",
        seconds(theirs.median().elapsed) / seconds(ours.median().elapsed),
        seconds(theirs.median().elapsed) / without_sync,
        seconds(REFERENCE),
        seconds(REFERENCE) / seconds(ours.median().elapsed),
        seconds(REFERENCE) / without_sync,
    );
}

/// How long each part of an activation took.
#[derive(Debug)]
struct Phases {
    total: Duration,
    plan: Duration,
    write: Duration,
    sync: Duration,
    links: usize,
    folders: usize,
}

/// Notes when the writing ends.
#[derive(Debug, Default)]
struct Watch(Mutex<Option<Instant>>);

impl Observer for Watch {
    fn event(&self, event: &Event<'_>) {
        if matches!(event, Event::Syncing) {
            *self.0.lock().expect("nothing panics with it") = Some(Instant::now());
        }
    }
}

fn by_phase(host: &Host, set: &[PackageId]) -> anyhow::Result<Phases> {
    settle()?;
    let (watch, cancel) = (Watch::default(), Cancel::new());
    let by = By { user: "bench".into(), command: "bench".into(), program: "bench".into() };
    let job =
        Job { by, reason: String::new(), clock: &SystemClock, cancel: &cancel, observer: &watch };
    let wanted = Wanted::Packages(set.iter().cloned().collect());
    let lock = host.lock(&job)?;
    let begun = Instant::now();
    let plan = host.plan(&wanted, &SystemClock)?;
    let planned = Instant::now();
    host.execute(&plan, &lock, &job)?;
    let ended = Instant::now();
    let synced = watch.0.lock().expect("nothing panics with it").unwrap_or(ended);
    let layout = plan.layout();
    Ok(Phases {
        total: ended - begun,
        plan: planned - begun,
        write: synced - planned,
        sync: ended - synced,
        links: layout.map_or(0, |layout| layout.links.len()),
        folders: layout.map_or(0, |layout| layout.folders.len()),
    })
}

/// Adds the packages, and returns two sets that differ in one of them.
fn fill_store(host: &Host, place: &Utf8Path, own: usize) -> anyhow::Result<[Vec<PackageId>; 2]> {
    let mut sets = [Vec::new(), Vec::new()];
    for package in 0..=PACKAGES {
        // The last one is another version of the first.
        let name = format!("component-{:02}", package % PACKAGES);
        let id: PackageId = format!("{name}--{:040x}", package + 1).parse()?;
        let folder = place.join("folder");
        for file in 0..FILES {
            let at = file % FOLDERS;
            let inside =
                if at < own { format!("lib/{name}/part-{at}") } else { format!("lib/shared-{at}") };
            let path = folder.join(inside).join(format!("{name}-{file}"));
            fs_err::create_dir_all(path.parent().expect("it lies in a folder"))?;
            fs_err::write(path, format!("{package} {file}"))?;
        }
        fs_err::write(folder.join("pkginfo.json"), "{}")?;
        let packed = place.join(format!("{id}.tar.zst"));
        archive::pack(&folder, &packed, &PackOptions::default())?;
        fs_err::remove_dir_all(&folder)?;
        host.store.add(&packed, &Trust::default(), &Cancel::new(), &host::event::Silent)?;
        for (at, set) in sets.iter_mut().enumerate() {
            if package % PACKAGES != 0 || (package == 0) == (at == 0) {
                set.push(id.clone());
            }
        }
    }
    Ok(sets)
}
