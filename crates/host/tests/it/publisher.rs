//! Somebody who publishes bundles in a folder; tests of other crates use this file too.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use package::about::About;
use package::archive;
use package::bundle::{self, BUNDLE, Bundle, BundleFile, LATEST, Latest, OperatingSystem};
use package::distribution::Distribution;
use package::manifest::Mode;
use package::preflight::PREFLIGHT;
use package::secret::{RoleKey, SecretFile, Secrets};
use package::sign::{KeyPair, SecretKey};
use package::{PackageId, Sha256};

pub(crate) struct Publisher {
    /// What is served.
    pub(crate) folder: Utf8PathBuf,
    /// The file that hosts verify with.
    pub(crate) public: String,
    /// The key of the roles that have secrets.
    pub(crate) role_key: RoleKey,
    /// What will be published.
    pub(crate) bundle: Bundle,
    /// What machines must be, as a tree says it.
    pub(crate) preflight: Option<String>,
    secret: SecretKey,
}

impl Publisher {
    pub(crate) fn new(folder: &Utf8Path) -> Self {
        let pair = KeyPair::generate(None).unwrap();
        Self {
            folder: folder.to_owned(),
            public: pair.public,
            role_key: RoleKey::generate(),
            bundle: Bundle::new(Distribution::default(), "configuration".to_owned()),
            secret: SecretKey::parse(&pair.secret, None).unwrap(),
            preflight: None,
        }
    }

    /// Takes the archive of a package in, for hosts of a role.
    pub(crate) fn package(&mut self, role: &str, archive: &Utf8Path) {
        let name = archive.file_name().unwrap();
        let id: PackageId = name.strip_suffix(".tar.zst").unwrap().parse().unwrap();
        let (_, manifest) = archive::read_manifest(archive).unwrap();
        self.bundle.manifests.insert(id.clone(), manifest.digest());
        let path = format!("{}{name}", bundle::package_folder(&id));
        self.file(&path, &fs_err::read(archive).unwrap());
        let about = About::of(&archive.into(), &self.bundle.distribution).unwrap();
        self.file(&bundle::about_path(&id), &about.to_bytes().unwrap());
        self.for_role(role, id);
    }

    /// Puts a file into the folder and the bundle.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.put(path, content);
        let file = BundleFile { size: content.len() as u64, sha256: Sha256::of(content) };
        self.bundle.files.insert(path.parse().unwrap(), file);
    }

    /// Encrypts files, which are paths, contents and users, for hosts of a role.
    pub(crate) fn secrets(
        &mut self,
        role: &str,
        files: &[(&str, &str, Option<&str>)],
    ) -> PackageId {
        let file = |(path, content, user): &(&str, &str, Option<&str>)| {
            let user = user.map(|user| user.parse().unwrap());
            let file = SecretFile { content: (*content).to_owned(), mode: Mode::new(0o400), user };
            (path.parse().unwrap(), file)
        };
        let files: BTreeMap<_, _> = files.iter().map(file).collect();
        let secrets = Secrets::new(Sha256::of(b"nobody knows this"), files);
        let id = secrets.package(&format!("secrets-{role}").parse().unwrap());
        self.put(&bundle::secret_path(&id), &secrets.seal(&[self.role_key.recipient()]).unwrap());
        let role = role.parse().unwrap();
        self.bundle.secrets.insert(id.clone(), BTreeSet::from([role]));
        id
    }

    fn for_role(&mut self, role: &str, id: PackageId) {
        let of_roles = self.bundle.packages.entry(OperatingSystem::Linux).or_default();
        of_roles.entry(role.parse().unwrap()).or_default().insert(id);
    }

    /// Publishes the bundle under the next number.
    pub(crate) fn publish(&self, sequence: u64, expires: Option<&str>) -> Sha256 {
        let mut bundle = self.bundle.clone();
        let preflight = self.preflight.as_ref().map(|text| self.declared(text));
        if let Some(content) = &preflight {
            let file = BundleFile { size: content.len() as u64, sha256: Sha256::of(content) };
            bundle.files.insert(PREFLIGHT.parse().unwrap(), file);
        }
        let bytes = bundle.to_json();
        let id = Bundle::id(&bytes);
        self.sign(&format!("{}/{BUNDLE}", Bundle::folder(&id)), BUNDLE, &bytes);
        if let Some(content) = &preflight {
            self.put(&format!("{}/{PREFLIGHT}", Bundle::folder(&id)), content);
        }
        let expires = expires.map(|time| time.parse().unwrap());
        let latest = Latest::new(&self.bundle.distribution, sequence, id, expires);
        self.sign(LATEST, LATEST, &latest.to_json());
        id
    }

    fn declared(&self, text: &str) -> Vec<u8> {
        let of_roles = self.bundle.packages.values().flat_map(BTreeMap::keys);
        let read =
            package::preflight::read("preflight.yaml".into(), text, &of_roles.cloned().collect());
        read.unwrap_or_else(|found| panic!("{found:?}")).to_json()
    }

    fn sign(&self, path: &str, name: &str, content: &[u8]) {
        let distribution = &self.bundle.distribution.name;
        let signature = self.secret.sign_document(name, content, distribution).unwrap();
        self.put(path, content);
        self.put(&format!("{path}.minisig"), signature.as_bytes());
    }

    fn put(&self, path: &str, content: &[u8]) {
        let path = self.folder.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }
}
