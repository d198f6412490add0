//! From files to an artifact: written aside, and under its name when it is complete and on disk.

use std::collections::BTreeMap;
use std::io::Write as _;

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    Artifact, ArtifactError, ArtifactFile, FOOTER_BYTES, FORMAT, Footer, HEAD_BYTES, INDEX, Index,
    PROGRAM, VariantSet, to_page,
};
use crate::bundle::{BundleFile, SIGNATURE};
use crate::distribution::Distribution;
use crate::path::PackagePath;
use crate::sign::SecretKey;
use crate::{Cancel, Piece, Sha256, durable};

/// The script at the start, with `@NAME@` for what differs.
const HEAD: &str = include_str!("head.sh");

/// What an artifact is made of.
#[derive(Debug)]
pub struct Assembly<'a> {
    /// What it is an artifact of.
    pub distribution: &'a Distribution,
    /// Its sets of packages.
    pub variants: BTreeMap<String, VariantSet>,
    /// The program that the head runs.
    pub program: Piece,
    /// All other files.
    pub files: BTreeMap<PackagePath, Piece>,
    /// Who signs.
    pub key: &'a SecretKey,
}

/// An artifact that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its length.
    pub size: u64,
    /// The digest of all of it, for those who get it from elsewhere.
    pub sha256: Sha256,
    /// The file with its signature, which the stock `minisign` can verify.
    pub signature: Utf8PathBuf,
}

impl Assembly<'_> {
    /// Whether `artifact` is what this would make.
    pub fn is(&self, artifact: &Artifact) -> Result<bool, ArtifactError> {
        let sign = |source| ArtifactError::Sign { path: artifact.path.clone(), source };
        let index = &artifact.index;
        let is_same = index.distribution == *self.distribution
            && index.key == self.key.public().map_err(sign)?.to_string()
            && index.variants == self.variants
            && index.files.len() == self.files.len() + 1
            && index.head.sha256 == Sha256::of(&head(self.distribution, &self.program)?);
        if !is_same {
            return Ok(false);
        }
        for (path, piece) in &self.files {
            let Some(known) = index.files.get(path) else { return Ok(false) };
            let is_named_by_content = path.as_str().starts_with("packages/");
            let is_same = piece.size().map_err(read_error(piece))? == known.size
                && (is_named_by_content
                    || piece.sha256().map_err(read_error(piece))? == known.sha256);
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Writes an artifact to `target`, and its signature beside it.
pub fn write(
    target: &Utf8Path,
    assembly: Assembly<'_>,
    cancel: &Cancel,
) -> Result<Written, ArtifactError> {
    let io = |source| ArtifactError::Io { path: target.to_owned(), source };
    let sign = |source| ArtifactError::Sign { path: target.to_owned(), source };
    let program: PackagePath = PROGRAM.parse().expect("a plain path");
    let head = head(assembly.distribution, &assembly.program)?;
    let mut file = durable::create_beside(target).map_err(io)?;
    let mut index = Index {
        format: FORMAT,
        distribution: assembly.distribution.clone(),
        key: assembly.key.public().map_err(sign)?.to_string(),
        variants: assembly.variants,
        head: BundleFile { size: HEAD_BYTES, sha256: Sha256::of(&head) },
        files: BTreeMap::new(),
    };
    file.write_all(&head).map_err(io)?;
    let mut offset = HEAD_BYTES;
    let first = std::iter::once((program, assembly.program));
    for (path, piece) in first.chain(assembly.files) {
        cancel.check()?;
        let expected = piece.size().map_err(read_error(&piece))?;
        let (size, sha256) = piece.copy_to(&mut file).map_err(io)?;
        if size != expected {
            return Err(ArtifactError::Moving { path: piece.shown().to_owned() });
        }
        index.files.insert(path, ArtifactFile { offset, size, sha256 });
        let end = offset + size;
        offset = to_page(end);
        file.write_all(&vec![0; usize::try_from(offset - end).unwrap_or_default()]).map_err(io)?;
    }
    let index_bytes = index.to_json();
    let name = &index.distribution.name;
    let signature = assembly.key.sign_document(INDEX, &index_bytes, name).map_err(sign)?;
    let (index_size, signature_size) = (index_bytes.len() as u64, signature.len() as u64);
    let footer = Footer { index_offset: offset, index_size, signature_size }.to_text();
    debug_assert_eq!(footer.len() as u64, FOOTER_BYTES);
    for part in [&index_bytes[..], signature.as_bytes(), footer.as_bytes()] {
        file.write_all(part).map_err(io)?;
    }
    file.flush().map_err(io)?;
    let made = Utf8Path::from_path(file.path()).map(Piece::from);
    let made = made.ok_or_else(|| io(std::io::Error::other("its folder is not UTF-8")))?;
    let (size, sha256) = (made.size().map_err(io)?, made.sha256().map_err(io)?);
    let subject = subject(&index.distribution, Sha256::of(&index_bytes));
    let subject = format!("{subject}, SHA-256 {sha256}");
    let signature =
        assembly.key.sign_stream(&mut made.open().map_err(io)?, &subject).map_err(sign)?;
    durable::persist_with_mode(file, target, 0o755).map_err(io)?;
    let beside = signature_path(target);
    durable::write(&beside, signature.as_bytes())
        .map_err(|source| ArtifactError::Io { path: beside.clone(), source })?;
    Ok(Written { size, sha256, signature: beside })
}

impl Artifact {
    /// The digest of the whole file, as the signature beside it tells it that was made with it; nothing
    /// if there is none, or another one.
    pub fn sha256_beside(&self) -> Option<Sha256> {
        let subject = subject(&self.index.distribution, self.id());
        let prefix = format!("trusted comment: {subject}, SHA-256 ");
        let text = fs_err::read_to_string(signature_path(&self.path)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(&prefix))?.parse().ok()
    }
}

fn signature_path(target: &Utf8Path) -> Utf8PathBuf {
    format!("{target}{SIGNATURE}").into()
}

fn subject(distribution: &Distribution, id: Sha256) -> String {
    format!("monobloc artifact {id} of {}", distribution.name)
}

/// The script for this program.
fn head(distribution: &Distribution, program: &Piece) -> Result<Vec<u8>, ArtifactError> {
    let size = program.size().map_err(read_error(program))?;
    let digest = program.sha256().map_err(read_error(program))?;
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || "._+~-".contains(*char);
    let version: String = distribution.version.chars().filter(is_plain).take(80).collect();
    let mut text = HEAD.to_owned();
    for (name, value) in [
        ("@NAME@", &distribution.name),
        ("@VERSION@", &version),
        ("@FIRST@", &(HEAD_BYTES + 1).to_string()),
        ("@BYTES@", &size.to_string()),
        ("@DIGEST@", &digest.to_string()),
        ("@MEGABYTES@", &size.div_ceil(1_000_000).to_string()),
    ] {
        text = text.replace(name, value);
    }
    let mut head = text.into_bytes();
    debug_assert!(head.len() as u64 <= HEAD_BYTES, "the head has {} bytes", head.len());
    head.resize(usize::try_from(HEAD_BYTES).unwrap_or_default(), b'\n');
    Ok(head)
}

fn read_error(piece: &Piece) -> impl FnOnce(std::io::Error) -> ArtifactError {
    let path = piece.shown().to_owned();
    move |source| ArtifactError::Io { path, source }
}
