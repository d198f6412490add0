//! The install script and what other tools may rely on: options, exit codes, what it needs.

use std::process::Command;

use testing::http::{Answer, HttpServer};

use crate::root::{Kernel, Root, all};
use crate::site::{FILE, Site};

/// A configured site and a root that sees what is served.
fn scene() -> (Site, Root) {
    let site = Site::new();
    site.write_config("http://bootstrap.example");
    site.monobloc(&["configure", "--tree", FILE]);
    let root = Root::new(site.path("root"), Kernel::Own).bind(&site.path("genconf/serve"), "/srv");
    (site, root)
}

#[test]
fn scripts_pass_shellcheck() {
    let (site, _) = scene();
    site.monobloc(&["configure", "--tree", FILE, "--upgrade-from", "1"]);
    let serve = site.path("genconf/serve");
    let upgrade = serve.join("upgrade").read_dir_utf8().unwrap().next().unwrap().unwrap();
    let upgrade = upgrade.path().join("test_node_upgrade.sh");
    let head = site.path("head.sh");
    fs_err::write(&head, &fs_err::read(site.path(FILE)).unwrap()[..8192]).unwrap();
    for script in [serve.join("test_install.sh"), upgrade, head] {
        let output = Command::new("shellcheck").args(["--shell=sh"]).arg(&script).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
    }
}

#[test]
fn help_is_an_answer_and_wrong_use_is_told_apart_from_failure() {
    let (_site, root) = scene();
    let help = root.sh("sh /srv/test_install.sh --help");
    assert!(help.contains("Roles: master slave"), "{help}");
    for (words, code, says) in [
        ("", 2, "say what this host shall be: master slave"),
        ("--nonsense master", 2, "there is no option --nonsense"),
        ("mastre", 2, "there is no role mastre, expected one of: master slave"),
        ("--from", 2, "--from needs a value"),
        ("--from /nowhere master", 1, "cannot get /nowhere/programs/monobloc-"),
    ] {
        let output = root.try_sh(&format!("sh /srv/test_install.sh {words}"));
        assert_eq!(output.status.code(), Some(code), "{words}: {}", all(&output));
        assert!(all(&output).contains(says), "{words}: {}", all(&output));
    }
    let other = root.try_sh("id() { echo 1000; }; set -- master; . /srv/test_install.sh");
    assert_eq!(other.status.code(), Some(1));
    assert!(all(&other).contains("must be run as root"), "{}", all(&other));
}

#[test]
fn a_host_has_several_roles() {
    let (_site, root) = scene();
    let said = root.sh("sh /srv/test_install.sh master slave");
    assert!(said.contains("installed: test 1 as master, slave"), "{said}");
    root.sh("[ -e /opt/test/etc/leads ] && [ -e /opt/test/etc/follows ]");
}

#[test]
fn preflight_only_changes_nothing() {
    let (_site, root) = scene();
    let before = root.listing();
    root.sh("sh /srv/test_install.sh --preflight-only master");
    root.assert_same(&before);
}

#[test]
fn another_program_than_the_published_one_is_not_run() {
    let (site, root) = scene();
    let programs = site.path("genconf/serve/programs");
    let program = programs.read_dir_utf8().unwrap().next().unwrap().unwrap().path().to_owned();
    fs_err::write(program, "#!/bin/sh\ntouch /host/broken\n").unwrap();
    let before = root.listing();
    let output = root.try_sh("sh /srv/test_install.sh master");
    assert_eq!(output.status.code(), Some(1));
    assert!(all(&output).contains("it was damaged or changed on its way"), "{}", all(&output));
    root.assert_same(&before);
}

/// Every file that is served, by its path.
fn served(site: &Site) -> Vec<(String, Vec<u8>)> {
    let serve = site.path("genconf/serve");
    let (mut files, mut waiting) = (Vec::new(), vec![serve.clone()]);
    while let Some(folder) = waiting.pop() {
        for entry in folder.read_dir_utf8().unwrap() {
            let path = entry.unwrap().path().to_owned();
            let is_folder = fs_err::metadata(&path).unwrap().is_dir();
            if is_folder && !path.is_symlink() {
                waiting.push(path);
            } else if !is_folder {
                let below = path.strip_prefix(&serve).unwrap().to_string();
                files.push((below, fs_err::read(&path).unwrap()));
            }
        }
    }
    files
}

#[test]
fn curl_and_every_wget_will_do_and_go_on_where_a_server_broke_off() {
    let (site, _) = scene();
    let server = HttpServer::start().unwrap();
    for (name, path) in [("curl", "/usr/bin:/bin"), ("wget", "/only:/bin"), ("busybox", "/bin")] {
        for (path, content) in served(&site) {
            let middle = content.len() / 2;
            let whole = Answer::file(content);
            let broken = if path.starts_with("programs/") || path.starts_with("packages/") {
                vec![whole.clone().cut_after(middle), whole]
            } else {
                vec![whole]
            };
            server.on(&format!("/{path}"), broken);
        }
        let mut root = Root::new(site.path(name), Kernel::Own).variable("PATH", path);
        for folder in ["/usr", "/lib", "/lib64"] {
            root = root.bind(folder.into(), folder);
        }
        fs_err::create_dir(root.path("only")).unwrap();
        std::os::unix::fs::symlink("/usr/bin/wget", root.path("only/wget")).unwrap();
        let before = server.requests().len();
        root.sh(&format!(
            "wget -q -O s.sh {0}/test_install.sh; sh s.sh --from {0} slave",
            server.url("")
        ));
        assert_eq!(root.sh("/opt/test/bin/kv"), "kv 1\n");
        let requests = server.requests().split_off(before);
        let of_program: Vec<_> =
            requests.iter().filter(|request| request.path.starts_with("/programs/")).collect();
        assert_eq!(of_program.len(), 2, "{name}");
        assert!(of_program[1].header("range").is_some(), "{name} went on");
    }
}

#[test]
fn what_is_behind_a_proxy_is_installed_through_it() {
    let (site, root) = scene();
    let proxy = HttpServer::start().unwrap();
    for (path, content) in served(&site) {
        // Who asks a proxy names the whole address.
        proxy.on(&format!("http://bootstrap.example/{path}"), [Answer::file(content)]);
    }
    let root = root.variable("http_proxy", &proxy.url(""));
    root.sh("cp /srv/test_install.sh .; sh test_install.sh slave");
    assert_eq!(root.sh("/opt/test/bin/kv"), "kv 1\n");
}

#[test]
fn interrupted_at_any_moment_the_next_run_finishes_it() {
    let (site, _) = scene();
    for (number, delay) in ["0.05", "0.1", "0.2", "0.3", "0.5", "0.8"].iter().enumerate() {
        let root = Root::new(site.path(&format!("cut-{number}")), Kernel::Own)
            .bind(&site.path("genconf/serve"), "/srv");
        let signal = ["TERM", "KILL", "INT"][number % 3];
        root.try_sh(&format!("timeout -s {signal} {delay} sh /srv/test_install.sh master"));
        let said = root.sh("sh /srv/test_install.sh master");
        assert!(said.contains("installed: ") || said.contains("unchanged: "), "{said}");
        assert_eq!(root.sh("/opt/test/bin/kv"), "kv 1\n");
        root.sh("/opt/test/tool/monobloc host --distribution test audit");
    }
}
