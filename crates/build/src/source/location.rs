//! Places that sources come from: URLs of files, URLs of git repositories, ways on this machine.

use std::str::FromStr;

use camino::{Utf8Path, Utf8PathBuf};
use download::redacted;
use package::archive::{Format, UnknownFormat};
use url::Url;

use super::value::{InvalidValue, check};

/// The URL of a file. `file://NAME` without a slash in front is a file of the package folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceUrl(String);

impl SourceUrl {
    /// The URL as the tree has it; it may hold credentials.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URL without credentials.
    pub fn shown(&self) -> String {
        shown(&self.0)
    }

    /// The last part of the path, without the query: what the file is called.
    pub fn file_name(&self) -> &str {
        let path = self.0.split(['?', '#']).next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default()
    }

    /// The archive format that the name of the file tells.
    pub fn format(&self) -> Result<Format, UnknownFormat> {
        Format::of(Utf8Path::new(self.file_name()))
    }

    /// The full URL, for a package in `package_folder`, which is an absolute path.
    pub fn resolve(&self, package_folder: &Utf8Path) -> Result<Url, url::ParseError> {
        match self.below_package() {
            Some(relative) => {
                let path = package_folder.join(relative);
                Url::from_file_path(&path).map_err(|()| url::ParseError::RelativeUrlWithoutBase)
            }
            None => self.0.parse(),
        }
    }

    fn below_package(&self) -> Option<&str> {
        self.0.strip_prefix("file://").filter(|rest| !rest.starts_with('/'))
    }
}

impl FromStr for SourceUrl {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = Self(text.to_owned());
        let known = match url.below_package() {
            Some(relative) => !relative.is_empty(),
            None => {
                text.parse().is_ok_and(|url: Url| matches!(url.scheme(), "http" | "https" | "file"))
            }
        };
        let name = url.file_name();
        let named = !matches!(name, "" | "." | "..") && !name.contains('\0');
        let host_only = url.below_package().is_none()
            && text.parse().is_ok_and(|url: Url| url.path().ends_with('/'));
        let expected = "`http:`, `https:` or `file:` with a file name at the end of the path";
        check(known && named && !host_only, text, "the URL of a file", expected)?;
        Ok(url)
    }
}

/// The place of a git repository: a URL, `HOST:PATH` as ssh knows it, or an absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitUrl(String);

impl GitUrl {
    /// The place as git wants it; it may hold credentials.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The place without credentials.
    pub fn shown(&self) -> String {
        shown(&self.0)
    }
}

/// An address as the tree has it, unless it has credentials.
fn shown(address: &str) -> String {
    match address.parse() {
        Ok(url) if address.contains('@') => redacted(&url),
        _ => address.to_owned(),
    }
}

impl FromStr for GitUrl {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = !text.starts_with('-') && !text.chars().any(char::is_control);
        let known = match text.split_once("://") {
            Some((scheme, rest)) => {
                matches!(scheme, "http" | "https" | "ssh" | "git" | "git+ssh" | "file")
                    && !rest.is_empty()
            }
            // `NAME::ADDRESS` would start a helper program of that name.
            None if text.contains("::") => false,
            None => {
                text.starts_with('/') || before_colon(text).is_some_and(|host| !host.is_empty())
            }
        };
        let expected = "a URL, `HOST:PATH` or an absolute path (`git_local` takes relative ones)";
        check(plain && known, text, "a git repository", expected)?;
        Ok(Self(text.to_owned()))
    }
}

/// The host in `HOST:PATH`.
fn before_colon(text: &str) -> Option<&str> {
    let (host, _) = text.split_once(':')?;
    (!host.contains('/')).then_some(host)
}

/// A way from the package folder to another place on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelativePath(Utf8PathBuf);

impl RelativePath {
    /// The path.
    pub fn as_path(&self) -> &Utf8Path {
        &self.0
    }
}

impl FromStr for RelativePath {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = Utf8PathBuf::from(text);
        let fits = path.is_relative() && !text.is_empty() && !text.contains('\0');
        check(fits, text, "a relative path", "the way from the package folder")?;
        Ok(Self(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_url_names_a_file() {
        for (text, name) in [
            ("https://host/a/b.tar.gz?token=x/y#z", "b.tar.gz"),
            ("file:///a/b.zip", "b.zip"),
            ("file://b.zip", "b.zip"),
            ("file://sub/b.zip", "b.zip"),
        ] {
            assert_eq!(text.parse::<SourceUrl>().unwrap().file_name(), name);
        }
        for text in
            ["", "b.zip", "ftp://host/b", "https://host", "https://host/a/", "file://", "file:///"]
        {
            let error = text.parse::<SourceUrl>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is not the URL of a file")));
        }
    }

    #[test]
    fn file_urls_without_slash_are_below_the_package_folder() {
        let resolve = |text: &str| {
            let url: SourceUrl = text.parse().unwrap();
            url.resolve("/tree/pkg".into()).unwrap().to_string()
        };
        assert_eq!(resolve("file://b c.zip"), "file:///tree/pkg/b%20c.zip");
        assert_eq!(resolve("file:///b.zip"), "file:///b.zip");
    }

    #[test]
    fn git_urls_start_no_program_and_are_not_relative() {
        for good in ["https://host/r.git", "git@host:r.git", "host:r", "/srv/r", "file:///srv/r"] {
            assert!(good.parse::<GitUrl>().is_ok(), "{good}");
        }
        for bad in ["", "-u", "--upload-pack=x", "ext::sh -c x", "../r", "r", "./a:b", "a\nb:c"] {
            assert!(bad.parse::<GitUrl>().is_err(), "{bad}");
        }
        let url: GitUrl = "https://user:secret@host/r".parse().unwrap();
        assert_eq!(url.shown(), "https://***@host/r");
    }

    #[test]
    fn relative_paths_are_relative() {
        assert!("../..".parse::<RelativePath>().is_ok());
        assert!("/srv".parse::<RelativePath>().is_err());
        assert!("".parse::<RelativePath>().is_err());
    }
}
