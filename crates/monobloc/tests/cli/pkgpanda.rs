//! `pkgpanda`, as scripts that were written for the reference call it: every byte of what it says.

mod check;
mod live;

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use insta::assert_snapshot;
use testing::archive::tar;
use testing::files::write_files;
use testing::http::{Answer, HttpServer};

use crate::test_env::{TestEnv, succeed};

const PLAIN: &str = r#"{"requires":[],"variant":null}"#;

/// An installation in `opt`, with its packages in `packages` and its configuration in `config`.
struct Install {
    env: TestEnv,
}

impl Install {
    fn new() -> Self {
        let env = TestEnv::new();
        fs_err::os::unix::fs::symlink(
            assert_cmd::cargo::cargo_bin!("monobloc"),
            env.path("pkgpanda"),
        )
        .unwrap();
        Self { env }
    }

    /// One with `base--1`, `app--1` and `app--2` in its repository; the apps require the base.
    fn with_packages() -> Self {
        let install = Self::new();
        let app = |text| [("bin/app", text, 0o755)];
        let requires = r#"{"requires":["base"],"environment":{"APP":"a b","LEVEL":"3"}}"#;
        install.pack(".", "base--1", PLAIN, &[("lib/libbase.so", "base", 0o644)]);
        install.pack(".", "app--1", requires, &app("one"));
        install.pack(".", "app--2", requires, &app("two"));
        for id in ["base--1", "app--1", "app--2"] {
            assert_eq!(install.run(&["add", &format!("{id}.tar.zst")]), "exit 0\n");
        }
        install
    }

    /// The same, with `base--1` and `app--1` active.
    fn with_active() -> Self {
        let install = Self::with_packages();
        assert_eq!(install.run(&["activate", "base--1", "app--1"]), "exit 0\n");
        install
    }

    /// Packs a package of this program into a folder.
    fn pack(&self, folder: &str, id: &str, info: &str, files: &[(&str, &str, u32)]) {
        let mut files = files.to_vec();
        files.push(("pkginfo.json", info, 0o644));
        self.env.pack(&format!("{folder}/{id}.tar.zst"), &files);
    }

    /// Packs a package as the reference did: xz, with no manifest in it.
    fn pack_xz(&self, folder: &str, id: &str, files: &[(&str, &str, u32)]) {
        let path = self.env.path(&format!("{folder}/{id}.tar"));
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, tar(files).unwrap()).unwrap();
        succeed(&mut self.env.command("xz", &[path.as_str()]));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.env.command(self.env.path("pkgpanda").as_str(), arguments);
        command.args(["--root=opt", "--repository=packages", "--config-dir=config"]);
        command
    }

    /// How a command ends and everything it says, `out` before the lines of standard output and
    /// `err` before those of standard error, with the bytes that cannot be seen.
    fn run(&self, arguments: &[&str]) -> String {
        show_bytes(&mut self.command(arguments))
    }

    /// The same without the options that say where everything is.
    fn bare(&self, arguments: &[&str]) -> String {
        show_bytes(&mut self.env.command(self.env.path("pkgpanda").as_str(), arguments))
    }

    fn write(&self, path: &str, text: &str) {
        write_files(&self.env.path("."), &[(path, text, 0o644)]).unwrap();
    }

    fn exists(&self, path: &str) -> bool {
        fs_err::symlink_metadata(self.env.path(path)).is_ok()
    }
}

fn show_bytes(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let mut shown = format!("exit {}\n", output.status.code().unwrap());
    for (stream, bytes) in [("out", output.stdout), ("err", output.stderr)] {
        for line in String::from_utf8(bytes).unwrap().split_inclusive('\n') {
            writeln!(shown, "{stream} {line:?}").unwrap();
        }
    }
    shown
}

#[test]
fn help_is_an_answer_and_wrong_use_is_the_usage() {
    let install = Install::new();
    assert_snapshot!(install.bare(&["--help"]), @r#"
    exit 0
    out "The packages of this host, under the name and with the words of the reference\n"
    out "\n"
    out "Usage:\n"
    out "  pkgpanda activate ID... [options]\n"
    out "  pkgpanda swap ID [options]\n"
    out "  pkgpanda active [options]\n"
    out "  pkgpanda fetch --repository-url=URL ID... [options]\n"
    out "  pkgpanda add TARBALL [options]\n"
    out "  pkgpanda list [options]\n"
    out "  pkgpanda remove ID... [options]\n"
    out "  pkgpanda setup [options]\n"
    out "  pkgpanda uninstall [options]\n"
    out "  pkgpanda check [--list] [options]\n"
    out "\n"
    out "Options:\n"
    out "  --config-dir=FOLDER      The roles and setup flags of this machine [default: /etc/mesosphere]\n"
    out "  --list                   Only list the checks\n"
    out "  --no-systemd             Leave services alone\n"
    out "  --no-block-systemd       Do not wait until services are up\n"
    out "  --root=FOLDER            The install root [default: /opt/mesosphere]\n"
    out "  --repository=FOLDER      The unpacked packages [default: /opt/mesosphere/packages]\n"
    out "  --state-dir-root=FOLDER  Where packages keep their state [default: /var/lib/dcos]\n"
    out "  --rooted-systemd         Keep the links to units in ROOT/dcos.target.wants\n"
    out "  --silent                 Say nothing but what was asked for, and errors\n"
    out "  -h --help                Show this\n"
    "#);
    assert_eq!(install.bare(&["-h"]), install.bare(&["--help"]));
    assert_eq!(install.bare(&["list", "more", "-h"]), install.bare(&["--help"]));
    assert_snapshot!(install.bare(&[]), @r#"
    exit 1
    err "Usage:\n"
    err "  pkgpanda activate ID... [options]\n"
    err "  pkgpanda swap ID [options]\n"
    err "  pkgpanda active [options]\n"
    err "  pkgpanda fetch --repository-url=URL ID... [options]\n"
    err "  pkgpanda add TARBALL [options]\n"
    err "  pkgpanda list [options]\n"
    err "  pkgpanda remove ID... [options]\n"
    err "  pkgpanda setup [options]\n"
    err "  pkgpanda uninstall [options]\n"
    err "  pkgpanda check [--list] [options]\n"
    "#);
    let usage = install.bare(&[]);
    for wrong in [
        &["bogus"][..],
        &["--version"],
        &["activate"],
        &["swap", "a--1", "b--1"],
        &["fetch", "a--1"],
        &["list", "--repository-url=x"],
        &["list", "--bogus"],
        &["list", "-x"],
        &["list", "more"],
    ] {
        assert_eq!(install.bare(wrong), usage, "{wrong:?}");
    }
}

#[test]
fn a_wrong_option_is_told_in_one_line_before_the_usage() {
    let install = Install::new();
    let first = |arguments: &[&str]| {
        let shown = install.bare(arguments);
        shown.lines().take(3).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(first(&["list", "--repo=x"]), @r#"
    exit 1
    err "--repo is not a unique prefix: --repository, --repository-url?\n"
    err "Usage:\n"
    "#);
    assert_snapshot!(first(&["list", "--no"]), @r#"
    exit 1
    err "--no is not a unique prefix: --no-systemd, --no-block-systemd?\n"
    err "Usage:\n"
    "#);
    assert_snapshot!(first(&["list", "--root"]), @r#"
    exit 1
    err "--root requires argument\n"
    err "Usage:\n"
    "#);
    assert_snapshot!(first(&["list", "--silent=yes"]), @r#"
    exit 1
    err "--silent must not have an argument\n"
    err "Usage:\n"
    "#);
    assert_snapshot!(first(&["fetch", "a--1", "--repository-url"]), @r#"
    exit 1
    err "--repository-url requires argument\n"
    err "Usage:\n"
    "#);
}

#[test]
fn options_stand_anywhere_and_may_be_cut_short() {
    let install = Install::with_packages();
    let listed = install.run(&["list"]);
    let places = ["--root=opt", "--config-dir=config"];
    for arguments in [
        &["--repository", "packages", "list"][..],
        &["list", "--repository", "packages"],
        &["--repository=packages", "list", "--silent"],
        &["--repository=packages/", "list", "--sil"],
        &[
            "--no-systemd",
            "--no-block-systemd",
            "list",
            "--rooted-systemd",
            "--repository=packages",
        ],
        &["--st", "state", "list", "--repository=packages"],
        &["--no-s", "--no-b", "--roote", "list", "--repository=packages"],
    ] {
        let arguments = [arguments, &places].concat();
        assert_eq!(install.bare(&arguments), listed, "{arguments:?}");
    }
}

#[test]
fn the_program_answers_to_its_old_name_as_a_command_too() {
    let install = Install::with_packages();
    let places = ["--root=opt", "--repository=packages", "--config-dir=config"];
    let arguments = [&["pkgpanda", "list"][..], &places].concat();
    assert_eq!(show_bytes(&mut install.env.monobloc(&arguments)), install.run(&["list"]));
    let wrong = show_bytes(&mut install.env.monobloc(&["pkgpanda", "--json", "list"]));
    assert_eq!(wrong, install.bare(&[]));
}

#[test]
fn list_puts_versions_of_one_name_below_it() {
    let install = Install::with_packages();
    assert_snapshot!(install.run(&["list"]), @r#"
    exit 0
    out "app:\n"
    out "  1\n"
    out "  2\n"
    out "base--1\n"
    "#);
    // By bytes `app+` is before `app-`; what is no package or was not finished is not there.
    install.pack(".", "app+--1", PLAIN, &[]);
    install.run(&["add", "app+--1.tar.zst"]);
    for left in ["packages/app--3_tmp/bin/app", "packages/a---b/pkginfo.json", "packages/x--1"] {
        install.write(left, "");
    }
    assert_snapshot!(install.run(&["list", "--silent"]), @r#"
    exit 0
    out "app+--1\n"
    out "app:\n"
    out "  1\n"
    out "  2\n"
    out "base--1\n"
    "#);
}

#[test]
fn list_of_no_repository_is_empty() {
    let install = Install::new();
    assert_eq!(install.run(&["list"]), "exit 0\n");
    assert!(!install.exists("packages"));
}

#[test]
fn active_tells_what_is_active_in_order() {
    let install = Install::with_active();
    assert_snapshot!(install.run(&["active"]), @r#"
    exit 0
    out "app--1\n"
    out "base--1\n"
    "#);
}

#[test]
fn active_tells_a_root_with_nothing_from_a_broken_one() {
    let install = Install::new();
    assert_snapshot!(install.run(&["active"]), @r#"
    exit 1
    err "ERROR: nothing is active in `[TEMP]/opt`: it was not bootstrapped\n"
    "#);
    for left in ["active.new", "active.old"] {
        fs_err::create_dir_all(install.env.path("opt").join(left)).unwrap();
        let shown = install.run(&["active"]);
        fs_err::remove_dir(install.env.path("opt").join(left)).unwrap();
        insta::allow_duplicates! {
            assert_snapshot!(shown.replace(left, "active.X"), @r#"
            exit 1
            err "ERROR: `[TEMP]/opt` was left broken by a deploy of another program: there is no `active`, but `active.X`\n"
            "#);
        }
    }
    fs_err::create_dir_all(install.env.path("opt/active.new")).unwrap();
    let broken = install.run(&["active"]);
    for arguments in [&["swap", "app--1"][..], &["remove", "app--1"]] {
        assert_eq!(install.run(arguments), broken, "{arguments:?}");
    }
}

#[test]
fn active_reads_what_the_reference_left() {
    let install = Install::new();
    for id in ["b--1", "a--2"] {
        install.write(&format!("packages/{id}/pkginfo.json"), "{}");
        fs_err::create_dir_all(install.env.path("opt/active")).unwrap();
        let name = id.split_once("--").unwrap().0;
        fs_err::os::unix::fs::symlink(
            install.env.path("packages").join(id),
            install.env.path("opt/active").join(name),
        )
        .unwrap();
    }
    assert_snapshot!(install.run(&["active"]), @r#"
    exit 0
    out "a--2\n"
    out "b--1\n"
    "#);
}

#[test]
fn add_says_nothing_or_that_it_is_there() {
    let install = Install::new();
    install.pack("in", "a--1", PLAIN, &[("bin/a", "a", 0o755)]);
    install.pack_xz("in", "b--1", &[("pkginfo.json", "{}", 0o644), ("./bin/b", "b", 0o755)]);
    assert_eq!(install.run(&["add", "in/a--1.tar.zst"]), "exit 0\n");
    assert_eq!(install.run(&["add", "in/b--1.tar.xz"]), "exit 0\n");
    for archive in ["in/a--1.tar.zst", "in/b--1.tar.xz", "gone/a--1.tar.xz"] {
        assert_eq!(
            install.run(&["add", archive, "--silent"]),
            "exit 0\nout \"Package already added.\\n\"\n"
        );
    }
    assert_eq!(install.env.read("packages/b--1/bin/b"), "b");
}

#[test]
fn add_refuses_what_is_no_package() {
    let install = Install::new();
    assert_snapshot!(install.run(&["add", "a--1.tar.gz"]), @r#"
    exit 1
    err "Validation Error: `a--1.tar.gz` does not name a package: expected `NAME--VERSION.tar.zst` or `.tar.xz`\n"
    "#);
    assert_snapshot!(install.run(&["add", "a--1--2.tar.xz"]), @r#"
    exit 1
    err "Validation Error: `a--1--2.tar.xz` does not name a package: expected `NAME--VERSION.tar.zst` or `.tar.xz`: `a--1--2` is not a valid package id: expected `NAME--VERSION`, the version without `-`\n"
    "#);
    assert_snapshot!(install.run(&["add", "a--1.tar.xz"]), @r#"
    exit 1
    err "ERROR: cannot read the archive: failed to open file `a--1.tar.xz`: No such file or directory (os error 2)\n"
    "#);
    install.pack_xz(".", "a--1", &[("bin/a", "a", 0o755)]);
    assert_snapshot!(install.run(&["add", "a--1.tar.xz"]), @r#"
    exit 1
    err "Package Error: `a--1.tar.xz` is not package `a--1`: package `a--1` cannot be read: it has no `pkginfo.json`\n"
    "#);
    install.write("b--1.tar.xz", "no archive");
    assert_snapshot!(install.run(&["add", "b--1.tar.xz"]), @r#"
    exit 1
    err "ERROR: `b--1.tar.xz` is damaged or cut short: stream/file format not recognized\n"
    "#);
    assert_eq!(install.run(&["list"]), "exit 0\n");
}

#[test]
fn fetch_tells_each_package_as_it_comes() {
    let install = Install::new();
    let server = HttpServer::start().unwrap();
    install.pack("in", "a--1", PLAIN, &[("bin/a", "a", 0o755)]);
    install.pack_xz("in", "b--1", &[("pkginfo.json", "{}", 0o644), ("bin/b", "b", 0o755)]);
    let file = |name: &str| Answer::file(fs_err::read(install.env.path("in").join(name)).unwrap());
    server.on("/stable/packages/a/a--1.tar.zst", [file("a--1.tar.zst")]);
    server.on("/stable/packages/b/b--1.tar.xz", [file("b--1.tar.xz")]);
    let url = server.url("/stable");
    let fetch = |ids: &[&str]| {
        let arguments = [&["fetch", "--repository-url", &url, "--silent"], ids].concat();
        install.run(&arguments).replace(&url, "URL")
    };
    assert_snapshot!(fetch(&["a--1", "b--1"]), @r#"
    exit 0
    out "\rFetching: a--1\rFetched: a--1\n"
    out "\rFetching: b--1\rFetched: b--1\n"
    "#);
    let asked = server.requests().len();
    assert_snapshot!(fetch(&["a--1"]), @r#"
    exit 0
    out "\rFetching: a--1Package already added.\n"
    out "\rFetched: a--1\n"
    "#);
    assert_eq!(server.requests().len(), asked);
    // What failed is the last that is tried.
    assert_snapshot!(fetch(&["b--1", "c--1", "d--1"]), @r#"
    exit 1
    out "\rFetching: b--1Package already added.\n"
    out "\rFetched: b--1\n"
    out "\rFetching: c--1\n"
    err "ERROR: package `c--1` is not at `URL`: cannot download `URL/packages/c/c--1.tar.xz`: the server answered 404 Not Found\n"
    "#);
    assert!(server.requests().iter().all(|request| !request.path.contains("d--1")));
    assert_snapshot!(fetch(&["no-id", "a--1"]), @r#"
    exit 1
    out "\rFetching: no-id\n"
    err "Validation Error: `no-id` is not a valid package id: expected `NAME--VERSION`, the version without `-`\n"
    "#);
    assert!(!install.exists("packages/c--1"));
}

#[test]
fn fetch_reads_folders_however_they_are_written() {
    let install = Install::new();
    install.pack("mirror/packages/a", "a--1", PLAIN, &[]);
    let folder = install.env.path("mirror");
    for url in [
        format!("file://{folder}"),
        format!("file://{folder}//"),
        format!(" file://{folder}/ "),
        "file://mirror".to_owned(),
        "file://./mirror/".to_owned(),
    ] {
        assert_eq!(
            install.run(&["fetch", "a--1", &format!("--repository-url={url}")]),
            "exit 0\nout \"\\rFetching: a--1\\rFetched: a--1\\n\"\n",
            "{url}"
        );
        fs_err::remove_dir_all(install.env.path("packages")).unwrap();
    }
    assert_snapshot!(install.run(&["fetch", "b--1", "--repository-url=file://mirror"]), @r#"
    exit 1
    out "\rFetching: b--1\n"
    err "ERROR: package `b--1` is not at `file://[TEMP]/mirror`: cannot download `file://[TEMP]/mirror/packages/b/b--1.tar.xz`: failed to query resolved metadata `[TEMP]/mirror/packages/b/b--1.tar.xz`: No such file or directory (os error 2)\n"
    "#);
    assert_snapshot!(install.run(&["fetch", "a--1", "--repository-url=mirror"]), @r#"
    exit 1
    out "\rFetching: a--1\n"
    err "ERROR: `mirror` is not a repository: expected a URL that starts with `http:`, `https:` or `file:`\n"
    "#);
}

#[test]
fn fetch_of_what_is_there_asks_nobody() {
    let install = Install::with_packages();
    assert_snapshot!(install.run(&["fetch", "app--1", "--repository-url=nowhere"]), @r#"
    exit 0
    out "\rFetching: app--1Package already added.\n"
    out "\rFetched: app--1\n"
    "#);
}

#[test]
fn remove_tells_each_package_and_goes_on_where_one_is_not_there() {
    let install = Install::with_active();
    assert_snapshot!(install.run(&["remove", "gone--1", "app--2"]), @r#"
    exit 0
    out "\rRemoving: gone--1\n"
    out "\rRemoving: app--2\rRemoved: app--2\n"
    "#);
    assert!(!install.exists("packages/app--2"));
    assert_snapshot!(install.run(&["remove", "app--2"]), @r#"
    exit 0
    out "\rRemoving: app--2\n"
    "#);
}

#[test]
fn remove_refuses_what_is_active_and_stops_there() {
    let install = Install::with_active();
    assert_snapshot!(install.run(&["remove", "app--1", "app--2"]), @r#"
    exit 1
    err "Validation Error: package `app--1` is active\n"
    "#);
    assert_snapshot!(install.run(&["remove", "no-id", "app--2"]), @r#"
    exit 1
    out "\rRemoving: no-id\n"
    err "Validation Error: `no-id` is not a valid package id: expected `NAME--VERSION`, the version without `-`\n"
    "#);
    assert!(install.exists("packages/app--1") && install.exists("packages/app--2"));
}

#[test]
fn remove_lets_a_package_go_that_only_the_past_used() {
    let install = Install::with_active();
    install.run(&["swap", "app--2"]);
    assert_snapshot!(install.run(&["remove", "app--1"]), @r#"
    exit 0
    out "\rRemoving: app--1\rRemoved: app--1\n"
    "#);
    assert!(!install.exists("packages/app--1"));
    assert_snapshot!(install.run(&["active"]), @r#"
    exit 0
    out "app--2\n"
    out "base--1\n"
    "#);
}

#[test]
fn remove_needs_an_active_set() {
    let install = Install::with_packages();
    assert_snapshot!(install.run(&["remove", "app--2"]), @r#"
    exit 1
    err "ERROR: nothing is active in `[TEMP]/opt`: it was not bootstrapped\n"
    "#);
    assert!(install.exists("packages/app--2"));
}

#[test]
fn what_is_made_can_be_read_by_all_whatever_the_umask_is() {
    for umask in ["077", "000"] {
        let install = Install::new();
        let env = &install.env;
        install.pack(".", "a--1", PLAIN, &[("bin/a", "a", 0o755), ("etc/a", "a", 0o644)]);
        let script = format!(
            "umask {umask}; places='--root=new/opt --repository=new/packages --config-dir=config'; \
             ./pkgpanda $places add a--1.tar.zst && ./pkgpanda $places activate a--1"
        );
        succeed(&mut env.command("sh", &["-c", &script]));
        let mut folders = vec![env.path("new")];
        while let Some(folder) = folders.pop() {
            let mut paths = vec![folder.clone()];
            paths.extend(folder.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path()));
            for path in paths {
                let found = fs_err::symlink_metadata(&path).unwrap();
                let mode = found.permissions().mode() & 0o7777;
                if found.is_dir() {
                    assert_eq!(mode, 0o755, "{path} under umask {umask}");
                    if path != folder {
                        folders.push(path);
                    }
                } else if found.is_file() && path != env.path("new/packages/a--1/bin/a") {
                    // Whoever could read a lock could hold it; failing programs log secrets.
                    let name = path.file_name().unwrap();
                    let is_private = name.starts_with(".lock") || name == "history.jsonl";
                    let wanted = if is_private { 0o600 } else { 0o644 };
                    assert_eq!(mode, wanted, "{path} under umask {umask}");
                }
            }
        }
    }
}

#[test]
fn each_option_moves_one_place() {
    let install = Install::with_packages();
    let shown = install.bare(&["active", "--root", "elsewhere/"]);
    assert_snapshot!(shown, @r#"
    exit 1
    err "ERROR: nothing is active in `[TEMP]/elsewhere`: it was not bootstrapped\n"
    "#);
    // A slash at the end of a path is not in what is written.
    let places = ["--root=opt/", "--repository=packages/", "--config-dir=config/"];
    let arguments = [&["activate", "base--1", "--state-dir-root=state/"][..], &places].concat();
    assert_eq!(install.bare(&arguments), "exit 0\n");
    assert!(!install.env.read("opt/environment").contains("//"));
    let link = fs_err::read_link(install.env.path("opt/active/base")).unwrap();
    assert_eq!(link, install.env.path("packages/base--1"));
}
