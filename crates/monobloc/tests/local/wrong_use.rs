//! What the commands answer before they make anything.

use std::process::Command;

use insta::assert_snapshot;

/// How a program ended and what it wrote.
pub(crate) fn show(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap();
    // Whether somebody has to wait depends on the tests that run beside this one.
    let stderr = text(&output.stderr).replace("waiting for another cluster\n", "");
    format!("exit: {code}\n{}{stderr}", text(&output.stdout))
}

pub(crate) fn monobloc(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monobloc"));
    command.arg("local").args(arguments);
    command
}

#[test]
fn help_has_the_commands_and_examples() {
    assert_snapshot!(show(&mut monobloc(&["--help"])), @"
    exit: 0
    Make hosts on this machine to try and test with

    Usage: monobloc local [OPTIONS] <COMMAND>

    Commands:
      up      Make a cluster of hosts and boot it
      status  Show the hosts of a cluster
      exec    Run a program in a host, as root, without the network
      ssh     Log in to a host, or run a command there, by SSH
      kill    Take the power away from hosts, without a warning
      start   Turn hosts on, and wait until they have booted
      reboot  Boot hosts again in an orderly way, and wait until they have booted
      freeze  Let hosts hang: their processes halt, their connections stay open
      cut     Pull the cables of hosts, or let them lose packets
      fill    Fill the disks of hosts, which have one of their own if the cluster was made with `--disk`
      heal    Undo what `freeze`, `cut` and `fill` did to hosts
      down    Remove a cluster and everything that was made for it
      help    Print this message or the help of the given subcommand(s)

    Options:
          --json     Write one JSON document to standard output instead of text
      -h, --help     Print help
      -V, --version  Print version

    Examples:
      monobloc local up --masters 3 --agents 2 --public-agents 1    m1 m2 m3 a1 a2 p1
      monobloc local up --hosts 4 --image bookworm,noble            h1 to h4, of two systems
      monobloc local exec m1 -- systemctl --failed                  run something in a host
      monobloc local ssh m1                                         log in
      monobloc local kill m2                                        take the power away
      monobloc local start m2                                       and give it back
      monobloc local freeze a1; monobloc local cut a2               let one hang, pull a cable
      monobloc local heal a1 a2                                     and undo both
      monobloc local down                                           remove all of it
    ");
}

#[test]
fn everything_that_is_missing_is_told_at_once() {
    // In a user namespace of its own nobody is root.
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "env"]).args(arguments);
        command
    };
    let program = env!("CARGO_BIN_EXE_monobloc");
    let up = show(&mut nobody(&["PATH=/no/such/folder", program, "local", "up"]));
    assert_snapshot!(up, @"
    exit: 1
    error: hosts on this machine need root, `apt-get`, `ip`, `mmdebstrap`, `mount`, `nsenter`, `setpriv`, `setsid`, `sh`, `chroot`, `ssh`, `ssh-keygen`, `systemd-nspawn`, `unshare`
    hint: as root on Debian or Ubuntu: apt-get install apt coreutils dash iproute2 mmdebstrap mount openssh-client systemd-container util-linux
    ");
    assert_snapshot!(show(&mut nobody(&[program, "local", "down"])), @"
    exit: 1
    error: hosts on this machine need root
    hint: run it as root
    ");
}

#[test]
fn a_suite_or_network_that_is_none_is_refused() {
    assert_snapshot!(show(&mut monobloc(&["up", "--image", "bookworm,lenny"])), @"
    exit: 2
    error: there is no image `lenny`
    hint: there are bullseye, bookworm, trixie, jammy, noble, resolute
    ");
    assert_snapshot!(show(&mut monobloc(&["up", "--subnet", "10.0.0.1/24"])), @"
    exit: 2
    error: `10.0.0.1/24` is not a network like `10.77.0.0/24`
    ");
    let many = show(&mut monobloc(&["up", "--masters", "18446744073709551615"]));
    assert!(many.starts_with("exit: 2\nerror: invalid value"), "{many}");
    assert_snapshot!(show(&mut monobloc(&["up", "--image", "lenny", "--json"])), @r#"
    exit: 2
    {
      "schema": "monobloc.error/1",
      "error": "there is no image `lenny`",
      "hint": "there are bullseye, bookworm, trixie, jammy, noble, resolute",
      "diagnostics": []
    }
    "#);
}
