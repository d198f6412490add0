//! A piece of a file: all of it, or a part. What lies in an artifact is read there, by its offset.

use std::io::{self, Read, Seek, SeekFrom};

use camino::{Utf8Path, Utf8PathBuf};

use crate::digest::{Hasher, Sha256};

/// A file, or a part of one that has a name of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    file: Utf8PathBuf,
    shown: Utf8PathBuf,
    /// Where it starts and how long it is; `None`: all there is.
    part: Option<(u64, u64)>,
    expected: Option<Sha256>,
}

impl Piece {
    /// The part of `file` that is called `name`.
    pub fn part(file: &Utf8Path, name: &str, offset: u64, size: u64) -> Self {
        let shown = format!("{file}:{name}").into();
        Self { file: file.to_owned(), shown, part: Some((offset, size)), expected: None }
    }

    /// The same, where somebody signed what its digest is.
    #[must_use]
    pub fn expecting(self, sha256: Sha256) -> Self {
        Self { expected: Some(sha256), ..self }
    }

    /// The digest that somebody signed, if one did. Whoever reads it compares.
    pub fn expected(&self) -> Option<Sha256> {
        self.expected
    }

    /// What messages call it; ends in its name.
    pub fn shown(&self) -> &Utf8Path {
        &self.shown
    }

    /// The last part of its name.
    pub fn file_name(&self) -> &str {
        self.shown.file_name().unwrap_or_default()
    }

    /// Opens it at its start.
    pub fn open(&self) -> io::Result<PieceReader> {
        let mut file = fs_err::File::open(&self.file)?;
        let (start, length) = match self.part {
            Some(part) => part,
            None => (0, file.metadata()?.len()),
        };
        if start > 0 {
            file.seek(SeekFrom::Start(start))?;
        }
        Ok(PieceReader { file, start, length, position: 0 })
    }

    /// Its length.
    pub fn size(&self) -> io::Result<u64> {
        match self.part {
            Some((_, size)) => Ok(size),
            None => Ok(fs_err::metadata(&self.file)?.len()),
        }
    }

    /// The digest of its content.
    pub fn sha256(&self) -> io::Result<Sha256> {
        let mut hasher = Hasher::new();
        hasher.read_all(&mut self.open()?)?;
        Ok(hasher.finish())
    }

    /// Writes it to `target`; returns the digest of what was written.
    pub fn copy_to(&self, target: &mut dyn io::Write) -> io::Result<(u64, Sha256)> {
        let mut reader = self.open()?;
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 256 * 1024];
        let mut size = 0;
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            hasher.update(&buffer[..count]);
            target.write_all(&buffer[..count])?;
            size += count as u64;
        }
        target.flush()?;
        Ok((size, hasher.finish()))
    }
}

impl From<Utf8PathBuf> for Piece {
    fn from(file: Utf8PathBuf) -> Self {
        Self { shown: file.clone(), file, part: None, expected: None }
    }
}

impl From<&Utf8Path> for Piece {
    fn from(file: &Utf8Path) -> Self {
        file.to_owned().into()
    }
}

impl From<&Utf8PathBuf> for Piece {
    fn from(file: &Utf8PathBuf) -> Self {
        file.clone().into()
    }
}

impl From<&Self> for Piece {
    fn from(piece: &Self) -> Self {
        piece.clone()
    }
}

/// Reads a piece and nothing around it.
#[derive(Debug)]
pub struct PieceReader {
    file: fs_err::File,
    start: u64,
    length: u64,
    position: u64,
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.length.saturating_sub(self.position);
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read(&mut buffer[..most])?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for PieceReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "outside of the piece");
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.length.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        let position = position.ok_or_else(outside)?;
        let absolute = self.start.checked_add(position).ok_or_else(outside)?;
        self.file.seek(SeekFrom::Start(absolute))?;
        self.position = position;
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("file");
        fs_err::write(&path, b"0123456789").unwrap();
        (folder, path)
    }

    #[test]
    fn a_part_is_read_and_nothing_around_it() {
        let (_folder, path) = file();
        let part = Piece::part(&path, "a/b", 2, 5);
        assert_eq!((part.size().unwrap(), part.file_name()), (5, "b"));
        let mut text = String::new();
        let mut reader = part.open().unwrap();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "23456");
        assert_eq!(reader.seek(SeekFrom::End(-2)).unwrap(), 3);
        text.clear();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "56");
        reader.seek(SeekFrom::Start(9)).unwrap();
        assert_eq!(reader.read(&mut [0; 4]).unwrap(), 0);
        assert!(reader.seek(SeekFrom::Current(-20)).is_err());
        assert!(reader.seek(SeekFrom::Start(u64::MAX)).is_err());
        let mut copied = Vec::new();
        assert_eq!(part.copy_to(&mut copied).unwrap(), (5, Sha256::of(b"23456")));
        assert_eq!(
            (copied.as_slice(), part.sha256().unwrap()),
            (&b"23456"[..], Sha256::of(b"23456"))
        );
    }

    #[test]
    fn a_part_behind_the_end_is_cut_short_and_its_digest_tells() {
        let (_folder, path) = file();
        let part = Piece::part(&path, "x", 8, 5);
        assert_eq!(part.sha256().unwrap(), Sha256::of(b"89"));
    }

    #[test]
    fn a_whole_file_is_what_it_is_now() {
        let (_folder, path) = file();
        let whole = Piece::from(&path);
        assert_eq!((whole.size().unwrap(), whole.shown()), (10, path.as_path()));
        assert_eq!(whole.sha256().unwrap(), Sha256::of(b"0123456789"));
    }
}
