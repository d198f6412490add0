//! Paths inside a package: relative, with `/`, and never leading out of it.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

/// A path inside a package, such as `bin/etcd`.
///
/// Ordered by bytes: a folder comes before everything in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PackagePath(String);

/// The longest path that is accepted; every system can hold it.
pub const LENGTH_MAX: usize = 4000;

/// The deepest path that is accepted: each folder above is made, however short the path.
pub const DEPTH_MAX: usize = 128;

/// A text that is not a path inside a package.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a path inside a package: {problem}", path.escape_debug())]
pub struct PathError {
    path: String,
    problem: &'static str,
}

impl PathError {
    /// The path of something that the package format keeps for itself.
    pub(crate) fn reserved(path: &str) -> Self {
        Self { path: path.to_owned(), problem: "the name is reserved" }
    }
}

impl PackagePath {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder it lies in; `None` at the top.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// Its last part.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// This path with one more part, which must be a plain name.
    pub fn join(&self, name: &str) -> Result<Self, PathError> {
        format!("{self}/{name}").parse()
    }

    /// Its parts from the top.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// Why Windows could not hold a file of this name, if so.
    pub fn windows_problem(&self) -> Option<&'static str> {
        const DEVICES: [&str; 8] = ["con", "prn", "aux", "nul", "com", "lpt", "conin$", "conout$"];
        let is_digit = |char: char| char.is_ascii_digit() || "¹²³".contains(char);
        self.components().find_map(|part| {
            let stem = part.split('.').next().unwrap_or_default().to_ascii_lowercase();
            let stem = stem.trim_end_matches(' ');
            let device = stem.trim_end_matches(is_digit);
            if part.contains(['<', '>', ':', '"', '|', '?', '*', '\\']) {
                Some("Windows does not allow `< > : \" | ? * \\` in names")
            } else if part.contains(|char: char| char < ' ') {
                Some("Windows does not allow control characters in names")
            } else if part.ends_with(['.', ' ']) {
                Some("Windows does not allow names ending in `.` or a blank")
            } else if DEVICES.contains(&device) && stem[device.len()..].chars().count() <= 1 {
                Some("the name is a device on Windows")
            } else {
                None
            }
        })
    }
}

/// Why a text is no path inside a package.
fn problem(text: &str) -> Option<&'static str> {
    let parts = || text.split('/');
    if text.is_empty() {
        Some("it is empty")
    } else if text.starts_with('/') {
        Some("it is absolute")
    } else if text.len() > LENGTH_MAX {
        Some("it is too long")
    } else if parts().count() > DEPTH_MAX {
        Some("it is too deep")
    } else if text.bytes().any(|byte| matches!(byte, b'\0' | b'\n' | b'\r')) {
        Some("it holds a control character")
    } else if parts().any(|part| part == "..") {
        Some("it leads out with `..`")
    } else if parts().any(|part| part.is_empty() || part == ".") {
        Some("it has an empty part or `.`")
    } else if parts().any(|part| part.len() > 255) {
        Some("one of its names is longer than 255 bytes")
    } else {
        None
    }
}

impl FromStr for PackagePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for PackagePath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match problem(&text) {
            None => Ok(Self(text)),
            Some(problem) => Err(PathError { path: text.chars().take(200).collect(), problem }),
        }
    }
}

impl From<PackagePath> for String {
    fn from(path: PackagePath) -> Self {
        path.0
    }
}

impl Borrow<str> for PackagePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PackagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PackagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_or_hide_something_are_refused() {
        for (text, problem) in [
            ("", "empty"),
            ("/etc/passwd", "absolute"),
            ("../x", "`..`"),
            ("a/../../x", "`..`"),
            ("a//b", "empty part"),
            ("./a", "empty part or `.`"),
            ("a/", "empty part"),
            ("a\nb", "control character"),
            ("a\0b", "control character"),
        ] {
            let error = text.parse::<PackagePath>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text:?}: {error}");
        }
        assert!("x".repeat(256).parse::<PackagePath>().is_err());
        assert!("x/".repeat(DEPTH_MAX).trim_end_matches('/').parse::<PackagePath>().is_ok());
        assert!("x/".repeat(DEPTH_MAX + 1).trim_end_matches('/').parse::<PackagePath>().is_err());
        assert!("a/..b/c..".parse::<PackagePath>().is_ok());
    }

    #[test]
    fn names_that_windows_cannot_hold_are_told() {
        for text in [
            "a/con",
            "NUL.txt",
            "com1",
            "LPT²",
            "conin$",
            "CONOUT$.log",
            "nul .txt",
            "a:b",
            "a.",
            "b /c",
            "x\\y",
            "a\tb",
            "a/\x01",
            "\x1f",
        ] {
            assert!(text.parse::<PackagePath>().unwrap().windows_problem().is_some(), "{text}");
        }
        for text in ["console", "a/null", "comet1", "com12", "conin", "lib/x.dll", "a b\u{7f}é"] {
            assert!(text.parse::<PackagePath>().unwrap().windows_problem().is_none(), "{text}");
        }
    }
}
