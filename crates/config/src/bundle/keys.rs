//! The keys of a cluster, made when they are first needed: who signs, who can read a role's secrets,
//! and the salt that keeps digests of secrets from telling anything.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use package::bundle::Bundle;
use package::digest::Hasher;
use package::secret::RoleKey;
use package::sign::{KeyPair, PublicKey, SecretKey, SignatureError};
use package::{Sha256, durable};

use super::{BundleError, Genconf, at};
use crate::platform;

/// Who signs what is published.
#[derive(Debug)]
pub struct Signer {
    pub(crate) key: SecretKey,
    /// The public half: what hosts pin.
    pub public: PublicKey,
    /// Where a key lies that was made for this.
    pub made: Option<Utf8PathBuf>,
}

impl Signer {
    /// Who signs with the key file at `path`.
    pub fn open(path: &Utf8Path, password: Option<String>) -> Result<Self, BundleError> {
        let text = fs_err::read_to_string(path).map_err(at(path))?;
        let key = SecretKey::parse(&text, password).map_err(|error| match error {
            SignatureError::Password => BundleError::Sign(error),
            error => BundleError::Unusable { path: path.to_owned(), problem: error.to_string() },
        })?;
        let public = key.public()?;
        Ok(Self { key, public, made: None })
    }
}

impl Genconf {
    /// Who signs if nobody says who: the cluster's own key, made the first time.
    pub fn own_signer(&self, password: Option<String>) -> Result<Signer, BundleError> {
        let path = self.keys().join("cluster.key");
        let is_new = !fs_err::exists(&path).map_err(at(&path))?;
        if is_new {
            if self.latest()?.is_some() {
                return Err(BundleError::LostKey(path));
            }
            self.make_keys_folder()?;
            let secret = KeyPair::generate(password.clone())?.secret;
            match durable::create_private(&path, secret.as_bytes()) {
                // Somebody else made one at the same time: that is the one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(at(&path))?,
            }
        }
        let signer = Signer::open(&path, password)?;
        let public = path.with_extension("pub");
        let text = format!("untrusted comment: the key of the cluster\n{}\n", signer.public);
        if !fs_err::read_to_string(&public).is_ok_and(|known| known == text) {
            durable::write(&public, text.as_bytes()).map_err(at(&public))?;
        }
        Ok(Signer { made: Some(path).filter(|_| is_new), ..signer })
    }

    /// The key that reads the secrets of a role.
    pub(super) fn role_key(&self, role: &str) -> Result<RoleKey, BundleError> {
        let path = self.keys().join(format!("{role}.agekey"));
        let is_used =
            |bundle: &Bundle| bundle.secrets.values().flatten().any(|known| known.as_str() == role);
        let text = self.kept(&path, is_used, || {
            RoleKey::generate().to_file(&format!("reads the secrets of {role}"))
        })?;
        text.parse().map_err(|error: package::secret::SecretError| BundleError::Unusable {
            path,
            problem: error.to_string(),
        })
    }

    /// A digest that only who has this folder can make: it tells whether a secret changed, not what
    /// it is.
    pub(super) fn keyed_digest(&self, what: &str, content: &str) -> Result<Sha256, BundleError> {
        let path = self.keys().join("salt.key");
        // Any secret of enough random bits will do, and that is what a key is.
        let is_used = |bundle: &Bundle| !bundle.secrets.is_empty();
        let salt = self
            .kept(&path, is_used, || RoleKey::generate().to_file("salts the digests of secrets"))?;
        let mut hasher = Hasher::new();
        for part in [salt.as_str(), what, content] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Ok(hasher.finish())
    }

    /// The content of a file that is made the first time and never changes.
    fn kept(
        &self,
        path: &Utf8Path,
        is_used: impl FnOnce(&Bundle) -> bool,
        make: impl FnOnce() -> String,
    ) -> Result<String, BundleError> {
        match fs_err::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.published().as_ref().is_some_and(is_used) {
                    return Err(BundleError::LostKey(path.to_owned()));
                }
                self.make_keys_folder()?;
                let content = make();
                durable::create_private(path, content.as_bytes()).map_err(at(path))?;
                Ok(content)
            }
            read => read.map_err(at(path)),
        }
    }

    fn make_keys_folder(&self) -> Result<(), BundleError> {
        platform::make_private_folder(&self.keys()).map_err(at(&self.keys()))
    }
}
