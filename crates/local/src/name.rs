//! Names of clusters and hosts. They become parts of paths, of network interfaces, of namespaces and of
//! host names, so they are small letters, digits and `-`, and short.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::LocalError;

/// A network interface has at most 15 characters; that of a cluster starts with three of ours.
const CLUSTER_MAX: usize = 12;
/// The other end of a host's cable has the host's name.
const HOST_MAX: usize = 15;
/// What has this name on the switch, or on every host, already.
const TAKEN: [&str; 4] = ["lo", "localhost", "machine", "switch"];

macro_rules! name {
    ($type:ident, $what:literal, $kind:literal, $max:expr, $expected:literal) => {
        #[doc = concat!("The name of a ", $what, ".")]
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = LocalError;

            fn from_str(text: &str) -> Result<Self, LocalError> {
                if is_name(text, $max) {
                    return Ok(Self(text.to_owned()));
                }
                let value = text.to_owned();
                Err(LocalError::Name { kind: $kind, value, expected: $expected })
            }
        }

        impl TryFrom<String> for $type {
            type Error = LocalError;

            fn try_from(text: String) -> Result<Self, LocalError> {
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
    };
}

name!(
    ClusterName,
    "cluster",
    "cluster",
    CLUSTER_MAX,
    "expected a small letter, then small letters, digits and `-`, at most 12 in all"
);
name!(
    HostName,
    "host",
    "host",
    HOST_MAX,
    "expected a small letter, then small letters, digits and `-`, at most 15 in all, \
     and not `lo`, `localhost`, `machine` or `switch`"
);

fn is_name(text: &str, max: usize) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.starts_with(|char: char| char.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.len() <= max
        && text.bytes().all(is_plain)
        && !TAKEN.contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_plain_and_not_taken() {
        for good in ["a", "h1", "try-2", "abcdefghijkl"] {
            assert!(good.parse::<ClusterName>().is_ok(), "{good}");
        }
        for bad in ["", "1a", "A", "a_b", "a.b", "a/b", "a-", "..", "abcdefghijklm", "switch"] {
            assert!(bad.parse::<ClusterName>().is_err(), "{bad}");
        }
        insta::assert_snapshot!("Big".parse::<ClusterName>().unwrap_err(), @"`Big` cannot be the name of a cluster: expected a small letter, then small letters, digits and `-`, at most 12 in all");
    }
}
