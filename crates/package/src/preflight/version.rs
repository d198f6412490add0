//! Versions of programs and kernels, whatever stands behind the numbers.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// More numbers than this are no version.
const PARTS_MAX: usize = 8;

/// Numbers with dots in between; `1.6` and `1.6.0` are the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Version(Vec<u32>);

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no version: expected numbers with dots in between, such as `1.13`", .0.escape_debug())]
pub struct VersionError(String);

impl Version {
    /// The version at the start of what a program says: `18.09.1-ce`, `v5.10.0-8-amd64`,
    /// `20.10.5+dfsg1`.
    pub fn leading(text: &str) -> Option<Self> {
        let text = text.trim_start();
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let end = text.find(|char: char| !char.is_ascii_digit() && char != '.');
        text[..end.unwrap_or(text.len())].trim_end_matches('.').parse().ok()
    }

    /// What is compared: zeros at the end say nothing.
    fn significant(&self) -> &[u32] {
        let end = self.0.iter().rposition(|part| *part != 0).map_or(0, |at| at + 1);
        &self.0[..end]
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || VersionError(text.to_owned());
        let parts = text.split('.').map(|part| {
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| is_number)
        });
        let parts: Option<Vec<u32>> = parts.take(PARTS_MAX + 1).collect();
        parts.filter(|parts| parts.len() <= PARTS_MAX).map(Self).ok_or_else(wrong)
    }
}

impl TryFrom<String> for Version {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.significant() == other.significant()
    }
}

impl Eq for Version {}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.significant().cmp(other.significant())
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_and_not_their_spelling() {
        let at = |text: &str| Version::leading(text).unwrap_or_else(|| panic!("{text}"));
        assert!(at("18.09.1-ce") > at("1.13"));
        assert!(at("1.9") < at("1.13.1"));
        assert!(at("0.18.0") < at("1.6"));
        assert_eq!(at("v5.10.0-8-amd64"), at("5.10"));
        assert!(at("20.10.5+dfsg1") > at("20.10.0"));
        assert!(at("252.5-2ubuntu3") > at("219"));
        for text in ["", "latest", ".1", "1..2", "99999999999", "1.2.3.4.5.6.7.8.9"] {
            assert_eq!(Version::leading(text), None, "{text}");
        }
        assert!("1.13-ce".parse::<Version>().is_err());
    }
}
