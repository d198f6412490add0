//! Promise: one file has everything, every byte of it is signed, and what was changed is refused.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use package::artifact::{self, Artifact, ArtifactError, Assembly, PROGRAM, VariantSet};
use package::distribution::Distribution;
use package::sign::{KeyPair, PublicKey, SecretKey};
use package::{Cancel, Sha256};
use proptest::prelude::*;
use testing::files::write_files;

const PACKAGE: &str = "packages/a/a--1.tar.zst";

struct World {
    _folder: tempfile::TempDir,
    root: Utf8PathBuf,
    key: SecretKey,
    public: PublicKey,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().to_owned();
        let pair = KeyPair::generate(None).unwrap();
        let program = "#!/bin/sh\ncase ${1-} in --version) exit ;; esac\n\
                       rm -r \"$MONOBLOC_REMOVE_FOLDER\"\n\
                       echo \"program of ${MONOBLOC_ARTIFACT##*/}: $*\"\n[ \"${1-}\" != 7 ] || exit 7\n";
        write_files(&root, &[("program", program, 0o755), ("a", "package", 0o644)]).unwrap();
        write_files(&root, &[("empty", "", 0o644), ("page", &"x".repeat(4096), 0o644)]).unwrap();
        Self {
            _folder: folder,
            root,
            key: SecretKey::parse(&pair.secret, None).unwrap(),
            public: PublicKey::parse(&pair.public).unwrap(),
        }
    }

    fn file(&self) -> Utf8PathBuf {
        self.root.join("test.sh")
    }

    /// Makes an artifact.
    fn write(&self) -> Artifact {
        let distribution = Distribution::named("test", "1 '$(touch broken)'");
        let files = [(PACKAGE, "a"), ("empty", "empty"), ("page", "page")];
        let files = files.map(|(path, file)| (path.parse().unwrap(), self.root.join(file).into()));
        let set = VariantSet { packages: ["a--1".parse().unwrap()].into(), bootstrap: None };
        let assembly = Assembly {
            distribution: &distribution,
            variants: BTreeMap::from([("default".to_owned(), set)]),
            program: self.root.join("program").into(),
            files: files.into(),
            key: &self.key,
        };
        let written = artifact::write(&self.file(), assembly, &Cancel::new()).unwrap();
        assert_eq!(written.sha256, Sha256::of_file(&self.file()).unwrap());
        Artifact::open(&self.file()).unwrap()
    }

    fn sh(&self, shell: &[&str], words: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg(self.file()).args(words).current_dir(&self.root);
        let output = command.env("TMPDIR", &self.root).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// What is wrong with `bytes` in the place of the artifact.
    fn judge(&self, bytes: &[u8]) -> Result<(), ArtifactError> {
        let changed = self.root.join("changed.sh");
        fs_err::write(&changed, bytes).unwrap();
        Artifact::open(&changed)?.verify(Some(&self.public), &Cancel::new())
    }
}

#[test]
fn everything_is_read_where_it_lies() {
    let world = World::new();
    let artifact = world.write();
    artifact.verify(Some(&world.public), &Cancel::new()).unwrap();
    assert_eq!(artifact.read(PACKAGE).unwrap(), b"package");
    assert_eq!(artifact.read("empty").unwrap(), b"");
    assert_eq!(artifact.read("page").unwrap().len(), 4096);
    assert!(matches!(artifact.read("b"), Err(ArtifactError::Missing { .. })));
    assert!(!artifact.is_configured());
    assert_eq!(artifact.sha256_beside(), Some(Sha256::of_file(&world.file()).unwrap()));
    let offsets: Vec<u64> = artifact.files().values().map(|file| file.offset % 4096).collect();
    assert_eq!(offsets, [0; 4]);
}

#[test]
fn the_same_files_make_the_same_bytes_but_for_the_signature() {
    let world = World::new();
    let (one, id) = (fs_err::read(world.write().path()).unwrap(), world.write().id());
    let again = fs_err::read(world.file()).unwrap();
    assert_eq!(one.len(), again.len());
    assert_eq!(Artifact::open(&world.file()).unwrap().id(), id);
}

#[test]
fn every_shell_runs_the_program_and_nothing_is_left() {
    let world = World::new();
    world.write();
    let before = fs_err::read_dir(&world.root).unwrap().count();
    for shell in
        [&["sh"][..], &["dash"], &["bash"], &["bash", "--posix"], &["busybox", "sh"], &["env"]]
    {
        let (code, said) = world.sh(shell, &["a", "b  c", "$(touch broken)"]);
        assert_eq!(
            (code, said.as_str()),
            (Some(0), "program of test.sh: a b  c $(touch broken)\n")
        );
        assert_eq!(world.sh(shell, &["7"]).0, Some(7));
    }
    assert_eq!(fs_err::read_dir(&world.root).unwrap().count(), before);
}

#[test]
fn a_damaged_program_is_not_run() {
    let world = World::new();
    let artifact = world.write();
    let mut bytes = fs_err::read(world.file()).unwrap();
    let at = usize::try_from(artifact.files()[PROGRAM].offset).unwrap() + 60;
    bytes[at] ^= 1;
    fs_err::write(world.file(), &bytes).unwrap();
    let (code, said) = world.sh(&["sh"], &["a"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("is damaged: its program has the SHA-256"), "{said}");
}

#[test]
fn the_stock_program_verifies_it() {
    let world = World::new();
    world.write();
    let key = world.public.to_string();
    let verify = || {
        let output =
            Command::new("minisign").args(["-V", "-P", &key, "-m"]).arg(world.file()).output();
        output.unwrap().status.success()
    };
    assert!(verify());
    let mut bytes = fs_err::read(world.file()).unwrap();
    bytes[100] ^= 1;
    fs_err::write(world.file(), bytes).unwrap();
    assert!(!verify());
}

#[test]
fn every_changed_byte_is_found() {
    let world = World::new();
    let bytes = fs_err::read(world.write().path()).unwrap();
    for at in 0..bytes.len() {
        // Of the head, and of long stretches of one byte, some.
        let is_dull = at < 8000 || bytes.get(at.wrapping_sub(1)) == bytes.get(at + 1);
        if is_dull && at % 61 != 0 {
            continue;
        }
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(world.judge(&changed).is_err(), "byte {at} of {}", bytes.len());
    }
    world.judge(&bytes).unwrap();
}

#[test]
fn whatever_was_cut_off_or_put_in_is_found() {
    let world = World::new();
    let bytes = fs_err::read(world.write().path()).unwrap();
    for length in (0..bytes.len()).filter(|length| length % 97 == 0 || bytes.len() - length < 200) {
        let error = world.judge(&bytes[..length]).unwrap_err();
        assert!(matches!(error, ArtifactError::NotOne(_)), "{length}: {error}");
    }
    for at in [0, 8192, bytes.len() - 80, bytes.len()] {
        let mut longer = bytes.clone();
        longer.insert(at, 0);
        assert!(world.judge(&longer).is_err(), "{at}");
    }
}

#[test]
fn another_key_is_not_trusted() {
    let world = World::new();
    let artifact = world.write();
    let other = PublicKey::parse(&KeyPair::generate(None).unwrap().public).unwrap();
    let error = artifact.verify(Some(&other), &Cancel::new()).unwrap_err();
    assert!(matches!(error, ArtifactError::Untrusted { .. }), "{error}");
}

#[test]
fn parts_are_joined_again_and_a_changed_or_missing_one_is_named() {
    let world = World::new();
    world.write();
    let parts = world.root.join("parts");
    let size = NonZeroU64::new(5000).unwrap();
    let split = artifact::split(&world.file(), &parts, size, &Cancel::new()).unwrap();
    assert!(split.parts.len() > 2);
    let checked = Command::new("sha256sum")
        .args(["-c", "--quiet", split.list.file_name().unwrap()])
        .current_dir(&parts)
        .status();
    assert!(checked.unwrap().success());
    let joined = world.root.join("joined.sh");
    artifact::join(&split.list, &joined, &Cancel::new()).unwrap();
    assert_eq!(fs_err::read(&joined).unwrap(), fs_err::read(world.file()).unwrap());
    Artifact::open(&joined).unwrap();
    let again = artifact::join(&split.list, &joined, &Cancel::new()).unwrap_err();
    assert!(matches!(again, ArtifactError::Exists(_)), "{again}");

    let other = world.root.join("other.sh");
    fs_err::write(&split.parts[1], "changed").unwrap();
    let changed = artifact::join(&split.list, &other, &Cancel::new()).unwrap_err();
    assert!(changed.to_string().contains("test.sh.002"), "{changed}");
    fs_err::remove_file(&split.parts[1]).unwrap();
    let missing = artifact::join(&split.list, &other, &Cancel::new()).unwrap_err();
    assert!(matches!(missing, ArtifactError::NoPart { .. }), "{missing}");
    assert!(!other.exists());
}

#[test]
fn a_list_of_parts_names_nothing_outside_of_its_folder() {
    let world = World::new();
    let digest = Sha256::of(b"");
    for name in ["../a", "/etc/passwd", "..", ""] {
        let list = world.root.join("x.parts.sha256");
        fs_err::write(&list, format!("{digest}  {name}\n")).unwrap();
        fs_err::write(world.root.join("x.sha256"), format!("{digest}  x\n")).unwrap();
        let error = artifact::join(&list, &world.root.join("x"), &Cancel::new()).unwrap_err();
        assert!(matches!(error, ArtifactError::Parts { .. }), "{name}: {error}");
    }
}

proptest! {
    #[test]
    fn bytes_from_anywhere_are_an_error_and_no_crash(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        numbers in any::<[u64; 3]>(),
        is_footed in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let file = Utf8Path::from_path(folder.path()).unwrap().join("x");
        let mut bytes = bytes;
        if is_footed {
            let [offset, size, signature] = numbers.map(|number| number % 500);
            let text = format!("\nmonobloc 1 {offset:020} {size:020} {signature:020}");
            bytes.extend(format!("{text:<79}\n").bytes());
        }
        fs_err::write(&file, bytes).unwrap();
        prop_assert!(Artifact::open(&file).is_err());
    }
}
