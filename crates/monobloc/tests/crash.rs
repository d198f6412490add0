//! The program is killed, or runs out of space, at any moment of a build: the cache stays usable.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use camino::Utf8Path;
use package::archive::{self, UnpackOptions};

const SCRIPT: &str =
    "#!/bin/sh\nset -e\nmkdir $PKG_PATH/bin\nseq 200000 > $PKG_PATH/bin/$PKG_NAME\n";

/// Three packages, one of which requires the other two.
fn tree(folder: &Utf8Path) {
    for name in ["a", "b", "c"] {
        let info = if name == "a" { r#"{"requires":["b","c"]}"# } else { "{}" };
        let files = [
            (format!("{name}/buildinfo.json"), info, 0o644),
            (format!("{name}/build"), SCRIPT, 0o755),
        ];
        testing::files::write_files(&folder.join("tree"), &files).unwrap();
    }
    testing::files::write_files(folder, &[("program", "#!/bin/sh\n", 0o755)]).unwrap();
}

fn monobloc(folder: &Utf8Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monobloc"));
    command.env("XDG_CACHE_HOME", folder.join("home"));
    command.env("MONOBLOC_PROGRAM", folder.join("program"));
    command.args(["build", "-j2", folder.join("tree").as_str()]).stdout(Stdio::null());
    command
}

/// Every archive in the cache is whole, and a further build makes the rest.
fn assert_usable(folder: &Utf8Path) {
    for name in ["a", "b", "c"] {
        let packages = folder.join("tree/cache/packages").join(name);
        let Ok(entries) = packages.read_dir_utf8() else {
            continue;
        };
        for entry in entries.map(Result::unwrap) {
            if entry.file_name().ends_with(".tar.zst") && !entry.file_name().starts_with('.') {
                archive::verify(entry.path(), &UnpackOptions::default()).unwrap();
            }
        }
    }
    let output = monobloc(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!folder.join("tree/cache/work").exists(), "work is left");
    for name in ["a", "b", "c"] {
        for entry in folder.join("tree/cache/packages").join(name).read_dir_utf8().unwrap() {
            assert!(!entry.unwrap().file_name().starts_with('.'), "something half written is left");
        }
    }
}

#[test]
fn a_build_that_is_killed_at_any_point_leaves_a_usable_cache() {
    // After each line that the program writes, and a little and a little more after it.
    for lines in 0..6 {
        for spins in [0_u32, 200_000, 2_000_000] {
            let folder = tempfile::tempdir().unwrap();
            let folder = Utf8Path::from_path(folder.path()).unwrap();
            tree(folder);
            let mut child = monobloc(folder).stderr(Stdio::piped()).spawn().unwrap();
            let stderr = BufReader::new(child.stderr.take().unwrap());
            let seen = stderr.lines().take(lines).count();
            assert_eq!(seen, lines, "the build wrote fewer lines than it should");
            for spin in 0..spins {
                std::hint::black_box(spin);
            }
            child.kill().unwrap();
            child.wait().unwrap();
            assert_usable(folder);
        }
    }
}

#[test]
fn running_out_of_space_is_a_clear_error_and_a_second_try_works() {
    for kilobytes in [8, 200, 900, 1800] {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        tree(folder);
        let cache = folder.join("tree/cache");
        fs_err::create_dir(&cache).unwrap();
        // A file system of this size, for this one run.
        let script =
            format!("mount -t tmpfs -o size={kilobytes}k tmpfs \"$1\" && shift && exec \"$@\"");
        let output = Command::new("unshare")
            .args(["--mount", "--user", "--map-root-user", "sh", "-c", &script, "sh"])
            .args([cache.as_str(), env!("CARGO_BIN_EXE_monobloc"), "build", "-j1"])
            .arg(folder.join("tree"))
            .env("XDG_CACHE_HOME", folder.join("home"))
            .env("MONOBLOC_PROGRAM", folder.join("program"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{kilobytes}: {said}");
        let is_clear =
            said.contains("No space left on device") || said.contains("the build script failed");
        assert!(is_clear && !said.contains("panicked"), "{kilobytes}: {said}");
        assert_usable(folder);
    }
}
