//! Installing a bundle of about a gigabyte: from its folder to a live generation, verified and synced,
//! against `tar -I zstd -x` of the same content followed by `sync`. Then the same again on the same host,
//! where nothing is left to unpack.

use std::process::Command;

use anyhow::ensure;
use camino::Utf8Path;
use package::archive::{self, PackOptions};
use testing::files::write_files;

use crate::Sides;
use crate::measure::{Times, megabytes, program};

/// How many packages the content is dealt to.
const PACKAGES: usize = 36;

pub(crate) fn run(args: &Sides) -> anyhow::Result<()> {
    let monobloc = crate::monobloc(args.program.as_ref())?;
    let (_guard, work) = crate::work_folder()?;
    let bytes = make_packages(&work)?;
    let configure = ["configure", "--tree", "tree"];
    program(Command::new(&monobloc).current_dir(&work).args(configure))?;
    let tar = "tar -C content -cf - . | zstd -q -f -T0 -9 -o content.tar.zst";
    program(Command::new("sh").current_dir(&work).args(["-c", tar]))?;
    let install = |root: &str| {
        let mut command = Command::new(&monobloc);
        command.current_dir(&work).args(["host", "--root", root, "--distribution", "large"]);
        command.args([
            "--config-dir",
            &format!("{root}-config"),
            "install",
            "--from",
            "genconf/serve",
        ]);
        command.args(["--role", "master", "--public-key", "genconf/keys/cluster.pub", "-d"]);
        program(&mut command).map(drop)
    };
    let (mut first, mut again, mut theirs) = (Times::default(), Times::default(), Times::default());
    for round in 0..args.rounds {
        let (root, folder) = (format!("root-{round}"), format!("theirs-{round}"));
        let script =
            format!("mkdir {folder} && tar -I zstd -xf content.tar.zst -C {folder} && sync");
        let mut unpack = || {
            theirs.add(|| {
                program(Command::new("sh").current_dir(&work).args(["-c", &script])).map(drop)
            })
        };
        if round.is_multiple_of(2) {
            first.add(|| install(&root))?;
            unpack()?;
        } else {
            unpack()?;
            first.add(|| install(&root))?;
        }
        let before = inodes(&work.join(&root).join("packages"))?;
        again.add(|| install(&root))?;
        ensure!(
            inodes(&work.join(&root).join("packages"))? == before,
            "something was unpacked again"
        );
    }
    println!(
        "{PACKAGES} packages, {:.0} MB unpacked{:>12}{:>10}{:>10}",
        megabytes(bytes),
        "best s",
        "median",
        "worst"
    );
    for (what, times) in
        [("host install", &first), ("tar | zstd, sync", &theirs), ("host install again", &again)]
    {
        let seconds = [times.best(), times.median(), times.worst()];
        let [best, median, worst] = seconds.map(|time| time.elapsed.as_secs_f64());
        println!("{what:<28}{best:>12.2}{median:>10.2}{worst:>10.2}");
    }
    let ratio = |pick: fn(&Times) -> crate::measure::Time| {
        pick(&theirs).elapsed.as_secs_f64() / pick(&first).elapsed.as_secs_f64()
    };
    println!(
        "ratio, tar to ours: best {:.2}, median {:.2}",
        ratio(Times::best),
        ratio(Times::median)
    );
    println!(
        "both are bounded by the disk; ours also reads each archive once more to verify it before use"
    );
    Ok(())
}

/// Deals files of this machine to packages of a tree that counts as built. Returns how many bytes that is.
fn make_packages(work: &Utf8Path) -> anyhow::Result<u64> {
    let input = work.join("input");
    crate::archive::make_input(&input)?;
    let (mut ids, mut bytes) = (Vec::new(), 0);
    let mut binaries: Vec<_> = list(&input.join("lib"))?;
    binaries.sort();
    let mut small = Vec::new();
    for folder in list(&input.join("share"))? {
        small.extend(list(&folder)?);
    }
    small.sort();
    for number in 0..PACKAGES {
        let (name, id) = (format!("part-{number:02}"), format!("part-{number:02}--1"));
        let folder = work.join("content").join(&name);
        write_files(&folder, &[("pkginfo.json", "{}", 0o644)])?;
        fs_err::create_dir_all(folder.join("lib"))?;
        let own =
            small.iter().skip(number).step_by(PACKAGES).chain([&binaries[number % binaries.len()]]);
        for file in own {
            let target =
                folder.join("lib").join(format!("{name}-{}", file.file_name().unwrap_or_default()));
            bytes += fs_err::copy(file, target)?;
        }
        let archives = work.join("tree/cache/packages").join(&name);
        fs_err::create_dir_all(&archives)?;
        archive::pack(&folder, &archives.join(format!("{id}.tar.zst")), &PackOptions::default())?;
        ids.push(format!("\"{id}\""));
    }
    let complete = format!("{{\"bootstrap\":null,\"packages\":[{}]}}", ids.join(","));
    let distribution = "name = \"large\"\nversion = \"1\"\n".to_owned();
    let parameters = "include: []\nroles: [master]\n".to_owned();
    write_files(
        &work.join("tree"),
        &[
            ("distribution.toml", distribution, 0o644),
            ("config/parameters.yaml", parameters, 0o644),
            ("cache/complete/complete.latest.json", complete, 0o644),
        ],
    )?;
    write_files(&work.join("genconf"), &[("config.yaml", "{}\n", 0o644)])?;
    Ok(bytes)
}

fn list(folder: &Utf8Path) -> anyhow::Result<Vec<camino::Utf8PathBuf>> {
    let mut paths = Vec::new();
    for entry in folder.read_dir_utf8()? {
        paths.push(entry?.path().to_owned());
    }
    Ok(paths)
}

/// The folders of all packages, as the file system knows them.
fn inodes(packages: &Utf8Path) -> anyhow::Result<Vec<(String, u64)>> {
    use std::os::unix::fs::MetadataExt as _;
    let mut found = Vec::new();
    for path in list(packages)?.iter().filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap_or_default().to_owned();
        found.push((name, fs_err::metadata(path)?.ino()));
    }
    found.sort();
    Ok(found)
}
