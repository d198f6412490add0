//! What somebody changed on a host is found, named, and put right.

use local::Suite;

use crate::site::Site;

pub(crate) fn what_was_changed_is_named_and_put_right(release: Suite, test: &str) {
    let site = Site::new(release, test);
    let info = r#"{"username":"dcos_web","state_directory":true,
        "sysctl":{"web":{"net.core.somaxconn":2222}}}"#;
    site.add_service("web", "1", info);
    site.add_service("dns", "1", "{}");
    site.monobloc(&["activate", "web--1", "dns--1"]);
    let clean = site.monobloc(&["audit"]);
    site.monobloc(&["audit", "--fast"]);
    let packages = "/opt/mesosphere/packages";
    for (change, named) in [
        (format!("printf X | dd of={packages}/web--1/bin/web bs=1 seek=3 conv=notrunc"), "bin/web"),
        (format!("chmod 777 {packages}/dns--1/bin/dns"), "bin/dns"),
        ("ln -sfn /bin/sh /opt/mesosphere/current/bin/web".to_owned(), "current/bin/web"),
        ("echo '# mine' >> /etc/systemd/system/dns.service".to_owned(), "dns.service"),
        ("systemctl stop web; userdel dcos_web".to_owned(), "dcos_web"),
        ("echo 99 > /proc/sys/net/core/somaxconn".to_owned(), "net.core.somaxconn"),
    ] {
        site.run(&["sh", "-c", &change]);
        let output = site.try_monobloc(&["audit"]);
        assert_eq!(output.status.code(), Some(1), "{change}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(named.trim_start_matches("current/")), "{change}: {said}");
    }
    let url = "file:///packages/repository";
    site.offer("web--1");
    site.monobloc(&["repair", "--repository-url", url]);
    assert_eq!(site.monobloc(&["audit"]), clean, "the digest is what it was");
    site.run(&["systemctl", "start", "web"]);
    site.assert_whole(&[("web", "1"), ("dns", "1")]);
    assert_eq!(site.run(&["stat", "-c", "%U", "/var/lib/dcos/web"]), "dcos_web");
}
