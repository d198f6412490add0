//! Everything that changes a host, each on a host that is ready for it.

use std::process::Command;

use camino::Utf8Path;
use testing::files::write_files;
use testing::trace::Program;

use crate::publisher::Publisher;
use crate::view;
use crate::world::World;

/// One operation of the real program.
pub(crate) struct Operation {
    pub(crate) world: World,
    pub(crate) program: Program,
    /// What is live is the same afterwards.
    pub(crate) changes_nothing_live: bool,
    /// `setup` does not only put right what was interrupted but does it to the end.
    pub(crate) setup_completes: bool,
}

impl Operation {
    /// The program to run with nobody watching.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.args);
        command
    }

    fn new(world: World, arguments: &[&str]) -> Self {
        let program = world.program(arguments);
        Self { world, program, changes_nothing_live: false, setup_completes: false }
    }
}

pub(crate) fn first_activation() -> Operation {
    let world = World::new();
    world.add(&["a--1", "b--1"]);
    Operation::new(world, &["activate", "a--1", "b--1"])
}

/// A host on which one set is live and another is ready.
fn upgraded() -> World {
    let world = World::new();
    world.add(&["a--1", "b--1", "a--2", "c--1"]);
    world.activate(&["a--1", "b--1"]);
    world
}

pub(crate) fn activation() -> Operation {
    Operation::new(upgraded(), &["activate", "a--2", "c--1"])
}

pub(crate) fn swap() -> Operation {
    Operation::new(upgraded(), &["swap", "a--2"])
}

pub(crate) fn rollback() -> Operation {
    let world = upgraded();
    world.activate(&["a--2", "c--1"]);
    Operation::new(world, &["rollback", "1"])
}

pub(crate) fn role_change() -> Operation {
    let world = upgraded();
    fs_err::remove_file(world.folder.join("etc/roles/master")).unwrap();
    world.config("roles/slave", "");
    Operation { setup_completes: true, ..Operation::new(world, &["setup"]) }
}

pub(crate) fn add() -> Operation {
    let world = World::new();
    world.add(&["a--1"]);
    world.activate(&["a--1"]);
    let archive = world.archive("b", "1");
    let operation = Operation::new(world, &["add", archive.as_str()]);
    Operation { changes_nothing_live: true, ..operation }
}

pub(crate) fn fetch() -> Operation {
    let world = World::new();
    world.add(&["a--1"]);
    world.activate(&["a--1"]);
    let url = format!("file://{}", world.folder.join("repository"));
    let operation = Operation::new(world, &["fetch", "--repository-url", &url, "b--1", "c--1"]);
    Operation { changes_nothing_live: true, ..operation }
}

/// Two files of a live package were changed.
pub(crate) fn repair() -> Operation {
    let world = World::new();
    world.add(&["a--1", "b--1"]);
    world.activate(&["a--1", "b--1"]);
    for file in ["bin/a", "lib/shared/a"] {
        fs_err::write(world.root.join("packages/a--1").join(file), "changed").unwrap();
    }
    let url = format!("file://{}", world.folder.join("repository"));
    Operation::new(world, &["repair", "--repository-url", &url])
}

pub(crate) fn remove() -> Operation {
    let world = upgraded();
    world.activate(&["a--2", "c--1"]);
    let operation = Operation::new(world, &["remove", "--with-generations", "b--1"]);
    Operation { changes_nothing_live: true, ..operation }
}

pub(crate) fn collect() -> Operation {
    let world = upgraded();
    world.activate(&["a--2", "c--1"]);
    world.activate(&["a--2", "b--1"]);
    world.activate(&["a--2"]);
    let operation = Operation::new(world, &["collect", "--keep", "0"]);
    Operation { changes_nothing_live: true, ..operation }
}

pub(crate) fn uninstall() -> Operation {
    let world = upgraded();
    world.activate(&["a--2", "c--1"]);
    Operation::new(world, &["uninstall", "--purge"])
}

/// Makes the install root what the reference would have made of the same packages: real folders and
/// files instead of links into a generation.
fn as_the_reference_makes_it(world: &World, ids: &[&str]) {
    world.activate(ids);
    let root = &world.root;
    for name in view::NAMES {
        fs_err::remove_file(root.join(name)).unwrap();
        fs_err::rename(root.join("current").join(name), root.join(name)).unwrap();
    }
    absolute_links(root, root);
    fs_err::remove_file(root.join("current")).unwrap();
    for folder in ["generations", "log"] {
        fs_err::remove_dir_all(root.join(folder)).unwrap();
    }
}

/// Makes every link below `folder` lead straight to its file, but not those inside packages.
fn absolute_links(root: &Utf8Path, folder: &Utf8Path) {
    for entry in folder.read_dir_utf8().unwrap().map(Result::unwrap) {
        let path = entry.path();
        let metadata = fs_err::symlink_metadata(path).unwrap();
        if metadata.is_dir() && entry.file_name() != "packages" {
            absolute_links(root, path);
        } else if metadata.is_symlink() {
            let target = path.read_link_utf8().unwrap().into_string();
            if let Some((_, inside)) = target.split_once("../active/") {
                let (name, rest) = inside.split_once('/').unwrap();
                let package = root.join("active").join(name).read_link_utf8().unwrap();
                fs_err::remove_file(path).unwrap();
                fs_err::os::unix::fs::symlink(package.join(rest), path).unwrap();
            }
        }
    }
}

/// An install root that was just unpacked: `setup` gets what is missing and makes it live.
pub(crate) fn bootstrap() -> Operation {
    let world = World::new();
    world.add(&["a--1"]);
    as_the_reference_makes_it(&world, &["a--1"]);
    fs_err::write(world.root.join("bootstrap"), "").unwrap();
    let url = format!("file://{}\n", world.folder.join("repository"));
    world.config("setup-flags/repository-url", &url);
    world.config("setup-flags/active.json", r#"["a--1","b--1"]"#);
    let late = "late_bound_package_id: late--setup\nbound_values:\n  address: 10.0.0.1\n";
    world.config("setup-flags/late-config.yaml", late);
    let template = "package:\n- path: /etc/late.conf\n  content: at LATE_BIND_PLACEHOLDER_START_address_LATE_BIND_PLACEHOLDER_END\n";
    let place = world.folder.join("repository/packages/late");
    write_files(&place, &[("late--setup.dcos_config", template, 0o644)]).unwrap();
    Operation { setup_completes: true, ..Operation::new(world, &["setup"]) }
}

/// A published bundle takes the place of what is live, with secrets.
pub(crate) fn install() -> Operation {
    let world = upgraded();
    let mut publisher = Publisher::new(&world.folder.join("served"));
    publisher.package("master", &world.archive("b", "2"));
    publisher.secrets("master", &[("etc/password", "hunter2", Some("dcos_a"))]);
    publisher.publish(1, None);
    let served = publisher.folder.to_string();
    let [public, key] = ["release.pub", "master.key"].map(|name| world.folder.join(name));
    fs_err::write(&public, &publisher.public).unwrap();
    fs_err::write(&key, publisher.role_key.to_file("master")).unwrap();
    let keys = ["--public-key", public.as_str(), "--key-file", key.as_str()];
    Operation::new(world, &[&["install", "--from", &served][..], &keys].concat())
}

/// An install root that the reference made and that runs.
pub(crate) fn take_over() -> Operation {
    let world = World::new();
    world.add(&["a--1", "b--1", "a--2"]);
    as_the_reference_makes_it(&world, &["a--1", "b--1"]);
    Operation::new(world, &["activate", "a--2", "b--1"])
}

/// Goes back by one generation, as a controller orders it, of three that there are.
pub(crate) fn ordered_rollback() -> Operation {
    let world = upgraded();
    world.activate(&["a--2", "c--1"]);
    world.activate(&["a--2"]);
    let order =
        r#"{"version":1,"id":"run.1","limit_seconds":60,"request":"rollback","reason":"r"}"#;
    let path = world.folder.join("order");
    fs_err::write(&path, order).unwrap();
    let inner = world.program(&["step", "--detached"]);
    let arguments = inner.args.iter().map(|argument| argument.to_str().unwrap());
    let words: Vec<&str> = std::iter::once(inner.path.as_str()).chain(arguments).collect();
    let script = format!("exec {} < {path}", words.join(" "));
    let program = Program::new("/bin/sh").args(["-c", &script]);
    Operation { world, program, changes_nothing_live: false, setup_completes: false }
}
