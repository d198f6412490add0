//! The scripts on a host with systemd: installed, upgraded, gone back, removed.

use std::process::{Command, Output};

use camino::Utf8Path;
use local::Suite;
use testing::files::write_files;

use crate::site::Site;
use crate::snapshot;

const DISTRIBUTION: &str = "name = \"dcos\"\ninstall_root = \"/opt/mesosphere\"\n\
                            config_directory = \"/etc/mesosphere\"\nupgrade_from = [\"1\"]\n";
const SERVED: &str = "/packages/genconf/serve";

/// Builds a tree with a service and a check in this version, and configures it.
fn publish(site: &Site, version: &str, check: &str) -> String {
    let folder = site.packages();
    let script = format!("#!/bin/sh\necho version {version}\nexec sleep infinity\n");
    let unit = "[Service]\nExecStart=/opt/mesosphere/bin/web\n";
    write_files(
        &folder.join("tree"),
        &[
            ("distribution.toml", format!("{DISTRIBUTION}version = \"{version}\"\n"), 0o644),
            ("config/parameters.yaml", "include: []\nroles: [master]\n".to_owned(), 0o644),
            (
                "web/buildinfo.json",
                r#"{"checks":{"well":{"program":"check/well","within_seconds":1}}}"#.to_owned(),
                0o644,
            ),
            ("web/build", "#!/bin/sh\ncp -R /pkg/extra/. \"$PKG_PATH/\"\n".to_owned(), 0o755),
            ("web/extra/bin/web", script, 0o755),
            ("web/extra/check/well", format!("#!/bin/sh\n{check}\n"), 0o755),
            ("web/extra/dcos.target.wants/web.service", unit.to_owned(), 0o644),
        ],
    )
    .unwrap();
    write_files(&folder.join("genconf"), &[("config.yaml", "{}\n", 0o644)]).unwrap();
    let program = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/dist/monobloc");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monobloc"));
        command.args(words).current_dir(folder).env("MONOBLOC_PROGRAM", &program);
        let output = command.env("XDG_CACHE_HOME", folder.join("cache")).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["build", "tree", "-o", "one.sh"]);
    run(&["configure", "--tree", "one.sh", "--upgrade-from", "1"])
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

fn sh(site: &Site, words: &[&str]) -> (Option<i32>, String) {
    let output = site.host().exec(&[&["sh"], words].concat()).unwrap();
    (output.status.code(), said(&output))
}

/// The script of the last publication that upgrades.
fn upgrade(site: &Site, published: &str) -> (Option<i32>, String) {
    let line = published.lines().last().unwrap();
    let path = line.strip_prefix("Node upgrade script URL: BOOTSTRAP_URL").unwrap();
    sh(site, &[&format!("{SERVED}{path}"), "--from", SERVED])
}

pub(crate) fn scripts_install_upgrade_and_go_back_by_themselves(release: Suite, test: &str) {
    let site = Site::new(release, test);
    let before = snapshot::of(site.host());
    publish(&site, "1", "exit 0");
    let install = format!("{SERVED}/dcos_install.sh");
    let (code, told) = sh(&site, &[&install, "master"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("installed: dcos 1 as master"), "{told}");
    site.assert_whole(&[("web", "1")]);
    let pid = site.pid("web.service");
    let (code, told) = sh(&site, &[&install, "master"]);
    assert!(code == Some(0) && told.contains("unchanged: dcos 1"), "{told}");
    assert_eq!(site.pid("web.service"), pid);

    // A version whose check fails: the host goes back by itself, and the script says so.
    let published = publish(&site, "2", "echo the quorum is lost; exit 7");
    let (code, told) = upgrade(&site, &published);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("is live again") && told.contains("the quorum is lost"), "{told}");
    site.assert_whole(&[("web", "1")]);

    let published = publish(&site, "3", "[ ! -e /run/ill ]");
    // What is ill is not upgraded, and what is well is.
    let (code, told) = upgrade(&site, &published);
    assert_eq!(code, Some(0), "{told}");
    site.assert_whole(&[("web", "3")]);
    site.run(&["touch", "/run/ill"]);
    let published = publish(&site, "4", "exit 0");
    let (code, told) = upgrade(&site, &published);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("which cannot become 4"), "{told}");
    site.run(&["rm", "/run/ill"]);
    site.monobloc(&["audit"]);
    site.monobloc(&["uninstall", "--purge"]);
    let left = snapshot::differences(&before, &snapshot::of(site.host()));
    assert!(left.is_empty(), "{}", left.join("\n"));
}
