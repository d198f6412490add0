//! What a downloaded file has to be: its digest, by SHA-256 or, for old trees, by SHA-1.

use std::fmt;
use std::io::{self, Read as _};
use std::str::FromStr;

use camino::Utf8Path;
use package::Sha256;
use sha1::Digest as _;

/// A SHA-1 digest, written as 40 lower-case hex digits. Only good against accidents: two files with
/// one SHA-1 can be made on purpose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha1([u8; 20]);

/// A text that is not a SHA-1 digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-1 digest: expected 40 lower-case hex digits")]
pub struct ParseSha1Error(String);

/// The digest that a file must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Checksum {
    /// The digest that everything new uses.
    Sha256(Sha256),
    /// The digest that old trees have.
    Sha1(Sha1),
}

impl Checksum {
    /// The name of the algorithm, as trees spell it.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha256",
            Self::Sha1(_) => "sha1",
        }
    }

    /// The digest in hex.
    pub fn hex(&self) -> String {
        match self {
            Self::Sha256(digest) => digest.to_string(),
            Self::Sha1(digest) => digest.to_string(),
        }
    }

    /// The digest that the file at `path` has, by the same algorithm.
    pub fn found_in(&self, path: &Utf8Path) -> io::Result<Self> {
        match self {
            Self::Sha256(_) => Sha256::of_file(path).map(Self::Sha256),
            Self::Sha1(_) => Sha1::of_file(path).map(Self::Sha1),
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.algorithm(), self.hex())
    }
}

impl From<Sha256> for Checksum {
    fn from(digest: Sha256) -> Self {
        Self::Sha256(digest)
    }
}

impl From<Sha1> for Checksum {
    fn from(digest: Sha1) -> Self {
        Self::Sha1(digest)
    }
}

impl Sha1 {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha1::Sha1::digest(bytes).into())
    }

    /// The digest of the file at `path`.
    pub fn of_file(path: &Utf8Path) -> io::Result<Self> {
        let mut file = fs_err::File::open(path)?;
        let mut hasher = sha1::Sha1::new();
        let mut buffer = vec![0; 128 * 1024];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(Self(hasher.finalize().into())),
                Ok(count) => hasher.update(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Display for Sha1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha1({self})")
    }
}

impl FromStr for Sha1 {
    type Err = ParseSha1Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let refused = || ParseSha1Error(text.to_owned());
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 20 || !rest.is_empty() {
            return Err(refused());
        }
        let mut digest = [0; 20];
        for (out, [high, low]) in digest.iter_mut().zip(pairs) {
            *out = digit(*high)
                .zip(digit(*low))
                .map(|(high, low)| high << 4 | low)
                .ok_or_else(refused)?;
        }
        Ok(Self(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";

    #[test]
    fn sha1_matches_the_published_vector_and_reads_back() {
        let digest = Sha1::of(b"abc");
        assert_eq!(digest.to_string(), ABC);
        assert_eq!(ABC.parse(), Ok(digest));
    }

    #[test]
    fn anything_but_40_lower_case_hex_digits_is_refused() {
        for text in ["", "ab", &ABC[1..], &ABC.to_uppercase(), &format!("{ABC}\n"), &"é".repeat(20)]
        {
            assert!(text.parse::<Sha1>().is_err(), "{text:?}");
        }
    }
}
