//! Secrets on a host: a service that runs as its own user reads its own, and nobody else does.

use local::Suite;

use crate::publisher::Publisher;
use crate::site::{Package, Site};
use crate::snapshot;

const SECRET: &str = "correct horse battery staple";
const PASSWORD: &str = "/opt/mesosphere/etc/web.password";

pub(crate) fn a_service_reads_its_secret_and_nobody_else_does(release: Suite, test: &str) {
    let site = Site::new(release, test);
    let before = snapshot::of(site.host());
    let mut publisher = Publisher::new(&site.packages().join("served"));
    let script =
        format!("#!/bin/sh\necho \"$(id -un): $(cat {PASSWORD} 2>&1)\"\nexec sleep infinity\n");
    for name in ["web", "dns"] {
        let info = format!(r#"{{"username":"dcos_{name}"}}"#);
        let start = format!("ExecStart=/opt/mesosphere/bin/{name}");
        let unit = format!("[Service]\nUser=dcos_{name}\n{start}\n");
        let (bin, wants) = (format!("bin/{name}"), format!("dcos.target.wants/{name}.service"));
        let files = vec![(bin.as_str(), script.as_str(), 0o755), (&wants, &unit, 0o644)];
        let package = Package { id: &format!("{name}--1"), info: &info, files };
        publisher.package("master", &site.pack(&package));
    }
    let id = publisher.secrets("master", &[("etc/web.password", SECRET, Some("dcos_web"))]);
    publisher.publish(1, None);
    fs_err::write(site.packages().join("release.pub"), &publisher.public).unwrap();
    fs_err::write(site.packages().join("master.key"), publisher.role_key.to_file("master"))
        .unwrap();
    let install = ["install", "--from", "/packages/served"];
    let first = ["--role", "master", "--public-key", "/packages/release.pub"];
    let key = ["--key-file", "/packages/master.key"];
    let said = site.monobloc(&[&install[..], &first, &key].concat());
    assert!(!said.contains(SECRET), "{said}");
    assert_eq!(site.said("web.service"), format!("dcos_web: {SECRET}"));
    let others = site.said("dns.service");
    assert!(others.starts_with("dcos_dns: ") && others.contains("Permission denied"), "{others}");
    assert_eq!(site.run(&["stat", "-L", "-c", "%U %a", PASSWORD]), "dcos_web 400");
    // Nobody guesses either: what has digests is root's.
    let hidden = format!("/opt/mesosphere/packages/{id}/manifest.unverified.json");
    assert_eq!(site.run(&["stat", "-c", "%U %a", &hidden]), "root 600");
    site.monobloc(&["audit"]);
    assert!(site.monobloc(&install).contains("unchanged: "));
    // Somebody lets others in; somebody takes it away.
    for change in ["chmod 444", "chown root"] {
        site.run(&["sh", "-c", &format!("{change} $(readlink -f {PASSWORD})")]);
        assert_eq!(site.try_monobloc(&["audit"]).status.code(), Some(1), "{change}");
        site.monobloc(&["repair"]);
        assert_eq!(site.run(&["stat", "-L", "-c", "%U %a", PASSWORD]), "dcos_web 400");
    }
    site.monobloc(&["uninstall", "--purge"]);
    let left = snapshot::differences(&before, &snapshot::of(site.host()));
    assert!(left.is_empty(), "{}", left.join("\n"));
}
