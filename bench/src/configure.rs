//! Configuring a large cluster: 5,000 agents, 120 files. There is nothing to run against: the figures are
//! the time and memory of checking alone, and of checking, rendering, packing and publishing.

use std::fmt::Write as _;
use std::process::Command;

use camino::Utf8Path;
use nix::sys::resource::{UsageWho, getrusage};
use package::archive::{self, PackOptions};
use testing::files::write_files;

use crate::Sides;
use crate::measure::{Times, program};

const AGENTS: usize = 5_000;
const FILES: usize = 120;

pub(crate) fn run(args: &Sides) -> anyhow::Result<()> {
    let monobloc = crate::monobloc(args.program.as_ref())?;
    let (_guard, work) = crate::work_folder()?;
    make_tree(&work)?;
    let call = |words: &[&str]| {
        let mut command = Command::new(&monobloc);
        command.current_dir(&work).args(words).args(["--tree", "tree"]);
        program(&mut command).map(drop)
    };
    // First, while this program is small itself: a child begins with the memory of its parent.
    write_files(&work, &[("genconf/config.yaml", config(args.rounds), 0o644)])?;
    call(&["configure"])?;
    let peak_kib = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    let (mut check, mut publish) = (Times::default(), Times::default());
    for round in 0..args.rounds {
        // Another value for hosts each time, so that everything is made anew.
        write_files(&work, &[("genconf/config.yaml", config(round), 0o644)])?;
        check.add(|| call(&["config", "validate"]))?;
        publish.add(|| call(&["configure"]))?;
    }
    println!("{AGENTS} agents, {FILES} files{:>18}{:>10}{:>10}", "best s", "median", "worst");
    for (what, times) in [("config validate", &check), ("configure", &publish)] {
        let seconds = [times.best(), times.median(), times.worst()];
        let [best, median, worst] = seconds.map(|time| time.elapsed.as_secs_f64());
        println!("{what:<22}{best:>18.3}{median:>10.3}{worst:>10.3}");
    }
    println!("largest memory of a run: {} MB", peak_kib * 1024 / 1_000_000);
    Ok(())
}

/// A tree that counts as built, with one small package and many files to make.
fn make_tree(work: &Utf8Path) -> anyhow::Result<()> {
    let mut files = vec![
        ("distribution.toml".to_owned(), "name = \"large\"\nversion = \"1\"\n".to_owned(), 0o644),
        ("config/parameters.yaml".to_owned(), "include: [base]\n".to_owned(), 0o644),
        (
            "cache/complete/complete.latest.json".to_owned(),
            r#"{"bootstrap":null,"packages":["kv--1"]}"#.to_owned(),
            0o644,
        ),
    ];
    for number in 0..FILES {
        let text = "# {{ cluster_name }}\nMASTERS={{ master_list | join(',') }}\n\
                    {% for resolver in resolvers %}\nRESOLVER_{{ loop.index }}={{ resolver }}\n\
                    {% endfor %}\nQUORUM={{ master_quorum }}\n";
        files.push((format!("config/files/etc/service-{number}.env"), text.to_owned(), 0o644));
    }
    write_files(&work.join("tree"), &files)?;
    let content = work.join("kv");
    write_files(&content, &[("bin/kv", "#!/bin/sh\n", 0o755), ("pkginfo.json", "{}", 0o644)])?;
    let folder = work.join("tree/cache/packages/kv");
    fs_err::create_dir_all(&folder)?;
    archive::pack(&content, &folder.join("kv--1.tar.zst"), &PackOptions::default())?;
    write_files(&work.join("genconf"), &[("ip-detect", "#!/bin/sh\necho 10.0.0.1\n", 0o755)])?;
    Ok(())
}

fn config(round: u32) -> String {
    let mut text = format!(
        "cluster_name: large {round}\nbootstrap_url: http://10.0.0.1\nmaster_discovery: static\n\
         exhibitor_storage_backend: static\nmaster_list: [10.0.0.2, 10.0.0.3, 10.0.0.4]\nagent_list:\n"
    );
    for agent in 0..AGENTS {
        let _ = writeln!(text, "  - 10.1.{}.{}", agent / 250, agent % 250);
    }
    text
}
