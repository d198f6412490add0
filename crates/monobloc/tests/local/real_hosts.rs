//! Tests on real hosts, each with a cluster of its own name.

mod faults;
mod images;

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use local::{
    BOOT_MAX, Cluster, Guard, Host, HostSpec, Image, Job, LocalError, Machine, Options, Power,
    Suite,
};
use serde_json::Value;

use crate::traces;
use crate::wrong_use::{monobloc, show};

fn up(name: &str, hosts: Vec<HostSpec>) -> Guard {
    clean(name);
    let options = Options::new(name, hosts, env!("CARGO_BIN_EXE_monobloc").into());
    Cluster::up(&Machine::default(), &options, &Job::default()).unwrap().guard()
}

/// Removes what a test run left that was killed, and has images built before anybody looks at the clock or at
/// what is said.
fn clean(name: &str) {
    for suite in [Suite::Bookworm, Suite::Trixie] {
        Image::ensure(&Machine::default(), suite, &Job::default()).unwrap();
    }
    match Cluster::remove(&Machine::default(), name, &Job::default()) {
        Ok(()) | Err(LocalError::NotUp { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn bookworm(count: usize) -> Vec<HostSpec> {
    (1..=count).map(|n| HostSpec::new(format!("h{n}"), Suite::Bookworm)).collect()
}

fn boot_id(host: &Host) -> String {
    host.run(&["cat", "/proc/sys/kernel/random/boot_id"]).unwrap()
}

fn eventually(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_mins(1), "it does not come to be");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn hosts_boot_and_reach_each_other_and_nothing_else() {
    let hosts = vec![
        HostSpec::new("h1", Suite::Bookworm).bind(env!("CARGO_MANIFEST_DIR"), "/mnt/crate"),
        HostSpec::new("other", Suite::Trixie),
    ];
    let cluster = up("t-reach", hosts);
    let (one, two) = (cluster.host("h1").unwrap(), cluster.host("other").unwrap());
    for host in [one, two] {
        assert_eq!(host.run(&["systemctl", "is-system-running"]).unwrap(), "running\n");
        assert_eq!(host.run(&["cat", "/proc/1/comm"]).unwrap(), "systemd\n");
        assert_eq!(host.run(&["hostname"]).unwrap().trim(), host.name());
        assert_eq!(host.boots(), 1);
    }
    assert!(one.run(&["cat", "/etc/os-release"]).unwrap().contains("bookworm"));
    assert!(two.run(&["cat", "/etc/os-release"]).unwrap().contains("trixie"));
    for target in ["other", "machine", &two.address().to_string()] {
        one.run(&["ping", "-c1", "-W5", target]).unwrap();
    }
    two.run(&["ping", "-c1", "-W5", "h1"]).unwrap();
    assert_eq!(one.run(&["ip", "route", "show", "default"]).unwrap(), "");
    assert!(one.run(&["cat", "/mnt/crate/Cargo.toml"]).unwrap().contains("name = \"monobloc\""));
    assert!(one.run(&["touch", "/mnt/crate/new"]).is_err());
    for (user, id) in [("root", "0\n"), ("deploy", "1000\n"), ("admin", "1001\n")] {
        let output = two.ssh(user, &["id", "-u"]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), id, "{output:?}");
    }
    let output = one.ssh("deploy", &["sudo", "-n", "id", "-u"]).output().unwrap();
    assert_eq!(output.stdout, b"0\n");
    // Whoever is logged in notices that a host hangs.
    let output = one.ssh("root", &[""; 0]).arg("-G").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nserveraliveinterval 15\n"));
}

#[test]
fn a_program_in_a_host_is_judged_by_the_caller_and_bounded_in_time() {
    let cluster = up("t-exec", bookworm(1));
    let host = cluster.host("h1").unwrap();
    let output = host.exec(&["sh", "-c", "echo out; echo err >&2; exit 7"]).unwrap();
    assert_eq!(
        (output.status.code(), &*output.stdout, &*output.stderr),
        (Some(7), &b"out\n"[..], &b"err\n"[..])
    );
    assert_snapshot!(host.run(&["sh", "-c", "echo no >&2; exit 3"]).unwrap_err(), @"
    `sh -c echo no >&2; exit 3` in host `h1` ended with exit status: 3
        no
    ");
    let error = host.exec_within(Duration::from_millis(200), &["sleep", "1000"]).unwrap_err();
    assert!(error.to_string().ends_with("was ended after 0.2 seconds"), "{error}");
    eventually(|| !host.exec(&["pgrep", "sleep"]).unwrap().status.success());
    let output = monobloc(&["exec", "--name", "t-exec", "h1", "--", "sh", "-c", "exit 7"]).status();
    assert_eq!(output.unwrap().code(), Some(7));
    let output = monobloc(&["ssh", "--name", "t-exec", "h1", "--", "hostname"]).output().unwrap();
    assert_eq!(output.stdout, b"h1\n");
}

#[test]
fn a_power_cut_is_silent_and_keeps_what_was_written() {
    let cluster = up("t-power", bookworm(1));
    let host = cluster.host("h1").unwrap();
    let before = boot_id(host);
    host.run(&["sh", "-c", "echo kept > /opt/kept; sync; echo lost > /run/lost"]).unwrap();
    let mut peer = TcpStream::connect((host.address(), 22)).unwrap();
    let mut banner = [0; 4];
    peer.read_exact(&mut banner).unwrap();
    assert_eq!(&banner, b"SSH-");
    host.kill().unwrap();
    assert_eq!(host.power(), Power::Off);
    // Neither an end nor a refusal comes over a dead cable; the rest of the banner may.
    peer.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let end = std::iter::from_fn(|| match peer.read(&mut [0; 512]) {
        Ok(0) => Some(Some(None)),
        Ok(_) => Some(None),
        Err(error) => Some(Some(Some(error.kind()))),
    });
    assert_eq!(end.flatten().next(), Some(Some(ErrorKind::WouldBlock)));

    assert!(matches!(host.kill(), Err(LocalError::Off(_))));
    assert!(matches!(host.exec(&["true"]), Err(LocalError::Off(_))));
    assert_eq!(fs_err::read_to_string(host.root().join("opt/kept")).unwrap(), "kept\n");
    assert!(!host.root().join("run/lost").exists());
    fs_err::write(host.root().join("opt/given"), "while off\n").unwrap();
    assert!(host.changes().join("opt/given").exists());

    host.start().unwrap();
    assert!(matches!(host.start(), Err(LocalError::On(_))));
    host.wait_booted(BOOT_MAX).unwrap();
    assert_eq!(host.boots(), 2);
    assert_ne!(boot_id(host), before);
    assert_eq!(host.run(&["cat", "/opt/kept", "/opt/given"]).unwrap(), "kept\nwhile off\n");
    assert!(host.exec(&["ls", "/run/lost"]).unwrap().status.code() != Some(0));
}

#[test]
fn a_reboot_from_inside_is_a_new_boot() {
    let cluster = up("t-reboot", bookworm(1));
    let host = cluster.host("h1").unwrap();
    let before = boot_id(host);
    host.run(&["sh", "-c", "echo kept > /opt/kept"]).unwrap();
    host.exec(&["systemctl", "reboot"]).unwrap();
    host.wait_boots(2, BOOT_MAX).unwrap();
    assert_eq!(host.boots(), 2);
    let second = boot_id(host);
    assert_ne!(second, before);
    assert_eq!(host.run(&["cat", "/opt/kept"]).unwrap(), "kept\n");
    let uptime = host.run(&["cat", "/proc/uptime"]).unwrap();
    assert!(uptime.split('.').next().unwrap().parse::<u64>().unwrap() < 120, "{uptime}");

    host.reboot().unwrap();
    host.wait_booted(BOOT_MAX).unwrap();
    assert_eq!(host.boots(), 3);
    assert_ne!(boot_id(host), second);
    host.stop().unwrap();
    assert_eq!((host.power(), host.boots()), (Power::Off, 3));
    assert!(host.console().contains("Reached target"), "{}", host.console());
    host.start().unwrap();
    host.wait_booted(BOOT_MAX).unwrap();
    assert_eq!(host.run(&["systemctl", "is-system-running"]).unwrap(), "running\n");
}

#[test]
fn down_leaves_the_machine_as_it_was() {
    clean("t-down");
    assert_eq!(traces::of_cluster("t-down"), [""; 0]);
    let cluster = up("t-down", bookworm(2));
    cluster.host("h2").unwrap().kill().unwrap();
    let seen = traces::of_cluster("t-down").join("\n");
    for trace in ["overlay", "monobloc.t-down.h1", "mb-t-down", "supervise", "sshd"] {
        assert!(seen.contains(trace), "{trace} is not in {seen}");
    }
    drop(cluster);
    assert_eq!(traces::of_cluster("t-down"), [""; 0]);
}

/// Runs alone, see `.config/nextest.toml`.
#[test]
fn the_last_cluster_puts_back_what_the_first_one_changed() {
    clean("t-last");
    let before = traces::shared();
    let cluster = up("t-last", bookworm(1));
    cluster.host("h1").unwrap().kill().unwrap();
    drop(cluster);
    assert_eq!(traces::shared(), before);
    killed("t-last", |traces| traces.contains("systemd-nspawn"));
    assert_eq!(traces::shared(), before);
}

/// Kills `up` at a moment, and every supervisor there is then.
fn killed(name: &str, is_the_moment: impl Fn(&str) -> bool) {
    clean(name);
    let mut command = monobloc(&["up", "--name", name, "--hosts", "2"]);
    let mut child: Child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually(|| is_the_moment(&traces::of_cluster(name).join("\n")));
    child.kill().unwrap();
    child.wait().unwrap();
    for trace in traces::of_cluster(name).iter().filter(|trace| trace.contains(" local supervise "))
    {
        let process = trace.split(' ').next().unwrap();
        // It may have ended by itself.
        drop(std::process::Command::new("kill").args(["-9", process]).output().unwrap());
    }
    assert_ne!(traces::of_cluster(name), [""; 0]);
    let status = show(&mut monobloc(&["status", "--name", name]));
    let hint = format!("`monobloc local down --name {name}` removes it");
    let words = format!("not whole  `up` is still at work, or it was interrupted; then {hint}\n");
    assert!(status.starts_with("exit: 0\n") && status.ends_with(&words), "{status}");
    let status = monobloc(&["status", "--name", name, "--json"]).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!((&status["made"], &status["hint"]), (&false.into(), &hint.into()));
    let again = monobloc(&["up", "--name", name]).output().unwrap();
    let message = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(message.contains(&format!("the cluster `{name}` is already up")), "{message}");
    let down = show(&mut monobloc(&["down", "--name", name]));
    assert!(down.starts_with("exit: 0\n"), "{down}");
    assert!(down.ends_with(&format!("removed the cluster {name}\n")), "{down}");
    assert_eq!(traces::of_cluster(name), [""; 0]);
}

#[test]
fn down_works_after_up_was_killed_before_any_host_was_on() {
    killed("t-kill-1", |traces| traces.contains("/sys/class/net/mb-t-kill-1"));
}

#[test]
fn down_works_after_up_and_its_supervisors_were_killed() {
    killed("t-kill-2", |traces| traces.contains("systemd-nspawn"));
}

/// Presses Ctrl-C, and waits for the end, which is none of success.
fn interrupt(mut child: Child) -> String {
    let process = child.id().to_string();
    assert!(
        std::process::Command::new("kill").args(["-INT", &process]).status().unwrap().success()
    );
    eventually(|| child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_first_interrupt_ends_an_up_that_then_leaves_nothing() {
    clean("t-int-up");
    let mut command = monobloc(&["up", "--name", "t-int-up", "--hosts", "2"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    eventually(|| traces::of_cluster("t-int-up").join("\n").contains("/net/mb-t-int-up"));
    let said = interrupt(child);
    assert!(said.ends_with("error: cancelled\n"), "{said}");
    assert_eq!(traces::of_cluster("t-int-up"), [""; 0]);
}

#[test]
fn the_first_interrupt_ends_a_wait_for_hosts_that_do_not_boot() {
    let cluster = up("t-int-boot", bookworm(1));
    let host = cluster.host("h1").unwrap();
    let unit = "[Service]\nType=oneshot\nExecStart=sleep infinity\n";
    let units = host.root().join("etc/systemd/system");
    fs_err::write(units.join("slow.service"), unit).unwrap();
    fs_err::create_dir_all(units.join("multi-user.target.wants")).unwrap();
    symlink("../slow.service", units.join("multi-user.target.wants/slow.service")).unwrap();
    let is_booting = || {
        let asked = host.exec(&["systemctl", "is-active", "slow"]);
        asked.is_ok_and(|output| output.stdout == b"activating\n")
    };
    let run = |words: &[&str]| {
        let mut command = monobloc(words);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    host.kill().unwrap();
    let start = run(&["start", "--name", "t-int-boot", "h1"]);
    eventually(is_booting);
    assert_eq!(interrupt(start), "error: cancelled\n");
    let reboot = run(&["reboot", "--name", "t-int-boot", "h1"]);
    eventually(|| host.boots() == 3 && is_booting());
    assert_eq!(interrupt(reboot), "error: cancelled\n");
    assert_eq!(host.power(), Power::On);
}

#[test]
fn an_up_that_fails_leaves_a_later_cluster_of_its_name_alone() {
    clean("t-later");
    let mut first = monobloc(&["up", "--name", "t-later", "--hosts", "2"]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually(|| traces::of_cluster("t-later").join("\n").contains("systemd-nspawn"));
    Cluster::remove(&Machine::default(), "t-later", &Job::default()).unwrap();
    let cluster = up("t-later", bookworm(2));
    assert!(!first.wait().unwrap().success());
    cluster.host("h2").unwrap().run(&["true"]).unwrap();
}

#[test]
fn a_down_beside_an_up_leaves_nothing() {
    for moment in ["/net/mb-t-beside", "/t-beside/h1/root", "systemd-nspawn"] {
        clean("t-beside");
        let mut up = monobloc(&["up", "--name", "t-beside", "--hosts", "2"]);
        let mut up = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually(|| traces::of_cluster("t-beside").join("\n").contains(moment));
        Cluster::remove(&Machine::default(), "t-beside", &Job::default()).unwrap();
        assert!(!up.wait().unwrap().success(), "{moment}");
        assert_eq!(traces::of_cluster("t-beside"), [""; 0], "{moment}");
    }
}

#[test]
fn a_cluster_that_is_not_on_record_is_not_whole_and_can_be_removed() {
    clean("t-x");
    fs_err::create_dir_all(Machine::default().state.join("clusters/t-x")).unwrap();
    for words in [&["status", "--name", "t-x"][..], &["start", "--name", "t-x", "h1"]] {
        let said = show(&mut monobloc(words));
        let message = "exit: 1\nerror: the cluster `t-x` is not whole";
        let hint = "\nhint: `monobloc local down --name t-x` removes it\n";
        assert!(said.starts_with(message) && said.ends_with(hint), "{said}");
    }
    assert_eq!(
        show(&mut monobloc(&["down", "--name", "t-x"])),
        "exit: 0\nremoved the cluster t-x\n"
    );
    assert_eq!(traces::of_cluster("t-x"), [""; 0]);
}

#[test]
fn hosts_need_nothing_of_the_program_that_made_them() {
    clean("t-program");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("program");
    fs_err::copy(env!("CARGO_BIN_EXE_monobloc"), &program).unwrap();
    // So it is with the one file, whose program deletes itself before it does anything.
    let open = fs_err::File::open(&program).unwrap();
    fs_err::remove_file(&program).unwrap();
    let running = format!("/proc/{}/fd/{}", std::process::id(), open.as_raw_fd());
    let mut up = std::process::Command::new(running);
    let up = show(up.args(["local", "up", "--name", "t-program", "--hosts", "1"]));
    let cluster = Cluster::open(&Machine::default(), "t-program").expect(&up).guard();
    assert!(up.starts_with("exit: 0\n"), "{up}");
    drop(open);
    let host = cluster.host("h1").unwrap();
    host.reboot().unwrap();
    host.wait_booted(BOOT_MAX).unwrap();
    host.kill().unwrap();
    host.start().unwrap();
    host.wait_booted(BOOT_MAX).unwrap();
    assert_eq!(host.boots(), 3);
}

#[test]
fn what_the_kernel_does_not_allow_is_told_before_anything_is_made() {
    clean("t-rights");
    // Root without the rights of root, as in a container.
    let mut up = std::process::Command::new("setpriv");
    up.args(["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", "--"]);
    up.args([env!("CARGO_BIN_EXE_monobloc"), "local", "up", "--name", "t-rights"]);
    assert_snapshot!(show(&mut up), @"
    exit: 1
    error: hosts on this machine need the right to mount
    hint: a container has that only if it was started with all rights (privileged)
    ");
    let mut link = std::process::Command::new("ip");
    let link = link.args(["link", "add", "mb-t-rights", "type", "bridge"]).status();
    assert!(link.unwrap().success());
    let said = show(&mut monobloc(&["up", "--name", "t-rights"]));
    let mut link = std::process::Command::new("ip");
    // It is somebody else's, and so it is still there.
    assert!(link.args(["link", "del", "mb-t-rights"]).status().unwrap().success());
    assert_snapshot!(said, @"
    exit: 1
    error: this machine has an interface `mb-t-rights`, and no cluster made it
    hint: give the cluster another name with `--name`
    ");
    let many = show(&mut monobloc(&["up", "--name", "t-rights", "--hosts", "200", "--disk", "1T"]));
    assert!(many.contains("and the disks of 200 hosts together have at most the "), "{many}");
    assert_eq!(traces::of_cluster("t-rights"), [""; 0]);
}

#[test]
fn mistakes_in_names_and_a_second_up_are_clear_errors() {
    let cluster = up("t-wrong", bookworm(1));
    assert_snapshot!(show(&mut monobloc(&["up", "--name", "t-wrong"])), @"
    exit: 1
    error: the cluster `t-wrong` is already up
    hint: `monobloc local down --name t-wrong` removes it
    ");
    assert_snapshot!(show(&mut monobloc(&["kill", "--name", "t-wrong", "h1", "h7"])), @"
    exit: 1
    error: the cluster `t-wrong` has no host `h7`
    hint: there is h1
    ");
    assert_eq!(cluster.host("h1").unwrap().power(), Power::On);
    assert_snapshot!(show(&mut monobloc(&["start", "--name", "t-wrong", "h1"])), @"
    exit: 1
    error: host `h1` is already on
    ");
    assert_snapshot!(show(&mut monobloc(&["up", "--name", "Big"])), @"
    exit: 2
    error: `Big` cannot be the name of a cluster: expected a small letter, then small letters, digits and `-`, at most 12 in all
    ");
    assert_snapshot!(show(&mut monobloc(&["up", "--name", "t-none", "--hosts", "0"])), @"
    exit: 2
    error: a cluster has at least 1 host and at most 200, not 0
    ");
    let none = show(&mut monobloc(&["status", "--name", "t-none"]));
    assert!(none.starts_with("exit: 1\nerror: there is no cluster `t-none`\nhint: "), "{none}");
    let options = Options {
        subnet: Some(cluster.subnet()),
        ..Options::new("t-none", bookworm(1), env!("CARGO_BIN_EXE_monobloc").into())
    };
    let error = Cluster::up(&Machine::default(), &options, &Job::default()).unwrap_err();
    assert!(matches!(error, LocalError::SubnetUsed(_)), "{error}");
    let twice = [bookworm(1), bookworm(1)].concat();
    let options = Options::new("t-none", twice, env!("CARGO_BIN_EXE_monobloc").into());
    let error = Cluster::up(&Machine::default(), &options, &Job::default()).unwrap_err();
    assert_eq!(error.to_string(), "two hosts have the name `h1`");
    assert_eq!(traces::of_cluster("t-none"), [""; 0]);
}

#[test]
fn an_up_that_fails_leaves_nothing() {
    clean("t-fail");
    let options = Options::new("t-fail", bookworm(1), "/bin/false".into());
    let error = Cluster::up(&Machine::default(), &options, &Job::default()).unwrap_err();
    assert!(matches!(error, LocalError::NotStarted { .. }), "{error}");
    assert_eq!(traces::of_cluster("t-fail"), [""; 0]);
}

#[test]
fn the_commands_say_what_they_did() {
    clean("t-words");
    let name = "t-words";
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"10\.77\.\d+\.", "10.77.N.");
    // Other tests make clusters too.
    settings.add_filter("waiting for another cluster\n", "");
    let _filters = settings.bind_to_scope();
    let said = show(&mut monobloc(&["up", "--name", name, "--hosts", "2"]));
    let cluster = Cluster::open(&Machine::default(), name).expect(&said).guard();
    assert_snapshot!(said, @"
    exit: 0
    h1       10.77.N.11      bookworm  -            running   1 boot
    h2       10.77.N.12      bookworm  -            running   1 boot
    inventory  /var/lib/monobloc/local/clusters/t-words/inventory.yaml
    h1 is up (1/2)
    h2 is up (2/2)
    cluster t-words: 2 hosts in 10.77.N.0/24
    ");
    assert_snapshot!(show(&mut monobloc(&["kill", "--name", name, "h1", "h2"])), @"
    exit: 0
    h1 is off
    h2 is off
    ");
    assert_snapshot!(show(&mut monobloc(&["start", "--name", name, "h2", "h2"])), @"
    exit: 0
    h2 is up
    ");
    assert_snapshot!(show(&mut monobloc(&["reboot", "--name", name, "h2"])), @"
    exit: 0
    h2 is up
    ");
    assert_snapshot!(show(&mut monobloc(&["status", "--name", name])), @"
    exit: 0
    h1       10.77.N.11      bookworm  -            off       1 boot
    h2       10.77.N.12      bookworm  -            running   3 boots
    inventory  /var/lib/monobloc/local/clusters/t-words/inventory.yaml
    ");
    let output = monobloc(&["status", "--name", name, "--json"]).output().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["schema"], "monobloc.local.status/1");
    assert_eq!((&status["made"], &status["hint"]), (&true.into(), &Value::Null));
    assert_eq!(status["hosts"][0]["power"], "off");
    assert_eq!(status["hosts"][1]["boots"], 3);
    let output = monobloc(&["start", "--name", name, "--json", "h1"]).output().unwrap();
    let started: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(started["hosts"][0]["system"], "running");
    assert_snapshot!(show(&mut monobloc(&["down", "--name", name, "--json"])), @r#"
    exit: 0
    {
      "schema": "monobloc.local.down/1",
      "removed": "t-words"
    }
    "#);
    drop(cluster);
}
