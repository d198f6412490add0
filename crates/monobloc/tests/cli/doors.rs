//! `monobloc configure --for`: what other tools need to install hosts.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use camino::Utf8Path;
use insta::assert_snapshot;

use crate::configure::{CONFIG, CONFIGURE, run, site};
use crate::test_env::{TestEnv, succeed};

const STATIC: &str = "\
cluster_name: harbour
bootstrap_url: http://boot.example
password: hunter2hunter2
master_discovery: static
master_list: [10.0.0.1, 10.0.0.2, 10.0.0.3]
agent_list: [agent-1.example.com]
public_agent_list: ['2001:db8::7']
exhibitor_storage_backend: static
";

const ALL: &str = "cloud-init,cloudformation,ansible,puppet,salt,chef,image,usb";

fn configure(env: &TestEnv, more: &[&str]) -> String {
    run(env, &[&CONFIGURE[..], more].concat())
}

/// Every file below `folder`, with its content and mode.
fn tree(folder: &Utf8Path) -> BTreeMap<String, (Vec<u8>, u32)> {
    let mut found = BTreeMap::new();
    for entry in folder.read_dir_utf8().unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_owned();
        let metadata = entry.metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_dir() {
            assert_eq!(mode, 0o755, "{}", entry.path());
            let below = tree(entry.path()).into_iter();
            found.extend(below.map(|(path, file)| (format!("{name}/{path}"), file)));
        } else {
            found.insert(name, (fs_err::read(entry.path()).unwrap(), mode));
        }
    }
    found
}

#[test]
fn every_door_is_made_and_again_the_same() {
    let env = site();
    env.write_config(STATIC);
    assert_snapshot!(configure(&env, &["--for", ALL]), @"
    exit: 0
    --- stdout
    published [DIGEST] of test 1.2
      serve   genconf/serve (10 files, [SIZE])
      key     [KEY], which hosts verify with
      install test_install.sh (SHA-256 [DIGEST])
      secrets genconf/keys: give each host the key of its role
      for     cloud-init: genconf/for/cloud-init (4 files), see its README.md
      for     cloudformation: genconf/for/cloudformation (2 files), see its README.md
      for     ansible: genconf/for/ansible (6 files), see its README.md
      for     puppet: genconf/for/puppet (3 files), see its README.md
      for     salt: genconf/for/salt (3 files), see its README.md
      for     chef: genconf/for/chef (5 files), see its README.md
      for     image: genconf/for/image (4 files), see its README.md
      for     usb: genconf/for/usb (24 files), see its README.md
    --- stderr
    made the key `genconf/keys/cluster.key`, which signs: keep it to yourself
    ");
    let made = tree(&env.path("genconf/for"));
    let names: Vec<String> = made
        .iter()
        .filter(|(path, _)| !path.starts_with("usb/"))
        .map(|(path, (_, mode))| format!("{mode:o} {path}"))
        .collect();
    assert_snapshot!(names.join("\n"), @"
    644 ansible/README.md
    644 ansible/inventory.yaml
    644 ansible/roles/test/defaults/main.yaml
    755 ansible/roles/test/files/test-install.sh
    644 ansible/roles/test/tasks/main.yaml
    644 ansible/site.yaml
    644 chef/README.md
    644 chef/test/attributes/default.rb
    755 chef/test/files/test-install.sh
    644 chef/test/metadata.rb
    644 chef/test/recipes/default.rb
    644 cloud-init/README.md
    644 cloud-init/master.yaml
    644 cloud-init/slave.yaml
    644 cloud-init/slave_public.yaml
    644 cloudformation/README.md
    644 cloudformation/template.yaml
    644 image/README.md
    644 image/root/etc/systemd/system/test-first-boot.service
    755 image/root/etc/test-install/key-command
    755 image/root/usr/local/sbin/test-install
    644 puppet/README.md
    755 puppet/test/files/test-install.sh
    644 puppet/test/manifests/init.pp
    644 salt/README.md
    644 salt/test/init.sls
    755 salt/test/test-install.sh
    ");
}

#[test]
fn a_door_names_the_hosts_and_has_no_secret() {
    let env = site();
    env.write_config(STATIC);
    succeed(&mut env.monobloc(&[&CONFIGURE[..], &["--for", ALL]].concat()));
    let made = tree(&env.path("genconf/for"));
    for (path, (content, _)) in &made {
        let text = String::from_utf8_lossy(content);
        assert!(!text.contains("hunter2") && !text.contains("AGE-SECRET-KEY"), "{path}");
    }
    succeed(&mut env.monobloc(&[&CONFIGURE[..], &["--for", ALL]].concat()));
    assert_eq!(tree(&env.path("genconf/for")), made);
    assert_snapshot!(env.read("genconf/for/ansible/inventory.yaml"), @r#"
    # The hosts of test, as far as the configuration knows them. Made by `monobloc configure --for`.
    all:
      children:
        "master":
          hosts:
            "10.0.0.1": {}
            "10.0.0.2": {}
            "10.0.0.3": {}
        "slave":
          hosts:
            "agent-1.example.com": {}
        "slave_public":
          hosts:
            "2001:db8::7": {}
    "#);
    assert!(
        env.read("genconf/for/ansible/roles/test/defaults/main.yaml").contains("master.agekey")
    );
    assert!(!env.read("genconf/for/cloud-init/slave.yaml").contains("path: /etc/test-install/key"));
}

#[test]
fn doors_are_named_once_or_again_and_again() {
    let env = site();
    let said = configure(&env, &["--for", "salt", "--for", "usb,salt", "--json"]);
    assert!(said.contains("\"schema\": \"monobloc.configure/1\""), "{said}");
    let doors = &said[said.find("\"for\"").unwrap()..said.find("\"removed\"").unwrap()];
    assert_snapshot!(doors, @r#"
    "for": [
        {
          "door": "salt",
          "path": "genconf/for/salt",
          "files": 3
        },
        {
          "door": "usb",
          "path": "genconf/for/usb",
          "files": 24
        }
      ],
    "#);
    assert_eq!(env.names("genconf/for"), ["salt", "usb"]);
}

#[test]
fn an_unknown_door_is_wrong_use_and_help_lists_them() {
    let env = site();
    assert_snapshot!(configure(&env, &["--for", "terraform"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: invalid value 'terraform' for '--for <DOOR>'
      [possible values: cloud-init, cloudformation, ansible, puppet, salt, chef, image, usb, file]

    For more information, try '--help'.
    ");
    let help = run(&env, &["configure", "--help"]);
    let start = help.find("--for <DOOR>").unwrap();
    let length = help[start..].find("--gc").unwrap();
    assert_snapshot!(help[start..start + length].trim_end(), @"
    --for <DOOR>
              Also make what these need to install hosts; can be repeated

              Possible values:
              - cloud-init:     user data for each role
              - cloudformation: a template for AWS
              - ansible:        a role, an inventory and a playbook
              - puppet:         a module
              - salt:           a state
              - chef:           a cookbook
              - image:          a unit for images that installs at first boot
              - usb:            a folder for a stick, with everything in it
              - file:           one file with everything in it, to be run on hosts

          --program <FILE>
              The program that hosts get; one in an artifact is used as it is [default: the one in
              `MONOBLOC_PROGRAM`, or this one]

          --thin
              Leave the packages in the artifact that is configured: `monobloc serve --artifact` serves
              them from there, any other server cannot
    ");
}

#[test]
fn hosts_cannot_fetch_what_is_copied_to_them() {
    let env = site();
    env.write_tree(&[(
        "config/test.yaml",
        "include: [cluster, quorum, dns, ssh]\n\
         parameters:\n  password: { type: secret, required: true }\n\
         files:\n  etc_master/kv.password: { mode: \"0400\" }\n",
    )]);
    let config = CONFIG.replace("bootstrap_url: http://boot.example\n", "");
    env.write_config(&format!("{config}installation: ssh\nssh_user: root\nssh_key_path: key\n"));
    testing::files::write_files(&env.path(""), &[("key", "", 0o600)]).unwrap();
    assert_snapshot!(configure(&env, &["--for", "usb,ansible"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: hosts that come by `ansible` fetch what was published, but `bootstrap_url` is `file:///opt/test_install_tmp`: expected an `http:` or `https:` URL
    hint: a stick needs no address: `--for usb`
    ");
    // Before anything was published.
    assert!(!env.path("genconf/serve").exists());
    succeed(&mut env.monobloc(&[&CONFIGURE[..], &["--for", "usb"]].concat()));
}

#[test]
fn a_stick_has_all_that_a_host_installs() {
    let env = site();
    succeed(&mut env.monobloc(&[&CONFIGURE[..], &["--for", "usb"]].concat()));
    let host = ["host", "--distribution", "test", "--root", "opt", "--config-dir", "etc"];
    let install = ["install", "--from", "genconf/for/usb", "--role", "master"];
    let keys =
        ["--public-key", "genconf/keys/cluster.pub", "--key-file", "genconf/keys/master.agekey"];
    fs_err::rename(env.path("genconf/serve"), env.path("away")).unwrap();
    succeed(&mut env.monobloc(&[&host[..], &install, &keys].concat()));
    assert_eq!(env.read("opt/etc/kv.password"), "hunter2hunter2\n");
}
