//! Uninstalling leaves no trace.

use local::{BOOT_MAX, Suite};

use crate::site::Site;
use crate::snapshot;

fn install(site: &Site) {
    let info = r#"{"username":"dcos_web","state_directory":true,
        "sysctl":{"web":{"net.core.somaxconn":2222,"net.ipv4.ip_forward":1}}}"#;
    site.add_service("web", "1", info);
    site.add_service("web", "2", info);
    site.add_service("dns", "1", r#"{"username":"dcos_dns","group":"daemon"}"#);
    site.monobloc(&["activate", "web--1", "dns--1"]);
    site.assert_whole(&[("web", "1"), ("dns", "1")]);
    assert_eq!(site.run(&["cat", "/proc/sys/net/core/somaxconn"]), "2222");
    site.run(&["sh", "-c", "echo precious > /var/lib/dcos/web/data"]);
    site.monobloc(&["activate", "web--2", "dns--1"]);
    site.monobloc(&["rollback"]);
    site.assert_whole(&[("web", "1"), ("dns", "1")]);
}

pub(crate) fn after_purge_the_host_is_what_it_was(release: Suite, test: &str) {
    let site = Site::new(release, test);
    let before = snapshot::of(site.host());
    install(&site);
    assert!(!snapshot::differences(&before, &snapshot::of(site.host())).is_empty());
    site.monobloc(&["uninstall", "--purge"]);
    let left = snapshot::differences(&before, &snapshot::of(site.host()));
    assert!(left.is_empty(), "{}", left.join("\n"));
}

pub(crate) fn uninstall_keeps_state_and_its_users(release: Suite, test: &str) {
    let site = Site::new(release, test);
    let before = snapshot::of(site.host());
    install(&site);
    let said = site.monobloc(&["uninstall"]);
    assert!(said.contains("kept /var/lib/dcos/web"), "{said}");
    assert!(said.contains("kept user dcos_web"), "{said}");
    assert_eq!(site.run(&["cat", "/var/lib/dcos/web/data"]), "precious");
    assert_eq!(site.run(&["stat", "-c", "%U", "/var/lib/dcos/web/data"]), "root");
    assert!(!site.path("/etc/systemd/system/dcos.target").exists());
    // Installed again it finds its state, and what was there before is still known as its own.
    install(&site);
    site.monobloc(&["uninstall", "--purge"]);
    let left = snapshot::differences(&before, &snapshot::of(site.host()));
    assert!(left.is_empty(), "{}", left.join("\n"));
}

pub(crate) fn what_keeps_uninstall_from_ending_is_told_and_boot_ends_it(
    release: Suite,
    test: &str,
) {
    let site = Site::new(release, test);
    let before = snapshot::of(site.host());
    install(&site);
    // Somebody else runs something as the user, and a service does not stop.
    let held = ["systemd-run", "--quiet", "--unit=held", "--uid=dcos_web", "sleep", "infinity"];
    site.run(&held);
    let output = site.try_monobloc(&["uninstall", "--purge"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("user `dcos_web`"), "{said}");
    let output = site.try_monobloc(&["activate", "web--1", "dns--1"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is being removed"));
    site.host().reboot().unwrap();
    site.host().wait_booted(BOOT_MAX).unwrap();
    site.eventually("boot ended it", || (!site.path("/opt/mesosphere").exists()).then_some(()));
    site.eventually("setup is gone", || {
        let units =
            site.run(&["sh", "-c", "systemctl list-units --all --no-legend 'dcos*' | wc -l"]);
        (units == "0").then_some(())
    });
    let left = snapshot::differences(&before, &snapshot::of(site.host()));
    assert!(left.is_empty(), "{}", left.join("\n"));
}
