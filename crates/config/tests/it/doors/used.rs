//! Doors as hosts use them: with a server on a loopback address, and a stand-in for the install script
//! that writes down how it was called.

use std::process::{Command, Output};

use camino::{Utf8Path, Utf8PathBuf};
use config::bundle::Genconf;
use config::door::{Door, DoorError, Doors, Role, Written};
use package::distribution::Distribution;
use package::{Cancel, Sha256};
use testing::files::write_files;
use testing::http::{Answer, HttpServer};

use super::role;
use crate::bundle::{CONFIG, Site};

/// A folder to configure in, a server, and the stand-in.
struct Scene {
    _folder: tempfile::TempDir,
    root: Utf8PathBuf,
    server: HttpServer,
    script: String,
}

/// Where the stand-in is served.
const SERVED: &str = "/atoll_install.sh";

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().to_owned();
        let script = stand_in(&root);
        let server = HttpServer::start().unwrap();
        server.on(SERVED, [Answer::file(script.clone())]);
        write_files(&root, &[("genconf/keys/master.agekey", "sesame\n", 0o600)]).unwrap();
        Self { _folder: folder, root, server, script }
    }

    fn door(&self, door: Door, roles: Vec<Role>) -> Utf8PathBuf {
        let url = self.server.url("");
        let distribution = Distribution {
            install_root: self.root.join("opt"),
            ..Distribution::named("atoll", "1")
        };
        let doors = Doors {
            distribution: &distribution,
            bootstrap_url: Some(&url),
            roles,
            bundle: Sha256::of(b"bundle"),
            script: self.script.as_bytes(),
        };
        let genconf = Genconf::new(self.root.join("genconf"));
        genconf
            .write_door(&doors, door, &genconf.own_signer(None).unwrap(), &Cancel::new())
            .unwrap()
            .path
    }

    /// How the stand-in was called, and forgets it.
    fn calls(&self) -> String {
        let record = self.root.join("record");
        let calls = fs_err::read_to_string(&record).unwrap_or_default();
        let _ = fs_err::remove_file(&record);
        calls.replace(self.root.as_str(), "[ROOT]")
    }
}

/// A script that writes down its arguments, the keys it got and a variable, installs the first time and
/// fails if it is told to.
fn stand_in(root: &Utf8Path) -> String {
    format!(
        r#"#!/bin/sh
for word in "$@"; do
    case $before in
        --key-file) echo "key: $(cat "$word"), $(stat -c %a "$word")" ;;
        --from) echo "from: $word" ;;
        *) [ "$word" = --key-file ] || [ "$word" = --from ] || echo "argument: $word" ;;
    esac >>"{root}/record"
    before=$word
done
echo "proxy: $https_proxy" >>"{root}/record"
[ ! -e "{root}/broken" ] || exit 1
[ ! -e "{root}/opt/current" ] || {{ echo unchanged; exit; }}
mkdir -p "{root}/opt/current"
echo installed
"#
    )
}

fn text(output: &Output) -> String {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    stdout + &stderr
}

mod ansible {
    use super::*;

    impl Scene {
        fn play(&self, door: &Utf8Path, more: &[&str]) -> (bool, String) {
            let temporary = self.root.join("temporary");
            fs_err::create_dir_all(&temporary).unwrap();
            let output = Command::new("ansible-playbook")
                .args(["-i", "inventory.yaml", "site.yaml", "--connection", "local"])
                // Nobody need be root for the stand-in.
                .args(["--extra-vars", "ansible_become=false", "--diff", "-v"])
                .args(more)
                .current_dir(door)
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap())
                .env("HOME", &self.root)
                .env("ANSIBLE_HOME", self.root.join("ansible"))
                .env("ANSIBLE_REMOTE_TEMP", self.root.join("ansible/remote"))
                .env("ANSIBLE_PIPELINING", "1")
                .env("TMPDIR", temporary)
                .env("LC_ALL", "C.UTF-8")
                .output()
                .unwrap();
            let said = text(&output);
            assert!(!said.contains("sesame"), "{said}");
            (output.status.success(), said)
        }

        /// Every file that is left where hosts and Ansible had temporary ones.
        fn left(&self) -> Vec<String> {
            let folders = ["temporary", "ansible/remote"].map(|folder| self.root.join(folder));
            let files = folders.iter().flat_map(|folder| tree(folder));
            files.map(|(path, _)| path).collect()
        }
    }

    fn hosts() -> Vec<Role> {
        vec![role("master", &["127.0.0.1"], true), role("edge-router", &["127.0.0.1"], false)]
    }

    #[test]
    fn hosts_are_installed_once_and_again_changes_nothing() {
        let scene = Scene::new();
        let door = scene.door(Door::Ansible, hosts());
        let environment = "{\"atoll_environment\": {\"https_proxy\": \"http://proxy.example:1\"}, \
                            \"atoll_options\": [\"--disable-preflight\"]}";
        let (done, said) = scene.play(&door, &["--extra-vars", environment]);
        assert!(done && said.contains("changed=1 "), "{said}");
        insta::assert_snapshot!(scene.calls(), @"
        argument: --disable-preflight
        key: sesame, 600
        argument: master
        argument: edge-router
        proxy: http://proxy.example:1
        ");
        let (done, said) = scene.play(&door, &[]);
        assert!(done && said.contains("changed=0 "), "{said}");
        insta::assert_snapshot!(scene.calls(), @"
        key: sesame, 600
        argument: master
        argument: edge-router
        proxy:
        ");
        assert_eq!(scene.left(), Vec::<String>::new());
    }

    #[test]
    fn a_script_with_another_digest_is_not_run() {
        let scene = Scene::new();
        let door = scene.door(Door::Ansible, hosts());
        scene.server.on(SERVED, [Answer::file(format!("{}# more\n", scene.script))]);
        let (done, said) = scene.play(&door, &[]);
        assert!(!done && said.contains("failed=1 "), "{said}");
        assert!(said.contains("is not the one that this file was made for"), "{said}");
        assert_eq!(scene.calls(), "");
        assert_eq!(scene.left(), Vec::<String>::new());
    }

    #[test]
    fn a_check_does_nothing() {
        let scene = Scene::new();
        let door = scene.door(Door::Ansible, hosts());
        let (done, said) = scene.play(&door, &["--check"]);
        assert!(done && said.contains("changed=0 "), "{said}");
        assert_eq!(scene.calls(), "");
        assert_eq!(scene.server.requests(), []);
    }

    #[test]
    fn a_host_without_a_role_is_told_which_groups_there_are() {
        let scene = Scene::new();
        let door = scene.door(Door::Ansible, hosts());
        let (done, said) = scene.play(&door, &["--extra-vars", "{\"atoll_roles\": []}"]);
        assert!(!done && said.contains("none of the groups master, edge_router"), "{said}");
    }
}

/// The script of an image, with its folder in the scene.
fn image_script(scene: &Scene) -> Utf8PathBuf {
    let door = scene.door(Door::Image, vec![role("master", &[], true), role("slave", &[], false)]);
    let text = fs_err::read_to_string(door.join("root/usr/local/sbin/atoll-install")).unwrap();
    let text = text.replace("/etc/atoll-install", scene.root.join("etc").as_str());
    write_files(&scene.root, &[("atoll-install", text, 0o755)]).unwrap();
    scene.root.join("atoll-install")
}

fn run(script: &Utf8Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new("sh").arg(script).args(arguments).output().unwrap();
    (output.status.code(), text(&output))
}

#[test]
fn a_machine_installs_itself_at_first_boot_and_tries_again_if_that_fails() {
    let scene = Scene::new();
    let script = image_script(&scene);
    let (code, said) = run(&script, &["--once"]);
    assert!(code == Some(1) && said.contains("nothing says what this host shall be"), "{said}");
    let key_command = "#!/bin/sh\necho \"key of $1\"\n";
    write_files(
        &scene.root.join("etc"),
        &[("roles", "slave\nmaster\n", 0o644), ("key-command", key_command, 0o700)],
    )
    .unwrap();
    write_files(&scene.root, &[("broken", "", 0o644)]).unwrap();
    assert_eq!(run(&script, &["--once"]).0, Some(1));
    insta::assert_snapshot!(scene.calls(), @"
    key: key of master, 600
    argument: slave
    argument: master
    proxy:
    ");
    assert!(!scene.root.join("etc/done").exists());
    assert_eq!(run(&script, &["--is-done"]).0, Some(1));

    fs_err::remove_file(scene.root.join("broken")).unwrap();
    assert_eq!(run(&script, &["--once"]), (Some(0), "installed\n".to_owned()));
    assert_ne!(scene.calls(), "");
    // The condition of the unit: from now on it does not even start.
    assert!(scene.root.join("etc/done").exists());
    assert_eq!(run(&script, &["--is-done"]).0, Some(0));
    assert_eq!(run(&script, &["--once"]), (Some(0), String::new()));
    assert_eq!(scene.calls(), "");
    // For other roles, or when what was installed is gone, it is not done.
    assert_eq!(run(&script, &["--is-done", "slave"]).0, Some(1));
    fs_err::remove_dir(scene.root.join("opt/current")).unwrap();
    assert_eq!(run(&script, &["--is-done"]).0, Some(1));
}

#[test]
fn a_network_that_fails_is_tried_again_and_a_changed_script_is_not_run() {
    let scene = Scene::new();
    let script = image_script(&scene);
    let good = Answer::file(scene.script.clone());
    let answers = [Answer::status(503), good.clone().cut_after(10), good];
    scene.server.on(SERVED, answers);
    assert_eq!(run(&script, &["slave"]).0, Some(0));
    assert_eq!(scene.server.requests().len(), 3);
    assert_ne!(scene.calls(), "");

    scene.server.on(SERVED, [Answer::file("#!/bin/sh\n")]);
    let (code, said) = run(&script, &["slave"]);
    assert!(code == Some(1) && said.contains("run `monobloc configure --for` again"), "{said}");
    assert_eq!(scene.calls(), "");
}

#[test]
fn wget_does_where_there_is_no_curl() {
    let scene = Scene::new();
    let script = image_script(&scene);
    let programs = scene.root.join("programs");
    fs_err::create_dir(&programs).unwrap();
    for name in ["sh", "cat", "cp", "mktemp", "rm", "mkdir", "sleep", "sha256sum", "stat", "wget"] {
        let found =
            Command::new("sh").args(["-c", &format!("command -v {name}")]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        fs_err::os::unix::fs::symlink(found.trim(), programs.join(name)).unwrap();
    }
    let output =
        Command::new("sh").arg(&script).arg("slave").env("PATH", &programs).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(scene.calls(), "argument: slave\nproxy: \n");
}

/// Makes the folder of a stick of what a site publishes.
fn stick(site: &Site, script: &str) -> Result<Written, DoorError> {
    let published = site.configure(CONFIG);
    let doors = Doors {
        distribution: &site.release.distribution,
        bootstrap_url: None,
        roles: vec![role("master", &[], true), role("slave", &[], true)],
        bundle: published.bundle,
        script: script.as_bytes(),
    };
    let signer = site.genconf().own_signer(None).unwrap();
    site.genconf().write_door(&doors, Door::Usb, &signer, &Cancel::new())
}

/// Every file below `folder`, with its digest.
fn tree(folder: &Utf8Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8().unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        assert!(!kind.is_symlink(), "{}", entry.path());
        if kind.is_dir() {
            let name = entry.file_name().to_owned();
            let below = tree(entry.path()).into_iter();
            found.extend(below.map(|(path, digest)| (format!("{name}/{path}"), digest)));
        } else {
            let digest = Sha256::of_file(entry.path()).unwrap().to_string();
            found.push((entry.file_name().to_owned(), digest));
        }
    }
    found.sort();
    found
}

#[test]
fn a_stick_has_what_is_served_without_links_and_installs_from_itself() {
    let site = Site::new();
    let script = stand_in(&site.root);
    // What an older bundle alone needs does not come along.
    site.configure("cluster_name: older\npassword: hunter2hunter2\n");
    let made = stick(&site, &script).unwrap();
    let files = tree(&made.path);
    assert_eq!(made.files, files.len());
    let names: Vec<String> = files.iter().map(|(path, _)| path.clone()).collect();
    let names = regex::Regex::new("[0-9a-f]{40,64}")
        .unwrap()
        .replace_all(&names.join("\n"), "HASH")
        .into_owned();
    insta::assert_snapshot!(names, @"
    README.md
    bundle.json
    bundle.json.minisig
    bundles/HASH/bundle.json
    bundles/HASH/bundle.json.minisig
    bundles/HASH/cluster-package-info.json
    bundles/HASH/cluster-package-list.latest
    cluster-package-info.json
    cluster-package-list.latest
    install.sh
    latest.json
    latest.json.minisig
    package_lists/HASH.package_list.json
    packages/kv/kv--1.about
    packages/kv/kv--1.tar.zst
    packages/router/router--1.about
    packages/router/router--1.tar.zst
    packages/test-config/test-config--setup_HASH.about
    packages/test-config/test-config--setup_HASH.tar.zst
    packages/test-metadata/test-metadata--setup_HASH.about
    packages/test-metadata/test-metadata--setup_HASH.tar.zst
    secrets/test-config-secrets--setup_HASH.age
    secrets/test-config-secrets-master--setup_HASH.age
    test_install.sh
    ");
    // Again, the same.
    assert_eq!(stick(&site, &script).unwrap(), made);
    assert_eq!(tree(&made.path), files);

    let elsewhere = site.root.join("a stick");
    fs_err::rename(&made.path, &elsewhere).unwrap();
    let output = Command::new("sh")
        .args(["a stick/install.sh", "--key-file", "genconf/keys/master.agekey", "master"])
        .current_dir(&site.root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let calls = fs_err::read_to_string(site.root.join("record")).unwrap();
    assert!(calls.contains(&format!("from: {elsewhere}\n")), "{calls}");
    assert!(calls.contains("key: ") && calls.contains("argument: master\n"), "{calls}");
    // A copy that went wrong is noticed.
    fs_err::write(elsewhere.join("test_install.sh"), "#!/bin/sh\n").unwrap();
    let (code, said) = run(&elsewhere.join("install.sh"), &["master"]);
    assert!(code == Some(1) && said.contains("test_install.sh is not the one"), "{said}");
}

#[test]
fn a_name_that_no_stick_has_is_refused_and_the_old_folder_stays() {
    let site = Site::new();
    let made = stick(&site, "#!/bin/sh\n").unwrap();
    let before = tree(&made.path);
    write_files(&site.genconf().serve(), &[("extra/a:b", "", 0o644)]).unwrap();
    let error = stick(&site, "#!/bin/sh\n").unwrap_err().to_string();
    insta::assert_snapshot!(error, @"`extra/a:b` cannot be copied to a stick: its file system knows no `:` in names");
    assert_eq!(tree(&made.path), before);
    let beside: Vec<_> = made.path.parent().unwrap().read_dir_utf8().unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
}

#[test]
fn what_was_there_is_replaced_as_a_whole() {
    let scene = Scene::new();
    let door = scene.door(Door::Salt, vec![role("master", &[], false)]);
    let before = tree(&door);
    write_files(&door, &[("atoll/stale.sls", "stale", 0o644)]).unwrap();
    scene.door(Door::Salt, vec![role("master", &[], false)]);
    assert_eq!(tree(&door), before);
    let beside: Vec<_> = door.parent().unwrap().read_dir_utf8().unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
}
