//! The path of a request, as a name of a file below what is served, or as nothing at all.

use std::fmt;

use percent_encoding::percent_decode_str;

/// A relative path that cannot lead out of a folder: every part of it is a plain name that does not
/// begin with a dot, and is not that of a secret key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedPath(String);

impl ServedPath {
    /// Reads the path of a request, which is percent-encoded. What is refused names no file that could be
    /// served.
    pub fn of_request(path: &str) -> Option<Self> {
        let mut decoded = String::new();
        for part in path.strip_prefix('/')?.split('/') {
            let part = percent_decode_str(part).decode_utf8().ok()?;
            // A slash that was encoded is no separator, and a name has none.
            let is_plain = !part.is_empty()
                && !part.starts_with('.')
                && !is_key(&part)
                && !part.contains(['/', '\\'])
                && !part.contains(char::is_control);
            if !is_plain {
                return None;
            }
            if !decoded.is_empty() {
                decoded.push('/');
            }
            decoded.push_str(&part);
        }
        Some(Self(decoded))
    }

    /// The path from the folder that is served.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a file of this name never has another content: its name, or that of its folder, follows
    /// from what is in it. Signatures do not, as another key may sign, nor do secrets, which may be
    /// encrypted anew for other keys.
    pub fn is_named_by_content(&self) -> bool {
        const FOLDERS: [&str; 5] =
            ["bootstrap", "bundles", "package_lists", "packages", "publications"];
        let folder = self.0.split_once('/').map(|(folder, _)| folder);
        folder.is_some_and(|folder| FOLDERS.contains(&folder))
            && !self.0.ends_with(package::bundle::SIGNATURE)
    }

    /// What its content is.
    pub fn content_type(&self) -> &'static str {
        let name = self.0.rsplit('/').next().unwrap_or_default();
        match name.rsplit_once('.').map(|(_, kind)| kind) {
            Some("json") => "application/json",
            Some("sh") => "text/x-shellscript; charset=utf-8",
            Some("latest" | "minisig" | "pub" | "txt") => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }
}

/// Whether a file of this name holds a key that is nobody else's business, whatever folder somebody serves
/// by mistake; no bundle has such names.
fn is_key(name: &str) -> bool {
    [".key", ".agekey"].iter().any(|ending| name.to_ascii_lowercase().ends_with(ending))
}

impl fmt::Display for ServedPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(path: &str) -> Option<String> {
        ServedPath::of_request(path).map(|path| path.0)
    }

    #[test]
    fn plain_names_are_served_and_nothing_else() {
        assert_eq!(read("/latest.json").as_deref(), Some("latest.json"));
        assert_eq!(
            read("/packages/a/a--1%2B2.tar.zst").as_deref(),
            Some("packages/a/a--1+2.tar.zst")
        );
        for path in [
            "",
            "/",
            "x",
            "//",
            "/a//b",
            "/a/",
            "/.",
            "/..",
            "/../x",
            "/a/../b",
            "/%2e%2e/x",
            "/%2E%2E",
            "/a%2f..%2fb",
            "/a%5c..",
            "/.git/config",
            "/a/.tmp-1",
            "/a%00",
            "/%ff",
            "*",
            "/a%0ab",
        ] {
            assert_eq!(read(path), None, "{path}");
        }
    }

    #[test]
    fn only_what_follows_from_content_may_be_kept_for_ever() {
        let kept = |path| ServedPath::of_request(path).unwrap().is_named_by_content();
        for path in
            ["/packages/a/a--1.tar.zst", "/bundles/00/bundle.json", "/publications/7/latest.json"]
        {
            assert!(kept(path), "{path}");
        }
        for path in [
            "/latest.json",
            "/bundle.json",
            "/current/latest.json",
            "/current/bundle/bundle.json",
            "/packages",
            "/bundles/00/bundle.json.minisig",
            "/secrets/a--1.age",
            "/bootstrap.latest",
        ] {
            assert!(!kept(path), "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leads_out_of_the_folder(path in "(/|%2[fFeE]|\\.|%5[cC]|%00|[a-z~ ]|\u{e4}){0,24}") {
            if let Some(path) = read(&path) {
                for part in path.split('/') {
                    prop_assert!(!part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']));
                }
            }
        }
    }
}
