//! The programs the harness is tried on. They are this test itself, started again: so no other program
//! need be built, and none depends on what is installed.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{IoSlice, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::process::Command;
use std::thread;

use camino::Utf8Path;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, RenameFlags, openat, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::linkat;

use crate::trace::Program;

/// The variable with the name of the program to be.
const VARIABLE: &str = "TESTING_PROGRAM";

/// The program `name`, to be run in `root`.
pub(super) fn program(name: &str, root: &Utf8Path) -> Program {
    let test = std::env::current_exe().unwrap();
    Program::new(camino::Utf8PathBuf::try_from(test).unwrap())
        .args(["--exact", concat!(module_path!(), "::be_a_program")].map(strip_crate))
        .args(["--nocapture", "--test-threads=1"])
        .env(VARIABLE, name)
        // Where a call fails on purpose, finding the lines of a backtrace takes longest.
        .env("RUST_BACKTRACE", "0")
        .cwd(root)
}

/// Tests are named without the name of their crate.
fn strip_crate(name: &str) -> &str {
    name.strip_prefix("testing::").unwrap_or(name)
}

#[test]
fn be_a_program() {
    let Ok(name) = std::env::var(VARIABLE) else { return };
    match name.as_str() {
        "careless" => careless(),
        "careful" => careful("file", "content"),
        "forgetful" => forgetful(),
        "two renames" => two_renames(),
        "exchange" => exchange(),
        "moved directory" => moved_directory(),
        "unlinked" => unlinked(),
        "links" => links(),
        "unnamed" => unnamed(),
        "threads" => threads(),
        "children" => children(),
        "writes" => writes(),
        "names" => names(),
        "syncs" => syncs(),
        "reader" => reader(),
        "nothing" => {}
        "endless" => loop {
            thread::park();
        },
        _ => panic!("no program `{name}`"),
    }
}

fn sync(path: &str) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// Not one `fsync`: the new name may come without the content.
fn careless() {
    fs_err::write("aside", "content").unwrap();
    fs_err::rename("aside", "file").unwrap();
}

fn careful(path: &str, content: &str) {
    let aside = format!(".aside-{path}");
    let mut file = File::create_new(&aside).unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file.sync_all().unwrap();
    fs_err::rename(&aside, path).unwrap();
    sync(".");
}

/// Everything but the directory at the end.
fn forgetful() {
    let mut file = File::create_new("aside").unwrap();
    file.write_all(b"content").unwrap();
    file.sync_all().unwrap();
    fs_err::rename("aside", "file").unwrap();
}

fn two_renames() {
    fs_err::rename("current", "before").unwrap();
    fs_err::rename("next", "current").unwrap();
    sync(".");
}

fn exchange() {
    let flags = RenameFlags::RENAME_EXCHANGE;
    renameat2(AT_FDCWD, "current", AT_FDCWD, "next", flags).unwrap();
    sync(".");
}

fn moved_directory() {
    fs_err::create_dir("made").unwrap();
    sync(".");
    fs_err::rename("made", "moved").unwrap();
    fs_err::write("moved/inside", "content").unwrap();
    sync("moved/inside");
    sync("moved");
    fs_err::create_dir_all("gone/deep").unwrap();
    fs_err::write("gone/deep/file", "content").unwrap();
    fs_err::remove_dir_all("gone").unwrap();
}

/// Numbers of inodes are used again, and a file lives on without a name.
fn unlinked() {
    for round in 0..3 {
        let mut file = File::create_new("a").unwrap();
        file.write_all(b"lost").unwrap();
        let mut same = file.try_clone().unwrap();
        fs_err::remove_file("a").unwrap();
        same.write_all(b" and lost").unwrap();
        if round < 2 {
            drop((file, same));
            fs_err::write("a", format!("round {round}")).unwrap();
            fs_err::remove_file("a").unwrap();
        } else {
            fs_err::write("a", "kept").unwrap();
            same.write_all(b" again").unwrap();
        }
    }
}

fn links() {
    fs_err::write("a", "one").unwrap();
    fs_err::hard_link("a", "b").unwrap();
    OpenOptions::new().append(true).open("b").unwrap().write_all(b" two").unwrap();
    // Two names of one file: this does nothing.
    fs_err::rename("a", "b").unwrap();
    fs_err::remove_file("a").unwrap();
}

fn unnamed() {
    let mut file =
        OpenOptions::new().write(true).custom_flags(OFlag::O_TMPFILE.bits()).open(".").unwrap();
    file.write_all(b"content").unwrap();
    file.set_permissions(Permissions::from_mode(0o640)).unwrap();
    file.sync_all().unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    let path = format!("/proc/self/fd/{fd}");
    linkat(AT_FDCWD, path.as_str(), AT_FDCWD, "named", AtFlags::AT_SYMLINK_FOLLOW).unwrap();
}

fn threads() {
    thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                for round in 0..4 {
                    careful(&format!("file{number}"), &format!("content {round}"));
                }
            });
        }
    });
}

fn children() {
    let run = |text| Command::new("/bin/sh").args(["-c", text]).status().unwrap();
    assert!(
        run("printf one >by-child; (printf two >>by-child) & wait; exec chmod 600 by-child")
            .success()
    );
    let file = File::create("inherited").unwrap();
    let status = Command::new("/bin/sh").args(["-c", "printf a; printf b"]).stdout(file).status();
    assert!(status.unwrap().success());
}

fn writes() {
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open("all").unwrap();
    file.set_permissions(Permissions::from_mode(0o604)).unwrap();
    let written = file.write_vectored(&[IoSlice::new(b"one "), IoSlice::new(b"two ")]).unwrap();
    assert_eq!(written, 8);
    file.write_all_at(b"at twenty", 20).unwrap();
    file.seek_relative(-4).unwrap();
    file.write_all(b"TWO").unwrap();
    file.sync_data().unwrap();
    let copied = fs_err::copy("all", "copied").unwrap();
    assert_eq!(copied, 29);
    file.set_len(25).unwrap();
    let mut durable = OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(OFlag::O_DSYNC.bits())
        .open("log")
        .unwrap();
    for line in ["first\n", "second\n"] {
        durable.write_all(line.as_bytes()).unwrap();
    }
    nix::fcntl::fallocate(&durable, nix::fcntl::FallocateFlags::empty(), 0, 64).unwrap();
    fs_err::write("file", "short").unwrap();
    let mut pipe = Command::new("/bin/echo")
        .arg("piped")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = File::create("piped").unwrap();
    std::io::copy(pipe.stdout.as_mut().unwrap(), &mut to).unwrap();
    assert!(pipe.wait().unwrap().success());
    let mut from = File::open("all").unwrap();
    nix::sys::sendfile::sendfile(&to, &from, None, 3).unwrap();
    from.read_to_end(&mut Vec::new()).unwrap();
}

fn names() {
    fs_err::create_dir_all("d/e/f").unwrap();
    fs_err::os::unix::fs::symlink("e", "d/link").unwrap();
    // Through a link, and seen from an open directory.
    fs_err::write("d/link/f/through", "link").unwrap();
    let folder = File::open("d/e").unwrap();
    let flags = OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_EXCL;
    drop(openat(&folder, "f/../beside", flags, Mode::from_bits_truncate(0o600)).unwrap());
    assert!(fs_err::create_dir("d").is_err());
    assert!(fs_err::remove_dir("d").is_err());
    std::env::set_current_dir("d/e").unwrap();
    fs_err::rename("beside", "../../top").unwrap();
    let flags = RenameFlags::RENAME_NOREPLACE;
    assert!(renameat2(AT_FDCWD, "../../top", AT_FDCWD, "f", flags).is_err());
    renameat2(AT_FDCWD, "../../top", AT_FDCWD, "again", flags).unwrap();
    fs_err::set_permissions("f", Permissions::from_mode(0o711)).unwrap();
    fs_err::remove_dir_all("f").unwrap();
    // Outside of the root nothing is of interest.
    tempfile::tempfile().unwrap().write_all(b"ignored").unwrap();
    drop(tempfile::NamedTempFile::new().unwrap());
}

fn syncs() {
    let mut file = OpenOptions::new().write(true).open("file").unwrap();
    file.write_all(b"new").unwrap();
    file.set_permissions(Permissions::from_mode(0o600)).unwrap();
    file.sync_data().unwrap();
    fs_err::create_dir("made").unwrap();
    nix::unistd::syncfs(&file).unwrap();
}

fn reader() {
    let text = fs_err::read_to_string("file").unwrap();
    let count = fs_err::read_dir(".").unwrap().count();
    assert_eq!((text.as_str(), count), ("old", 1));
}
