//! `monobloc host preflight`, and how an install looks before it leaps.

use insta::assert_snapshot;
use testing::files::write_files;

use crate::publisher::Publisher;
use crate::test_env::{TestEnv, show, succeed};

const PLACES: [&str; 5] = ["host", "--root", "opt", "--config-dir", "etc"];

const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:13BA 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1 0 100 0 0 10 0
   1: 00000000:1F90 00000000:0000 06 00000000:00000000 00:00000000 00000000     0        0 102 1 0 100 0 0 10 0
";

/// A machine in a folder, on which somebody listens on port 5050.
const MACHINE: [(&str, &str); 11] = [
    ("proc/net/tcp", TCP),
    ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
    ("proc/sys/kernel/hostname", "node-1\n"),
    ("proc/sys/kernel/arch", "x86_64\n"),
    ("proc/meminfo", "MemTotal:        4011028 kB\n"),
    ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n"),
    ("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"),
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("run/systemd/system/x", ""),
    ("run/systemd/timesync/synchronized", ""),
    ("etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n"),
];

const PREFLIGHT: &str = "checks:
  ports: {tcp: [5050, 8080], roles: [master]}
  memory: {at_least: 2 GiB}
  # The test machine resolves no names.
  names: off
";

fn write_machine(env: &TestEnv) {
    let files: Vec<_> = MACHINE.iter().map(|(path, text)| (*path, *text, 0o644)).collect();
    write_files(&env.path("machine"), &files).unwrap();
}

fn published() -> TestEnv {
    let env = TestEnv::new();
    write_machine(&env);
    let mut publisher = Publisher::new(&env.path("served"));
    let plain = r#"{"requires":[],"variant":null}"#;
    env.pack("app--1.tar.zst", &[("pkginfo.json", plain, 0o644), ("bin/app", "app", 0o755)]);
    for role in ["master", "slave"] {
        publisher.package(role, &env.path("app--1.tar.zst"));
    }
    publisher.preflight = Some(PREFLIGHT.to_owned());
    publisher.publish(1, None);
    fs_err::write(env.path("release.pub"), &publisher.public).unwrap();
    env
}

/// Runs a command of a host; what the disk of this machine has free is different on every one.
fn run(env: &TestEnv, arguments: &[&str]) -> String {
    let mut command = env.monobloc(&[&PLACES[..], arguments].concat());
    let said = show(command.env("PATH", "/usr/bin:/bin"));
    let settle = |line: &str| match line.split_once(" free at ") {
        Some((before, after)) => {
            let start =
                before.rfind(|char: char| !"0123456789. KMGTiB".contains(char)).unwrap_or(0);
            format!("{}[FREE] free at {after}\n", before[..=start].trim_end().to_owned() + " ")
        }
        None => format!("{line}\n"),
    };
    said.lines().map(settle).collect()
}

/// What is said beside the results; how many of them there are depends on the machine.
fn talk(said: &str) -> String {
    let (_, talk) = said.split_once("--- stderr\n").unwrap();
    let lines = talk.lines().filter(|line| !line.contains(" checks: "));
    lines.collect::<Vec<_>>().join("\n")
}

const FROM: [&str; 6] =
    ["--from", "served", "--public-key", "release.pub", "--facts-root", "machine"];

#[test]
fn every_result_is_told_with_what_to_do() {
    let env = published();
    assert_snapshot!(run(&env, &[&["preflight", "--role", "master"], &FROM[..]].concat()), @"
    exit: 1
    --- stdout
    PASS  bundle        publication 1 at file://[TEMP]/served, bundle [DIGEST]
    PASS  installed     nothing is in `[TEMP]/opt`
    PASS  architecture  x86_64
    PASS  kernel        6.1.0-18-amd64
    PASS  cpus          2
    PASS  memory        3.8 GiB
    WARN  swap          on: /dev/sda2
                        fix: `swapoff -a`, and remove swap from /etc/fstab to keep it off after a boot
    PASS  disk [FREE] free at [TEMP]/opt (ext4 at /), [SIZE] needed (1 new package: [SIZE] unpacked, [SIZE] of downloads, [SIZE] to spare)
    PASS  noexec        programs run from [TEMP]/opt, [TEMP]/opt/state, /tmp
    PASS  xfs           `[TEMP]/opt` is on ext4; `[TEMP]/opt/state` is on ext4
    WARN  systemd       it runs, but does not tell its version
                        fix: look at `systemctl --version`
    PASS  selinux       disabled
    WARN  commands      not found: id, getent, useradd, userdel, groupdel
                        fix: install the packages of the operating system that have them, or put them in the PATH
    PASS  clock         synchronised (/run/systemd/timesync/synchronized)
    PASS  machine_id    3d1219c7c4c5404aaa1f6d2a48adfda4
    PASS  hostname      node-1
    PASS  firewall      none is active
    FAIL  ports         tcp 5050 is in use
                        fix: find it with `ss -lnp 'sport = 5050'` as root, and stop it or move it elsewhere
    --- stderr
    18 checks: 1 failed, 3 warnings
    ");
    assert!(!env.path("opt").exists() && !env.path("etc").exists());
}

#[test]
fn each_role_is_asked_for_its_own() {
    let env = published();
    let said = run(&env, &[&["preflight", "--role", "slave", "--json"], &FROM[..]].concat());
    assert!(said.starts_with("exit: 0\n") && !said.contains("\"ports\""), "{said}");
    assert_snapshot!(said.lines().take(36).collect::<Vec<_>>().join("\n"), @r#"
    exit: 0
    --- stdout
    {
      "schema": "monobloc.host.preflight/1",
      "roles": [
        "slave"
      ],
      "passed": true,
      "findings": [
        {
          "name": "bundle",
          "level": "ok",
          "found": "publication 1 at file://[TEMP]/served, bundle [DIGEST]",
          "fix": null,
          "remedies": []
        },
        {
          "name": "installed",
          "level": "ok",
          "found": "nothing is in `[TEMP]/opt`",
          "fix": null,
          "remedies": []
        },
        {
          "name": "architecture",
          "level": "ok",
          "found": "x86_64",
          "fix": null,
          "remedies": []
        },
        {
          "name": "kernel",
          "level": "ok",
          "found": "6.1.0-18-amd64",
          "fix": null,
          "remedies": []
    "#);
}

#[test]
fn without_a_bundle_the_machine_alone_is_looked_at() {
    let env = published();
    let said = run(&env, &["preflight", "--facts-root", "machine"]);
    assert!(!said.contains("bundle") && !said.contains("ports"), "{said}");
    assert!(said.contains("PASS  memory        3.8 GiB\n"), "{said}");
    let said = run(&env, &["preflight", "--public-key", "release.pub"]);
    assert!(said.starts_with("exit: 2\n"), "{said}");
}

#[test]
fn an_install_on_a_machine_that_cannot_be_a_host_changes_nothing() {
    let env = published();
    let install = [&["install", "--role", "master"], &FROM[..]].concat();
    let said = run(&env, &install);
    assert!(said.contains("FAIL  ports"), "{said}");
    assert_snapshot!(talk(&said), @"
    error: 1 check failed: this machine cannot be what it shall become
    hint: nothing of this host was changed; `--disable-preflight` installs nevertheless
    ");
    assert!(!env.path("opt").exists() && !env.path("etc").exists());
    let said = run(&env, &[&install[..], &["--json"]].concat());
    assert!(said.contains("\"schema\": \"monobloc.host.preflight/1\""), "{said}");
    assert!(said.starts_with("exit: 1\n") && said.contains("\"passed\": false"), "{said}");
    let said = run(&env, &[&install[..], &["--preflight-only"]].concat());
    assert!(said.starts_with("exit: 1\n") && said.contains("WARN  swap"), "{said}");
    assert!(!env.path("opt").exists());
}

#[test]
fn who_does_not_want_a_look_has_none_and_the_history_says_so() {
    let env = published();
    let install = [&["install", "--role", "master", "--disable-preflight"], &FROM[..]].concat();
    assert_snapshot!(run(&env, &install), @"
    exit: 0
    --- stdout
    installed: dcos 0 as master
    --- stderr
    preflight is disabled: nobody looks at what this machine is
    added app--1
    generation 1 is live
    ");
    let history = run(&env, &["history", "--json"]);
    assert!(history.contains("preflight was disabled"), "{history}");
    let both = run(&env, &[&install[..], &["--preflight-only"]].concat());
    assert!(both.starts_with("exit: 2\n"), "{both}");
}

#[test]
fn warnings_are_told_before_packages_come() {
    let env = published();
    let install = [&["install", "--role", "slave"], &FROM[..]].concat();
    assert_snapshot!(run(&env, &install), @"
    exit: 0
    --- stdout
    installed: dcos 0 as slave
    --- stderr
    warning: preflight: swap: on: /dev/sda2
    warning: preflight: systemd: it runs, but does not tell its version
    warning: preflight: commands: not found: id, getent, useradd, userdel, groupdel
    added app--1
    generation 1 is live
    ");
}

#[test]
fn what_cannot_be_undone_is_not_done_and_nobody_is_surprised() {
    let env = published();
    let fix = ["preflight", "--facts-root", "machine", "--fix"];
    let said = run(&env, &fix);
    assert_snapshot!(talk(&said), @"
    fix: swapoff /dev/sda2   (undo: swapon /dev/sda2)
    error: nobody is there to ask
    hint: `--yes` does it without asking
    ");
    assert!(said.starts_with("exit: 2\n") && !env.path("machine/var").exists(), "{said}");
    let said = run(&env, &[&fix[..], &["--yes"]].concat());
    assert_snapshot!(talk(&said), @"
    fix: swapoff /dev/sda2   (undo: swapon /dev/sda2)
    warning: `swapoff /dev/sda2` failed: there is no `swapoff`
    ");
    assert!(env.read("machine/var/log/monobloc-preflight.log").contains("undo: swapon /dev/sda2"));
}

#[test]
fn mistakes_of_a_distribution_are_found_when_a_configuration_is_validated() {
    let env = TestEnv::of_tree(&[
        (
            "config/a.yaml",
            "include: []\nroles: [master]\nparameters: {n: {type: int, default: 1}}\n",
        ),
        ("config/preflight.yaml", "checks:\n  port: {tcp: [{{ n }}]}\n"),
        ("a/buildinfo.json", "{}"),
    ]);
    env.write_config("n: 80\n");
    assert_snapshot!(env.run(&["config", "validate", "--tree", "tree"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: there is no check `port` (in the file as it is with its values filled in)
     --> config/preflight.yaml:2:3
      |
    2 |   port: {tcp: [80]}
      |   ^^^^
      |
      = help: did you mean `ports`?

    error: `config/preflight.yaml` of the tree has 1 mistake
    ");
}

#[test]
fn what_a_tree_declares_is_asked_of_machines_with_the_values_of_the_cluster() {
    let env = crate::configure::site();
    write_machine(&env);
    let preflight = "checks:\n  memory: {at_least: {{ num_masters }} TiB, roles: [master]}\n";
    env.write_tree(&[("config/preflight.yaml", preflight)]);
    succeed(&mut env.monobloc(&["configure", "--tree", "tree"]));
    let look = |role: &str| {
        let from = ["--from", "genconf/serve", "--public-key", "genconf/keys/cluster.pub"];
        let look =
            ["--distribution", "test", "preflight", "--facts-root", "machine", "--role", role];
        run(&env, &[&look[..], &from].concat())
    };
    let said = look("master");
    assert!(said.contains("FAIL  memory        3.8 GiB, at least 3.0 TiB needed\n"), "{said}");
    assert!(said.starts_with("exit: 1\n") && said.contains("(3 new packages: "), "{said}");
    let said = look("slave");
    assert!(
        said.starts_with("exit: 0\n") && said.contains("PASS  memory        3.8 GiB\n"),
        "{said}"
    );
}
