//! SHA-256 digests: the only digest that anything is trusted by.

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// A SHA-256 digest, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Sha256([u8; 32]);

/// A text that is not a SHA-256 digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 digest: expected 64 lower-case hex digits")]
pub struct ParseDigestError(String);

impl Sha256 {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The digest of the file at `path`.
    pub fn of_file(path: &Utf8Path) -> io::Result<Self> {
        let mut hasher = Hasher::new();
        hasher.read_all(&mut fs_err::File::open(path)?)?;
        Ok(hasher.finish())
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

impl FromStr for Sha256 {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut digest = [0; 32];
        let pairs = text.as_bytes();
        if pairs.len() != 64 {
            return Err(ParseDigestError(text.to_owned()));
        }
        for (out, pair) in digest.iter_mut().zip(pairs.chunks_exact(2)) {
            match (digit(pair[0]), digit(pair[1])) {
                (Some(high), Some(low)) => *out = high << 4 | low,
                _ => return Err(ParseDigestError(text.to_owned())),
            }
        }
        Ok(Self(digest))
    }
}

impl From<Sha256> for String {
    fn from(digest: Sha256) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Sha256 {
    type Error = ParseDigestError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Computes a digest piece by piece.
#[derive(Debug, Clone, Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    /// A hasher that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes in everything `reader` still has and returns how many bytes that was.
    pub fn read_all(&mut self, reader: &mut dyn Read) -> io::Result<u64> {
        let mut buffer = vec![0; 128 * 1024];
        let mut total = 0;
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(total),
                Ok(count) => {
                    self.update(&buffer[..count]);
                    total += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The digest of everything taken in.
    pub fn finish(self) -> Sha256 {
        Sha256(self.0.finalize().into())
    }
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn digest_matches_the_published_vector_and_reads_back() {
        let digest = Sha256::of(b"abc");
        assert_eq!(digest.to_string(), ABC);
        assert_eq!(ABC.parse(), Ok(digest));
    }

    #[test]
    fn anything_but_64_lower_case_hex_digits_is_refused() {
        for text in ["", "ab", &ABC[1..], &ABC.to_uppercase(), &format!("{ABC}\n"), &"é".repeat(32)]
        {
            assert!(text.parse::<Sha256>().is_err(), "{text:?}");
        }
    }
}
