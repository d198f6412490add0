//! The two bodies that the API takes, read before anything is done.

use package::PackageId;
use package::id::ParseIdError;
use serde_json::Value;
use url::Url;

/// Why a body cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum BodyError {
    #[error("the body is not JSON")]
    Json(#[from] serde_json::Error),
    #[error("the body is not a list of package ids")]
    NotAList,
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Ids(Vec<ParseIdError>),
    #[error("the body is not an object with a text `repository_url`")]
    NoRepositoryUrl,
    #[error("`repository_url` is not a URL")]
    Url(#[from] url::ParseError),
    #[error(
        "`repository_url` begins with `{0}:`: packages are taken from `http:` and `https:` over this API"
    )]
    Scheme(String),
}

/// Reads `["ID", …]`, in that order, with what is there twice.
pub fn packages(body: &[u8]) -> Result<Vec<PackageId>, BodyError> {
    let Value::Array(entries) = serde_json::from_slice(body)? else {
        return Err(BodyError::NotAList);
    };
    let (mut ids, mut wrong) = (Vec::new(), Vec::new());
    for entry in &entries {
        match entry.as_str().ok_or(BodyError::NotAList)?.parse() {
            Ok(id) => ids.push(id),
            Err(error) => wrong.push(error),
        }
    }
    if wrong.is_empty() { Ok(ids) } else { Err(BodyError::Ids(wrong)) }
}

/// Reads `{"repository_url": "URL"}`. Whoever asks over a network must not be able to read files of
/// this machine, so that `file:` is none.
pub fn repository_url(body: &[u8]) -> Result<Url, BodyError> {
    let body: Value = serde_json::from_slice(body)?;
    let text = body.get("repository_url").and_then(Value::as_str);
    let url = Url::parse(text.ok_or(BodyError::NoRepositoryUrl)?.trim())?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        scheme => Err(BodyError::Scheme(scheme.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(error: &BodyError) -> String {
        package::causes(error).join(": ")
    }

    #[test]
    fn a_list_of_ids_is_read_and_every_wrong_one_is_named() {
        let ids = packages(br#"["b--1", "a--1", "b--1"]"#).unwrap();
        assert_eq!(
            ids.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["b--1", "a--1", "b--1"]
        );
        assert!(packages(b"[]").unwrap().is_empty());
        let wrong = said(&packages(br#"["a", "b--1", "../c--1"]"#).unwrap_err());
        assert!(wrong.contains("`a` is not") && wrong.contains("`../c--1` is not"), "{wrong}");
        for body in ["{}", "\"a--1\"", "null", "[1]", "[[\"a--1\"]]"] {
            assert!(matches!(packages(body.as_bytes()), Err(BodyError::NotAList)), "{body}");
        }
        for body in ["", "[", "[\"a--1\"] x", "\u{feff}[]"] {
            assert!(matches!(packages(body.as_bytes()), Err(BodyError::Json(_))), "{body}");
        }
    }

    #[test]
    fn a_repository_is_on_another_machine() {
        let url = |text: &str| {
            repository_url(serde_json::json!({ "repository_url": text }).to_string().as_bytes())
        };
        assert_eq!(url(" https://mirror.example/x ").unwrap().as_str(), "https://mirror.example/x");
        for text in ["file:///etc", "FILE:///etc", " file:etc", "ftp://x/", "data:x", "unix:/x"] {
            let error = url(text).unwrap_err();
            assert!(matches!(error, BodyError::Scheme(_)), "{text}: {}", said(&error));
        }
        assert!(matches!(url("mirror.example"), Err(BodyError::Url(_))));
        for body in ["[]", "{}", "1", r#"{"repository_url": 1}"#, r#"{"repository_url": null}"#] {
            let found = repository_url(body.as_bytes());
            assert!(matches!(found, Err(BodyError::NoRepositoryUrl)), "{body}");
        }
    }

    #[test]
    fn a_wrong_url_is_not_repeated_with_its_password() {
        let body = br#"{"repository_url": "https://ada:secret@[x"}"#;
        assert!(!said(&repository_url(body).unwrap_err()).contains("secret"));
        let body = br#"{"repository_url": "ftp://ada:secret@x/"}"#;
        assert!(!said(&repository_url(body).unwrap_err()).contains("secret"));
    }
}
