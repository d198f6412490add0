//! URLs as they may be shown: without the secrets that some people put into them.

use url::Url;

/// The URL as text, with user name and password replaced by `***`.
pub fn redacted(url: &Url) -> String {
    if url.username().is_empty() && url.password().is_none() {
        return url.to_string();
    }
    let mut shown = url.clone();
    // Both fail only for URLs without a host, and those have no credentials.
    let _ = shown.set_password(None);
    let _ = shown.set_username("***");
    shown.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_never_shown() {
        for (url, shown) in [
            ("http://host/a?b", "http://host/a?b"),
            ("http://user:secret@host:81/a", "http://***@host:81/a"),
            ("http://token@host/a", "http://***@host/a"),
            ("file:///a/b", "file:///a/b"),
        ] {
            assert_eq!(redacted(&url.parse().unwrap()), shown);
        }
    }
}
