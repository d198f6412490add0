//! A build that has nothing to do, over a generated tree of the reference's size, and over the same
//! tree with twice the content: the time must not grow.

use std::process::Command;

use anyhow::ensure;
use camino::{Utf8Path, Utf8PathBuf};
use testing::tree::{Checksum, Options, generate};

use crate::measure::{Times, megabytes, program};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program [default: `monobloc` beside this one]
    #[arg(long, value_name = "PATH")]
    program: Option<Utf8PathBuf>,
    /// How often each tree is built with nothing to do
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Bytes of each of the 136 sources; the second tree has twice as many
    #[arg(long, default_value_t = 200_000)]
    source_bytes: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let beside = crate::program_folder()?.join("monobloc");
    let monobloc = args.program.clone().unwrap_or(beside);
    ensure!(
        monobloc.is_file(),
        "`{monobloc}` is missing: make it with `cargo build --release --package monobloc`"
    );
    let (_guard, work) = crate::work_folder()?;
    let mut trees = Vec::new();
    for source_bytes in [args.source_bytes, 2 * args.source_bytes] {
        let into = work.join(format!("sources-of-{source_bytes}-bytes"));
        let tree = generate(
            &into,
            Options {
                checksum: Checksum::Sha256,
                source_bytes,
            },
        )?;
        let mut first = Times::default();
        first.add(|| build(&monobloc, &tree, &work))?;
        trees.push((source_bytes, tree, first, Times::default()));
    }
    for _ in 0..args.runs {
        for (_, tree, _, times) in &mut trees {
            times.add(|| build(&monobloc, tree, &work))?;
        }
    }
    println!(
        "{:>12}{:>14}{:>14}{:>12}",
        "source", "cache", "first build", "no-op: best"
    );
    for (source_bytes, tree, first, times) in &trees {
        println!(
            "{:>10} B{:>11.1} MB{:>12.2} s{:>10.3} s   median {:.3} s, worst {:.3} s",
            source_bytes,
            megabytes(size(&tree.join("cache"))),
            first.best().elapsed.as_secs_f64(),
            times.best().elapsed.as_secs_f64(),
            times.median().elapsed.as_secs_f64(),
            times.worst().elapsed.as_secs_f64(),
        );
    }
    let [small, large] =
        [&trees[0].3, &trees[1].3].map(|times| times.median().elapsed.as_secs_f64());
    println!("twice the content: {:.2} times the time", large / small);
    Ok(())
}

fn build(monobloc: &Utf8Path, tree: &Utf8Path, work: &Utf8Path) -> anyhow::Result<()> {
    let sources = work.join("sources");
    program(Command::new(monobloc).args([
        "build",
        tree.as_str(),
        "--source-cache",
        sources.as_str(),
    ]))
}

/// Bytes of all files below `folder`.
fn size(folder: &Utf8Path) -> u64 {
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let metadata = fs_err::symlink_metadata(entry.path()).ok()?;
            Some(if metadata.is_dir() {
                size(entry.path())
            } else {
                metadata.len()
            })
        })
        .sum()
}
