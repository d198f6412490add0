//! The sources of a generated tree, made on the spot and pinned by their digest.

use std::io;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};
use sha1::Digest as _;

use super::{Checksum, Options, PACKAGES, SOURCES, WITH_SOURCES, WITHOUT_SOURCE, place};
use crate::files::write_files;

/// Makes sources one after the other.
pub(super) struct Sources {
    into: Utf8PathBuf,
    options: Options,
    /// Of the git repository.
    commit: String,
    made: usize,
}

impl Sources {
    /// Sources that will lie in folders of `into`.
    pub(super) fn new(into: &Utf8Path, options: Options) -> io::Result<Self> {
        let commit = repository(&into.join("repository"))?;
        Ok(Self { into: into.to_owned(), options, commit, made: 0 })
    }

    /// Gives package `number` one source, several or none.
    pub(super) fn add_to(&mut self, info: &mut Value, number: usize) -> io::Result<()> {
        match place(number, 35, PACKAGES) {
            0..WITHOUT_SOURCE => {}
            place if place < WITHOUT_SOURCE + WITH_SOURCES => {
                let all = SOURCES - (PACKAGES - WITHOUT_SOURCE - WITH_SOURCES);
                let more = usize::from(place - WITHOUT_SOURCE < all % WITH_SOURCES);
                info["sources"] = json!({});
                for part in 0..all / WITH_SOURCES + more {
                    info["sources"][format!("part-{part}")] = self.next()?;
                }
            }
            _ => info["single_source"] = self.next()?,
        }
        Ok(())
    }

    /// One more source, of the kind whose turn it is.
    fn next(&mut self) -> io::Result<Value> {
        let number = self.made;
        self.made += 1;
        let data = format!("source-{number:03}.dat");
        let content = content(number, self.options.source_bytes);
        match place(number, 45, SOURCES) {
            0 => Ok(json!({ "kind": "git_local", "rel_path": "../../repository" })),
            1..=22 => Ok(json!({
                "kind": "git",
                "git": format!("file://{}/repository", self.into),
                "ref": self.commit,
                "ref_origin": "master",
            })),
            23..=67 => self.file("url", &data, &content),
            _ => {
                let folder = format!("source-{number:03}");
                let archive = archive(&format!("{folder}/{data}"), &content)?;
                self.file("url_extract", &format!("{folder}.tar.gz"), &archive)
            }
        }
    }

    fn file(&self, kind: &str, file: &str, content: &[u8]) -> io::Result<Value> {
        let folder = self.into.join("files");
        write_files(&folder, &[(file, content, 0o644)])?;
        let url = format!("file://{folder}/{file}");
        Ok(match self.options.checksum {
            Checksum::Sha1 => {
                json!({ "kind": kind, "url": url, "sha1": hex(&sha1::Sha1::digest(content)) })
            }
            Checksum::Sha256 => {
                json!({ "kind": kind, "url": url, "sha256": hex(&sha2::Sha256::digest(content)) })
            }
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes that do not compress, different for each `number`.
fn content(number: usize, size: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(size).collect()
}

/// A compressed archive of one file.
fn archive(path: &str, content: &[u8]) -> io::Result<Vec<u8>> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, path, content)?;
    archive.into_inner()?.finish()
}

/// Makes a git repository of one small commit and returns its id.
fn repository(path: &Utf8Path) -> io::Result<String> {
    write_files(path, &[("git.dat", content(SOURCES, 1000), 0o644)])?;
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(path).args(arguments);
        // Neither the settings of the machine nor the time may have a say.
        command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", path.join("none"))
            .env_remove("GIT_DIR");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Tree");
            command.env(format!("GIT_{who}_EMAIL"), "tree@example.org");
            command.env(format!("GIT_{who}_DATE"), "@0 +0000");
        }
        let output = command.output()?;
        let failure = || io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned());
        output.status.success().then_some(()).ok_or_else(failure)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    git(&["init", "--quiet", "--initial-branch=master"])?;
    git(&["add", "git.dat"])?;
    git(&["commit", "--quiet", "--message=content"])?;
    git(&["rev-parse", "HEAD"])
}
