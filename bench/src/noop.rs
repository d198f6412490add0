//! A build that has nothing to do, over a generated tree of the reference's size, and over the same
//! tree with twice the content: the time must not grow.

use std::process::Command;

use anyhow::ensure;
use camino::{Utf8Path, Utf8PathBuf};
use testing::tree::{Checksum, Options, generate};

use crate::measure::{Time, Times, megabytes, program};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program [default: `monobloc` beside this one]
    #[arg(long, value_name = "PATH")]
    program: Option<Utf8PathBuf>,
    /// How often each tree is built with nothing to do
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Bytes of each of the 113 sources that are files; the second tree has twice as many
    #[arg(long, default_value_t = 200_000)]
    source_bytes: usize,
}

/// A tree and how long its builds took.
#[derive(Debug)]
struct Case {
    tree: Utf8PathBuf,
    source_bytes: usize,
    first: Times,
    idle: Times,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let monobloc = crate::monobloc(args.program.as_ref())?;
    let (_guard, work) = crate::work_folder()?;
    let build = |tree: &Utf8Path, expected: &str| {
        let mut command = Command::new(&monobloc);
        command.args(["build", tree.as_str(), "--source-cache", work.join("sources").as_str()]);
        let said = program(&mut command)?;
        ensure!(
            said.contains(expected),
            "expected `{expected}` (was something installed on this machine meanwhile?), but: {said}"
        );
        Ok(())
    };
    let mut cases = Vec::new();
    for source_bytes in [args.source_bytes, 2 * args.source_bytes] {
        let into = work.join(format!("sources-of-{source_bytes}-bytes"));
        let options = Options { checksum: Checksum::Sha256, source_bytes };
        let tree = generate(&into, options)?;
        let (mut first, idle) = (Times::default(), Times::default());
        first.add(|| build(&tree, "81 built"))?;
        cases.push(Case { tree, source_bytes, first, idle });
    }
    for _ in 0..args.runs {
        for Case { tree, idle, .. } in &mut cases {
            idle.add(|| build(tree, "81 up to date"))?;
        }
    }
    print_table(&cases);
    Ok(())
}

fn print_table(cases: &[Case]) {
    println!(
        "{:>12}{:>10}{:>16}{:>14}{:>10}{:>10}",
        "a source B", "cache MB", "first build s", "no-op best s", "median", "worst"
    );
    for case in cases {
        println!(
            "{:>12}{:>10.1}{:>16.2}{:>14.3}{:>10.3}{:>10.3}",
            case.source_bytes,
            megabytes(size(&case.tree.join("cache"))),
            case.first.best().elapsed.as_secs_f64(),
            case.idle.best().elapsed.as_secs_f64(),
            case.idle.median().elapsed.as_secs_f64(),
            case.idle.worst().elapsed.as_secs_f64(),
        );
    }
    if let [small, large] = cases {
        let ratio = |time: fn(&Times) -> Time| {
            time(&large.idle).elapsed.as_secs_f64() / time(&small.idle).elapsed.as_secs_f64()
        };
        let (best, median) = (ratio(Times::best), ratio(Times::median));
        println!("twice the content takes {best:.2} (best) and {median:.2} (median) times as long");
    }
}

/// Bytes of all files below `folder`.
fn size(folder: &Utf8Path) -> u64 {
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let metadata = fs_err::symlink_metadata(entry.path()).ok()?;
            Some(if metadata.is_dir() { size(entry.path()) } else { metadata.len() })
        })
        .sum()
}
