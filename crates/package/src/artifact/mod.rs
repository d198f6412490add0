//! The one file: a shell script, the program, and every other file, read where it lies.
//!
//! ```text
//! 0         head: a script that copies the program out and runs it      HEAD_BYTES
//!           files, the program first, each at the start of a page
//!           index: what is where, with the digest of each
//!           signature of the index
//!           footer: where index and signature are                       FOOTER_BYTES
//! ```
//!
//! The index names every byte before it, so that one signature is for all of them.

mod elf;
mod error;
mod split;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Seek as _, SeekFrom};

use camino::{Utf8Path, Utf8PathBuf};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::bundle::{BundleFile, LATEST};
use crate::distribution::Distribution;
use crate::path::PackagePath;
use crate::sign::{COMMENT, PublicKey};
use crate::{Cancel, PackageId, Piece, Sha256, json, versioned};

pub use elf::needs_loader;
pub use error::ArtifactError;
pub use split::{PARTS, Split, join, split};
pub use write::{Assembly, Written, write};

/// What the index is called where it is signed.
const INDEX: &str = "artifact.json";
/// The version of the file that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// The length of the head.
const HEAD_BYTES: u64 = 8192;
/// Where files start: at multiples of this, so that `dd` is quick and file systems can share them.
const PAGE_BYTES: u64 = 4096;
/// The length of the footer.
const FOOTER_BYTES: u64 = 80;
/// The largest index that is read.
const INDEX_MAX_BYTES: u64 = 64 << 20;
/// The largest signature that is read.
const SIGNATURE_MAX_BYTES: u64 = 4096;

/// Where the program is, among the files.
pub const PROGRAM: &str = "program/linux-x86_64/monobloc";
/// The folder `config` of the tree, packed, among the files.
pub const TREE_CONFIG: &str = "tree/config.tar.zst";
/// What the variant without a name is called.
pub const DEFAULT_VARIANT: &str = "default";

/// What is in an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    format: u32,
    /// What it is made of.
    pub distribution: Distribution,
    /// The key that signed; whoever trusts another one must say so.
    pub key: String,
    /// The sets of packages that were built, by variant.
    pub variants: BTreeMap<String, VariantSet>,
    /// The script at the start.
    pub head: BundleFile,
    /// Every file, by its path.
    pub files: BTreeMap<PackagePath, ArtifactFile>,
}

/// The packages of a variant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VariantSet {
    /// All of them.
    pub packages: BTreeSet<PackageId>,
    /// The archive that hosts of the reference start with, if one was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<String>,
}

/// A file in an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactFile {
    /// Where it starts.
    pub offset: u64,
    /// Its length.
    pub size: u64,
    /// The digest of its content.
    pub sha256: Sha256,
}

/// An artifact whose index was read and is signed.
#[derive(Debug, Clone)]
pub struct Artifact {
    path: Utf8PathBuf,
    index: Index,
    index_bytes: Vec<u8>,
    signature: String,
}

/// Where index and signature are.
struct Footer {
    index_offset: u64,
    index_size: u64,
    signature_size: u64,
}

impl Footer {
    fn to_text(&self) -> String {
        let Self { index_offset, index_size, signature_size } = self;
        let text =
            format!("\nmonobloc {FORMAT} {index_offset:020} {index_size:020} {signature_size:020}");
        format!("{text:<79}\n")
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut numbers = text.split_ascii_whitespace().skip(2).map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        let (index_offset, index_size, signature_size) = (next()?, next()?, next()?);
        let footer = Self { index_offset, index_size, signature_size };
        (footer.to_text() == text).then_some(footer)
    }
}

impl Artifact {
    /// Reads the index, which must be complete, sound, and signed by the key that it names.
    pub fn open(path: &Utf8Path) -> Result<Self, ArtifactError> {
        let damaged = |problem: &str| ArtifactError::damaged(path, problem);
        let io = |source| ArtifactError::Io { path: path.to_owned(), source };
        let mut file = fs_err::File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let footer_offset =
            size.checked_sub(FOOTER_BYTES).ok_or_else(|| ArtifactError::NotOne(path.to_owned()))?;
        let mut read = |offset: u64, size: u64| {
            let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
            file.seek(SeekFrom::Start(offset))
                .and_then(|_| file.read_exact(&mut bytes))
                .map(|()| bytes)
                .map_err(io)
        };
        let footer = Footer::parse(&read(footer_offset, FOOTER_BYTES)?)
            .ok_or_else(|| ArtifactError::NotOne(path.to_owned()))?;
        let Footer { index_offset, index_size, signature_size } = footer;
        let ends =
            index_offset.checked_add(index_size).and_then(|end| end.checked_add(signature_size));
        if index_size > INDEX_MAX_BYTES
            || signature_size > SIGNATURE_MAX_BYTES
            || ends != Some(footer_offset)
        {
            return Err(damaged("its footer contradicts its length"));
        }
        let index_bytes = read(index_offset, index_size)?;
        let signature = String::from_utf8(read(index_offset + index_size, signature_size)?)
            .map_err(|_| damaged("its signature is no text"))?;
        // The one line of it that nobody signs.
        if !signature.starts_with(&format!("untrusted comment: {COMMENT}\n")) {
            return Err(damaged("its signature is not the one that was made"));
        }
        let index: Index = versioned::parse(&path.join(INDEX), &index_bytes, FORMAT)?;
        index.check(path, index_offset)?;
        let artifact = Self { path: path.to_owned(), index, index_bytes, signature };
        let key = PublicKey::parse(&artifact.index.key);
        artifact.check_signature(&key.map_err(|source| artifact.untrusted(source))?)?;
        Ok(artifact)
    }

    fn check_signature(&self, key: &PublicKey) -> Result<(), ArtifactError> {
        let name = &self.index.distribution.name;
        key.verify_document(INDEX, &self.index_bytes, &self.signature, name)
            .map_err(|source| self.untrusted(source))
    }

    fn untrusted(&self, source: crate::sign::SignatureError) -> ArtifactError {
        ArtifactError::Untrusted { path: self.path.clone(), source }
    }

    /// The file itself.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// What is in it.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Every file in it.
    pub fn files(&self) -> &BTreeMap<PackagePath, ArtifactFile> {
        &self.index.files
    }

    /// The key that signed it.
    pub fn key(&self) -> &str {
        &self.index.key
    }

    /// What names its content.
    pub fn id(&self) -> Sha256 {
        Sha256::of(&self.index_bytes)
    }

    /// Whether it was configured for a cluster, so that hosts can be installed from it.
    pub fn is_configured(&self) -> bool {
        self.index.files.contains_key(LATEST)
    }

    /// A file in it, to be read where it lies.
    pub fn piece(&self, path: &str) -> Option<Piece> {
        let file = self.index.files.get(path)?;
        Some(Piece::part(&self.path, path, file.offset, file.size).expecting(file.sha256))
    }

    /// Reads a small file in it, verified.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, ArtifactError> {
        let missing = || ArtifactError::Missing { path: self.path.clone(), file: path.to_owned() };
        let (piece, file) = (self.piece(path).ok_or_else(missing)?, &self.index.files[path]);
        if file.size > INDEX_MAX_BYTES {
            return Err(ArtifactError::damaged(&self.path, &format!("`{path}` is too large")));
        }
        let mut bytes = Vec::new();
        let (_, found) = piece.copy_to(&mut bytes).map_err(|source| self.io(source))?;
        if found != file.sha256 {
            return Err(self.changed(path, found, file.sha256));
        }
        Ok(bytes)
    }

    /// Reads every byte and checks that it is the one that was signed, by `key` if one is given.
    pub fn verify(&self, key: Option<&PublicKey>, cancel: &Cancel) -> Result<(), ArtifactError> {
        if let Some(key) = key {
            self.check_signature(key)?;
        }
        let head = Piece::part(&self.path, "its head", 0, HEAD_BYTES);
        let found = head.sha256().map_err(|source| self.io(source))?;
        if found != self.index.head.sha256 {
            return Err(self.changed("its head", found, self.index.head.sha256));
        }
        self.index.files.par_iter().try_for_each(|(path, file)| {
            cancel.check()?;
            let piece = Piece::part(&self.path, path.as_str(), file.offset, file.size);
            let found = piece.sha256().map_err(|source| self.io(source))?;
            if found == file.sha256 {
                return Ok(());
            }
            Err(self.changed(path.as_str(), found, file.sha256))
        })?;
        self.check_gaps()
    }

    /// Checks that nothing is between the files.
    fn check_gaps(&self) -> Result<(), ArtifactError> {
        let mut files: Vec<&ArtifactFile> = self.index.files.values().collect();
        files.sort_by_key(|file| (file.offset, file.size));
        let end = files.last().map_or(HEAD_BYTES, |file| file.offset + file.size);
        let starts = files.iter().map(|file| file.offset).chain([to_page(end)]).skip(1);
        for (file, start) in files.iter().zip(starts) {
            let from = file.offset + file.size;
            let mut gap = Vec::new();
            let piece = Piece::part(&self.path, "a gap", from, start.saturating_sub(from));
            piece.copy_to(&mut gap).map_err(|source| self.io(source))?;
            if gap.iter().any(|byte| *byte != 0) {
                let problem = format!("something lies at {from}, where nothing belongs");
                return Err(ArtifactError::damaged(&self.path, &problem));
            }
        }
        Ok(())
    }

    fn io(&self, source: std::io::Error) -> ArtifactError {
        ArtifactError::Io { path: self.path.clone(), source }
    }

    fn changed(&self, file: &str, found: Sha256, expected: Sha256) -> ArtifactError {
        let (path, file) = (self.path.clone(), file.to_owned());
        ArtifactError::Changed { path, file, found, expected }
    }
}

impl Index {
    fn to_json(&self) -> Vec<u8> {
        json::pretty(self).into_bytes()
    }

    /// Checks that every file lies behind the head, before `end`, and on no other, with less than a page
    /// between two.
    fn check(&self, path: &Utf8Path, end: u64) -> Result<(), ArtifactError> {
        let damaged = |problem: String| ArtifactError::damaged(path, &problem);
        if self.head.size != HEAD_BYTES {
            return Err(damaged("its head has the wrong length".to_owned()));
        }
        let mut files: Vec<(&PackagePath, &ArtifactFile)> = self.files.iter().collect();
        files.sort_by_key(|(_, file)| (file.offset, file.size));
        let mut next = HEAD_BYTES;
        for (name, file) in files {
            let file_end = file.offset.checked_add(file.size);
            match file_end {
                Some(file_end) if file.offset == next && file_end <= end => {
                    next = to_page(file_end);
                }
                _ => return Err(damaged(format!("`{name}` is not where it should be"))),
            }
        }
        if next != end {
            return Err(damaged("its index is not where it should be".to_owned()));
        }
        Ok(())
    }
}

/// The start of the first page that is not before `offset`.
fn to_page(offset: u64) -> u64 {
    offset.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX)
}
