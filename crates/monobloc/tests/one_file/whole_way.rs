//! Build, configure, serve, install, upgrade, roll back, remove.

use crate::root::{Kernel, Root};
use crate::site::{FILE, Site};

const MONOBLOC: &str = "/opt/test/tool/monobloc host";

#[test]
fn hosts_are_installed_upgraded_rolled_back_and_removed_without_a_trace() {
    let site = Site::new();
    // The address is known once the server runs, which needs something to serve.
    fs_err::create_dir_all(site.path("genconf/serve")).unwrap();
    let server = site.serve(&[]);
    site.write_config(&server.url);
    let root = Root::new(site.path("builder"), Kernel::Own)
        .bind(&site.path(FILE), "/host/test.sh")
        .bind(&site.path("genconf"), "/host/genconf");
    root.sh("sh test.sh --genconf");
    let volume = site.path("volume");
    fs_err::create_dir_all(&volume).unwrap();
    let master = Root::new(site.path("master"), Kernel::Own);
    // An agent with an old kernel, and the install root on a volume of its own.
    let agent = Root::new(site.path("agent"), Kernel::Old).bind(&volume, "/opt/test");
    fs_err::create_dir_all(agent.path("opt/test")).unwrap();
    let before = [master.listing(), agent.listing()];
    for (host, role) in [(&master, "master"), (&agent, "slave")] {
        let get = format!("wget -q {}/test_install.sh", server.url);
        let said = host.sh(&format!("{get}; sh test_install.sh {role}; rm test_install.sh"));
        assert!(said.contains(&format!("installed: test 1 as {role}")), "{said}");
        // Nobody runs services here, and that is said.
        assert!(said.contains("kv.service"), "{said}");
        assert_eq!(
            host.sh("/opt/test/bin/kv; /opt/test/bin/greet"),
            "kv 1\ngood day from Harbour\n"
        );
        let again = host.sh(&format!("{get}; sh test_install.sh {role}; rm test_install.sh"));
        assert!(again.contains("unchanged: ") && again.contains("the program is here"), "{again}");
    }
    master.sh("[ -e /opt/test/etc/leads ] && ! [ -e /opt/test/etc/follows ]");
    agent.sh("[ -e /opt/test/etc/follows ] && ! [ -e /opt/test/etc/leads ]");
    let units = |host: &Root| host.sh("ls /etc/systemd/system/test.target.wants/");
    assert_eq!(units(&master), "kv-leader.service\nkv.service\n");
    assert_eq!(units(&agent), "kv.service\n");
    assert!(master.sh("ls -l /opt/test/current").contains("-> generations/1"));
    assert_eq!(master.sh("ls /etc/test/roles"), "master\n");

    // The second version: another file, the same folder.
    site.build("2");
    let root = Root::new(site.path("second"), Kernel::Own)
        .bind(&site.path(FILE), "/host/test.sh")
        .bind(&site.path("genconf"), "/host/genconf");
    let said = root.sh("sh test.sh --generate-node-upgrade-script 1");
    let url = said.lines().last().unwrap().strip_prefix("Node upgrade script URL: ").unwrap();
    for host in [&master, &agent] {
        let said =
            host.sh(&format!("wget -q {url}; sh test_node_upgrade.sh; rm test_node_upgrade.sh"));
        assert!(said.contains("installed: test 2"), "{said}");
        assert_eq!(host.sh("/opt/test/bin/kv"), "kv 2\n");
        host.sh(&format!("{MONOBLOC} audit"));
        host.sh(&format!("{MONOBLOC} rollback"));
        assert_eq!(host.sh("/opt/test/bin/kv"), "kv 1\n");
        host.sh(&format!("{MONOBLOC} audit"));
    }
    for (host, before) in [&master, &agent].into_iter().zip(before) {
        host.sh(&format!("{MONOBLOC} uninstall --purge"));
        host.assert_same(&before);
    }
    assert_eq!(fs_err::read_dir(&volume).unwrap().count(), 0, "the volume is empty");
}

#[test]
fn one_file_that_was_configured_is_all_that_a_host_needs() {
    let site = Site::new();
    site.write_config("http://bootstrap.example");
    site.monobloc(&["configure", "--tree", FILE, "--for", "file"]);
    let file = site.path("genconf/for/file/test_cluster.sh");
    let root = Root::new(site.path("root"), Kernel::Old).bind(&file, "/host/cluster.sh");
    let before = root.listing();
    let said = root.sh("sh cluster.sh host install --role slave");
    assert!(said.contains("installed: test 1 as slave"), "{said}");
    assert_eq!(root.sh("/opt/test/bin/kv"), "kv 1\n");
    let named = root.sh(&format!("{MONOBLOC} install --from /host/cluster.sh"));
    assert!(named.contains("unchanged: "), "{named}");
    root.sh(&format!("{MONOBLOC} uninstall --purge"));
    root.assert_same(&before);
}
