//! Certificates: one that was given, or one that is made once and kept.

use std::io;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use package::{Sha256, durable};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// The files of a certificate that is made here.
const CERTIFICATE: &str = "serve.crt";
const KEY: &str = "serve.key";

/// What a server proves its name with.
#[derive(Debug, Clone)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    certificate: Utf8PathBuf,
    fingerprint: Sha256,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TlsError {
    #[error("cannot read `{path}`")]
    Pem { path: Utf8PathBuf, source: pem::Error },
    #[error("`{0}` holds no certificate")]
    NoCertificate(Utf8PathBuf),
    #[error("the certificate `{certificate}` and the key `{key}` cannot be used")]
    Unusable { certificate: Utf8PathBuf, key: Utf8PathBuf, source: rustls::Error },
    #[error("cannot make a certificate for {names:?}")]
    Made { names: Vec<String>, source: rcgen::Error },
    #[error("cannot keep the certificate in `{folder}`")]
    Kept { folder: Utf8PathBuf, source: io::Error },
}

impl Tls {
    /// Uses these files in PEM: the certificate with those that vouch for it, and its key.
    pub fn load(certificate: &Utf8Path, key: &Utf8Path) -> Result<Self, TlsError> {
        let pem = |path: &Utf8Path| {
            let path = path.to_owned();
            move |source| TlsError::Pem { path, source }
        };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(pem(certificate))?;
        let Some(first) = chain.first() else {
            return Err(TlsError::NoCertificate(certificate.to_owned()));
        };
        let fingerprint = Sha256::of(first);
        let secret = PrivateKeyDer::from_pem_file(key).map_err(pem(key))?;
        let unusable = |source| TlsError::Unusable {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), certificate: certificate.to_owned(), fingerprint })
    }

    /// Uses the certificate in `folder`, which is made for these names if there is none. Nobody vouches
    /// for it: clients must be given it, or its fingerprint.
    pub fn self_signed(folder: &Utf8Path, names: &[String]) -> Result<Self, TlsError> {
        let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
        let kept = |source| TlsError::Kept { folder: folder.to_owned(), source };
        let is_there = |path: &Utf8Path| fs_err::exists(path).map_err(kept);
        // The key is written first: with the certificate, both are there.
        if !(is_there(&certificate)? && is_there(&key)?) {
            let made = rcgen::generate_simple_self_signed(names)
                .map_err(|source| TlsError::Made { names: names.to_vec(), source })?;
            durable::remove_tree(&key).map_err(kept)?;
            durable::create_private(&key, made.signing_key.serialize_pem().as_bytes())
                .map_err(kept)?;
            durable::write(&certificate, made.cert.pem().as_bytes()).map_err(kept)?;
        }
        Self::load(&certificate, &key)
    }

    /// The file of the certificate.
    pub fn certificate(&self) -> &Utf8Path {
        &self.certificate
    }

    /// The SHA-256 of the certificate, as other programs write it.
    pub fn fingerprint(&self) -> String {
        let digits = self.fingerprint.to_string().to_uppercase();
        let pairs: Vec<&str> =
            (0..digits.len()).step_by(2).filter_map(|at| digits.get(at..at + 2)).collect();
        pairs.join(":")
    }
}
