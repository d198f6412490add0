//! The small values of which sources are made. None of them can be taken for an option by the
//! program that it is given to.

use std::fmt;
use std::str::FromStr;

/// A text that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not {what}: expected {expected}")]
pub struct InvalidValue {
    value: String,
    what: &'static str,
    expected: &'static str,
}

/// Refuses `value` unless it `fits`.
pub(super) fn check(
    fits: bool,
    value: &str,
    what: &'static str,
    expected: &'static str,
) -> Result<(), InvalidValue> {
    if fits { Ok(()) } else { Err(InvalidValue { value: value.to_owned(), what, expected }) }
}

/// The full id of a git commit: 40 lower-case hex digits, not all zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GitCommit(String);

impl GitCommit {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for GitCommit {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let zero = text.bytes().all(|byte| byte == b'0');
        let expected = "40 lower-case hex digits, not all zero";
        check(text.len() == 40 && hex && !zero, text, "a git commit", expected)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for GitCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The branch or tag that a commit was taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefOrigin(String);

impl RefOrigin {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RefOrigin {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // These are what git itself refuses, and what would make a refspec of it.
        let odd = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
        let fits = !text.is_empty() && !text.starts_with('-') && !text.contains(odd);
        check(fits, text, "a git branch or tag", "the name of one")?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for RefOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A Debian architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Architecture(String);

impl FromStr for Architecture {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        check(fits, text, "a Debian architecture", "one like `amd64`")?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_40_lower_case_hex_digits_and_not_zero() {
        let good = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(good.parse::<GitCommit>().unwrap().as_str(), good);
        for bad in ["", "master", &good[1..], &good.to_uppercase(), &"0".repeat(40)] {
            let error = bad.parse::<GitCommit>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "`{bad}` is not a git commit: expected 40 lower-case hex digits, not all zero"
                )
            );
        }
    }

    #[test]
    fn nothing_can_be_taken_for_an_option() {
        assert!("--upload-pack=x".parse::<RefOrigin>().is_err());
        assert!("a:b".parse::<RefOrigin>().is_err());
        assert!("dcos-1.13/x".parse::<RefOrigin>().is_ok());
        assert!("-x".parse::<Architecture>().is_err());
        assert!("amd64".parse::<Architecture>().is_ok());
    }
}
