//! Detection scripts: those that are built in, and how any is tried.

mod real_hosts;
mod run;

use std::io::Write as _;
use std::process::{Command, Stdio};

use config::detect::{Detector, Kind};
use insta::assert_snapshot;

const KINDS: [Kind; 4] = [Kind::Ip, Kind::PublicIp, Kind::Ip6, Kind::FaultDomain];

fn script(detector: &str, kind: Kind) -> String {
    detector.parse::<Detector>().unwrap().script(kind).unwrap()
}

/// What is wrong with a built-in detection, and what to do.
fn refused(detector: &str, kind: Kind) -> String {
    let error = detector.parse::<Detector>().and_then(|it| it.script(kind)).unwrap_err();
    format!("{error}\n{}", error.hint())
}

#[test]
fn every_script_passes_shellcheck() {
    let detectors =
        ["interface eth0", "route-to 10.0.0.1", "route-to 2001:db8::1", "aws", "azure", "gcp"];
    let mut looked_at = 0;
    for (detector, kind) in detectors.iter().flat_map(|one| KINDS.map(|kind| (one, kind))) {
        let Ok(script) = detector.parse::<Detector>().unwrap().script(kind) else {
            continue;
        };
        let mut command = Command::new("shellcheck");
        command.arg("-");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{detector}: {found}\n{script}");
        assert!(!script.contains('@'), "{script}");
        config::detect::check(&script).unwrap();
        looked_at += 1;
    }
    assert_eq!(looked_at, 18);
}

#[test]
fn a_script_says_what_it_is_for() {
    assert_snapshot!(script("interface  eth0", Kind::Ip6).lines().take(2).collect::<Vec<_>>().join("\n"), @"
    #!/bin/sh
    # Prints the IPv6 address of this host, detected with `interface eth0`.
    ");
}

#[test]
fn what_would_not_fit_into_a_script_is_refused() {
    for name in ["eth0;reboot", "$(id)", "a'b", "-help", "..", "abcdefghijklmnop", "über"] {
        let refused = refused(&format!("interface {name}"), Kind::Ip);
        assert!(refused.contains("is no name of a network interface"), "{refused}");
    }
    for address in ["example.com", "10.0.0", "10.0.0.1/8", "0.0.0.0", "127.0.0.1", "fe80::1"] {
        let refused = refused(&format!("route-to {address}"), Kind::Ip);
        assert!(refused.contains("is no address of a host"), "{refused}");
    }
    assert_snapshot!(refused("interface a/b", Kind::Ip), @"
    `a/b` is no name of a network interface
    expected up to 15 letters, digits and `._-`, such as `eth0`
    ");
    assert_snapshot!(refused("route-to example.com", Kind::Ip), @"
    `example.com` is no address of a host
    expected an IP address such as `10.0.0.1`, not a name
    ");
    assert_snapshot!(refused("interface", Kind::Ip), @"
    `interface` is no built-in detection
    there are `interface NAME`, `route-to ADDRESS`, `aws`, `azure` and `gcp`
    ");
}

#[test]
fn what_a_detection_cannot_tell_is_refused() {
    assert_snapshot!(refused("interface eth0", Kind::FaultDomain), @"
    `interface eth0` cannot tell the fault domain
    use `aws`, `azure` or `gcp`, or a script of your own
    ");
    assert_snapshot!(refused("route-to 10.0.0.1", Kind::Ip6), @"
    `route-to 10.0.0.1` cannot tell the IPv6 address
    name an IPv6 address
    ");
    assert_snapshot!(refused("route-to 2001:db8::1", Kind::PublicIp), @"
    `route-to 2001:db8::1` cannot tell the public IPv4 address
    name an IPv4 address
    ");
}
