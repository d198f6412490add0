//! Secrets as they travel: files that only hosts of some roles can read, encrypted as a whole with
//! age. The digest that a bundle has of them is keyed by a salt inside, so that nobody can guess.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::str::FromStr;

use age::secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::distribution::Distribution;
use crate::id::{PackageId, PackageName, UserName};
use crate::json;
use crate::manifest::{MANIFEST, Mode, UNVERIFIED};
use crate::path::PackagePath;
use crate::pkginfo::{BUILDINFO, PKGINFO};
use crate::versioned;

/// The version of the document that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// A document is not longer than this.
const SIZE_MAX_BYTES: u64 = 16 << 20;
/// How many digits of a digest are in the version of a package.
const VERSION_DIGITS: usize = 40;

/// The file that a host puts the salt into, in the package that it makes.
pub const SALT: &str = "secrets.salt";

/// The key of a role: whoever has it can read that role's secrets. It never shows itself.
#[derive(Clone)]
pub struct RoleKey(age::x25519::Identity);

/// The half of a role's key that encrypts.
#[derive(Clone)]
pub struct Recipient(age::x25519::Recipient);

/// What is encrypted: the files of one package.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    format: u32,
    /// Keys the digest; nobody knows it who cannot decrypt.
    salt: Sha256,
    /// The files by their path in the package.
    pub files: BTreeMap<PackagePath, SecretFile>,
}

/// A file that only one user may read.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretFile {
    /// Its text.
    pub content: String,
    /// Its permission bits.
    pub mode: Mode,
    /// Who owns it on a host; `None`: root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserName>,
}

/// Why secrets could not be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SecretError {
    #[error("not a key: expected a line that starts with `AGE-SECRET-KEY-1`")]
    Key,
    #[error("cannot encrypt the secrets: {0}")]
    Encrypt(String),
    #[error("the secrets are for other roles than this key")]
    OtherKey,
    #[error("the encrypted secrets are damaged: {0}")]
    Damaged(String),
    #[error("the secrets are larger than {SIZE_MAX_BYTES} bytes")]
    TooLarge,
    #[error("these are not the secrets of `{0}`, but others")]
    Other(PackageId),
}

/// Why a secret cannot have a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// The name has a meaning of its own.
    #[error("this program keeps the name for itself")]
    Reserved,
    /// What is there is copied to where everybody can read it.
    #[error("everybody reads a file of that name, so it cannot be a secret")]
    Public,
}

impl RoleKey {
    /// A new key.
    pub fn generate() -> Self {
        Self(age::x25519::Identity::generate())
    }

    /// The content of the file that keeps it, with what it is for.
    pub fn to_file(&self, purpose: &str) -> String {
        let key = self.0.to_string();
        format!("# {purpose}\n{}\n", key.expose_secret())
    }

    /// The half that encrypts.
    pub fn recipient(&self) -> Recipient {
        Recipient(self.0.to_public())
    }
}

impl FromStr for RoleKey {
    type Err = SecretError;

    /// Reads the content of a key file, such as `age-keygen` writes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut lines = text.lines().map(str::trim);
        let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
        line.and_then(|line| line.parse().ok()).map(Self).ok_or(SecretError::Key)
    }
}

impl Secrets {
    /// The secrets that these files are; `salt` must be unknown to everybody who cannot decrypt them.
    pub fn new(salt: Sha256, files: BTreeMap<PackagePath, SecretFile>) -> Self {
        Self { format: FORMAT, salt, files }
    }

    /// What keys the digest.
    pub fn salt(&self) -> Sha256 {
        self.salt
    }

    /// The package that a host makes of them.
    pub fn package(&self, name: &PackageName) -> PackageId {
        let digest = Sha256::of(self.to_json().as_bytes()).to_string();
        let id = format!("{name}--setup_{}", &digest[..VERSION_DIGITS]);
        id.parse().expect("a name, and a version of letters and digits")
    }

    /// Why a secret cannot have this path in a package of `distribution`; `None` if it can.
    pub fn path_problem(path: &PackagePath, distribution: &Distribution) -> Option<PathProblem> {
        let top = path.components().next().unwrap_or_default();
        if [MANIFEST, UNVERIFIED, SALT].contains(&top) {
            return Some(PathProblem::Reserved);
        }
        let units = distribution.units_folder();
        let is_copied = [PKGINFO, BUILDINFO].contains(&top) || top.starts_with(&units);
        is_copied.then_some(PathProblem::Public)
    }

    /// Encrypts them so that each of `recipients` can read them. Twice the same gives other bytes.
    pub fn seal(&self, recipients: &[Recipient]) -> Result<Vec<u8>, SecretError> {
        let failed = |error: &dyn fmt::Display| SecretError::Encrypt(error.to_string());
        if self.to_json().len() as u64 > SIZE_MAX_BYTES {
            return Err(SecretError::TooLarge);
        }
        let to = recipients.iter().map(|recipient| &recipient.0 as &dyn age::Recipient);
        let encryptor = age::Encryptor::with_recipients(to).map_err(|error| failed(&error))?;
        let mut sealed = Vec::new();
        let mut writer = encryptor.wrap_output(&mut sealed).map_err(|error| failed(&error))?;
        writer.write_all(self.to_json().as_bytes()).map_err(|error| failed(&error))?;
        writer.finish().map_err(|error| failed(&error))?;
        Ok(sealed)
    }

    /// Decrypts the secrets of `package` with the first of `keys` that can.
    pub fn open(sealed: &[u8], keys: &[RoleKey], package: &PackageId) -> Result<Self, SecretError> {
        let damaged = |error: &dyn fmt::Display| SecretError::Damaged(error.to_string());
        let decryptor = age::Decryptor::new_buffered(sealed).map_err(|error| damaged(&error))?;
        let identities = keys.iter().map(|key| &key.0 as &dyn age::Identity);
        let reader = decryptor.decrypt(identities).map_err(|error| match error {
            age::DecryptError::NoMatchingKeys => SecretError::OtherKey,
            error => damaged(&error),
        })?;
        let mut bytes = Vec::new();
        reader.take(SIZE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
        if bytes.len() as u64 > SIZE_MAX_BYTES {
            return Err(SecretError::TooLarge);
        }
        // The reader's own message would quote what it read.
        let secrets: Self = versioned::parse("secrets".into(), &bytes, FORMAT)
            .map_err(|_| SecretError::Damaged("not a document that this program reads".into()))?;
        if secrets.package(package.name()) == *package {
            Ok(secrets)
        } else {
            Err(SecretError::Other(package.clone()))
        }
    }

    fn to_json(&self) -> String {
        json::pretty(self)
    }
}

impl fmt::Debug for RoleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RoleKey(…)")
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string())
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secrets").field(&self.files.keys()).finish()
    }
}

impl fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretFile(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(content: &str) -> Secrets {
        let file = SecretFile { content: content.to_owned(), mode: Mode::new(0o400), user: None };
        Secrets::new(Sha256::of(b"salt"), [("etc/password".parse().unwrap(), file)].into())
    }

    #[test]
    fn only_the_keys_they_were_sealed_for_open_secrets() {
        let [master, agent, other] = [(); 3].map(|()| RoleKey::generate());
        let secrets = secrets("hunter2");
        let id = secrets.package(&"config-secrets".parse().unwrap());
        let sealed = secrets.seal(&[master.recipient(), agent.recipient()]).unwrap();
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        for key in [master, agent] {
            let read: RoleKey = key.to_file("master").parse().unwrap();
            assert_eq!(Secrets::open(&sealed, &[other.clone(), read], &id).unwrap(), secrets);
        }
        let refused = Secrets::open(&sealed, &[other], &id);
        assert!(matches!(refused, Err(SecretError::OtherKey)), "{refused:?}");
    }

    #[test]
    fn secrets_that_somebody_else_sealed_are_refused() {
        let key = RoleKey::generate();
        let id = secrets("right").package(&"s".parse().unwrap());
        let sealed = secrets("wrong").seal(&[key.recipient()]).unwrap();
        let refused = Secrets::open(&sealed, std::slice::from_ref(&key), &id);
        assert!(matches!(refused, Err(SecretError::Other(_))), "{refused:?}");
        for cut in [0, 10, sealed.len() / 2, sealed.len() - 1] {
            let refused = Secrets::open(&sealed[..cut], std::slice::from_ref(&key), &id);
            assert!(matches!(refused, Err(SecretError::Damaged(_))), "{cut}: {refused:?}");
        }
    }

    #[test]
    fn nothing_of_a_secret_shows_in_messages() {
        let key = RoleKey::generate();
        let shown = format!("{:?} {key:?} {:?}", secrets("hunter2"), secrets("hunter2").files);
        assert!(!shown.contains("hunter2") && !shown.contains("AGE-SECRET"), "{shown}");
    }
}
