//! The others: programs that start `ssh` for each host.

use std::process::Command;

use nix::sys::resource::UsageWho;

use super::server::Server;
use super::{AT_ONCE, Cost, Line};
use crate::measure::program;

/// Runs each of them that is installed, and says which is not.
pub(super) fn run(server: &Server, what: &'static str) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    let (hosts, config) = (server.hosts(), server.config());
    let (file, received) = (server.file(), server.received());
    let at_once = AT_ONCE.to_string();
    let is_file = what == "file";
    let mut pssh = Command::new(if is_file { "parallel-scp" } else { "parallel-ssh" });
    pssh.args(["-h", hosts.as_str(), "-p", &at_once, "-t", "0", "-x", &format!("-F {config}")]);
    if is_file {
        pssh.args([&file, &received]);
    } else {
        pssh.arg("true");
    }
    let mut clush = Command::new("clush");
    clush.args(["--hostfile", hosts.as_str(), "-f", &at_once, "-o", &format!("-F {config}")]);
    if is_file {
        clush.args(["--copy", file.as_str(), "--dest", received.as_str()]);
    } else {
        clush.arg("true");
    }
    let mut ansible = Command::new("ansible");
    ansible.args(["all", "-i", hosts.as_str(), "-f", &at_once]);
    // Connections that outlive it would not be counted.
    ansible
        .env("ANSIBLE_SSH_ARGS", format!("-F {config}"))
        .env("ANSIBLE_CONFIG", server.no_settings());
    ansible.env("ANSIBLE_PYTHON_INTERPRETER", "/usr/bin/python3");
    if is_file {
        ansible.args(["-m", "copy", "-a", &format!("src={file} dest={received}")]);
    } else {
        ansible.args(["-m", "raw", "-a", "true"]);
    }
    for (name, mut command) in [("pssh", pssh), ("clush", clush), ("ansible", ansible)] {
        let package = if name == "clush" { "clustershell" } else { name };
        if program(Command::new(command.get_program()).arg("--version")).is_err() {
            println!("{name} is left out: install {package}");
            continue;
        }
        let cost = Cost::of(server, UsageWho::RUSAGE_CHILDREN, || program(&mut command).map(drop))?;
        lines.push(Line { name, what, cost });
    }
    Ok(lines)
}
