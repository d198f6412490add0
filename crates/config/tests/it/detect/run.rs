//! Scripts that are tried, good and bad.

use std::time::{Duration, Instant};

use config::detect::{DetectError, Kind, Limits, run};
use insta::assert_snapshot;
use package::Cancel;

fn answer(script: &str, kind: Kind) -> String {
    run(script, kind, Limits::default(), &Cancel::new()).unwrap().to_string()
}

fn failure(script: &str) -> String {
    shown(&run(script, Kind::Ip, Limits::default(), &Cancel::new()).unwrap_err())
}

/// An error with what is behind it, and what to do.
fn shown(error: &DetectError) -> String {
    let causes = package::causes(error).join(": ");
    format!("{causes}\n{}", error.hint().unwrap_or("no hint"))
}

#[test]
fn the_answer_of_a_script_is_read_by_its_kind() {
    assert_eq!(answer("#!/bin/sh\necho 10.0.0.1\n", Kind::Ip), "10.0.0.1");
    assert_eq!(answer("#! /bin/sh -e\nprintf 2001:DB8::1\n", Kind::Ip6), "2001:db8::1");
    let script = "#!/bin/cat\n";
    assert!(run(script, Kind::Ip, Limits::default(), &Cancel::new()).is_err());
    let json = r#"{"fault_domain":{"region":{"name":"a/r"},"zone":{"name":"a/z"}}}"#;
    let script = format!("#!/usr/bin/env sh\necho '{json}'\n");
    assert_eq!(answer(&script, Kind::FaultDomain), "region a/r, zone a/z");
}

#[test]
fn a_script_sees_the_environment_of_a_service() {
    let script = "#!/bin/sh\n[ -z \"${HOME-}${CARGO-}\" ] && [ \"$(pwd)\" = / ] || exit 7\n\
                  read -r _ && exit 8\necho 10.0.0.1\n";
    assert_eq!(answer(script, Kind::Ip), "10.0.0.1");
}

#[test]
fn a_script_that_hosts_cannot_run_is_refused() {
    assert_snapshot!(failure(" \n"), @"
    the script is empty
    begin it with the line `#!/bin/sh`
    ");
    assert_snapshot!(failure("echo 10.0.0.1\n"), @"
    the script does not start with `#!` and the path of an interpreter
    begin it with the line `#!/bin/sh`
    ");
    assert_snapshot!(failure("#!/bin/sh\r\necho 10.0.0.1\r\n"), @r"
    the script has lines that end with a carriage return
    convert it to Unix line ends: `sed -i 's/\r$//' FILE`
    ");
    assert_snapshot!(failure("#!/no/such/shell\n"), @"
    cannot start `/no/such/shell`, which the first line names: No such file or directory (os error 2)
    name an interpreter that every host has: `#!/bin/sh`
    ");
}

#[test]
fn a_script_that_fails_is_quoted() {
    assert_snapshot!(failure("#!/bin/sh\necho '\x1b[31mno  network' >&2\nexit 3\n"), @r"
    the script ended with exit status: 3, saying `\u{1b}[31mno  network`
    run it with `sh -x` to see how it came to that
    ");
    assert_snapshot!(failure("#!/bin/sh\necho 10.0.0.1\nkill -9 $$\n"), @"
    the script ended with signal: 9 (SIGKILL)
    run it with `sh -x` to see how it came to that
    ");
}

#[test]
fn what_is_no_answer_is_quoted() {
    assert_snapshot!(failure("#!/bin/sh\ntrue\n"), @"
    the script printed nothing
    print the answer to standard output, or fail with a message
    ");
    assert_snapshot!(failure("#!/bin/sh\necho why >&2\n"), @"
    the script printed nothing, saying `why`
    print the answer to standard output, or fail with a message
    ");
    assert_snapshot!(failure("#!/bin/sh\necho 10.0.0.1\necho 10.0.0.2\n"), @r"
    the script printed `10.0.0.1\n10.0.0.2\n`, which has 2 lines
    print one line: choose one of the addresses, always the same
    ");
    assert_snapshot!(failure("#!/bin/sh\necho node-1.example\n"), @r"
    the script printed `node-1.example\n`, which is a host name
    print an address: names are never accepted
    ");
    assert_snapshot!(failure("#!/bin/sh\necho ' 10.0.0.1'\n"), @r"
    the script printed ` 10.0.0.1\n`, which has white space around the address
    print the address alone, with one line end
    ");
    let long = failure("#!/bin/sh\nprintf '%01000d' 0\n");
    assert!(long.contains(&format!("`{}…`", "0".repeat(300))), "{long}");
}

#[test]
fn a_script_that_writes_without_end_is_ended() {
    assert_snapshot!(failure("#!/bin/sh\nyes\n"), @"
    the script printed more than 16384 bytes
    print the answer alone
    ");
}

#[test]
fn a_script_that_takes_too_long_is_ended_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script =
        format!("#!/bin/sh\necho waiting >&2\nsleep 600 &\necho $! > {}\nwait\n", pid.display());
    let limits = Limits { time: Duration::from_secs(1), ..Limits::default() };
    let error = run(&script, Kind::Ip, limits, &Cancel::new()).unwrap_err();
    assert_snapshot!(shown(&error), @"
    the script took longer than 1 s, saying `waiting`
    give each request in it a time limit of a few seconds
    ");
    assert!(is_gone(fs_err::read_to_string(pid).unwrap().trim()));
}

#[test]
fn what_a_script_leaves_running_keeps_nobody_and_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("#!/bin/sh\nsleep 600 &\necho $! > {}\necho 10.0.0.1\n", pid.display());
    assert_eq!(answer(&script, Kind::Ip), "10.0.0.1");
    assert!(is_gone(fs_err::read_to_string(pid).unwrap().trim()));
}

#[test]
fn a_script_that_nobody_waits_for_is_ended() {
    let cancel = Cancel::new();
    cancel.cancel();
    let error = run("#!/bin/sh\nsleep 600\n", Kind::Ip, Limits::default(), &cancel).unwrap_err();
    assert!(matches!(error, DetectError::Cancelled(_)), "{error}");
}

/// Waits until a process that was killed is gone, or is only waited for by nobody.
fn is_gone(pid: &str) -> bool {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(10) {
        match fs_err::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) if !stat.contains(") Z ") => std::thread::yield_now(),
            _ => return true,
        }
    }
    false
}
