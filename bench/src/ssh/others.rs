//! The others: programs that start `ssh` for each host.

use std::process::Command;

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::server::Server;
use super::{AT_ONCE, Side};
use crate::measure::program;

/// Those of them that are installed; says which is not.
pub(super) fn installed(server: &Server, what: &'static str) -> anyhow::Result<Vec<Side>> {
    // What a program leaves running becomes ours, and so its time is counted.
    set_child_subreaper(true)?;
    let mut sides = Vec::new();
    for (name, package, program_of) in [
        ("pssh", "pssh", pssh as fn(&Server, bool) -> Command),
        ("clush", "clustershell", clush),
        ("ansible", "ansible", ansible),
        ("ansible, kept", "ansible", ansible_kept),
    ] {
        let command = program_of(server, what == "file");
        if program(Command::new(command.get_program()).arg("--version")).is_err() {
            println!("{name} is left out: install {package}");
            continue;
        }
        let own_places = package == "ansible";
        sides.push(Side { name, what, program: Some(command), own_places, costs: Vec::new() });
    }
    Ok(sides)
}

/// Where those put the file that know only one place for all hosts.
fn one_place(server: &Server) -> String {
    server.received().join("all").into_string()
}

fn pssh(server: &Server, is_file: bool) -> Command {
    let mut pssh = Command::new(if is_file { "parallel-scp" } else { "parallel-ssh" });
    let config = format!("-F {}", server.config());
    pssh.args([
        "-h",
        server.hosts().as_str(),
        "-p",
        &AT_ONCE.to_string(),
        "-t",
        "0",
        "-x",
        &config,
    ]);
    if is_file {
        pssh.args([server.file().as_str(), &one_place(server)]);
    } else {
        pssh.arg("true");
    }
    pssh
}

fn clush(server: &Server, is_file: bool) -> Command {
    let mut clush = Command::new("clush");
    let config = format!("-F {}", server.config());
    clush.args(["--hostfile", server.hosts().as_str(), "-f", &AT_ONCE.to_string(), "-o", &config]);
    if is_file {
        clush.args(["--copy", server.file().as_str(), "--dest", &one_place(server)]);
    } else {
        clush.arg("true");
    }
    clush
}

/// Ansible with a connection for each thing that it does.
fn ansible(server: &Server, is_file: bool) -> Command {
    let mut ansible = Command::new("ansible");
    ansible.args(["all", "-i", server.hosts().as_str(), "-f", &AT_ONCE.to_string()]);
    ansible
        .env("ANSIBLE_SSH_ARGS", format!("-F {}", server.config()))
        .env("ANSIBLE_CONFIG", server.no_settings())
        .env("ANSIBLE_PYTHON_INTERPRETER", "/usr/bin/python3");
    if is_file {
        let to = server.received().join("{{ inventory_hostname }}");
        ansible.args(["-m", "copy", "-a", &format!("src={} dest='{to}'", server.file())]);
    } else {
        ansible.args(["-m", "raw", "-a", "true"]);
    }
    ansible
}

/// Ansible as it is by default: one connection for each host, which it leaves open for later.
fn ansible_kept(server: &Server, is_file: bool) -> Command {
    let mut ansible = ansible(server, is_file);
    let kept = "-o ControlMaster=auto -o ControlPersist=60s";
    ansible
        .env("ANSIBLE_SSH_ARGS", format!("-F {} {kept}", server.config()))
        .env("ANSIBLE_SSH_CONTROL_PATH_DIR", server.sockets());
    ansible
}

/// Ends what a program left running.
pub(super) fn end_left(server: &Server) -> anyhow::Result<()> {
    let own = std::process::id();
    let children = fs_err::read_to_string(format!("/proc/{own}/task/{own}/children"))?;
    let children: Vec<u32> =
        children.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let mut left = Vec::new();
    for child in children.into_iter().filter(|child| *child != server.process()) {
        let child = Pid::from_raw(i32::try_from(child)?);
        kill(child, Signal::SIGTERM)?;
        left.push(child);
    }
    for child in left {
        waitpid(child, None)?;
    }
    Ok(())
}
