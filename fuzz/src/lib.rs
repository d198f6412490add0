//! What must hold for any bytes that come from outside: no panic, nothing written where it should
//! not be, and what is accepted reads back the same.
//!
//! A fuzzer runs these functions on what it makes up (`fuzz/libfuzzer`), a test on every input that
//! was ever worth keeping (`fuzz/corpus`).

#![expect(clippy::unwrap_used, reason = "a target fails by panicking")]

use std::sync::LazyLock;

use camino::Utf8Path;
use config::{Definition, Input};
use host::generation::Generation;
use host::history::Entry;
use host::plan::Plan;
use host::preflight::listeners::{self, Protocol};
use host::setup::flags;
use host::setup::late::{self, LateConfig};
use host::store::Repository;
use host::wire::{Order, Said};
use package::about::About;
use package::archive::{self, ExtractOptions, Format, Limits, UnpackOptions};
use package::artifact::Artifact;
use package::distribution::Distribution;
use package::id::{GroupName, PackageId, PackageName, UserName};
use package::manifest::Manifest;
use package::path::PackagePath;
use package::pkginfo::PkgInfo;
use package::preflight::Preflight;
use package::sign::{KeyPair, PublicKey};
use package::{Cancel, Sha256};
use web::bundle_server::head::Head;
use web::bundle_server::{ServedPath, Wanted};
use web::host_api::body;

/// What is tried on an input.
pub type Target = fn(&[u8]);

/// Every target by name.
pub const TARGETS: [(&str, Target); 27] = [
    ("manifest", manifest),
    ("pkginfo", pkginfo),
    ("names", names),
    ("tar", tar),
    ("zip", zip),
    ("buildinfo", buildinfo),
    ("treeinfo", treeinfo),
    ("distribution", distribution),
    ("signature", signature),
    ("generation", generation),
    ("history", history),
    ("plan", plan),
    ("package-list", package_list),
    ("late-config", late_config),
    ("late-package", late_package),
    ("order", order),
    ("said", said),
    ("about", about),
    ("repository", repository),
    ("api-activate", api_activate),
    ("api-fetch", api_fetch),
    ("config", config),
    ("preflight", preflight),
    ("preflight-yaml", preflight_yaml),
    ("listeners", listeners),
    ("http-head", http_head),
    ("artifact", artifact),
];

/// A manifest that is read is written back byte for byte.
pub fn manifest(data: &[u8]) {
    if let Ok(manifest) = Manifest::parse(data) {
        assert_eq!(manifest.to_json(), data);
    }
}

/// A `pkginfo.json` that is read means the same when it is written.
pub fn pkginfo(data: &[u8]) {
    if let Ok(info) = PkgInfo::parse(data) {
        assert_eq!(PkgInfo::parse(info.to_json().as_bytes()).unwrap(), info);
    }
}

/// Names that are accepted are plain and read back.
pub fn names(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(id) = text.parse::<PackageId>() {
        assert_eq!(id.to_string(), text);
        assert!(!text.contains(['/', '\n', '\0', ' ']));
    }
    if let Ok(path) = text.parse::<PackagePath>() {
        assert!(!Utf8Path::new(path.as_str()).is_absolute());
        assert!(path.components().all(|part| part != ".." && !part.is_empty()));
    }
    for name in [
        text.parse::<PackageName>().map(String::from),
        text.parse::<UserName>().map(String::from),
        text.parse::<GroupName>().map(String::from),
    ] {
        assert!(name.is_err() || text.bytes().all(|byte| byte.is_ascii_graphic()));
    }
}

/// An artifact whose index is accepted has all its files inside of it, and can be verified.
pub fn artifact(data: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let file = Utf8Path::from_path(folder.path()).unwrap().join("a.sh");
    fs_err::write(&file, data).unwrap();
    let Ok(artifact) = Artifact::open(&file) else { return };
    for file in artifact.files().values() {
        assert!(file.offset + file.size <= data.len() as u64);
    }
    // Whatever it says: it must not crash.
    let _ = artifact.verify(None, &Cancel::new());
}

/// A tar archive is unpacked whole, or refused without a trace.
pub fn tar(data: &[u8]) {
    unpack(data, Format::Tar, "a--1.tar");
}

/// A zip archive is unpacked whole, or refused without a trace.
pub fn zip(data: &[u8]) {
    unpack(data, Format::Zip, "a--1.zip");
}

fn unpack(data: &[u8], format: Format, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(folder.path()).unwrap();
    let archive = folder.join(name);
    fs_err::write(&archive, data).unwrap();
    let limits = Limits { total_bytes: 1 << 20, manifest_bytes: 1 << 20, entries: 1000 };
    let (one, two) = (folder.join("one"), folder.join("two"));
    let package = archive::unpack(&archive, &one, &UnpackOptions { limits, ..Default::default() });
    let foreign = ExtractOptions { limits, ..Default::default() };
    let foreign = archive::extract(&archive, format, &two, &foreign);
    let mut left: Vec<String> = folder
        .read_dir_utf8()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_owned())
        .collect();
    left.sort();
    let expected = [(true, name), (package.is_ok(), "one"), (foreign.is_ok(), "two")];
    let expected: Vec<&str> =
        expected.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    assert_eq!(left, expected);
    if let Ok(unpacked) = package {
        let found = archive::scan(&one, &package::Cancel::new()).unwrap();
        assert_eq!(found, unpacked.manifest);
    }
}

/// A `buildinfo.json` gives a tree or mistakes with places in it.
pub fn buildinfo(data: &[u8]) {
    load("a/buildinfo.json", data);
}

/// A `treeinfo.json` gives a tree or mistakes with places in it.
pub fn treeinfo(data: &[u8]) {
    load("treeinfo.json", data);
}

/// A `distribution.toml` gives a tree or mistakes with places in it.
pub fn distribution(data: &[u8]) {
    load("distribution.toml", data);
}

fn load(name: &str, data: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(folder.path()).unwrap();
    fs_err::create_dir(folder.join("a")).unwrap();
    fs_err::copy("/bin/true", folder.join("a/build")).unwrap();
    fs_err::write(folder.join("a/buildinfo.json"), "{}").unwrap();
    fs_err::write(folder.join(name), data).unwrap();
    match build::tree::Tree::load(folder, &|_| unreachable!("there is no upstream.json")) {
        Ok(_) => {}
        Err(build::tree::LoadError::Mistakes(mistakes)) => {
            assert!(
                mistakes
                    .iter()
                    .all(|found| found.file.starts_with(folder) && !found.message.is_empty())
            );
        }
        Err(error) => panic!("{error}"),
    }
}

/// Nothing but a good signature verifies.
pub fn signature(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    drop(PublicKey::parse(text));
    let key = PublicKey::parse(&KeyPair::generate(None).unwrap().public).unwrap();
    assert!(key.verify(b"content", text, "subject").is_err());
}

/// A `generation.json` that is read means the same when it is written.
pub fn generation(data: &[u8]) {
    if let Ok(record) = Generation::parse(Utf8Path::new("record"), data) {
        let written = serde_json::to_vec(&record).unwrap();
        assert_eq!(Generation::parse(Utf8Path::new("record"), &written).unwrap(), record);
    }
}

/// A line of a history that is read means the same when it is written.
pub fn history(data: &[u8]) {
    if let Ok(entry) = Entry::parse(Utf8Path::new("history"), data) {
        let written = serde_json::to_vec(&entry).unwrap();
        assert_eq!(Entry::parse(Utf8Path::new("history"), &written).unwrap(), entry);
    }
}

/// A plan that is read means the same when it is written.
pub fn plan(data: &[u8]) {
    if let Ok(plan) = Plan::parse(data) {
        let written = serde_json::to_vec(&plan).unwrap();
        assert_eq!(Plan::parse(&written).unwrap(), plan);
    }
}

/// Lists of packages hold ids; the id of a list is a plain name.
pub fn package_list(data: &[u8]) {
    if let Ok(ids) = flags::parse_ids(data) {
        let written = serde_json::to_vec(&ids).unwrap();
        assert_eq!(flags::parse_ids(&written).unwrap(), ids);
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(id) = flags::parse_list_id(text)
    {
        let path: PackagePath = format!("package_lists/{id}.package_list.json").parse().unwrap();
        assert_eq!(path.components().count(), 2);
    }
}

/// A `late-config.yaml` is read or refused.
pub fn late_config(data: &[u8]) {
    if let Ok(config) = LateConfig::parse(data) {
        assert_eq!(config.late_bound_package_id.version().as_str(), "setup");
    }
}

/// The files of a late package lie in it, and none of them is a manifest.
pub fn late_package(data: &[u8]) {
    let config = b"late_bound_package_id: a--setup\nbound_values: {x: value, y: ''}\n";
    let config = LateConfig::parse(config).unwrap();
    if let Ok(files) = late::bind(data, &config) {
        assert!(files.contains_key("pkginfo.json"));
        for (path, file) in files {
            assert!(path.components().all(|part| part != ".."));
            assert!(file.mode <= 0o777);
            assert!(!["manifest.json", "manifest.unverified.json"].contains(&path.as_str()));
        }
    }
}

/// An order that is read means the same when it is written.
pub fn order(data: &[u8]) {
    if let Ok(order) = serde_json::from_slice::<Order>(data) {
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
        assert!(!order.id.as_str().contains('/') && !order.id.as_str().starts_with('.'));
    }
}

/// What a host says and is read means the same when it is written.
pub fn said(data: &[u8]) {
    if let Ok(said) = serde_json::from_slice::<Said>(data) {
        let text = serde_json::to_string(&said).unwrap();
        assert_eq!(serde_json::from_str::<Said>(&text).unwrap(), said);
    }
}

/// What is said of a package is believed only if it is of that package.
pub fn about(data: &[u8]) {
    let other = Sha256::of(b"another package");
    assert!(About::read(data, other, &Distribution::default()).is_err());
}

/// A repository is read or refused.
pub fn repository(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    drop(Repository::parse(text, Utf8Path::new("/working/directory")));
}

/// The body of a request to activate names packages, or is refused.
pub fn api_activate(data: &[u8]) {
    if let Ok(ids) = body::packages(data) {
        let written = serde_json::to_vec(&ids).unwrap();
        assert_eq!(body::packages(&written).unwrap(), ids);
    }
}

/// The body of a request to fetch names a repository of another machine, or is refused.
pub fn api_fetch(data: &[u8]) {
    if let Ok(url) = body::repository_url(data) {
        assert!(["http", "https"].contains(&url.scheme()));
        Repository::parse(url.as_str(), Utf8Path::new("/working/directory")).unwrap();
    }
}

/// The head of a request for a file is read the same whatever follows it; its path stays in the folder,
/// and its range in the file.
pub fn http_head(data: &[u8]) {
    const LENGTH: u64 = 1000;
    let Ok(Some(head)) = Head::read(data) else {
        return;
    };
    let again = Head::read(&data[..head.length]).unwrap().unwrap();
    assert_eq!((again.has_body, again.keep_alive), (head.has_body, head.keep_alive));
    if let Some(path) = ServedPath::of_request(head.request.uri.path()) {
        assert!(path.as_str().split('/').all(|part| !part.is_empty() && !part.starts_with('.')));
    }
    for range in head.request.headers.get_all("range") {
        if let Ok(range) = range.to_str()
            && let Wanted::Part { first, last } = Wanted::read(range, LENGTH)
        {
            assert!(first <= last && last < LENGTH);
        }
    }
}

/// A `config.yaml` gives a value for everything, or mistakes with places in it; what is complete makes
/// files.
pub fn config(data: &[u8]) {
    static DEFINITION: LazyLock<Definition> =
        LazyLock::new(|| Definition::of_base(&["base"]).unwrap());
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let definition = &*DEFINITION;
    let (file, folder) = (Utf8Path::new("config.yaml"), Utf8Path::new("/nonexistent"));
    let resolution = definition.resolve(&Input { file, text, folder }, &Distribution::default());
    for found in &resolution.diagnostics {
        assert!(!found.message.is_empty());
        if let Some(place) = &found.place {
            assert!(place.column <= place.text.chars().count() + 1);
        }
    }
    if resolution.is_ok() {
        definition.render(&resolution).unwrap();
    }
}

/// A `preflight.json` that is read means the same when it is written.
pub fn preflight(data: &[u8]) {
    if let Ok(read) = Preflight::parse(data) {
        assert_eq!(Preflight::parse(&read.to_json()).unwrap(), read);
    }
}

/// A `preflight.yaml` gives a document that is read back, or mistakes with places in it.
pub fn preflight_yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let roles = ["master", "slave"].map(|role| role.parse().unwrap()).into();
    match package::preflight::read(Utf8Path::new("preflight.yaml"), text, &roles) {
        Ok(read) => assert_eq!(Preflight::parse(&read.to_json()).unwrap(), read),
        Err(found) => assert!(!found.is_empty() && found.iter().all(|one| one.place.is_some())),
    }
}

/// Tables of the kernel, sockets and mounts, are read as far as they are some.
pub fn listeners(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        assert!(listeners::parse(protocol, &text).len() <= text.lines().count());
    }
    assert!(host::preflight::parse_mounts(&text).len() <= text.lines().count());
}
