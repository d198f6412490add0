//! Fifty thousand hosts: reading who they are, beside Ansible, and trying an upgrade of them on virtual ones.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use camino::Utf8Path;

use crate::Sides;
use crate::measure::{Times, program};

const HOSTS: usize = 50_000;
/// What reading them may take.
const READ_LIMIT: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &Sides) -> anyhow::Result<()> {
    let monobloc = crate::monobloc(args.program.as_ref())?;
    let (_guard, work) = crate::work_folder()?;
    let inventory = work.join("hosts.yaml");
    write(&work)?;
    let mut ansible = Command::new("ansible-inventory");
    ansible.current_dir(&work).args(["-i", "hosts.ini", "--list"]);
    let is_there = program(Command::new("ansible-inventory").arg("--version")).is_ok();
    let (mut read, mut theirs, mut tried) = (Times::default(), Times::default(), Times::default());
    for _ in 0..args.rounds {
        read.add(|| {
            let read = fleet::inventory::file::read(&inventory)?;
            ensure!(read.hosts.len() == HOSTS, "{} hosts", read.hosts.len());
            Ok(())
        })?;
        if is_there {
            theirs.add(|| program(&mut ansible).map(drop))?;
        }
        tried.add(|| {
            let mut simulate = Command::new(&monobloc);
            simulate.args(["simulate", "--faulty", "2%", "--max-failures", "5%", "--batch", "10%"]);
            simulate.args(["--json", "--inventory", inventory.as_str(), "upgrade"]);
            // Hosts of which something goes wrong fail, and so does the program.
            let said = simulate.output()?;
            ensure!(
                String::from_utf8_lossy(&said.stdout).contains("\"counts\""),
                "{}",
                String::from_utf8_lossy(&said.stderr)
            );
            Ok(())
        })?;
    }
    println!("{HOSTS} hosts{:>34}{:>10}", "best s", "median");
    for (what, times) in [
        ("read an inventory", Some(&read)),
        ("ansible-inventory --list", is_there.then_some(&theirs)),
        ("simulate upgrade, 2 % faulty", Some(&tried)),
    ] {
        let Some(times) = times else {
            println!("{what:<35}: left out, install ansible-core");
            continue;
        };
        let [best, median] = [times.best(), times.median()].map(|time| time.elapsed.as_secs_f64());
        println!("{what:<35}{best:>11.3}{median:>10.3}");
    }
    println!("an inventory may take {:.1} s", READ_LIMIT.as_secs_f64());
    if is_there {
        let ratio = |ours: Duration, theirs: Duration| theirs.as_secs_f64() / ours.as_secs_f64();
        println!(
            "ours is {:.1} times as fast at its best, {:.1} times in the median",
            ratio(read.best().elapsed, theirs.best().elapsed),
            ratio(read.median().elapsed, theirs.median().elapsed),
        );
    }
    Ok(())
}

/// The same hosts as we and as Ansible read them.
fn write(work: &Utf8Path) -> anyhow::Result<()> {
    let mut ours = "defaults: {user: deploy, port: 22}\nhosts:\n".to_owned();
    let mut theirs = "[all:vars]\nansible_user=deploy\nansible_port=22\n[all]\n".to_owned();
    for number in 0..HOSTS {
        let address = format!("10.{}.{}.{}", number / 62_500, number / 250 % 250, number % 250 + 1);
        let role = if number < 3 { "master" } else { "slave" };
        let rack = number / 40;
        writeln!(
            ours,
            "  - {{name: h{number}, address: {address}, roles: [{role}], rack: r{rack}}}"
        )?;
        writeln!(theirs, "h{number} ansible_host={address} role={role} rack=r{rack}")?;
    }
    fs_err::write(work.join("hosts.yaml"), ours)?;
    fs_err::write(work.join("hosts.ini"), theirs)?;
    Ok(())
}
