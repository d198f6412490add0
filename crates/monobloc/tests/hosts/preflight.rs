//! A host is looked at before it is changed, and its own services are in nobody's way.

use local::Suite;

use crate::publisher::Publisher;
use crate::site::{Package, Site};
use crate::snapshot;

/// Listens on port 5050, whose digits have letters in them: `13BA`.
const LISTEN: &str = "#!/usr/bin/perl
use IO::Socket::INET;
my $socket = IO::Socket::INET->new(Listen => 5, LocalPort => 5050, ReuseAddr => 1) or die $@;
sleep;
";

pub(crate) fn a_busy_port_stops_an_install_and_leaves_nothing_behind(release: Suite, test: &str) {
    let site = Site::new(release, test);
    let mut publisher = Publisher::new(&site.packages().join("served"));
    let unit = "[Service]\nExecStart=/opt/mesosphere/bin/web\n";
    let files = vec![("bin/web", LISTEN, 0o755), ("dcos.target.wants/web.service", unit, 0o644)];
    publisher.package("master", &site.pack(&Package { id: "web--1", info: "{}", files }));
    publisher.preflight = Some("checks: {ports: {tcp: [5050], roles: [master]}}".to_owned());
    publisher.publish(1, None);
    fs_err::write(site.packages().join("release.pub"), &publisher.public).unwrap();
    fs_err::write(site.packages().join("listen"), LISTEN).unwrap();
    let install = [
        "install",
        "--from",
        "/packages/served",
        "--role",
        "master",
        "--public-key",
        "/packages/release.pub",
    ];
    let before = snapshot::of(site.host());
    site.run(&["systemd-run", "--quiet", "--unit=busy", "/usr/bin/perl", "/packages/listen"]);
    let busy = site.eventually("somebody listens", || {
        let output = site.try_monobloc(&[&install[..], &["--preflight-only"]].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.contains("FAIL  ports").then_some(said)
    });
    assert!(busy.contains("tcp 5050 is held by /usr/bin/perl"), "{busy}");
    assert!(busy.contains("busy.service"), "{busy}");
    let output = site.try_monobloc(&install);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    site.run(&["systemctl", "stop", "busy"]);
    let left = snapshot::differences(&before, &snapshot::of(site.host()));
    assert!(left.is_empty(), "{}", left.join("\n"));
    site.monobloc(&install);
    // The port is held by the service of the set itself now.
    let again = site.monobloc(&[&install[..], &["--preflight-only"]].concat());
    assert!(again.contains("held by what is live here (tcp 5050)"), "{again}");
    site.monobloc(&install);
}
