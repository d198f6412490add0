//! Names: of packages, versions, variants, roles, users and groups. Each is parsed once, at the
//! border, and trusted afterwards.

use std::fmt;
use std::str::FromStr;

/// A text that is not a valid name of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a valid {kind}: expected {expected}", text.escape_debug())]
pub struct ParseIdError {
    text: String,
    kind: &'static str,
    expected: &'static str,
}

/// Declares a checked string: its type, what it is called, the rule and the rule in words.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $expected:literal, $is_valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $type(String);

        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(ParseIdError { text: text.to_owned(), kind: $kind, expected: $expected })
                }
            }
        }

        impl TryFrom<String> for $type {
            type Error = ParseIdError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
    };
}

name!(
    /// The name of a package, such as `etcd`.
    PackageName,
    "package name",
    "letters, digits and `@._+-`, not starting with `.` or `-`, not ending with `-`, without `--`",
    |text| {
        text.bytes().all(|byte| is_name_byte(byte) || byte == b'.' || byte == b'-')
            && text.bytes().next().is_some_and(is_name_byte)
            // Either would make an id that cannot be read back.
            && !text.ends_with('-')
            && !text.contains("--")
    }
);

name!(
    /// The version of a package: of what Monobloc builds, 40 hex digits of the hash of its inputs.
    PackageVersion,
    "package version",
    "letters, digits and `@_+:.`",
    |text| {
        !text.is_empty()
            && text.bytes().all(|byte| is_name_byte(byte) || byte == b':' || byte == b'.')
    }
);

name!(
    /// The name of a variant other than the default one.
    VariantName,
    "variant name",
    "letters, digits and `@._+-`, not starting with `.` or `-`",
    |text| {
        text.bytes().all(|byte| is_name_byte(byte) || byte == b'.' || byte == b'-')
            && text.bytes().next().is_some_and(is_name_byte)
    }
);

name!(
    /// What a host is: `master`, `slave`, `slave_public`, or any other name.
    RoleName,
    "role name",
    "letters, digits and `_-`, starting with a letter or digit",
    |text| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
            && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
    }
);

name!(
    /// A system user that a package runs as.
    UserName,
    "user name",
    "the distribution's prefix and `_`, then lower-case letters, digits and `_`, at most 31 in all",
    |text| {
        text.split_once('_').is_some_and(|(prefix, rest)| !prefix.is_empty() && !rest.is_empty())
            && text.len() <= 31
            && text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    }
);

name!(
    /// The primary group of a package's user.
    GroupName,
    "group name",
    "lower-case letters, digits and `_-`, starting with a letter or `_`",
    |text| {
        text.len() <= 31
            && text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_')
            && text.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
            })
    }
);

name!(
    /// The file name of a systemd unit, such as `etcd.service`.
    UnitName,
    "unit name",
    "letters, digits and `:-_.@\\`, not starting with `.` or `-`, with an ending such as `.service`",
    |text| {
        text.len() <= 255
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":-_.@\\".contains(&byte))
            && !text.starts_with(['.', '-', '@'])
            && text.rsplit_once('.').is_some_and(|(_, ending)| UNIT_ENDINGS.contains(&ending))
    }
);

name!(
    /// What a check is called in its package.
    CheckName,
    "name of a check",
    "letters, digits and `@._+-`, not starting with `.` or `-`",
    |text| {
        text.len() <= 255
            && text.bytes().all(|byte| is_name_byte(byte) || byte == b'.' || byte == b'-')
            && text.bytes().next().is_some_and(is_name_byte)
    }
);

/// The kinds of units that are files.
const UNIT_ENDINGS: [&str; 9] =
    ["automount", "mount", "path", "service", "slice", "socket", "swap", "target", "timer"];

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'@' | b'_' | b'+')
}

/// A package: `NAME--VERSION`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PackageId {
    name: PackageName,
    version: PackageVersion,
}

impl PackageId {
    /// The id of this name and version.
    pub fn new(name: PackageName, version: PackageVersion) -> Self {
        Self { name, version }
    }

    /// The name.
    pub fn name(&self) -> &PackageName {
        &self.name
    }

    /// The version.
    pub fn version(&self) -> &PackageVersion {
        &self.version
    }
}

impl FromStr for PackageId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once("--").and_then(|(name, version)| {
            Some(Self { name: name.parse().ok()?, version: version.parse().ok()? })
        });
        parsed.ok_or_else(|| ParseIdError {
            text: text.to_owned(),
            kind: "package id",
            expected: "`NAME--VERSION`, the version without `-`",
        })
    }
}

impl TryFrom<String> for PackageId {
    type Error = ParseIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PackageId> for String {
    fn from(id: PackageId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for PackageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}--{}", self.name, self.version)
    }
}

impl fmt::Debug for PackageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The default variant of a package or tree, or a named one. The default sorts last, as it is
/// built last.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(into = "Option<VariantName>", from = "Option<VariantName>")]
pub enum Variant {
    /// A variant with a name.
    Named(VariantName),
    /// The variant without one; `null` in JSON.
    Default,
}

impl Variant {
    /// What stands before file names of this variant: nothing, or `NAME.`.
    pub fn file_prefix(&self) -> String {
        match self {
            Self::Default => String::new(),
            Self::Named(name) => format!("{name}."),
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("<default>"),
            Self::Named(name) => name.fmt(f),
        }
    }
}

impl From<Option<VariantName>> for Variant {
    fn from(name: Option<VariantName>) -> Self {
        name.map_or(Self::Default, Self::Named)
    }
}

impl From<Variant> for Option<VariantName> {
    fn from(variant: Variant) -> Self {
        match variant {
            Variant::Default => None,
            Variant::Named(name) => Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_reference_are_read_and_written_back() {
        for text in [
            "a--1",
            "etcd--914e88387efc6b4ad1b8fc1d3ebd6ef0666e149c",
            "a.b-c--1.2:3+4@5",
            "@x--setup",
        ] {
            assert_eq!(text.parse::<PackageId>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn ids_that_are_not_exactly_name_and_version_are_refused() {
        for text in [
            "", "a", "a--", "--1", "a---1", "a----b", "a--b--c", "a--b-c", "a--1\n", "a--1 ",
            "a\n--1", "../x--1", "a/b--1", ".a--1", "-a--1", "é--1", "a---b", "a--1\0",
        ] {
            let error = text.parse::<PackageId>().unwrap_err();
            assert!(error.to_string().contains("is not a valid package id"), "{text:?}");
        }
    }

    #[test]
    fn a_name_that_cannot_form_an_id_is_no_name() {
        for text in ["a-", "a--1", "a--b"] {
            assert!(text.parse::<PackageName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn users_and_groups_follow_their_rules() {
        for text in ["dcos_etcd", "atoll_a_1"] {
            assert!(text.parse::<UserName>().is_ok(), "{text:?}");
        }
        for text in ["root", "dcos_", "_x", "dcos_A", "dcos_a-b", "dcos_a\n", "1a_b", ""] {
            assert!(text.parse::<UserName>().is_err(), "{text:?}");
        }
        for text in ["docker", "_x", "a-b_1"] {
            assert!(text.parse::<GroupName>().is_ok(), "{text:?}");
        }
        for text in ["", "1a", "A", "a\n", "a b"] {
            assert!(text.parse::<GroupName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn units_and_checks_have_plain_names() {
        for text in ["etcd.service", "a@.timer", r"dev-disk\x2d1.mount", "a:b.socket"] {
            assert!(text.parse::<UnitName>().is_ok(), "{text:?}");
        }
        for text in [
            "",
            "etcd",
            ".service",
            "a.",
            "../a.service",
            "a b.service",
            "-a.service",
            "a.md",
            "a*.path",
        ] {
            assert!(text.parse::<UnitName>().is_err(), "{text:?}");
        }
        for text in ["quorum", "http_200", "01-disk.sh"] {
            assert!(text.parse::<CheckName>().is_ok(), "{text:?}");
        }
        for text in ["", "-x", ".x", "a/b", "a b", "a\n"] {
            assert!(text.parse::<CheckName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_bad_name_in_json_is_an_error_that_shows_it() {
        let error = serde_json::from_str::<PackageId>("\"a--1\\n\"").unwrap_err();
        assert!(error.to_string().contains(r"`a--1\n` is not a valid package id"), "{error}");
    }
}
