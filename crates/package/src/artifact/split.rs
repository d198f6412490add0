//! An artifact on media that are smaller than it is: parts that can each be verified, alone or with
//! `sha256sum -c`, and be joined again, also with `cat`.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::num::NonZeroU64;

use camino::{Utf8Path, Utf8PathBuf};

use super::ArtifactError;
use crate::digest::Hasher;
use crate::{Cancel, Piece, Sha256, durable, platform};

/// What stands behind the name of a file to make the name of the list of its parts.
pub const PARTS: &str = ".parts.sha256";
/// The same of the file with the digest of the whole.
const WHOLE: &str = ".sha256";
/// The largest list that is read.
const LIST_MAX_BYTES: u64 = 1 << 20;
/// How many parts there can be: names have three digits.
const PARTS_MAX: u64 = 999;

/// A file in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The parts, in order.
    pub parts: Vec<Utf8PathBuf>,
    /// The list with their digests; that of the whole lies beside it.
    pub list: Utf8PathBuf,
}

/// Writes `file` to `folder` in parts of at most `size` bytes, and the list of them.
pub fn split(
    file: &Utf8Path,
    folder: &Utf8Path,
    size: NonZeroU64,
    cancel: &Cancel,
) -> Result<Split, ArtifactError> {
    let io = |source| ArtifactError::Io { path: file.to_owned(), source };
    let name = file.file_name().unwrap_or_default();
    let length = Piece::from(file).size().map_err(io)?;
    let count = length.div_ceil(size.get());
    if count > PARTS_MAX {
        let problem = format!("it would be {count} parts, more than {PARTS_MAX}: take larger ones");
        return Err(ArtifactError::Parts { path: file.to_owned(), problem });
    }
    let (mut lines, mut parts) = (Vec::new(), Vec::new());
    for number in 1..=count {
        cancel.check()?;
        let part_name = format!("{name}.{number:03}");
        let part = folder.join(&part_name);
        let part_io = |source| ArtifactError::Io { path: part.clone(), source };
        let mut target = durable::create_beside(&part).map_err(part_io)?;
        let offset = (number - 1) * size.get();
        let piece = Piece::part(file, &part_name, offset, size.get().min(length - offset));
        let (_, digest) = piece.copy_to(&mut target).map_err(part_io)?;
        durable::persist(target, &part).map_err(part_io)?;
        lines.push(format!("{digest}  {part_name}\n"));
        parts.push(part);
    }
    // Who joins with `cat` takes what is there.
    for number in count + 1..=PARTS_MAX {
        let left = folder.join(format!("{name}.{number:03}"));
        durable::remove_tree(&left).map_err(|source| ArtifactError::Io { path: left, source })?;
    }
    let list = folder.join(format!("{name}{PARTS}"));
    let whole = format!("{}  {name}\n", Piece::from(file).sha256().map_err(io)?);
    for (path, text) in [(&list, lines.concat()), (&folder.join(format!("{name}{WHOLE}")), whole)] {
        durable::write(path, text.as_bytes())
            .map_err(|source| ArtifactError::Io { path: path.clone(), source })?;
    }
    Ok(Split { parts, list })
}

/// Joins the parts that lie beside `list` to the new file `target`, every byte verified.
pub fn join(list: &Utf8Path, target: &Utf8Path, cancel: &Cancel) -> Result<Sha256, ArtifactError> {
    let io = |source| ArtifactError::Io { path: target.to_owned(), source };
    let parts = read_list(list)?;
    let whole = Utf8PathBuf::from(list.as_str().strip_suffix(PARTS).unwrap_or(list.as_str()));
    let digest = Utf8PathBuf::from(format!("{whole}{WHOLE}"));
    let listed = read_list(&digest)?;
    let [(_, expected)] = listed.as_slice() else {
        let problem = "expected one line in it".to_owned();
        return Err(ArtifactError::Parts { path: digest, problem });
    };
    if fs_err::symlink_metadata(target).is_ok() {
        return Err(ArtifactError::Exists(target.to_owned()));
    }
    let mut file = durable::create_beside(target).map_err(io)?;
    for (name, expected) in parts {
        cancel.check()?;
        let path = list.with_file_name(&name);
        if !fs_err::exists(&path).map_err(io)? {
            return Err(ArtifactError::NoPart { part: name, list: list.to_owned() });
        }
        let (_, found) = Piece::from(&path).copy_to(&mut file).map_err(io)?;
        if found != expected {
            return Err(ArtifactError::Changed { path, file: "it".to_owned(), found, expected });
        }
    }
    let mut whole = Hasher::new();
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    whole.read_all(&mut file).map_err(io)?;
    let found = whole.finish();
    if found != *expected {
        let (path, expected) = (target.to_owned(), *expected);
        return Err(ArtifactError::Changed { path, file: "it".to_owned(), found, expected });
    }
    platform::set_mode(file.path(), 0o755).map_err(io)?;
    file.as_file().sync_all().map_err(io)?;
    file.persist_noclobber(target).map_err(|error| io(error.error))?;
    durable::sync_directory(target.parent().filter(|folder| *folder != "").unwrap_or(".".into()))
        .map_err(io)?;
    Ok(found)
}

/// Names and digests, a line each.
fn read_list(list: &Utf8Path) -> Result<Vec<(String, Sha256)>, ArtifactError> {
    let io = |source| ArtifactError::Io { path: list.to_owned(), source };
    let wrong =
        |problem: &str| ArtifactError::Parts { path: list.to_owned(), problem: problem.to_owned() };
    let mut text = String::new();
    let file = fs_err::File::open(list).map_err(io)?;
    file.take(LIST_MAX_BYTES).read_to_string(&mut text).map_err(io)?;
    let line = |line: &str| {
        let (digest, name) = line.split_once("  ")?;
        // A name is a name: nothing outside of the folder is read.
        let is_name = !name.is_empty() && !name.contains('/') && ![".", ".."].contains(&name);
        is_name.then_some((name.to_owned(), digest.parse().ok()?))
    };
    let listed: Option<Vec<_>> = text.lines().map(line).collect();
    listed.ok_or_else(|| wrong("expected `SHA-256  NAME` in each line"))
}
