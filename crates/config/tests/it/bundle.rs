//! The bundle: the same from the same, nothing secret in it, published whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use config::bundle::{BundleError, Collected, Genconf, Job, Published, Release, Signer};
use config::{Definition, Input};
use jiff::Timestamp;
use package::archive::{self, PackOptions, UnpackOptions};
use package::bundle::{self, BUNDLE, Bundle, LATEST, Latest, OperatingSystem};
use package::distribution::Distribution;
use package::preflight::{PREFLIGHT, Preflight};
use package::secret::{RoleKey, Secrets};
use package::sign::PublicKey;
use package::{Cancel, PackageId, Sha256};
use testing::files::write_files;

const DECLARATIONS: &str = r#"
roles: [master, slave]
parameters:
  cluster_name: { type: string, required: true }
  motto: { type: string, default: none, late: true }
  agents: { type: list, items: { type: host }, default: [], scope: controller }
  password: { type: secret, default: '' }
  token: { type: secret, default: '' }
computed:
  greeting: "'hello ' ~ cluster_name"
files:
  etc_master/password: { user: test_kv }
"#;

pub(crate) const CONFIG: &str =
    "cluster_name: one\npassword: hunter2hunter2\ntoken: tokentokentoken\n";

/// A tree, a release and a folder to configure in.
pub(crate) struct Site {
    _folder: tempfile::TempDir,
    pub(crate) root: Utf8PathBuf,
    pub(crate) release: Release,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().to_owned();
        let tree = root.join("tree/config");
        write_files(
            &tree,
            &[
                ("parameters.yaml", DECLARATIONS, 0o644),
                ("files/etc/greeting", "{{ greeting }}\n", 0o644),
                ("files/etc/motto", "{{ motto }}\n", 0o644),
                ("files/bin/greet", "#!/bin/sh\necho {{ cluster_name }}\n", 0o755),
                ("files/etc_master/password", "{{ password }}", 0o644),
                ("files/etc/token", "token={{ token }}\n", 0o644),
            ],
        )
        .unwrap();
        let mut packages = BTreeMap::new();
        for name in ["kv", "router"] {
            let id: PackageId = format!("{name}--1").parse().unwrap();
            let files = root.join("packages").join(name);
            write_files(&files, &[("bin/run", name, 0o755), ("pkginfo.json", "{}", 0o644)])
                .unwrap();
            let archive = root.join(format!("packages/{id}.tar.zst"));
            archive::pack(&files, &archive, &PackOptions::default()).unwrap();
            packages.insert(id, archive.into());
        }
        let release = Release {
            distribution: Distribution::named("test", "1.0"),
            variant: None,
            packages: [(OperatingSystem::Linux, packages)].into(),
            bootstrap: None,
            program: None,
        };
        Self { _folder: folder, root, release }
    }

    pub(crate) fn genconf(&self) -> Genconf {
        Genconf::new(self.root.join("genconf"))
    }

    fn serve(&self) -> Utf8PathBuf {
        self.root.join("genconf/serve")
    }

    /// Configures in `folder` of the root.
    fn configure_in(&self, folder: &str, text: &str) -> Result<Published, BundleError> {
        let genconf = Genconf::new(self.root.join(folder));
        let signer = genconf.own_signer(None)?;
        self.configure_as(&genconf, &signer, text, None)
    }

    fn configure_as(
        &self,
        genconf: &Genconf,
        signer: &Signer,
        text: &str,
        expires: Option<Timestamp>,
    ) -> Result<Published, BundleError> {
        let definition = Definition::load(&self.root.join("tree")).unwrap();
        let input = Input { file: "config.yaml".into(), text, folder: &self.root };
        let resolution = definition.resolve(&input, &self.release.distribution);
        assert!(resolution.is_ok(), "{:?}", resolution.diagnostics);
        let files = definition.render(&resolution).unwrap();
        genconf.publish(&Job {
            definition: &definition,
            resolution: &resolution,
            files,
            release: &self.release,
            signer,
            expires,
            preflight: definition.preflight(&resolution).unwrap(),
            now: Timestamp::from_second(1_000).unwrap(),
            thin: false,
            upgrade_from: None,
            cancel: &Cancel::new(),
        })
    }

    pub(crate) fn configure(&self, text: &str) -> Published {
        self.configure_in("genconf", text).unwrap()
    }

    fn bundle(&self) -> Bundle {
        Bundle::parse(&fs_err::read(self.serve().join(BUNDLE)).unwrap()).unwrap()
    }

    fn unpack(&self, id: &PackageId) -> Utf8PathBuf {
        let bundle = self.bundle();
        let (path, _) = bundle.archive(id).unwrap();
        let target = self.root.join("unpacked").join(id.to_string());
        fs_err::create_dir_all(target.parent().unwrap()).unwrap();
        archive::unpack(self.serve().join(path.as_str()), &target, &UnpackOptions::default())
            .unwrap();
        target
    }
}

/// Every file below `folder` with its content, links by their target.
fn content(folder: &Utf8Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in folder.read_dir_utf8().unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            let target = fs_err::read_link(path).unwrap();
            found.insert(name.to_owned(), target.into_os_string().into_encoded_bytes());
        } else if kind.is_dir() {
            let below = content(path);
            found
                .extend(below.into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else {
            found.insert(name.to_owned(), fs_err::read(path).unwrap());
        }
    }
    found
}

/// Like `assert_eq`, but only what differs is shown.
fn assert_same(one: &BTreeMap<String, Vec<u8>>, two: &BTreeMap<String, Vec<u8>>) {
    let paths: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
    let differing: Vec<_> =
        paths.into_iter().filter(|path| one.get(*path) != two.get(*path)).collect();
    assert!(differing.is_empty(), "{differing:?}");
}

fn without(mut content: BTreeMap<String, Vec<u8>>, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    content.retain(|path, _| !path.starts_with(prefix));
    content
}

#[test]
fn configuring_again_changes_nothing() {
    let site = Site::new();
    let first = site.configure(CONFIG);
    let before = content(&site.root);
    let again = site.configure(CONFIG);
    assert_same(&before, &content(&site.root));
    assert!(!first.unchanged && again.unchanged);
    assert_eq!(Published { unchanged: false, ..again }, first);
}

#[test]
fn another_machine_with_the_same_keys_makes_the_same_bytes() {
    let (one, two) = (Site::new(), Site::new());
    one.configure(CONFIG);
    let (from, to) = (one.genconf().keys(), two.genconf().keys());
    fs_err::create_dir_all(&to).unwrap();
    for name in content(&from).keys() {
        fs_err::copy(from.join(name), to.join(name)).unwrap();
    }
    two.configure(CONFIG);
    // What is encrypted is random by nature.
    let [one, two] = [one, two].map(|site| {
        let mut served = without(content(&site.serve()), "secrets/");
        // So are signatures.
        served.retain(|path, _| !path.ends_with(".minisig"));
        served
    });
    assert_same(&one, &two);
}

#[test]
fn every_byte_that_is_served_is_named_and_signed() {
    let site = Site::new();
    let published = site.configure(CONFIG);
    let serve = site.serve();
    let public = fs_err::read_to_string(site.genconf().keys().join("cluster.pub")).unwrap();
    let public = PublicKey::parse(&public).unwrap();
    for name in [BUNDLE, LATEST] {
        let bytes = fs_err::read(serve.join(name)).unwrap();
        let signature = fs_err::read_to_string(serve.join(format!("{name}.minisig"))).unwrap();
        public.verify_document(name, &bytes, &signature, "test").unwrap();
    }
    let latest = Latest::parse(&fs_err::read(serve.join(LATEST)).unwrap()).unwrap();
    assert_eq!((latest.bundle, latest.sequence), (published.bundle, 1_000));
    let bytes = fs_err::read(serve.join(BUNDLE)).unwrap();
    assert_eq!(Bundle::id(&bytes), published.bundle);
    let bundle = Bundle::parse(&bytes).unwrap();
    for (path, file) in &bundle.files {
        let bytes = fs_err::read(serve.join(path.as_str())).unwrap();
        assert_eq!((bytes.len() as u64, Sha256::of(&bytes)), (file.size, file.sha256), "{path}");
    }
    // Nothing else is there but the documents themselves, links, and what is encrypted.
    let named: BTreeSet<String> = bundle.files.keys().map(ToString::to_string).collect();
    for path in without(without(content(&serve), "secrets/"), "publications/").into_keys() {
        let name = path.rsplit('/').next().unwrap();
        let known = named.contains(&path) || named.contains(name);
        assert!(
            known
                || name.starts_with("bundle.json")
                || name.starts_with("latest.json")
                || name == "current"
                || name == "bundle",
            "{path}"
        );
    }
}

#[test]
fn the_stock_program_verifies_what_was_signed() {
    let site = Site::new();
    site.configure(CONFIG);
    for name in [BUNDLE, LATEST] {
        let status = Command::new("minisign")
            .args(["-V", "-q", "-p"])
            .arg(site.genconf().keys().join("cluster.pub"))
            .arg("-m")
            .arg(site.serve().join(name))
            .status()
            .unwrap();
        assert!(status.success(), "{name}");
    }
}

#[test]
fn files_are_made_for_the_roles_that_their_paths_name() {
    let site = Site::new();
    let published = site.configure(CONFIG);
    let id: PackageId = format!("test-config--setup_{}", published.configuration).parse().unwrap();
    let folder = site.unpack(&id);
    let files = content(&folder);
    let text = |path: &str| String::from_utf8(files[path].clone()).unwrap();
    assert_eq!(text("etc/greeting"), "hello one\n");
    assert_eq!(text("bin/greet"), "#!/bin/sh\necho one\n");
    assert_eq!(text("etc/user.config.yaml"), "cluster_name: one\n");
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    insta::assert_debug_snapshot!(names, @r#"
    [
        "bin/greet",
        "etc/expanded.config.json",
        "etc/greeting",
        "etc/motto",
        "etc/user.config.yaml",
        "manifest.json",
        "pkginfo.json",
    ]
    "#);
    insta::assert_snapshot!(text("etc/expanded.config.json"), @r#"
    {
      "cluster_name":"one",
      "greeting":"hello one",
      "motto":"none"
    }
    "#);
    let id: PackageId =
        format!("test-metadata--setup_{}", published.configuration).parse().unwrap();
    let files = content(&site.unpack(&id));
    let version = String::from_utf8(files["etc/test-version.json"].clone()).unwrap();
    insta::assert_snapshot!(version.replace(&published.configuration, "[ID]"), @r#"
    {
      "bootstrap-id":null,
      "configuration":"[ID]",
      "variant":null,
      "version":"1.0"
    }
    "#);
}

#[test]
fn each_operating_system_has_the_packages_of_its_roles() {
    let mut site = Site::new();
    let archive = site.root.join("packages/agent--1.zip");
    archive::pack(&site.root.join("packages/kv"), &archive, &PackOptions::default()).unwrap();
    let id: PackageId = "agent--1".parse().unwrap();
    site.release.packages.insert(OperatingSystem::Windows, [(id.clone(), archive.into())].into());
    let configuration = site.configure(CONFIG).configuration;
    let bundle = site.bundle();
    assert_eq!(bundle.archive(&id).unwrap().0.as_str(), "packages/agent/agent--1.zip");
    let has = |system, id: &str| {
        let roles = &bundle.packages[&system];
        assert_eq!(roles.len(), 2);
        roles.values().all(|set| set.contains(&id.parse::<PackageId>().unwrap()))
    };
    let config = format!("test-config--setup_{configuration}");
    for (system, own, other) in [
        (OperatingSystem::Linux, "kv--1", "agent--1"),
        (OperatingSystem::Windows, "agent--1", "kv--1"),
    ] {
        assert!(has(system, own) && has(system, &config) && !has(system, other), "{system:?}");
    }
}

#[test]
fn secrets_are_nowhere_in_clear() {
    let site = Site::new();
    let published = site.configure(CONFIG);
    let secrets = ["hunter2hunter2", "tokentokentoken"];
    for id in site.bundle().manifests.keys() {
        site.unpack(id);
    }
    let shown = format!("{published:?} {:?}", site.bundle());
    for secret in secrets {
        assert!(!shown.contains(secret));
    }
    for secret in ["hunter2hunter2", "tokentokentoken", "token=tokentokentoken\n"] {
        let digest = Sha256::of(secret.as_bytes()).to_string();
        for (path, bytes) in content(&site.root) {
            let has =
                |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!has(secret) && !has(&digest), "{path}");
        }
    }
}

#[test]
fn each_role_reads_its_own_secrets_and_no_other() {
    let site = Site::new();
    let published = site.configure(CONFIG);
    let key = |role: &str| -> RoleKey {
        let path = site.genconf().keys().join(format!("{role}.agekey"));
        fs_err::read_to_string(path).unwrap().parse().unwrap()
    };
    let bundle = site.bundle();
    let opens = |id: &PackageId, role: &str| {
        let sealed = fs_err::read(site.serve().join(bundle::secret_path(id))).unwrap();
        Secrets::open(&sealed, &[key(role)], id)
    };
    let sets = &bundle.packages[&OperatingSystem::Linux];
    for id in &published.secrets {
        for role in ["master", "slave"] {
            let role_name = role.parse().unwrap();
            let may = bundle.secrets[id].contains(&role_name);
            assert_eq!(opens(id, role).is_ok(), may, "{id} {role}");
            assert_eq!(sets[&role_name].contains(id), may, "{id} {role}");
        }
    }
    let for_masters = published.secrets.iter().find(|id| id.name().as_str().ends_with("-master"));
    let files = opens(for_masters.unwrap(), "master").unwrap().files;
    let file = &files["etc_master/password"];
    assert_eq!((file.content.as_str(), file.mode.bits()), ("hunter2hunter2", 0o400));
    assert_eq!(file.user.as_ref().unwrap().as_str(), "test_kv");
}

#[test]
fn a_value_for_hosts_makes_another_bundle_and_one_for_the_controller_never() {
    let site = Site::new();
    let first = site.configure(CONFIG).bundle;
    assert_eq!(site.configure(&format!("{CONFIG}agents: [a, b]\n")).bundle, first);
    let mut bundles = BTreeSet::from([first]);
    for text in [
        CONFIG.replace("one", "two"),
        CONFIG.replace("hunter2hunter2", "hunter3hunter3"),
        format!("{CONFIG}motto: go\n"),
        format!("{CONFIG}late_values: [motto]\n"),
    ] {
        assert!(bundles.insert(site.configure(&text).bundle), "{text}");
    }
}

#[test]
fn late_values_become_a_document_that_hosts_fill_in() {
    let site = Site::new();
    let published = site.configure(&format!("{CONFIG}late_values: [motto]\n"));
    let id = published.late.unwrap();
    assert_eq!(id.to_string(), format!("test-provider-{}-onprem--setup", published.configuration));
    let path = format!("packages/{}/{id}.dcos_config", id.name());
    assert!(site.bundle().files.contains_key(path.as_str()));
    insta::assert_snapshot!(fs_err::read_to_string(site.serve().join(path)).unwrap(), @r#"
    {
      "package":[
        {
          "content":"LATE_BIND_PLACEHOLDER_START_motto_LATE_BIND_PLACEHOLDER_END\n",
          "path":"etc/motto",
          "permissions":"0644"
        },
        {
          "content":"{\n  \"configuration\":true,\n  \"state_directory\":false\n}",
          "path":"pkginfo.json",
          "permissions":"0644"
        }
      ]
    }
    "#);
    let config = format!("test-config--setup_{}", published.configuration);
    let files = content(&site.unpack(&config.parse().unwrap()));
    assert!(!files.contains_key("etc/motto"));
}

#[test]
fn old_bundles_stay_until_they_are_collected() {
    let site = Site::new();
    let old = site.configure(CONFIG);
    let old_bundle = site.bundle();
    let new = site.configure(&CONFIG.replace("one", "two"));
    assert_eq!(new.sequence, 1_001);
    for path in old_bundle.files.keys().filter(|path| path.as_str().contains('/')) {
        assert!(site.serve().join(path.as_str()).exists(), "{path}");
    }
    assert!(site.serve().join(Bundle::folder(&old.bundle)).join(BUNDLE).exists());
    let collected = site.genconf().collect(&Cancel::new()).unwrap();
    assert_eq!(collected.bundles, [old.bundle.to_string()]);
    let bundle = site.bundle();
    for path in bundle.files.keys() {
        assert!(site.serve().join(path.as_str()).exists(), "{path}");
    }
    let config = format!("packages/test-config/test-config--setup_{}.tar.zst", old.configuration);
    assert!(!site.serve().join(config).exists());
    assert_eq!(site.genconf().collect(&Cancel::new()).unwrap(), Collected::default());
    // What was removed is made again, to the byte.
    assert_eq!(site.configure(CONFIG).bundle, old.bundle);
}

#[test]
fn what_was_damaged_is_put_right() {
    let site = Site::new();
    site.configure(CONFIG);
    let before = without(content(&site.serve()), "secrets/");
    let bundle = site.bundle();
    for path in bundle.files.keys().filter(|path| path.as_str().contains('/')) {
        let at = site.serve().join(path.as_str());
        fs_err::remove_file(&at).unwrap();
        fs_err::write(at, "damaged").unwrap();
    }
    let secret = bundle.secrets.keys().next().unwrap();
    fs_err::write(site.serve().join(bundle::secret_path(secret)), "damaged").unwrap();
    assert!(site.configure(CONFIG).unchanged);
    assert_same(&before, &without(content(&site.serve()), "secrets/"));
    assert!(fs_err::read(site.serve().join(bundle::secret_path(secret))).unwrap().len() > 100);
}

#[test]
fn an_expiry_or_another_key_is_a_new_publication_of_the_same_bundle() {
    let site = Site::new();
    let first = site.configure(CONFIG);
    let genconf = site.genconf();
    let signer = genconf.own_signer(None).unwrap();
    let expires = Some(Timestamp::from_second(5_000).unwrap());
    let second = site.configure_as(&genconf, &signer, CONFIG, expires).unwrap();
    assert_eq!((second.bundle, second.sequence), (first.bundle, first.sequence + 1));
    let other = Genconf::new(site.root.join("other")).own_signer(None).unwrap();
    let third = site.configure_as(&genconf, &other, CONFIG, expires).unwrap();
    assert_eq!((third.bundle, third.sequence), (first.bundle, first.sequence + 2));
}

#[test]
fn a_folder_that_another_program_made_is_not_touched() {
    let site = Site::new();
    write_files(&site.serve(), &[("bootstrap.latest", "theirs", 0o644)]).unwrap();
    let refused = site.configure_in("genconf", CONFIG);
    assert!(matches!(refused, Err(BundleError::Foreign(_))), "{refused:?}");
    assert_eq!(fs_err::read(site.serve().join("bootstrap.latest")).unwrap(), b"theirs");
}

#[test]
fn checks_of_the_operator_are_a_package() {
    let site = Site::new();
    let bins = site.root.join("genconf/check_bins");
    write_files(&bins, &[("disk", "#!/bin/sh\n", 0o600)]).unwrap();
    site.configure(CONFIG);
    let bundle = site.bundle();
    let id = bundle.manifests.keys().find(|id| id.name().as_str() == "custom-check-bins").unwrap();
    assert_eq!(
        content(&site.unpack(id)).keys().collect::<Vec<_>>(),
        ["disk", "manifest.json", "pkginfo.json"]
    );
    fs_err::create_dir(bins.join("folder")).unwrap();
    let refused = site.configure_in("genconf", CONFIG);
    assert!(matches!(refused, Err(BundleError::CheckBinsFolder(_))), "{refused:?}");
}

#[test]
fn what_was_published_under_a_name_is_never_replaced_by_something_else() {
    let mut site = Site::new();
    site.configure(CONFIG);
    let served = |site: &Site| {
        let mut content = content(&site.serve());
        content.retain(|path, _| path.starts_with("packages/kv/") || path == "current");
        content
    };
    let before = served(&site);
    let archive = site.root.join("other/kv--1.tar.zst");
    fs_err::create_dir(site.root.join("other")).unwrap();
    let packages = site.release.packages.get_mut(&OperatingSystem::Linux).unwrap();
    packages.insert("kv--1".parse().unwrap(), archive.clone().into());
    // The same content in other bytes is the same package.
    let fast = PackOptions { level: 1, ..PackOptions::default() };
    archive::pack(&site.root.join("packages/kv"), &archive, &fast).unwrap();
    assert!(site.configure(CONFIG).unchanged);
    archive::pack(&site.root.join("packages/router"), &archive, &fast).unwrap();
    let refused = site.configure_in("genconf", &CONFIG.replace("one", "two"));
    assert!(matches!(refused, Err(BundleError::OtherContent(_))), "{refused:?}");
    assert_same(&before, &served(&site));
}

#[test]
fn all_who_configure_at_once_agree_on_the_keys() {
    let site = Site::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| site.configure(CONFIG));
        }
    });
    assert!(site.configure(CONFIG).unchanged);
    let public = fs_err::read_to_string(site.genconf().keys().join("cluster.pub")).unwrap();
    let public = PublicKey::parse(&public).unwrap();
    let bytes = fs_err::read(site.serve().join(BUNDLE)).unwrap();
    let signature = fs_err::read_to_string(site.serve().join("bundle.json.minisig")).unwrap();
    public.verify_document(BUNDLE, &bytes, &signature, "test").unwrap();
}

#[test]
fn files_that_hosts_would_refuse_are_not_published() {
    for path in ["manifest.json/x", "pkginfo.json", "test.target.wants/a.service", "secrets.salt"] {
        let site = Site::new();
        let files = site.root.join("tree/config/files");
        write_files(&files, &[(path, "{{ password }}", 0o644)]).unwrap();
        let refused = site.configure_in("genconf", CONFIG);
        assert!(matches!(refused, Err(BundleError::File { .. })), "{path}: {refused:?}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]

    #[test]
    fn a_bundle_follows_from_what_hosts_get_and_from_nothing_else(
        one in values(), two in values(), agent in "[a-z]{1,9}",
    ) {
        let site = Site::new();
        let text = |[motto, name, password]: &[String; 3], agent: &str| format!(
            "motto: {motto:?}\nagents: [x{agent}]\ncluster_name: {name:?}\npassword: {password:?}\n"
        );
        let first = site.configure(&text(&one, "")).bundle;
        let before = content(&site.serve());
        proptest::prop_assert_eq!(site.configure(&text(&one, &agent)).bundle, first);
        assert_same(&before, &content(&site.serve()));
        proptest::prop_assert_eq!(site.configure(&text(&two, "")).bundle == first, one == two);
    }
}

/// A motto, a name and a password, often the same as another time.
fn values() -> impl proptest::strategy::Strategy<Value = [String; 3]> {
    ["[a-b]|[ !#-Z^-~]{1,12}"; 3].map(|words| proptest::string::string_regex(words).unwrap())
}

#[test]
fn keys_that_hosts_rely_on_are_not_made_anew() {
    for name in ["cluster.key", "master.agekey", "salt.key"] {
        let site = Site::new();
        let published = site.configure(CONFIG);
        fs_err::remove_file(site.genconf().keys().join(name)).unwrap();
        let refused = site.configure_in("genconf", CONFIG);
        assert!(matches!(refused, Err(BundleError::LostKey(_))), "{name}: {refused:?}");
        assert_eq!(site.genconf().latest().unwrap().unwrap().bundle, published.bundle);
    }
}

#[test]
fn a_folder_of_a_role_that_does_not_exist_is_a_mistake() {
    let site = Site::new();
    let files = site.root.join("tree/config/files");
    fs_err::rename(files.join("etc_master"), files.join("etc_mastr")).unwrap();
    let declared = site.root.join("tree/config/parameters.yaml");
    fs_err::write(declared, DECLARATIONS.replace("etc_master", "etc_mastr")).unwrap();
    let refused = site.configure_in("genconf", CONFIG);
    assert!(matches!(refused, Err(BundleError::File { .. })), "{refused:?}");
}

#[test]
fn what_is_served_can_be_damaged_without_harm_to_the_release() {
    let site = Site::new();
    site.configure(CONFIG);
    let served = site.serve().join("packages/kv/kv--1.tar.zst");
    fs_err::OpenOptions::new().write(true).truncate(true).open(&served).unwrap();
    site.configure(CONFIG);
    assert!(archive::verify(&served, &UnpackOptions::default()).is_ok());
}

#[test]
fn what_machines_must_be_is_a_file_of_the_bundle() {
    let site = Site::new();
    site.configure(CONFIG);
    assert!(!site.serve().join(PREFLIGHT).exists());
    let preflight = "checks: {ports: {tcp: [80], roles: [master]}, names: {{ cluster_name }}}\n";
    write_files(&site.root.join("tree/config"), &[("preflight.yaml", preflight, 0o644)]).unwrap();
    let published = site.configure(CONFIG);
    let (bundle, folder) = (site.bundle(), Bundle::folder(&published.bundle));
    for path in [site.serve().join(PREFLIGHT), site.serve().join(folder).join(PREFLIGHT)] {
        let content = fs_err::read(path).unwrap();
        assert_eq!(bundle.files[PREFLIGHT].sha256, Sha256::of(&content));
        assert_eq!(Preflight::parse(&content).unwrap().checks.len(), 2);
    }
    // Another value is another bundle.
    assert_ne!(site.configure(&CONFIG.replace("one", "two")).bundle, published.bundle);
}

#[test]
fn the_bundle_says_what_packages_take_on_a_disk() {
    let site = Site::new();
    site.configure(CONFIG);
    let bundle = site.bundle();
    assert!(bundle.unpacked.keys().eq(bundle.manifests.keys()));
    // A folder, a program and `pkginfo.json`, a block each.
    let kv = bundle.unpacked[&"kv--1".parse().unwrap()];
    assert_eq!((kv.bytes, kv.entries), (3 * 4096, 3));
}
