//! Every way in which a host can differ from what it should be is found, named and put right.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use host::HostError;
use host::audit::{Depth, Repaired, Report, Source};
use host::machine::Accounts as _;
use host::store::Repository;
use insta::assert_snapshot;
use insta::internals::SettingsBindDropGuard;
use package::Sha256;

use crate::fakes::{Manager, People, machine};
use crate::setup::{bootstrapped, offer, setup};
use crate::world::{CancelAt, World};

const INFO: &str = r#"{"environment":{"APP":"one"},"username":"dcos_app","group":"daemons",
    "state_directory":true,"sysctl":{"dcos-app":{"net.core.somaxconn":"4096"}}}"#;
const UNIT: &str = "[Service]\nExecStart=/opt/mesosphere/bin/app\n";

/// Makes a pipe that nobody writes to.
pub(crate) fn pipe(path: &Utf8Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path.as_str(), fifo, mode, 0).unwrap();
}

/// A machine on which two packages are live and one more generation can be gone back to.
pub(crate) struct Site {
    world: World,
    users: Arc<People>,
    asked: Arc<Manager>,
    _filters: SettingsBindDropGuard,
}

/// While it lives, snapshots have no digests and sizes in them: they depend on where the test runs.
fn filters() -> SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[DIGEST]");
    settings.add_filter(r"\d+ bytes? long", "[SIZE] long");
    settings.bind_to_scope()
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::on(World::new())
    }

    fn on(mut world: World) -> Self {
        let (users, asked) = (Arc::<People>::default(), Arc::<Manager>::default());
        world.host.machine = Some(machine(&world.top, &users, &asked));
        world.host.switching.wait = false;
        world.has_roles(&["master"]);
        let files = [
            ("bin/app", "a program"),
            ("etc/app.conf", "key=value\n"),
            ("etc_master/role.conf", "master\n"),
            ("lib/app/data", "some data"),
            ("lib/app/latest@", "data"),
            ("share/empty/", ""),
            ("dcos.target.wants/dcos-app.service", UNIT),
        ];
        for archive in [
            world.archive("app--1", INFO, &files),
            world.archive(
                "base--1",
                "{}",
                &[("lib/base", "base"), ("bin/monobloc", "#!/bin/sh\n")],
            ),
            world.archive("old--1", "{}", &[("lib/old", "old")]),
        ] {
            offer(&world, &archive);
            world.add_archive(&archive, &host::store::Trust::default()).unwrap();
        }
        world.activate(&["old--1"]).unwrap();
        world.activate(&["app--1", "base--1"]).unwrap();
        asked.heard();
        Self { world, users, asked, _filters: filters() }
    }

    pub(crate) fn at(&self, path: &str) -> Utf8PathBuf {
        self.world.top.join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs_err::write(self.at(path), text).unwrap();
    }

    fn chmod(&self, path: &str, mode: u32) {
        fs_err::set_permissions(self.at(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn remove(&self, path: &str) {
        fs_err::remove_file(self.at(path)).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        drop(fs_err::remove_file(self.at(path)));
        fs_err::os::unix::fs::symlink(target, self.at(path)).unwrap();
    }

    fn audit_as(&self, depth: Depth) -> Report {
        self.world.host.audit(depth, &self.world.job()).unwrap()
    }

    pub(crate) fn audit(&self) -> Report {
        self.audit_as(Depth::Full)
    }

    /// What an audit finds, one a line.
    fn found(&self) -> String {
        self.lines(&self.audit())
    }

    fn lines(&self, report: &Report) -> String {
        let differences = report.differences.iter().map(ToString::to_string);
        let unchecked = report.unchecked.iter().map(|what| format!("not compared: {what}"));
        let lines: Vec<_> = differences.chain(unchecked).collect();
        lines.join("\n").replace(self.world.top.as_str(), "TOP")
    }

    pub(crate) fn source(&self) -> Source {
        let url = format!("file://{}/repo", self.world.top);
        let repository = Repository::parse(&url, &self.world.top).unwrap();
        Source { repository: Some(repository), key: None }
    }

    pub(crate) fn repair_from(&self, source: &Source) -> Repaired {
        self.world.host.repair(source, &self.world.job()).unwrap()
    }

    /// Repairs all, and returns what was done, one a line.
    fn repair(&self) -> String {
        let planned = self.world.host.plan_repair(&self.source(), &self.world.job()).unwrap();
        assert_eq!(planned.cannot, []);
        assert!(!planned.steps.is_empty());
        let repaired = self.repair_from(&self.source());
        assert_eq!(repaired.cannot, []);
        assert_eq!(self.lines(&repaired.report), "");
        assert_eq!(self.found(), "");
        assert_eq!(self.lines(&self.audit_as(Depth::Fast)), "");
        repaired.done.join("\n").replace(self.world.top.as_str(), "TOP")
    }
}

#[test]
fn a_host_that_nobody_touched_is_clean_and_has_the_digest_of_its_like() {
    let one = Site::new();
    let report = one.audit();
    assert_eq!(one.lines(&report), "");
    assert_eq!((report.generation, report.packages), (2, 3));
    assert!(report.bytes > 50);
    let fast = one.audit_as(Depth::Fast);
    assert_eq!((one.lines(&fast).as_str(), fast.digest), ("", None));
    let repaired = one.repair_from(&Source::default());
    assert_eq!((repaired.done, repaired.cannot), (Vec::new(), Vec::new()));
    assert_eq!(one.asked.heard(), Vec::<String>::new());
    // Another host, at the same place, that came there on another way.
    let world = one.world;
    for folder in ["root", "machine", "config", "repo", "archives"] {
        fs_err::remove_dir_all(world.top.join(folder)).unwrap();
    }
    let other = Site::on(world);
    other.world.activate(&["base--1"]).unwrap();
    other.world.activate(&["app--1", "base--1"]).unwrap();
    assert_ne!(other.audit().generation, report.generation);
    assert_eq!(other.audit().digest, report.digest);
}

#[test]
fn generations_and_times_do_not_count_for_the_digest_and_every_change_does() {
    let site = Site::new();
    let before = site.audit().digest.unwrap();
    site.world.activate(&["old--1"]).unwrap();
    let other = site.audit().digest.unwrap();
    assert_ne!(before, other);
    site.world.activate(&["app--1", "base--1"]).unwrap();
    let report = site.audit();
    assert_eq!((report.generation, report.digest), (4, Some(before)));
    site.write("root/packages/old--1/lib/old", "olD");
    let changed = site.audit().digest.unwrap();
    assert_ne!(changed, before);
    site.write("root/packages/old--1/lib/old", "oLd");
    assert_ne!(site.audit().digest.unwrap(), changed);
}

#[test]
fn one_byte_of_a_package_is_found_and_the_package_unpacked_again() {
    let site = Site::new();
    site.write("root/packages/app--1/bin/app", "a Program");
    let [should, is] = ["a program", "a Program"].map(|text| Sha256::of(text.as_bytes()));
    let path = "TOP/root/packages/app--1/bin/app";
    assert_eq!(site.found(), format!("{path}: should be SHA-256 {should}, is SHA-256 {is}"));
    let open = fs_err::File::open(site.at("root/packages/app--1/bin/app")).unwrap();
    assert_snapshot!(site.repair(), @"unpack package `app--1` again from the repository");
    assert_eq!(fs_err::read_to_string(site.at("root/bin/app")).unwrap(), "a program");
    assert_eq!(std::io::read_to_string(open).unwrap(), "a Program");
    assert_eq!(site.asked.heard(), Vec::<String>::new());
    assert_eq!(site.world.stored(), ["app--1", "base--1", "old--1"]);
    let history = site.world.host.history().read().unwrap();
    assert_snapshot!(format!("{:?}", history.last().unwrap().what), @r#"Repaired { what: ["unpack package `app--1` again from the repository"] }"#);
}

#[test]
fn folders_that_others_can_write_to_are_found_and_closed() {
    let site = Site::new();
    for folder in ["root", "root/packages", "root/generations"] {
        site.chmod(folder, 0o777);
    }
    assert_snapshot!(site.found(), @"
    TOP/root: should be mode 0755, is mode 0777
    TOP/root/generations: should be mode 0755, is mode 0777
    TOP/root/packages: should be mode 0755, is mode 0777
    ");
    let repaired = site.repair_from(&Source::default());
    assert_eq!(repaired.cannot, []);
    assert!(repaired.report.is_clean(), "{:?}", repaired.report);
}

#[test]
fn modes_links_and_what_was_added_are_put_right_without_a_repository() {
    let site = Site::new();
    site.chmod("root/packages/app--1/etc/app.conf", 0o666);
    site.chmod("root/packages/app--1", 0o777);
    site.chmod("root/packages/app--1/manifest.json", 0o600);
    site.chmod("root/packages/app--1/lib", 0o700);
    site.link("root/packages/app--1/lib/app/latest", "/etc/passwd");
    fs_err::create_dir(site.at("root/packages/app--1/lib/more")).unwrap();
    site.write("root/packages/app--1/lib/more/file", "more");
    site.write("root/packages/base--1/more", "more");
    assert_snapshot!(site.found(), @"
    TOP/root/packages/app--1: should be mode 0755, is mode 0777
    TOP/root/packages/app--1/etc/app.conf: should be mode 0644, is mode 0666
    TOP/root/packages/app--1/lib: should be mode 0755, is mode 0700
    TOP/root/packages/app--1/lib/app/latest: should be a link to `data`, is a link to `/etc/passwd`
    TOP/root/packages/app--1/lib/more: should be nothing, is a folder
    TOP/root/packages/app--1/manifest.json: should be mode 0644, is mode 0600
    TOP/root/packages/base--1/more: should be nothing, is a file
    ");
    let repaired = site.repair_from(&Source::default());
    assert_eq!(repaired.cannot, []);
    assert!(repaired.report.is_clean(), "{:?}", repaired.report);
    assert_snapshot!(repaired.done.join("\n").replace(site.world.top.as_str(), "TOP"), @"
    give `TOP/root/packages/app--1` mode 0755
    give `TOP/root/packages/app--1/etc/app.conf` mode 0644
    give `TOP/root/packages/app--1/lib` mode 0755
    give `TOP/root/packages/app--1/manifest.json` mode 0644
    make the link `TOP/root/packages/app--1/lib/app/latest` to `data`
    remove `TOP/root/packages/app--1/lib/more`
    remove `TOP/root/packages/base--1/more`
    ");
}

#[test]
fn what_is_missing_or_of_another_kind_is_found_and_nothing_is_waited_for() {
    let site = Site::new();
    let package = "root/packages/app--1";
    for path in ["bin/app", "etc/app.conf", "lib/app/latest"] {
        site.remove(&format!("{package}/{path}"));
    }
    pipe(&site.at(&format!("{package}/etc/app.conf")));
    pipe(&site.at(&format!("{package}/etc/other")));
    fs_err::remove_dir_all(site.at(&format!("{package}/lib/app"))).unwrap();
    fs_err::remove_dir(site.at(&format!("{package}/share/empty"))).unwrap();
    site.link(&format!("{package}/share/empty"), "/etc");
    let socket = std::os::unix::net::UnixListener::bind(site.at(&format!("{package}/socket")));
    drop(socket.unwrap());
    let name = std::ffi::OsStr::from_bytes(b"not\xfftext\n");
    fs_err::write(site.at(package).as_std_path().join(name), "").unwrap();
    let deep = format!("{package}/deep{}", "/d".repeat(1500));
    fs_err::create_dir_all(site.at(&deep)).unwrap();
    fs_err::remove_dir_all(site.at("root/packages/base--1")).unwrap();
    pipe(&site.at("root/packages/base--1"));
    assert_snapshot!(site.found(), @r"
    TOP/root/packages/app--1/bin/app: should be a file, is nothing
    TOP/root/packages/app--1/deep: should be nothing, is a folder
    TOP/root/packages/app--1/etc/app.conf: should be a file, is a pipe
    TOP/root/packages/app--1/etc/other: should be nothing, is a pipe
    TOP/root/packages/app--1/lib/app: should be a folder, is nothing
    TOP/root/packages/app--1/not\xfftext\n: should be nothing, is a file
    TOP/root/packages/app--1/share/empty: should be a folder, is a link
    TOP/root/packages/app--1/socket: should be nothing, is a socket
    TOP/root/packages/base--1: should be a package, is a pipe
    not compared: the folder of generation 2 and what it asks of this machine: not all packages are what they should be
    ");
    assert_snapshot!(site.lines(&site.audit_as(Depth::Fast)), @r"
    TOP/root/packages/app--1/bin/app: should be a file, is nothing
    TOP/root/packages/app--1/deep: should be nothing, is a folder
    TOP/root/packages/app--1/etc/app.conf: should be a file, is a pipe
    TOP/root/packages/app--1/etc/other: should be nothing, is a pipe
    TOP/root/packages/app--1/lib/app: should be a folder, is nothing
    TOP/root/packages/app--1/not\xfftext\n: should be nothing, is a file
    TOP/root/packages/app--1/share/empty: should be a folder, is a link
    TOP/root/packages/app--1/socket: should be nothing, is a socket
    TOP/root/packages/base--1: should be a package, is a pipe
    not compared: the folder of generation 2 and what it asks of this machine: not all packages are what they should be
    ");
    assert_snapshot!(site.repair(), @"
    unpack package `app--1` again from the repository
    unpack package `base--1` again from the repository
    ");
}

#[test]
fn a_pipe_in_the_place_of_what_describes_a_package_or_a_generation_is_not_read() {
    for path in [
        "packages/app--1/pkginfo.json",
        "packages/app--1/manifest.json",
        "packages/app--1/dcos.target.wants/dcos-app.service",
        "generations/2/environment",
        "generations/2/generation.json",
    ] {
        let site = Site::new();
        let path = format!("root/{path}");
        site.remove(&path);
        pipe(&site.at(&path));
        assert_eq!(site.audit().differences.len(), 1, "{path}");
        site.repair();
    }
}

#[test]
fn a_pipe_in_the_place_of_the_receipt_or_the_history_is_not_read() {
    let site = Site::new();
    for path in ["root/receipt.json", "root/log/history.jsonl"] {
        site.remove(path);
        pipe(&site.at(path));
    }
    assert_snapshot!(site.found(), @"TOP/root/receipt.json: should be a receipt, is something that cannot be read (it is no file)");
    site.remove("root/generations/2/generation.json");
    let error = site.world.host.audit(Depth::Full, &site.world.job()).unwrap_err();
    assert_snapshot!(site.world.said(&error), @"generation 2 is incomplete: it has no `generation.json`: it is nothing");
}

#[test]
fn a_manifest_must_be_the_one_that_the_generation_was_made_with() {
    let site = Site::new();
    let path = "root/packages/app--1/manifest.json";
    let text = fs_err::read_to_string(site.at(path)).unwrap();
    site.write(path, &text.replace("0755", "0777"));
    let found = site.found();
    assert_eq!(found.lines().count(), 2, "{found}");
    assert!(
        found.starts_with("TOP/root/packages/app--1/manifest.json: should be SHA-256 "),
        "{found}"
    );
    assert_snapshot!(site.repair(), @"unpack package `app--1` again from the repository");
}

#[test]
fn without_a_repository_everything_else_is_repaired_and_the_rest_listed() {
    let site = Site::new();
    site.write("root/packages/app--1/bin/app", "other");
    site.chmod("root/packages/app--1/etc/app.conf", 0o666);
    site.write("root/packages/old--1/lib/old", "new");
    site.write("machine/units/dcos-app.service", "changed");
    let repaired = site.repair_from(&Source::default());
    let cannot: Vec<_> =
        repaired.cannot.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
    assert_snapshot!(cannot.join("\n").replace(site.world.top.as_str(), "TOP"), @"
    TOP/root/packages/app--1/bin/app: should be [SIZE] long, is [SIZE] long: no repository to get its package from: name one with `--repository-url`
    TOP/root/packages/old--1/lib/old: should be SHA-256 [DIGEST], is SHA-256 [DIGEST]: no repository to get its package from: name one with `--repository-url`
    ");
    assert_snapshot!(repaired.done.join("\n").replace(site.world.top.as_str(), "TOP"), @"
    give `TOP/root/packages/app--1/etc/app.conf` mode 0644
    write `TOP/machine/units/dcos-app.service`
    restart `dcos-app.service`, whose unit had another text
    ");
    assert_eq!(repaired.report.differences.len(), 2);
    // With one that has another package under the same name nothing changes either.
    let other = site.world.archive("app--1", INFO, &[("bin/app", "another")]);
    offer(&site.world, &other);
    let repaired = site.repair_from(&site.source());
    assert_eq!(repaired.cannot.len(), 1, "{:?}", repaired.cannot);
    assert!(repaired.cannot[0].why.contains("digest"), "{:?}", repaired.cannot);
    assert_eq!(fs_err::read_to_string(site.at("root/bin/app")).unwrap(), "other");
    assert_eq!(site.world.stored(), ["app--1", "base--1", "old--1"]);
}

#[test]
fn the_folder_of_the_generation_is_compared_with_what_its_packages_make_it() {
    let site = Site::new();
    let generation = "root/generations/2";
    site.link(&format!("{generation}/bin/app"), "/bin/sh");
    site.remove(&format!("{generation}/etc/role.conf"));
    site.write(&format!("{generation}/environment"), "PATH=/tmp\n");
    site.write(&format!("{generation}/dcos.target.wants/dcos-app.service"), "[Service]\n");
    site.write(&format!("{generation}/etc/extra"), "");
    site.chmod(&format!("{generation}/environment.export"), 0o666);
    fs_err::remove_dir_all(site.at(&format!("{generation}/active"))).unwrap();
    let record = fs_err::read_to_string(site.at(&format!("{generation}/generation.json"))).unwrap();
    site.write(
        &format!("{generation}/generation.json"),
        &record.replace("\"from\":1", "\"from\":0"),
    );
    assert_snapshot!(site.found(), @"
    TOP/root/generations/2/active: should be a folder, is nothing
    TOP/root/generations/2/bin/app: should be a link to `../active/app/bin/app`, is a link to `/bin/sh`
    TOP/root/generations/2/dcos.target.wants/dcos-app.service: should be [SIZE] long, is [SIZE] long
    TOP/root/generations/2/environment: should be [SIZE] long, is [SIZE] long
    TOP/root/generations/2/environment.export: should be mode 0644, is mode 0666
    TOP/root/generations/2/etc/extra: should be nothing, is a file
    TOP/root/generations/2/etc/role.conf: should be a link, is nothing
    TOP/root/generations/2/generation.json: should be SHA-256 [DIGEST], is SHA-256 [DIGEST]
    ");
    assert_snapshot!(site.repair(), @"
    give `TOP/root/generations/2/environment.export` mode 0644
    make the folder `active` of the generation
    make the link `TOP/root/generations/2/bin/app` to `../active/app/bin/app`
    write `TOP/root/generations/2/dcos.target.wants/dcos-app.service`
    write `TOP/root/generations/2/environment`
    remove `TOP/root/generations/2/etc/extra`
    make the link `TOP/root/generations/2/etc/role.conf` to `../active/app/etc_master/role.conf`
    write `TOP/root/generations/2/generation.json`
    ");
    assert_eq!(
        fs_err::read_to_string(site.at(&format!("{generation}/generation.json"))).unwrap(),
        record
    );
}

#[test]
fn links_of_the_install_root_are_found_and_made_again() {
    let site = Site::new();
    site.remove("root/bin");
    site.link("root/etc", "/etc");
    site.remove("root/environment");
    site.write("root/environment", "mine");
    assert_snapshot!(site.found(), @"
    TOP/root/bin: should be a link to `current/bin`, is nothing
    TOP/root/environment: should be a link to `current/environment`, is a file
    TOP/root/etc: should be a link to `current/etc`, is a link to `/etc`
    ");
    assert_snapshot!(site.repair(), @"
    make the link `TOP/root/bin` to `current/bin`
    make the link `TOP/root/environment` to `current/environment`
    make the link `TOP/root/etc` to `current/etc`
    ");
    site.remove("root/current");
    assert_snapshot!(site.found(), @"TOP/root/current: should be a link to `generations/2`, is nothing");
    assert_snapshot!(site.repair(), @"make generation 2 live");
    site.link("root/current", "generations/77");
    assert_snapshot!(site.found(), @"TOP/root/current: should be a link to `generations/2`, is a link to `generations/77`, which is not there");
    site.repair();
    site.link("root/current", "/tmp");
    site.repair();
    assert_eq!(site.world.live(), 2);
}

#[test]
fn a_record_that_cannot_be_read_is_made_again_of_the_links_and_the_history() {
    let site = Site::new();
    site.write("root/generations/2/generation.json", "{\"format\":1");
    assert_snapshot!(site.found(), @"TOP/root/generations/2/generation.json: should be [SIZE] long, is [SIZE] long");
    assert_snapshot!(site.repair(), @"write `TOP/root/generations/2/generation.json`");
    assert_eq!(site.world.active(), ["app--1", "base--1"]);
    site.write("root/generations/1/generation.json", "");
    assert_snapshot!(site.found(), @"TOP/root/generations/1/generation.json: should be the record of generation 1, is `TOP/root/generations/1/generation.json` is damaged: EOF while parsing a value at line 1 column 0");
    let repaired = site.repair_from(&site.source());
    assert_snapshot!(repaired.cannot[0].why, @"`monobloc host collect` removes generation 1");
}

#[test]
fn units_and_what_wants_them_are_put_right_and_only_what_changed_restarts() {
    let site = Site::new();
    site.remove("machine/units/dcos.target.wants/dcos-app.service");
    site.link("machine/units/dcos.target.wants/evil.service", "../evil.service");
    site.write("machine/units/dcos.target", "[Unit]\n");
    site.chmod("machine/units/dcos-setup.service", 0o666);
    site.remove("machine/etc/profile.d/dcos.sh");
    site.link("machine/units/multi-user.target.wants/dcos.target", "../dcos.target");
    assert_snapshot!(site.found(), @"
    TOP/machine/etc/profile.d/dcos.sh: should be a link to `TOP/root/environment.export`, is nothing
    TOP/machine/units/dcos-setup.service: should be mode 0644, is mode 0666
    TOP/machine/units/dcos.target: should be SHA-256 [DIGEST], is SHA-256 [DIGEST]
    TOP/machine/units/dcos.target.wants/dcos-app.service: should be a link to `../dcos-app.service`, is nothing
    TOP/machine/units/dcos.target.wants/evil.service: should be nothing, is a link to `../evil.service`
    TOP/machine/units/multi-user.target.wants/dcos.target: should be nothing, is a link to `../dcos.target`
    ");
    assert_snapshot!(site.repair(), @"
    remove `TOP/machine/units/multi-user.target.wants/dcos.target`
    remove `TOP/machine/units/dcos.target.wants/evil.service`
    write `TOP/machine/units/dcos-setup.service`
    write `TOP/machine/units/dcos.target`
    make the link `TOP/machine/etc/profile.d/dcos.sh` to `TOP/root/environment.export`
    make the link `TOP/machine/units/dcos.target.wants/dcos-app.service` to `../dcos-app.service`
    ");
    assert_eq!(site.asked.heard(), ["reload"]);
    site.write("machine/units/dcos-app.service", &format!("{UNIT}User=root\n"));
    let planned = site.world.host.plan_repair(&site.source(), &site.world.job()).unwrap();
    assert_snapshot!(planned.steps.join("\n").replace(site.world.top.as_str(), "TOP"), @"
    write `TOP/machine/units/dcos-app.service`
    restart `dcos-app.service` if it runs
    ");
    assert_snapshot!(site.found(), @"TOP/machine/units/dcos-app.service: should be SHA-256 [DIGEST], is SHA-256 [DIGEST]");
    assert_snapshot!(site.repair(), @"
    write `TOP/machine/units/dcos-app.service`
    restart `dcos-app.service`, whose unit had another text
    ");
    assert_eq!(site.asked.heard(), ["reload", "stop dcos-app.service", "start dcos-app.service"]);
}

#[test]
fn users_state_kernel_settings_and_roles_are_compared() {
    let site = Site::new();
    site.users.remove("dcos_app").unwrap();
    site.chmod("machine/state/app", 0o777);
    site.write("machine/kernel/net/core/somaxconn", "128\n");
    assert_snapshot!(site.found(), @"
    TOP/machine/state/app: should be mode 0755 or less, is mode 0777
    kernel setting net.core.somaxconn: should be `4096`, is `128`
    user dcos_app: should be a user of this machine, is unknown
    ");
    assert_snapshot!(site.repair(), @"
    give `TOP/machine/state/app` mode 0755
    make the user `dcos_app`
    give `TOP/machine/state/app` to its user
    set `net.core.somaxconn` to `4096`
    ");
    fs_err::remove_dir(site.at("machine/state/app")).unwrap();
    assert_snapshot!(site.found(), @"TOP/machine/state/app: should be a folder, is nothing");
    site.repair();
    site.users.change("dcos_app", |account| account.groups = vec!["other".to_owned()]);
    site.world.has_roles(&["slave"]);
    assert_snapshot!(site.found(), @"
    TOP/config/roles: should be `master`, is `slave`
    user dcos_app: should be in the group `daemons`, is in `other`
    ");
    site.write("machine/kernel/net/core/somaxconn", "128\n");
    let repaired = site.repair_from(&site.source());
    assert_snapshot!(repaired.done.join("\n"), @"set `net.core.somaxconn` to `4096`");
    let cannot: Vec<_> =
        repaired.cannot.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
    assert_snapshot!(cannot.join("\n").replace(site.world.top.as_str(), "TOP"), @"
    TOP/config/roles: should be `master`, is `slave`: `monobloc host setup` makes a generation for other roles
    this machine: user `dcos_app` is not in group `daemons`; add it, or remove the user
    ");
}

#[test]
fn owners_are_compared_by_who_can_change_them() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let site = Site::new();
    let give = |path: &str| {
        fs_err::os::unix::fs::lchown(site.at(path), Some(4321), None).unwrap();
    };
    for path in [
        "root/packages/app--1/bin/app",
        "root/packages/app--1/lib",
        "root/generations/2/environment",
        "machine/units/dcos-app.service",
        "machine/state/app",
    ] {
        give(path);
    }
    site.chmod("root/packages/app--1/bin/app", 0o4755);
    assert_snapshot!(site.found(), @"
    TOP/machine/state/app: should be owned by `dcos_app`, is owned by user 4321
    TOP/machine/units/dcos-app.service: should be owned by user 0, is owned by user 4321
    TOP/root/generations/2/environment: should be owned by user 0, is owned by user 4321
    TOP/root/packages/app--1/bin/app: should be mode 0755, is mode 4755
    TOP/root/packages/app--1/bin/app: should be owned by user 0, is owned by user 4321
    TOP/root/packages/app--1/lib: should be owned by user 0, is owned by user 4321
    ");
    assert_snapshot!(site.repair(), @"
    give `TOP/machine/units/dcos-app.service` to user 0
    give `TOP/root/generations/2/environment` to user 0
    give `TOP/root/packages/app--1/bin/app` to user 0
    give `TOP/root/packages/app--1/lib` to user 0
    give `TOP/root/packages/app--1/bin/app` mode 0755
    give `TOP/machine/state/app` to its user
    ");
}

#[test]
fn the_program_for_boot_is_the_one_that_the_generation_brings() {
    let site = Site::new();
    site.write("root/tool/monobloc", "#!/bin/sh\nexit 1\n");
    site.chmod("root/tool/monobloc", 0o777);
    let found = site.found();
    assert_eq!(found.lines().count(), 2, "{found}");
    assert!(found.starts_with("TOP/root/tool/monobloc: should be SHA-256 "), "{found}");
    assert_snapshot!(site.repair(), @"
    give `TOP/root/tool/monobloc` mode 0755
    renew `TOP/root/tool/monobloc`
    ");
    site.remove("root/tool/monobloc");
    assert_snapshot!(site.found(), @"TOP/root/tool/monobloc: should be a file, is nothing");
    site.repair();
}

#[test]
fn the_receipt_must_know_everything_that_was_made() {
    let site = Site::new();
    let text = fs_err::read_to_string(site.at("root/receipt.json")).unwrap();
    let unit = site.at("machine/units/dcos-app.service");
    site.write("root/receipt.json", &text.replace(&format!("\"{unit}\","), ""));
    assert_snapshot!(site.found(), @"TOP/root/receipt.json: should be a line for `TOP/machine/units/dcos-app.service`, is without one");
    site.repair();
    assert_eq!(fs_err::read_to_string(site.at("root/receipt.json")).unwrap(), text);
}

#[test]
fn a_fast_audit_finds_what_was_written_to() {
    let site = Site::new();
    site.write("root/packages/base--1/lib/base", "bass");
    assert_snapshot!(site.lines(&site.audit_as(Depth::Fast)), @"TOP/root/packages/base--1/lib/base: should be untouched since it was unpacked, is written to since");
    site.write("root/packages/base--1/lib/base", "base");
    assert_eq!(site.found(), "");
    assert_eq!(site.audit_as(Depth::Fast).differences.len(), 1);
    assert_snapshot!(site.repair(), @"give `TOP/root/packages/base--1/lib/base` the time of its package");
}

#[test]
fn an_audit_can_be_cancelled_and_needs_something_that_is_live() {
    let world = World::new();
    let error = world.host.audit(Depth::Full, &world.job()).unwrap_err();
    assert!(matches!(error, HostError::NotBootstrapped(_)), "{error}");
    let site = Site::new();
    site.world.cancel.cancel();
    let error = site.world.host.audit(Depth::Full, &site.world.job()).unwrap_err();
    assert!(matches!(error, HostError::Cancelled(_)), "{error}");
}

#[test]
fn an_audit_waits_for_whoever_changes_the_host() {
    let site = Site::new();
    let job = site.world.job();
    let lock = site.world.host.lock(&job).unwrap();
    let cancelling = CancelAt("Waiting", &site.world.cancel);
    let error = site
        .world
        .host
        .audit(Depth::Full, &site.world.job_for("an audit", &cancelling))
        .unwrap_err();
    assert!(matches!(error, HostError::Cancelled(_)), "{error}");
    drop(lock);
}

/// A host with a package that was made on it.
fn with_late(value: &str) -> World {
    let world = bootstrapped();
    let package = "package:\n- path: /etc/late.conf\n  content: |\n    secret=\
        LATE_BIND_PLACEHOLDER_START_secret_LATE_BIND_PLACEHOLDER_END\n  permissions: '0600'\n";
    let file = world.top.join("late--setup.dcos_config");
    fs_err::write(&file, package).unwrap();
    offer(&world, &file);
    world.flag(
        "late-config.yaml",
        &format!(
            "late_bound_package_id: late--setup\nbound_values:\n  secret: {value}\n  unused: x\n"
        ),
    );
    world.flag("active.json", r#"["a--1"]"#);
    setup(&world).unwrap();
    world
}

#[test]
fn a_package_that_was_made_here_is_made_again_from_what_is_recorded() {
    let world = with_late("swordfish");
    let record = world.root().join("late/late--setup.json");
    let mode = |path: &Utf8Path| fs_err::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&record), mode(record.parent().unwrap())), (0o600, 0o700));
    let text = fs_err::read_to_string(&record).unwrap();
    assert!(text.contains("swordfish") && !text.contains("unused"), "{text}");
    let site = Site { world, users: Arc::default(), asked: Arc::default(), _filters: filters() };
    let digest = site.audit().digest;
    assert_eq!(site.found(), "");
    site.write("root/packages/late--setup/etc/late.conf", "secret=tuna\n");
    assert_snapshot!(site.found(), @"TOP/root/packages/late--setup/etc/late.conf: should be [SIZE] long, is [SIZE] long");
    let repaired = site.repair_from(&Source::default());
    assert!(repaired.report.is_clean(), "{:?}", repaired.report);
    assert_snapshot!(repaired.done.join("\n"), @"make package `late--setup` again from its recorded inputs");
    assert_eq!(site.audit().digest, digest);
    site.chmod("root/late/late--setup.json", 0o644);
    assert_snapshot!(site.found(), @"TOP/root/late/late--setup.json: should be mode 0600, is mode 0644");
    site.repair();
    site.write("root/late/late--setup.json", &text.replace("swordfish", "tuna"));
    assert_snapshot!(site.found(), @"TOP/root/late/late--setup.json: should be what package `late--setup` was made of, is something else");
    let repaired = site.repair_from(&site.source());
    assert_eq!(repaired.cannot.len(), 1);
    site.remove("root/late/late--setup.json");
    assert_snapshot!(site.found(), @"not compared: what package `late--setup` was made of is not recorded");
}

#[test]
fn a_record_of_inputs_goes_with_its_package() {
    let world = with_late("1");
    world.activate(&["a--1"]).unwrap();
    let id = "late--setup".parse().unwrap();
    world.host.remove(&id, true, &world.job()).unwrap();
    assert!(!world.root().join("late/late--setup.json").exists());
}
