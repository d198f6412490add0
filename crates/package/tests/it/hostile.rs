//! Archives made to harm: each is refused with its reason, and nothing of it stays.

use camino::Utf8PathBuf;
use package::Sha256;
use package::archive::{self, ExtractOptions, Format, Limits, UnpackOptions};
use package::manifest::{Entry, Manifest, Mode};
use tar::EntryType;

use crate::{Folder, chain};

/// An entry of a tar archive, written without any check.
struct Raw {
    kind: EntryType,
    path: &'static str,
    link: &'static str,
    content: Vec<u8>,
    mode: u32,
    size: Option<u64>,
}

fn entry(kind: EntryType, path: &'static str) -> Raw {
    Raw { kind, path, link: "", content: Vec::new(), mode: 0o755, size: None }
}

fn file(path: &'static str, content: &[u8]) -> Raw {
    Raw { content: content.to_vec(), mode: 0o644, ..entry(EntryType::Regular, path) }
}

fn link(path: &'static str, target: &'static str) -> Raw {
    Raw { link: target, ..entry(EntryType::Symlink, path) }
}

fn tar_of(entries: Vec<Raw>) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for raw in entries {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..raw.path.len()].copy_from_slice(raw.path.as_bytes());
        header.set_entry_type(raw.kind);
        header.set_mode(raw.mode);
        header.set_size(raw.size.unwrap_or(raw.content.len() as u64));
        header.set_link_name_literal(raw.link).unwrap();
        header.set_mtime(0);
        header.set_cksum();
        builder.append(&header, raw.content.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A package archive whose manifest says `promised`, and that holds `entries`.
fn package_of(folder: &Folder, promised: &[(&str, Entry)], mut entries: Vec<Raw>) -> Utf8PathBuf {
    let promised = promised.iter().map(|(path, entry)| (path.parse().unwrap(), entry.clone()));
    let manifest = Manifest::new(promised.collect()).unwrap();
    entries.insert(0, file("manifest.json", &manifest.to_json()));
    archive_of(folder, entries)
}

fn archive_of(folder: &Folder, entries: Vec<Raw>) -> Utf8PathBuf {
    let path = folder.join("a--1.tar.zst");
    fs_err::write(&path, zstd::encode_all(tar_of(entries).as_slice(), 1).unwrap()).unwrap();
    path
}

/// The refusal, after a check that nothing was left behind and nothing outside was touched.
fn refusal(folder: &Folder, archive: &Utf8PathBuf, options: &UnpackOptions) -> String {
    let outside = folder.join("outside");
    fs_err::create_dir_all(&outside).unwrap();
    let before = folder.names();
    let error = archive::unpack(archive, &folder.join("out"), options).expect_err("it is hostile");
    assert_eq!(folder.names(), before, "something was left behind");
    assert_eq!(fs_err::read_dir(&outside).unwrap().count(), 0, "something got out");
    let format = Format::of(archive).unwrap();
    let foreign =
        archive::extract(archive, format, &folder.join("out"), &ExtractOptions::default());
    if foreign.is_err() {
        assert_eq!(folder.names(), before, "something was left behind");
    }
    assert_eq!(fs_err::read_dir(&outside).unwrap().count(), 0, "something got out");
    chain(&error).replace(folder.path().as_str(), "FOLDER")
}

fn found(content: &[u8]) -> Entry {
    Entry::File { mode: Mode::new(0o644), size: content.len() as u64, sha256: Sha256::of(content) }
}

fn directory() -> Entry {
    Entry::Directory { mode: Mode::new(0o755) }
}

#[test]
fn entries_that_lead_out_are_refused() {
    let cases: Vec<(Vec<Raw>, &str)> = vec![
        (vec![file("/outside/x", b"")], "it is absolute"),
        (vec![file("../outside/x", b"")], "it leads out with `..`"),
        (vec![file("a/../../outside/x", b"")], "it leads out with `..`"),
        (vec![link("l", "../outside"), file("l/x", b"")], "it lies below a link"),
        (vec![link("l", "../outside"), entry(EntryType::Directory, "l/d")], "it lies below a link"),
        (vec![link("l", "../outside"), entry(EntryType::Directory, "l")], "it appears twice"),
        (vec![link("l", "../outside/x"), file("l", b"pwned")], "it appears twice"),
        (vec![file("f", b""), file("f/x", b"")], "it lies below a file"),
        (
            vec![Raw { link: "../outside/x", ..entry(EntryType::Link, "h") }],
            "it leads out with `..`",
        ),
        (vec![Raw { link: "/etc/passwd", ..entry(EntryType::Link, "h") }], "it is absolute"),
        (vec![Raw { link: "l", ..entry(EntryType::Link, "h") }], "which is no earlier file"),
        (
            vec![link("l", "../outside/x"), Raw { link: "l", ..entry(EntryType::Link, "h") }],
            "which is no earlier file",
        ),
    ];
    for (entries, expected) in cases {
        let folder = Folder::new();
        let archive = archive_of(&folder, entries);
        let message = refusal(&folder, &archive, &UnpackOptions::default());
        assert!(message.contains(expected), "expected {expected:?}: {message}");
    }
}

#[test]
fn devices_pipes_and_unknown_entries_are_refused() {
    for (kind, expected) in [
        (EntryType::Char, "it is a device"),
        (EntryType::Block, "it is a device"),
        (EntryType::Fifo, "it is a named pipe"),
        (EntryType::new(b'Q'), "of an unknown type"),
    ] {
        let folder = Folder::new();
        let archive = archive_of(&folder, vec![entry(kind, "x")]);
        let message = refusal(&folder, &archive, &UnpackOptions::default());
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn odd_names_and_doubles_are_refused() {
    let cases: Vec<(Vec<Raw>, &str)> = vec![
        (vec![file("a", b"1"), file("a", b"2")], "it appears twice"),
        (vec![file("a", b""), link("a", "b")], "it appears twice"),
        (vec![file("a//b", b"")], "empty part"),
        (vec![file("a\nb", b"")], "control character"),
        (vec![link("l", "")], "link target is empty"),
        (vec![file("x", b""), file("manifest.json", b"{}")], "must be the first entry"),
    ];
    for (entries, expected) in cases {
        let folder = Folder::new();
        let archive = archive_of(&folder, entries);
        let message = refusal(&folder, &archive, &UnpackOptions::default());
        assert!(message.contains(expected), "expected {expected:?}: {message}");
    }
}

#[test]
fn names_that_are_not_utf8_are_refused() {
    let folder = Folder::new();
    let mut tar = tar_of(vec![file("aXb", b"")]);
    tar[1] = 0xff;
    // The checksum of the header covers the name.
    let sum: u32 = tar[..512]
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
        .sum();
    tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    fs_err::write(folder.join("a--1.tar"), tar).unwrap();
    let message = refusal(&folder, &folder.join("a--1.tar"), &UnpackOptions::default());
    assert!(message.contains("its name is not UTF-8"), "{message}");
}

/// What the manifest says, what the archive holds, and the refusal.
type Case = (Vec<(&'static str, Entry)>, Vec<Raw>, &'static str);

#[test]
fn an_archive_that_is_not_what_its_manifest_says_is_refused() {
    let x = found(b"x");
    let cases: Vec<Case> = vec![
        (vec![("a", x.clone())], vec![], "`a`: it is missing"),
        (vec![], vec![file("a", b"x")], "`a`: the manifest does not list it"),
        (vec![("a", x.clone())], vec![file("a", b"y")], "`a`: SHA-256 is"),
        (vec![("a", x.clone())], vec![file("a", b"xx")], "`a`: size is 2, expected 1"),
        (
            vec![("a", x.clone())],
            vec![file("a", b"x"), file("a", b"x")],
            "`a`: the manifest does not list it",
        ),
        (
            vec![("a", x.clone()), ("b", x.clone())],
            vec![file("a", b"x"), file("a", b"x")],
            "`a`: it appears twice",
        ),
        (
            vec![("a", x.clone()), ("b", x.clone())],
            vec![file("b", b"x"), file("a", b"x")],
            "`a`: it is missing or out of order",
        ),
        (
            vec![("a", x.clone())],
            vec![Raw { mode: 0o666, ..file("a", b"x") }],
            "`a`: mode is 0666, expected 0644",
        ),
        (vec![("a", x.clone())], vec![link("a", "b")], "`a`: it is of another type"),
        (
            vec![("a", directory())],
            vec![Raw { mode: 0o777, ..entry(EntryType::Directory, "a") }],
            "`a`: mode is 0777, expected 0755",
        ),
        (
            vec![("a", Entry::Link { target: "b".to_owned() })],
            vec![link("a", "c")],
            "`a`: link says `c`, expected `b`",
        ),
        (
            vec![("a", x.clone()), ("b", x.clone())],
            vec![file("a", b"x"), Raw { link: "a", ..entry(EntryType::Link, "b") }],
            "`b`: it is of another type",
        ),
    ];
    for (promised, entries, expected) in cases {
        let folder = Folder::new();
        let archive = package_of(&folder, &promised, entries);
        let message = refusal(&folder, &archive, &UnpackOptions::default());
        assert!(message.contains("does not match its manifest"), "{message}");
        let expected = expected.replace(
            "the manifest does not list it",
            if promised.is_empty() { "the manifest does not list it" } else { "it appears twice" },
        );
        assert!(message.contains(&expected), "expected {expected:?}: {message}");
    }
}

#[test]
fn a_manifest_that_cannot_be_used_is_refused() {
    for (content, expected) in [
        (&b"{"[..], "invalid `manifest.json`"),
        (br#"{"format":9,"entries":{}}"#, "use a newer monobloc"),
        (br#"{"format":1,"entries":{"../x":{"type":"link","target":"y"}}}"#, "invalid path"),
    ] {
        let folder = Folder::new();
        let archive = archive_of(&folder, vec![file("manifest.json", content)]);
        let message = refusal(&folder, &archive, &UnpackOptions::default());
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn limits_hold_before_anything_large_is_written() {
    let options = |limits| UnpackOptions { limits, ..UnpackOptions::default() };
    let limits = Limits::default();
    for (limits, expected) in [
        (Limits { total_bytes: 5, ..limits }, "more than 5 bytes in all"),
        (Limits { entries: 1, ..limits }, "more than 1 entries"),
    ] {
        let folder = Folder::new();
        let archive = archive_of(&folder, vec![file("a", b"123"), file("b", b"456")]);
        let message = refusal(&folder, &archive, &options(limits));
        assert!(message.contains(expected), "{message}");
    }
    let folder = Folder::new();
    let archive = package_of(&folder, &[("a", found(b"x"))], vec![file("a", b"x")]);
    let message = refusal(&folder, &archive, &options(Limits { manifest_bytes: 9, ..limits }));
    assert!(message.contains("larger than 9 bytes"), "{message}");
}

#[test]
fn a_header_that_promises_more_than_there_is_is_damage() {
    for size in [600, 600_000, u64::MAX / 2] {
        let folder = Folder::new();
        let mut tar = tar_of(vec![Raw { size: Some(size), ..file("a", b"123") }]);
        tar.truncate(1024);
        fs_err::write(folder.join("a--1.tar"), tar).unwrap();
        let limits = Limits { total_bytes: u64::MAX, ..Limits::default() };
        let options = UnpackOptions { limits, ..UnpackOptions::default() };
        let message = refusal(&folder, &folder.join("a--1.tar"), &options);
        assert!(message.contains("damaged or cut short"), "{message}");
    }
}

#[test]
fn files_that_are_no_archives_are_damage_not_panics() {
    for name in
        ["a--1.tar.zst", "a--1.tar.xz", "a--1.tar.gz", "a--1.tar.bz2", "a--1.tar", "a--1.zip"]
    {
        for content in [&b""[..], b"x", &[0xff; 700]] {
            let folder = Folder::new();
            fs_err::write(folder.join(name), content).unwrap();
            let message = refusal(&folder, &folder.join(name), &UnpackOptions::default());
            let is_clear = message.contains("damaged or cut short")
                || message.contains("no `manifest.json`")
                || message.contains("refused entry");
            assert!(is_clear, "{name} {content:?}: {message}");
        }
    }
}

#[test]
fn names_that_differ_only_in_case_are_refused_in_packages_for_windows() {
    use std::io::Write as _;
    for (names, expected) in [
        (["README", "readme"], "it differs from `README` only in case"),
        (["a", "NUL"], "the name is a device on Windows"),
        (["a", "b:c"], "Windows does not allow"),
    ] {
        let folder = Folder::new();
        let mut zip = zip::ZipWriter::new(fs_err::File::create(folder.join("a--1.zip")).unwrap());
        for name in names {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(b"x").unwrap();
        }
        zip.finish().unwrap();
        let message = refusal(&folder, &folder.join("a--1.zip"), &UnpackOptions::default());
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn zip_entries_that_lead_out_are_refused() {
    for name in ["../outside/x", "/outside/x"] {
        let folder = Folder::new();
        let mut zip = zip::ZipWriter::new(fs_err::File::create(folder.join("a--1.zip")).unwrap());
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.finish().unwrap();
        let message = refusal(&folder, &folder.join("a--1.zip"), &UnpackOptions::default());
        assert!(message.contains("not a path inside a package"), "{message}");
    }
}

/// A zip file with the entry `name-a` twice.
fn doubled_zip() -> Vec<u8> {
    use std::io::Write as _;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in ["name-a", "name-b"] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(name.as_bytes()).unwrap();
    }
    let mut bytes = zip.finish().unwrap().into_inner();
    while let Some(at) = bytes.windows(6).position(|window| window == b"name-b") {
        bytes[at + 5] = b'a';
    }
    bytes
}

/// The same zip file with the further end record that one with very many entries has.
fn with_long_end_record(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut end = bytes.split_off(bytes.len() - 22);
    let number = |at: usize| u32::from_le_bytes(end[at..at + 4].try_into().unwrap());
    let (size, start) = (u64::from(number(12)), u64::from(number(16)));
    let entries = u64::from(u16::from_le_bytes([end[10], end[11]]));
    let at = bytes.len() as u64;
    bytes.extend(b"PK\x06\x06");
    bytes.extend(44_u64.to_le_bytes());
    bytes.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for number in [entries, entries, size, start] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(b"PK\x06\x07\0\0\0\0");
    bytes.extend(at.to_le_bytes());
    bytes.extend([1, 0, 0, 0]);
    end[8..12].fill(0xff);
    bytes.extend(end);
    bytes
}

#[test]
fn a_zip_with_one_name_twice_is_refused() {
    for bytes in [doubled_zip(), with_long_end_record(doubled_zip())] {
        let folder = Folder::new();
        fs_err::write(folder.join("a--1.zip"), bytes).unwrap();
        let message = refusal(&folder, &folder.join("a--1.zip"), &UnpackOptions::default());
        assert!(message.contains("refused entry `name-a`"), "{message}");
        assert!(message.contains("it appears twice"), "{message}");
    }
}

#[test]
fn a_zip_with_a_long_end_record_is_as_good_as_any() {
    let folder = Folder::new();
    let bytes = testing::archive::zip(&[("a", "1", 0o644), ("b", "2", 0o644)]).unwrap();
    fs_err::write(folder.join("a--1.zip"), with_long_end_record(bytes)).unwrap();
    let unpacked = archive::verify(folder.join("a--1.zip"), &UnpackOptions::default()).unwrap();
    assert_eq!(unpacked.manifest.entries().len(), 2);
}

#[test]
fn a_zip_that_states_fewer_entries_than_it_lists_is_damaged() {
    let folder = Folder::new();
    let mut bytes = testing::archive::zip(&[("a", "1", 0o644), ("b", "2", 0o644)]).unwrap();
    let end = bytes.len() - 22;
    bytes[end + 8] = 1;
    bytes[end + 10] = 1;
    fs_err::write(folder.join("a--1.zip"), bytes).unwrap();
    let message = refusal(&folder, &folder.join("a--1.zip"), &UnpackOptions::default());
    assert!(message.contains("damaged or cut short"), "{message}");
}

#[test]
fn a_link_target_in_a_zip_that_is_too_long_is_refused_and_not_cut() {
    for (length, is_good) in [(4000, true), (4001, false), (9000, false)] {
        let folder = Folder::new();
        let mut zip = zip::ZipWriter::new(fs_err::File::create(folder.join("a--1.zip")).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        zip.add_symlink("link", "x".repeat(length), options).unwrap();
        zip.finish().unwrap();
        if is_good {
            archive::verify(folder.join("a--1.zip"), &UnpackOptions::default()).unwrap();
            continue;
        }
        let message = refusal(&folder, &folder.join("a--1.zip"), &UnpackOptions::default());
        assert!(message.contains("its link target is empty or not a path"), "{message}");
    }
}

#[test]
fn what_follows_the_end_of_an_archive_is_not_read_for_ever() {
    let folder = Folder::new();
    let mut tar = tar_of(vec![file("a", b"x")]);
    tar.resize(tar.len() + (8 << 20), 0);
    let path = folder.join("a--1.tar.zst");
    fs_err::write(&path, zstd::encode_all(tar.as_slice(), 1).unwrap()).unwrap();
    let message = refusal(&folder, &path, &UnpackOptions::default());
    assert!(message.contains("more follows after the end of the archive"), "{message}");
}

#[test]
fn a_name_that_would_fill_the_memory_is_refused() {
    let folder = Folder::new();
    let name = vec![b'n'; 64 << 20];
    let long = Raw { content: name, ..entry(EntryType::GNULongName, "././@LongLink") };
    let archive = archive_of(&folder, vec![long, file("a", b"x")]);
    let message = refusal(&folder, &archive, &UnpackOptions::default());
    assert!(message.contains("a header of an entry is too long"), "{message}");
}
