//! `cargo xtask dist`: the program as it is put on hosts, static, in `target/dist/monobloc`. With `--quick`
//! it is one to test with: as static, made in a fraction of the time, larger and slower.
//!
//! The C library inside is musl: a static glibc still loads the host's name service modules and
//! crashes in those of another version. Two ways lead there. The short one is rustup's musl target
//! with Debian's `musl-gcc` for the C code among the dependencies. Where rustup or the target
//! cannot be had, Debian's own compiler builds the standard library from its source package and
//! zig brings musl and the linker.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use sha2::Digest as _;

const TARGET: &str = "x86_64-unknown-linux-musl";
/// `CC_…` and `…_RUSTFLAGS` of the target.
const TARGET_CC: &str = "CC_x86_64_unknown_linux_musl";
const TARGET_FLAGS: &str = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS";
/// Three packages of one version: compiler, cargo, source of the standard library.
const DEBIAN_RUST: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];
const ZIG: [&str; 2] = ["ziglang==0.17.0", "cargo-zigbuild==0.24.0"];
const PROGRAM: &str = "monobloc";

/// Builds the program, checks that it is static and runs alone, and says what was made.
pub(crate) fn dist(root: &Path, fallback: bool, quick: bool) -> anyhow::Result<()> {
    let started = Instant::now();
    let profile = if quick { "quick" } else { "release" };
    let built = if fallback {
        by_zig(root, profile)?
    } else if let Err(error) = prepare_rustup() {
        println!("dist: no {TARGET} through rustup: {error:#}");
        by_zig(root, profile)?
    } else {
        by_rustup(root, profile)?
    };
    let folder = root.join("target/dist");
    let program = folder.join(PROGRAM);
    fs_err::create_dir_all(&folder)?;
    // The one that is there may run, for local hosts.
    let aside = folder.join(format!(".{PROGRAM}"));
    fs_err::copy(&built, &aside)?;
    fs_err::rename(&aside, &program)?;

    let bytes = fs_err::read(&program)?;
    check_static(&bytes)?;
    let (version, place) = version_alone(&program)?;
    println!("{}", program.display());
    println!("  {version} (ran in {place})");
    println!("  {} bytes, static, made in {} s", bytes.len(), started.elapsed().as_secs());
    print!("  SHA-256 ");
    sha2::Sha256::digest(&bytes).iter().for_each(|byte| print!("{byte:02x}"));
    println!();
    Ok(())
}

/// Gets rustup's target and a C compiler for it.
fn prepare_rustup() -> anyhow::Result<()> {
    run(Command::new("rustup").args(["target", "add", TARGET]))?;
    if !starts(Command::new("musl-gcc").arg("--version")) {
        install(&["musl-tools"])?;
    }
    Ok(())
}

fn by_rustup(root: &Path, profile: &str) -> anyhow::Result<PathBuf> {
    println!("dist: {TARGET} through rustup");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = root.join("target");
    run(Command::new(cargo)
        .current_dir(root)
        .args(["build", "--profile", profile, "--locked"])
        .args(["--package", PROGRAM, "--target", TARGET])
        .arg("--target-dir")
        .arg(&target)
        .env(TARGET_CC, "musl-gcc")
        .env_remove("RUSTFLAGS")
        .env(TARGET_FLAGS, without_machine_paths(root)))?;
    Ok(target.join(TARGET).join(profile).join(PROGRAM))
}

fn by_zig(root: &Path, profile: &str) -> anyhow::Result<PathBuf> {
    println!("dist: {TARGET} with Debian's compiler and zig");
    install(&DEBIAN_RUST)?;
    let environment = zig(root)?;
    let mut path = std::ffi::OsString::from(environment.join("bin"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let target = root.join("target/fallback");
    run(Command::new(environment.join("bin/cargo-zigbuild"))
        .current_dir(root)
        .args(["zigbuild", "-Zbuild-std=std,panic_abort", "--profile", profile, "--locked"])
        .args(["--package", PROGRAM, "--target", TARGET, "--target-dir"])
        .arg(&target)
        .env("PATH", path)
        .env("CARGO", "/usr/bin/cargo")
        .env("RUSTC", "/usr/bin/rustc")
        .env("RUSTDOC", "/usr/bin/rustdoc")
        // `-Zbuild-std` is not stable yet.
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTFLAGS")
        // The sysroot has no start files for the target: zig brings them.
        .env(TARGET_FLAGS, format!("-Clink-self-contained=no {}", without_machine_paths(root))))?;
    Ok(target.join(TARGET).join(profile).join(PROGRAM))
}

/// A Python environment that holds zig; made once.
fn zig(root: &Path) -> anyhow::Result<PathBuf> {
    let environment = root.join("target/zig");
    let wanted = ZIG.join(" ");
    let ready = environment.join("ready");
    if fs_err::read_to_string(&ready).is_ok_and(|made| made == wanted) {
        return Ok(environment);
    }
    if !starts(Command::new("python3").args(["-c", "import ensurepip"])) {
        install(&["python3-venv"])?;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    run(Command::new(environment.join("bin/pip")).args(["install", "--quiet"]).args(ZIG))?;
    fs_err::write(&ready, wanted)?;
    Ok(environment)
}

/// Compiler flags by which panics name no folder of the machine that built the program.
fn without_machine_paths(root: &Path) -> String {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    let sources = cargo_home.or_else(home).map(|path| (path.join("registry/src"), "/crates"));
    let prefixes = [Some((root.to_owned(), "/monobloc")), sources];
    let flags = prefixes.into_iter().flatten().filter_map(|(path, name)| {
        let path = path.to_str().filter(|path| !path.contains(char::is_whitespace))?;
        Some(format!("--remap-path-prefix={path}={name}"))
    });
    flags.collect::<Vec<_>>().join(" ")
}

/// Fails unless `elf` is a program for `x86_64` that needs no dynamic linker.
fn check_static(elf: &[u8]) -> anyhow::Result<()> {
    const INTERPRETER: u64 = 3;
    const X86_64: u64 = 62;
    let number = |offset: u64, length: usize| -> anyhow::Result<u64> {
        let start = usize::try_from(offset)?;
        let bytes = start.checked_add(length).and_then(|end| elf.get(start..end));
        let bytes = bytes.context("the ELF file is cut short")?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    ensure!(elf.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF file");
    ensure!(number(0x12, 2)? == X86_64, "not a program for x86_64");
    let (table, entry, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
    ensure!(count > 0, "no program headers");
    for index in 0..count {
        let header = table.checked_add(entry * index).context("the ELF file is damaged")?;
        let kind = number(header, 4)?;
        ensure!(kind != INTERPRETER, "the program needs a dynamic linker: it is not static");
    }
    Ok(())
}

/// What `--version` says where there is no other file, and where that was.
fn version_alone(program: &Path) -> anyhow::Result<(String, &'static str)> {
    let empty = tempfile::tempdir_in(program.parent().context("the program lies in a folder")?)?;
    let alone = empty.path().join(PROGRAM);
    fs_err::copy(program, &alone)?;
    let inside = Path::new("/").join(PROGRAM);

    let mut bwrap = Command::new("bwrap");
    bwrap.arg("--unshare-all").arg("--ro-bind").arg(empty.path()).arg("/").arg(&inside);
    let mut chroot = Command::new("chroot");
    chroot.arg(empty.path()).arg(&inside);
    let ways = [
        (bwrap, "an empty sandbox"),
        (chroot, "an empty root"),
        (Command::new(&alone), "this system, for want of bubblewrap and root"),
    ];
    for (mut command, place) in ways {
        let output =
            command.arg("--version").env_clear().env("PATH", "/usr/bin:/usr/sbin").output();
        if let Ok(output) = output
            && output.status.success()
        {
            return Ok((String::from_utf8(output.stdout)?.trim().to_owned(), place));
        }
    }
    bail!("`{} --version` does not run", program.display());
}

/// Makes sure that Debian packages are installed.
fn install(packages: &[&str]) -> anyhow::Result<()> {
    let is_installed = |package: &&str| {
        let query =
            Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status}", package]).output();
        query.is_ok_and(|output| output.stdout == b"installed")
    };
    let missing: Vec<&str> = packages.iter().filter(|name| !is_installed(name)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    println!("dist: installing {list}");
    let advice = format!("missing Debian packages: install them with `apt-get install {list}`");
    let apt = |arguments: &[&str]| {
        run(Command::new("apt-get")
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null()))
    };
    apt(&["update", "-qq"]).context(advice.clone())?;
    apt(&[&["install", "-y", "-qq", "--no-install-recommends"], &missing[..]].concat())
        .context(advice)
}

fn starts(command: &mut Command) -> bool {
    let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().display().to_string();
    let status = command.status().with_context(|| format!("cannot start `{program}`"))?;
    ensure!(status.success(), "`{program}` failed: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with program headers of these kinds.
    fn elf(kinds: &[u8]) -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[0x12] = 62;
        elf[0x20] = 64;
        elf[0x36] = 56;
        elf[0x38] = u8::try_from(kinds.len()).unwrap();
        for kind in kinds {
            elf.push(*kind);
            elf.resize(elf.len() + 55, 0);
        }
        elf
    }

    #[test]
    fn a_static_program_passes() {
        check_static(&elf(&[1, 2, 7])).unwrap();
    }

    #[test]
    fn whatever_else_is_refused_by_name() {
        let mut arm = elf(&[1]);
        arm[0x12] = 183;
        for (file, expected) in [
            (elf(&[1, 3]), "needs a dynamic linker"),
            (elf(&[1])[..66].to_vec(), "cut short"),
            (elf(&[]), "no program headers"),
            (arm, "not a program for x86_64"),
            (b"#!/bin/sh".to_vec(), "not a 64-bit"),
        ] {
            let error = check_static(&file).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
