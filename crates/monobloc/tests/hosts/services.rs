//! Services start, go on, and come back after a boot.

use local::{BOOT_MAX, Suite};

use crate::site::{Package, Site};
use crate::snapshot;

pub(crate) fn unchanged_units_keep_their_process(release: Suite, test: &str) {
    let site = Site::new(release, test);
    let info = r#"{"username":"dcos_web","state_directory":true}"#;
    site.add_service("web", "1", info);
    site.add_service("web", "2", info);
    site.add_service("dns", "1", "{}");
    site.add_service("old", "1", "{}");
    site.monobloc(&["activate", "web--1", "dns--1", "old--1"]);
    site.assert_whole(&[("web", "1"), ("dns", "1"), ("old", "1")]);
    assert_eq!(site.run(&["stat", "-c", "%U %a", "/var/lib/dcos/web"]), "dcos_web 755");
    let (web, dns) = (site.pid("web.service"), site.pid("dns.service"));
    let plan = site.monobloc(&["activate", "--plan", "web--2", "dns--1"]);
    assert!(plan.contains("stop old.service, web.service"), "{plan}");
    assert!(plan.contains("start web.service"), "{plan}");
    site.monobloc(&["activate", "web--2", "dns--1"]);
    site.assert_whole(&[("web", "2"), ("dns", "1")]);
    assert_eq!(site.pid("dns.service"), dns);
    assert_ne!(site.pid("web.service"), web);
    assert!(!site.is_active("old.service"));
    assert!(!site.path("/etc/systemd/system/old.service").exists());
    // Back, from disk, and again only what changed restarts.
    site.monobloc(&["rollback"]);
    site.assert_whole(&[("web", "1"), ("dns", "1"), ("old", "1")]);
    assert_eq!(site.pid("dns.service"), dns);
}

pub(crate) fn boot_starts_setup_and_setup_the_rest(release: Suite, test: &str) {
    let site = Site::new(release, test);
    site.add_service("web", "1", "{}");
    site.monobloc(&["activate", "web--1"]);
    assert_eq!(site.run(&["systemctl", "is-enabled", "dcos-setup.service"]), "enabled");
    // Nothing but setup starts it.
    assert_eq!(site.run(&["systemctl", "is-enabled", "dcos.target"]), "static");
    // Whatever happened to the units while the machine was off, boot makes them right first.
    site.host().kill().unwrap();
    fs_err::write(
        site.path("/etc/systemd/system/web.service"),
        "[Service]\nExecStart=/bin/false\n",
    )
    .unwrap();
    fs_err::remove_file(site.path("/etc/systemd/system/dcos.target.wants/web.service")).unwrap();
    site.boot();
    site.assert_whole(&[("web", "1")]);
    assert!(site.is_active("dcos-setup.service"));
    let boots = site.host().boots();
    site.host().reboot().unwrap();
    site.host().wait_boots(boots + 1, BOOT_MAX).unwrap();
    site.assert_whole(&[("web", "1")]);
}

pub(crate) fn without_systemd_all_but_services_works(release: Suite, test: &str) {
    let site = Site::new(release, test);
    site.add_service("web", "1", r#"{"username":"dcos_web","state_directory":true}"#);
    // What tells that systemd runs is hidden.
    let script = "mount -t tmpfs none /run/systemd && exec /monobloc/monobloc host activate web--1";
    let output = site.host().exec(&["unshare", "--mount", "sh", "-c", script]).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("nobody runs services here: start web.service yourself"), "{said}");
    assert!(site.path("/etc/systemd/system/web.service").exists());
    assert_eq!(site.run(&["stat", "-c", "%U", "/var/lib/dcos/web"]), "dcos_web");
    assert!(!site.is_active("web.service"));
    // Who has systemd after all boots into it.
    site.host().reboot().unwrap();
    site.host().wait_booted(BOOT_MAX).unwrap();
    site.assert_whole(&[("web", "1")]);
}

pub(crate) fn the_options_of_the_reference_leave_things_alone(release: Suite, test: &str) {
    let site = Site::new(release, test);
    site.add_service("web", "1", r#"{"username":"dcos_web","state_directory":true}"#);
    let outside =
        || snapshot::of(site.host()).into_iter().filter(|(what, _)| !what.starts_with("/opt"));
    let before: snapshot::Snapshot = outside().collect();
    // Nothing of the machine.
    site.monobloc(&["--rooted-systemd", "activate", "web--1"]);
    assert!(site.path("/opt/mesosphere/systemd/web.service").exists());
    assert!(site.path("/opt/mesosphere/state/web").exists());
    let left = snapshot::differences(&before, &outside().collect());
    assert!(left.is_empty(), "{}", left.join("\n"));
    // Everything but services.
    site.monobloc(&["--no-systemd", "activate", "web--1"]);
    assert!(site.path(UNIT).exists());
    assert_eq!(site.run(&["stat", "-c", "%U", "/var/lib/dcos/web"]), "dcos_web");
    assert!(!site.is_active("web.service") && !site.is_active("dcos.target"));
    // And all of it.
    site.monobloc(&["activate", "web--1"]);
    site.assert_whole(&[("web", "1")]);
}

const UNIT: &str = "/etc/systemd/system/web.service";

pub(crate) fn the_program_that_boot_uses_comes_with_the_set(release: Suite, test: &str) {
    let site = Site::new(release, test);
    let tool = site.path("/opt/mesosphere/tool/monobloc");
    let bring = |id: &str, script: &str| {
        site.add(&Package { id, info: "{}", files: vec![("bin/monobloc", script, 0o755)] });
    };
    // It reads the host by asking the one who came before; its mark is that it is another file.
    let good = "#!/bin/sh\nexec /monobloc/monobloc \"$@\"\n";
    bring("monobloc--1", good);
    bring("monobloc--2", "#!/bin/sh\necho too old to read this >&2\nexit 1\n");
    site.add_service("web", "1", "{}");
    site.monobloc(&["activate", "web--1"]);
    assert_eq!(
        fs_err::metadata(&tool).unwrap().len(),
        fs_err::metadata(env!("CARGO_BIN_EXE_monobloc")).unwrap().len()
    );
    site.monobloc(&["activate", "web--1", "monobloc--1"]);
    assert_eq!(fs_err::read_to_string(&tool).unwrap(), good);
    let said = site.monobloc(&["activate", "web--1", "monobloc--2"]);
    assert!(
        said.contains("cannot read this host: failed with status 1: too old to read this"),
        "{said}"
    );
    assert_eq!(fs_err::read_to_string(&tool).unwrap(), good);
    site.host().reboot().unwrap();
    site.host().wait_booted(BOOT_MAX).unwrap();
    site.assert_whole(&[("web", "1")]);
}

pub(crate) fn the_api_is_served_through_a_socket_of_systemd(release: Suite, test: &str) {
    let site = Site::new(release, test);
    site.add_service("web", "1", "{}");
    site.add_service("web", "2", "{}");
    // The API is a unit of the set that it changes.
    let socket = "[Socket]\nListenStream=/run/api.sock\nSocketMode=0600\n";
    let service =
        |note: &str| format!("# {note}\n[Service]\nExecStart=/monobloc/monobloc host serve\n");
    for version in ["1", "2"] {
        let unit = service(version);
        let files = vec![
            ("dcos.target.wants/api.socket", socket, 0o644),
            ("dcos.target.wants/api.service", &unit, 0o644),
        ];
        site.add(&Package { id: &format!("api--{version}"), info: "{}", files });
    }
    site.monobloc(&["activate", "web--1", "api--1"]);
    let ask = |arguments: &[&str]| {
        let curl = ["curl", "--silent", "--show-error", "--unix-socket", "/run/api.sock"];
        site.run(&[&curl[..], arguments].concat())
    };
    assert_eq!(ask(&["http://host/active/"]), r#"["api--1","web--1"]"#);
    let api = site.pid("api.service");
    // Both change; the one who does it is restarted when it is done.
    let put = ["--request", "PUT", "--header", "Content-Type: application/json", "--data"];
    let set = [r#"["web--2","api--2"]"#, "--write-out", "%{http_code}", "http://host/active/"];
    assert_eq!(ask(&[&put[..], &set].concat()), "204");
    site.eventually("the API is another process", || {
        let pid = site.pid("api.service");
        (pid != 0 && pid != api).then_some(())
    });
    assert_eq!(ask(&["http://host/active/"]), r#"["api--2","web--2"]"#);
    assert_eq!(site.said("web.service"), "version 2");
    // Without a socket of systemd it makes its own.
    site.run(&["systemd-run", "--quiet", "/monobloc/monobloc", "host", "serve"]);
    let own = site.eventually("it answers", || {
        let curl =
            ["curl", "--silent", "--unix-socket", "/run/dcos/api.sock", "http://host/active/"];
        let output = site.host().exec(&curl).unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    });
    assert_eq!(own, r#"["api--2","web--2"]"#);
}
