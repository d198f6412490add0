//! Ed25519 signatures in minisign's format: what is signed here, the stock `minisign` verifies.
//!
//! A signature of a package covers its `manifest.json`; the id stands in the trusted comment, which
//! is signed too, so that a signed package cannot be passed off under another name.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::id::PackageId;

/// What every signature says of itself, unsigned.
pub(crate) const COMMENT: &str = "signature of monobloc";

/// The length of a secret key file's second line, decoded.
const KEY_BYTES: usize = 158;
/// Where it says how the key is encrypted; zeros: not at all.
const KDF: std::ops::Range<usize> = 2..4;
/// The checksum at its end.
const CHECKSUM_BYTES: usize = 32;

/// A secret key, which never shows itself.
pub struct SecretKey(minisign::SecretKey);

/// A public key.
#[derive(Clone)]
pub struct PublicKey {
    key: minisign_verify::PublicKey,
    /// Without the comment that a file has: two files of one key are the same key.
    text: String,
}

/// A new pair of keys, as the texts of the two files to keep.
pub struct KeyPair {
    /// The file that signs.
    pub secret: String,
    /// The file that verifies.
    pub public: String,
}

/// Why something could not be signed or verified.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// Not a secret key, or the wrong password.
    #[error("cannot use the secret key: {0}")]
    SecretKey(String),
    /// The key is encrypted.
    #[error("the secret key is encrypted and needs its password")]
    Password,
    /// Not a public key.
    #[error("cannot use the public key: {0}")]
    PublicKey(String),
    /// Not a signature.
    #[error("cannot read the signature: {0}")]
    Signature(String),
    /// Made by another key, or for other bytes.
    #[error("the signature does not match: made by another key, or the content was changed")]
    Mismatch,
    /// Made for something else.
    #[error("the signature is for `{found}`, expected `{expected}`")]
    Subject {
        /// What it must be for.
        expected: String,
        /// What it is for.
        found: String,
    },
}

impl KeyPair {
    /// Makes a pair; with a password the secret key is encrypted.
    pub fn generate(password: Option<String>) -> Result<Self, SignatureError> {
        let failed = |error: minisign::PError| SignatureError::SecretKey(error.to_string());
        let pair = match password {
            Some(password) => minisign::KeyPair::generate_encrypted_keypair(Some(password)),
            None => minisign::KeyPair::generate_unencrypted_keypair(),
        }
        .map_err(failed)?;
        Ok(Self {
            secret: pair.sk.to_box(Some("monobloc secret key")).map_err(failed)?.into_string(),
            public: pair.pk.to_box().map_err(failed)?.into_string(),
        })
    }
}

impl SecretKey {
    /// Reads a secret key file of minisign; the password counts only if the key is encrypted.
    pub fn parse(text: &str, password: Option<String>) -> Result<Self, SignatureError> {
        let failed = |error: minisign::PError| SignatureError::SecretKey(error.to_string());
        let malformed =
            || SignatureError::SecretKey("it is not a secret key file of minisign".to_owned());
        let encoded = text.lines().nth(1).ok_or_else(malformed)?;
        let bytes = STANDARD.decode(encoded.trim()).map_err(|_| malformed())?;
        if bytes.len() != KEY_BYTES {
            return Err(malformed());
        }
        let is_encrypted = bytes[KDF] != [0, 0];
        let key = match password {
            None if is_encrypted => return Err(SignatureError::Password),
            Some(password) if is_encrypted => minisign::SecretKeyBox::from_string(text)
                .and_then(|key| key.into_secret_key(Some(password))),
            // The stock program leaves the checksum of a plain key blank, which the crate refuses.
            _ if bytes[KEY_BYTES - CHECKSUM_BYTES..].iter().all(|byte| *byte == 0) => {
                minisign::SecretKey::from_bytes(&bytes)
            }
            _ => minisign::SecretKeyBox::from_string(text)
                .and_then(minisign::SecretKeyBox::into_unencrypted_secret_key),
        };
        key.map(Self).map_err(failed)
    }

    /// The half that verifies.
    pub fn public(&self) -> Result<PublicKey, SignatureError> {
        let failed = |error: minisign::PError| SignatureError::SecretKey(error.to_string());
        let public = minisign::PublicKey::from_secret_key(&self.0).map_err(failed)?;
        PublicKey::parse(&public.to_base64())
    }

    /// The signature file for `content`, made for `subject`. Twice the same gives other bytes.
    pub fn sign(&self, content: &[u8], subject: &str) -> Result<String, SignatureError> {
        self.sign_stream(&mut &*content, subject)
    }

    /// The same for content that is too long to be held.
    pub fn sign_stream(
        &self,
        content: &mut dyn std::io::Read,
        subject: &str,
    ) -> Result<String, SignatureError> {
        minisign::sign(None, &self.0, content, Some(subject), Some(COMMENT))
            .map(minisign::SignatureBox::into_string)
            .map_err(|error| SignatureError::SecretKey(error.to_string()))
    }

    /// The signature file for a package's `manifest.json`.
    pub fn sign_package(&self, manifest: &[u8], id: &PackageId) -> Result<String, SignatureError> {
        self.sign(manifest, &package_subject(id))
    }
}

impl PublicKey {
    /// Reads a public key file of minisign, or only the key in it.
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        let text = text.trim();
        let text = text.lines().nth(1).unwrap_or(text).trim().to_owned();
        match minisign_verify::PublicKey::from_base64(&text) {
            Ok(key) => Ok(Self { key, text }),
            Err(error) => Err(SignatureError::PublicKey(error.to_string())),
        }
    }

    /// Checks that `signature` was made by this key for `content` and for `subject`.
    pub fn verify(
        &self,
        content: &[u8],
        signature: &str,
        subject: &str,
    ) -> Result<(), SignatureError> {
        let signature = minisign_verify::Signature::decode(signature)
            .map_err(|error| SignatureError::Signature(error.to_string()))?;
        self.key.verify(content, &signature, false).map_err(|_| SignatureError::Mismatch)?;
        let found = signature.trusted_comment();
        if found == subject {
            return Ok(());
        }
        Err(SignatureError::Subject { expected: subject.to_owned(), found: found.to_owned() })
    }

    /// Checks the signature of a package's `manifest.json`.
    pub fn verify_package(
        &self,
        manifest: &[u8],
        signature: &str,
        id: &PackageId,
    ) -> Result<(), SignatureError> {
        self.verify(manifest, signature, &package_subject(id))
    }
}

fn package_subject(id: &PackageId) -> String {
    format!("monobloc package {id}")
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey(…)")
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> PackageId {
        text.parse().unwrap()
    }

    #[test]
    fn what_was_signed_verifies_and_nothing_else_does() {
        let pair = KeyPair::generate(None).unwrap();
        let secret = SecretKey::parse(&pair.secret, None).unwrap();
        let public = PublicKey::parse(&pair.public).unwrap();
        let signature = secret.sign_package(b"content", &id("a--1")).unwrap();
        public.verify_package(b"content", &signature, &id("a--1")).unwrap();

        let changed = public.verify_package(b"Content", &signature, &id("a--1"));
        assert!(matches!(changed, Err(SignatureError::Mismatch)), "{changed:?}");
        let renamed = public.verify_package(b"content", &signature, &id("b--1"));
        assert!(matches!(renamed, Err(SignatureError::Subject { .. })), "{renamed:?}");
        let forged = signature.replace("package a--1", "package b--1");
        let forged = public.verify_package(b"content", &forged, &id("b--1"));
        assert!(matches!(forged, Err(SignatureError::Mismatch)), "{forged:?}");
        let other = PublicKey::parse(&KeyPair::generate(None).unwrap().public).unwrap();
        let other = other.verify_package(b"content", &signature, &id("a--1"));
        assert!(matches!(other, Err(SignatureError::Mismatch)), "{other:?}");
    }

    #[test]
    fn a_public_key_is_the_same_with_its_comment_and_without() {
        let pair = KeyPair::generate(None).unwrap();
        let public = PublicKey::parse(&pair.public).unwrap();
        assert_eq!(PublicKey::parse(&public.to_string()).unwrap(), public);
        assert_ne!(PublicKey::parse(&KeyPair::generate(None).unwrap().public).unwrap(), public);
    }

    #[test]
    fn keys_and_signatures_that_are_none_are_errors() {
        assert!(SecretKey::parse("", None).is_err());
        assert!(SecretKey::parse("untrusted comment: x\nAAAA\n", None).is_err());
        assert!(PublicKey::parse("").is_err());
        assert!(PublicKey::parse("x\ny").is_err());
        let public = PublicKey::parse(&KeyPair::generate(None).unwrap().public).unwrap();
        for text in ["", "a\nb\nc\nd", "é"] {
            let result = public.verify(b"", text, "");
            assert!(matches!(result, Err(SignatureError::Signature(_))), "{result:?}");
        }
    }

    #[test]
    fn an_encrypted_key_needs_its_password_and_a_plain_one_ignores_it() {
        let pair = KeyPair::generate(Some("secret".to_owned())).unwrap();
        assert!(matches!(SecretKey::parse(&pair.secret, None), Err(SignatureError::Password)));
        assert!(SecretKey::parse(&pair.secret, Some("wrong".to_owned())).is_err());
        SecretKey::parse(&pair.secret, Some("secret".to_owned())).unwrap();
        let plain = KeyPair::generate(None).unwrap();
        SecretKey::parse(&plain.secret, Some("not needed".to_owned())).unwrap();
    }

    #[test]
    fn a_secret_key_is_not_shown() {
        let pair = KeyPair::generate(None).unwrap();
        let secret = pair.secret.lines().nth(1).unwrap();
        assert!(!format!("{pair:?}").contains(secret));
        assert_eq!(format!("{:?}", SecretKey::parse(&pair.secret, None).unwrap()), "SecretKey(…)");
    }
}
