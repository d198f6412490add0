//! Which keys hosts are known by, in the files that OpenSSH uses, and in its way of reading them.
//!
//! In one thing we are stricter: a host that is known and shows a key of a type that nobody has seen is
//! not new. OpenSSH would take such a key with `accept-new`.

use std::collections::HashMap;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use camino::{Utf8Path, Utf8PathBuf};
use russh::keys::ssh_key::certificate::CertType;
use russh::keys::{Algorithm, Certificate, HashAlg, PublicKey, PublicKeyOrCertificate};
use sha1::{Digest as _, Sha1};
use tokio::sync::oneshot;

/// Files that are kept as long as they do not change, and what has to be written to them.
#[derive(Debug, Default)]
pub(super) struct KnownHosts {
    files: Mutex<HashMap<Utf8PathBuf, Kept>>,
    pending: Mutex<Vec<Pending>>,
    writing: tokio::sync::Mutex<()>,
}

/// A line that has to be written.
#[derive(Debug)]
struct Pending {
    file: Utf8PathBuf,
    name: String,
    line: String,
    told: oneshot::Sender<Result<(), Arc<io::Error>>>,
}

/// What a file said when it was read.
#[derive(Debug, Default)]
struct Kept {
    stamp: Stamp,
    lines: Lines,
}

/// Changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

/// The lines of a file. One may have fifty thousand, and be looked at for as many hosts: so those that
/// name hosts are found by name, and only the few others are compared.
#[derive(Debug, Default)]
struct Lines {
    all: Vec<Line>,
    /// By the name of a host.
    named: HashMap<String, Vec<usize>>,
    /// With patterns.
    patterns: Vec<usize>,
    /// With a hash of a name that nobody has asked for yet.
    hashed: Vec<usize>,
    /// How many lines there are, also those that say nothing.
    count: usize,
}

/// One line of a file that says something.
#[derive(Debug)]
struct Line {
    number: usize,
    marker: Marker,
    patterns: String,
    /// Read only if it matters: a file may have thousands.
    key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Plain,
    Authority,
    Revoked,
}

/// A key, and where it is written.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) file: Utf8PathBuf,
    pub(super) line: usize,
    pub(super) key: PublicKey,
}

/// All that is known of one host.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// What the host is called in those files.
    pub(super) name: String,
    keys: Vec<Entry>,
    /// Known by the name without a port; good enough to know a key, not to miss one.
    without_port: Vec<Entry>,
    authorities: Vec<Entry>,
    revoked: Vec<Entry>,
}

/// What to think of a key that a host shows.
#[derive(Debug)]
pub(super) enum Judgement {
    Known,
    New,
    /// The host is known by others, of which this is the nearest.
    Changed(Entry),
    Revoked(Entry),
}

/// Whether a key is of a type that is not one of ours.
fn is_of_other_type(key: &str) -> bool {
    let name = key.split_whitespace().next().unwrap_or_default();
    let is_type = ["ssh-", "ecdsa-", "sk-"].iter().any(|start| name.starts_with(start));
    is_type && !matches!(Algorithm::new(name), Ok(known) if !matches!(known, Algorithm::Other(_)))
}

/// What a host is called in those files.
pub(super) fn name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

/// A key as people compare it.
pub(super) fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

impl KnownHosts {
    /// All that these files say of a host. A file that is not there says nothing.
    pub(super) fn look(&self, files: &[Utf8PathBuf], host: &str, port: u16) -> Known {
        let mut known = Known { name: name(host, port), ..Known::default() };
        let plain = name(host, 22);
        let mut kept = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for file in files {
            let lines = read(&mut kept, file);
            let entry = |line: &Line| {
                let key = PublicKey::from_openssh(&line.key).ok()?;
                Some(Entry { file: file.clone(), line: line.number, key })
            };
            let named = lines.of(&known.name);
            for line in named.iter().map(|place| &lines.all[*place]) {
                let list = match line.marker {
                    Marker::Plain => &mut known.keys,
                    Marker::Authority => &mut known.authorities,
                    Marker::Revoked => &mut known.revoked,
                };
                list.extend(entry(line));
            }
            if plain != known.name {
                let others = lines.of(&plain).into_iter().filter(|place| !named.contains(place));
                for line in others.map(|place| &lines.all[place]) {
                    let list = match line.marker {
                        Marker::Plain => &mut known.without_port,
                        Marker::Authority => &mut known.authorities,
                        Marker::Revoked => &mut known.revoked,
                    };
                    list.extend(entry(line));
                }
            }
        }
        known
    }

    /// Writes down that a host has this key, for everybody who reads the file from now on. Lines that
    /// come while others are being written are written together.
    pub(super) async fn pin(
        &self,
        file: &Utf8Path,
        name: &str,
        key: &PublicKey,
        hashed: bool,
    ) -> Result<(), Arc<io::Error>> {
        let written = if hashed { hash_name(name)? } else { name.to_owned() };
        let key = key.to_openssh().map_err(io::Error::other)?;
        let key: Vec<&str> = key.split(' ').take(2).collect();
        let (told, hear) = oneshot::channel();
        let line = format!("{written} {}\n", key.join(" "));
        let pending = Pending { file: file.to_owned(), name: name.to_owned(), line, told };
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(pending);
        {
            let _one_at_a_time = self.writing.lock().await;
            let all = {
                let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *pending)
            };
            if !all.is_empty() {
                // Whoever was first writes for all others; how it ended is told to each.
                self.write_all(all).await;
            }
        }
        hear.await.unwrap_or_else(|error| Err(Arc::new(io::Error::other(error))))
    }

    async fn write_all(&self, mut all: Vec<Pending>) {
        all.sort_by(|one, other| one.file.cmp(&other.file));
        while let Some(first) = all.first() {
            let file = first.file.clone();
            let others = all.split_off(all.partition_point(|pending| pending.file == file));
            let of_file = std::mem::replace(&mut all, others);
            let text: String = of_file.iter().map(|pending| pending.line.as_str()).collect();
            let appending = file.clone();
            let written = tokio::task::spawn_blocking(move || append(&appending, text)).await;
            let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
            if let Ok((before, after)) = written {
                self.keep(&file, before, after, &of_file);
            }
            let result = written.map(drop).map_err(Arc::new);
            for pending in of_file {
                // Whoever does not wait any more need not know.
                drop(pending.told.send(result.clone()));
            }
        }
    }

    /// Knows what was written without reading it again, if nobody else wrote.
    fn keep(&self, file: &Utf8Path, before: Stamp, after: Stamp, written: &[Pending]) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kept) = files.get_mut(file).filter(|kept| kept.stamp == before) else { return };
        let bytes: usize = written.iter().map(|pending| pending.line.len()).sum();
        if before.bytes + bytes as u64 != after.bytes {
            return;
        }
        for pending in written {
            kept.lines.add(&pending.line, Some(&pending.name));
        }
        kept.stamp = after;
    }
}

/// What a file says: as it was kept, if it did not change.
fn read<'a>(kept: &'a mut HashMap<Utf8PathBuf, Kept>, file: &Utf8Path) -> &'a mut Lines {
    let stamp = fs_err::metadata(file).map(|about| Stamp::of(&about)).unwrap_or_default();
    let kept = kept.entry(file.to_owned()).or_default();
    if kept.stamp != stamp {
        let text = fs_err::read(file).unwrap_or_default();
        let mut lines = Lines::default();
        for line in String::from_utf8_lossy(&text).lines() {
            lines.add(line, None);
        }
        *kept = Kept { stamp, lines };
    }
    &mut kept.lines
}

impl Stamp {
    fn of(about: &std::fs::Metadata) -> Self {
        Self { modified: about.modified().ok(), bytes: about.len() }
    }
}

/// Appends to a file; returns what it was, and what it is since.
fn append(file: &Utf8Path, mut lines: String) -> io::Result<(Stamp, Stamp)> {
    if let Some(folder) = file.parent() {
        package::durable::create_folders(folder)?;
    }
    let mut open = fs_err::OpenOptions::new().read(true).append(true).create(true).open(file)?;
    let about = open.metadata()?;
    if !about.is_file() {
        let cause = format!("`{file}` is no file, and keeps nothing");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, cause));
    }
    let before = Stamp::of(&about);
    if before.bytes > 0 {
        let mut last = [0];
        open.seek(SeekFrom::End(-1))?;
        open.read_exact(&mut last)?;
        if last != *b"\n" {
            lines.insert(0, '\n');
        }
    }
    // One write at the end: whoever else appends to it does not come in between.
    open.write_all(lines.as_bytes())?;
    open.sync_all()?;
    Ok((before, Stamp::of(&open.metadata()?)))
}

impl Known {
    /// Takes the keys of `RevokedHostKeys` for revoked. Nobody can tell what a file means that cannot be
    /// read, or that is of the other kind, which only OpenSSH reads.
    pub(super) fn revoke(&mut self, file: &Utf8Path) -> io::Result<()> {
        let bytes = fs_err::read(file)?;
        if bytes.starts_with(b"SSHKRL") {
            let cause = format!("`{file}` is a binary list, of which only OpenSSH knows the keys");
            return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
        }
        for (number, line) in (1..).zip(String::from_utf8_lossy(&bytes).lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match PublicKey::from_openssh(line) {
                Ok(key) => self.revoked.push(Entry { file: file.to_owned(), line: number, key }),
                // Keys of types that are not understood cannot be shown to us either.
                Err(_) if is_of_other_type(line) => {}
                Err(error) => {
                    let cause = format!("`{file}`, line {number}, is no key: {error}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
                }
            }
        }
        Ok(())
    }

    /// Whether somebody vouches for hosts of this name.
    pub(super) fn has_authority(&self) -> bool {
        !self.authorities.is_empty()
    }

    /// `all` with the types of known keys first, so that a host shows the key that we know.
    pub(super) fn preferred(&self, all: &[Algorithm]) -> Vec<Algorithm> {
        let is_known = |algorithm: &Algorithm| {
            self.keys.iter().chain(&self.without_port).any(|entry| {
                match (entry.key.algorithm(), algorithm) {
                    (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
                    (known, algorithm) => known == *algorithm,
                }
            })
        };
        let (mut first, rest): (Vec<_>, Vec<_>) = all.iter().cloned().partition(is_known);
        first.extend(rest);
        first
    }

    /// What to think of the key, or the certificate, that the host `host` shows.
    pub(super) fn judge(&self, shown: &PublicKeyOrCertificate, host: &str) -> Judgement {
        let key = shown.public_key();
        let same = |entry: &&Entry| entry.key.key_data() == key.key_data();
        if let Some(entry) = self.revoked.iter().find(same) {
            return Judgement::Revoked(entry.clone());
        }
        if let Some(certificate) = shown.certificate() {
            let signer = certificate.signature_key();
            if let Some(entry) = self.revoked.iter().find(|entry| entry.key.key_data() == signer) {
                return Judgement::Revoked(entry.clone());
            }
            if self.is_vouched_for(certificate, host) {
                return Judgement::Known;
            }
        }
        if self.keys.iter().chain(&self.without_port).any(|entry| same(&entry)) {
            return Judgement::Known;
        }
        let nearest = self.keys.iter().find(|entry| entry.key.algorithm() == key.algorithm());
        match nearest.or(self.keys.first()) {
            Some(entry) => Judgement::Changed(entry.clone()),
            None => Judgement::New,
        }
    }

    fn is_vouched_for(&self, certificate: &Certificate, host: &str) -> bool {
        let trusted: Vec<_> =
            self.authorities.iter().map(|entry| entry.key.fingerprint(HashAlg::Sha256)).collect();
        let host = host.to_ascii_lowercase();
        // One without names would be good for every host; OpenSSH refuses those too.
        let names_host = certificate.valid_principals().iter().any(|name| glob(name, &host));
        certificate.cert_type() == CertType::Host
            && names_host
            && certificate.critical_options().is_empty()
            && certificate.validate(&trusted).is_ok()
    }
}

impl Lines {
    /// Takes the next line; `name` is whose it is, if that is known. Lines that say nothing, or what nobody
    /// understands, are left out: other programs write here too.
    fn add(&mut self, text: &str, name: Option<&str>) {
        self.count += 1;
        let Some(line) = parse(text, self.count) else { return };
        let place = self.all.len();
        let is_hashed = line.patterns.starts_with('|');
        if let Some(name) = name {
            self.named.entry(name.to_owned()).or_default().push(place);
        } else if is_hashed {
            self.hashed.push(place);
        } else if line.patterns.contains(['*', '?', '!']) {
            self.patterns.push(place);
        } else {
            for name in line.patterns.split(',') {
                let of_name = self.named.entry(name.to_ascii_lowercase()).or_default();
                // A line may name a host twice.
                if of_name.last() != Some(&place) {
                    of_name.push(place);
                }
            }
        }
        self.all.push(line);
    }

    /// The lines that mean `name`, in order.
    fn of(&mut self, name: &str) -> Vec<usize> {
        let Self { all, hashed, named, .. } = self;
        // A hash means one name: once that was asked for it need not be compared again.
        let found = hashed.extract_if(.., |place| matches(&all[*place].patterns, name));
        let found: Vec<usize> = found.collect();
        if !found.is_empty() {
            named.entry(name.to_owned()).or_default().extend(found);
        }
        let mut places = self.named.get(name).cloned().unwrap_or_default();
        let of_pattern = |place: &&usize| matches(&self.all[**place].patterns, name);
        places.extend(self.patterns.iter().filter(of_pattern));
        places.sort_unstable();
        places
    }
}

fn parse(line: &str, number: usize) -> Option<Line> {
    let mut words = line.split_ascii_whitespace();
    let mut first = words.next().filter(|word| !word.starts_with('#'))?;
    let marker = match first {
        "@cert-authority" => Marker::Authority,
        "@revoked" => Marker::Revoked,
        _ if first.starts_with('@') => return None,
        _ => Marker::Plain,
    };
    if marker != Marker::Plain {
        first = words.next()?;
    }
    let (kind, key) = (words.next()?, words.next()?);
    Some(Line { number, marker, patterns: first.to_owned(), key: format!("{kind} {key}") })
}

/// Whether a list of patterns, or a hash, means `name`.
fn matches(patterns: &str, name: &str) -> bool {
    if let Some(hash) = patterns.strip_prefix("|1|") {
        return is_hash_of(hash, name).unwrap_or(false);
    }
    let mut found = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(pattern) if glob(&pattern.to_ascii_lowercase(), name) => return false,
            Some(_) => {}
            None => found |= glob(&pattern.to_ascii_lowercase(), name),
        }
    }
    found
}

/// Whether `text` is what `pattern` means, in which `*` is any text and `?` any character.
pub(super) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut of, mut star) = (0, 0, None);
    while of < text.len() {
        if at < pattern.len() && pattern[at] == b'*' {
            star = Some((at, of));
            at += 1;
        } else if at < pattern.len() && (pattern[at] == b'?' || pattern[at] == text[of]) {
            at += 1;
            of += 1;
        } else if let Some((star_at, star_of)) = star {
            // The last star takes one more.
            star = Some((star_at, star_of + 1));
            at = star_at + 1;
            of = star_of + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

fn is_hash_of(hash: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hash.split_once('|')?;
    let salt = BASE64_STANDARD.decode(salt).ok()?;
    Some(hmac(&salt, name.as_bytes()) == BASE64_STANDARD.decode(hash).ok()?)
}

fn hash_name(name: &str) -> io::Result<String> {
    let mut salt = [0; 20];
    getrandom::fill(&mut salt).map_err(io::Error::other)?;
    let hash = BASE64_STANDARD.encode(hmac(&salt, name.as_bytes()));
    Ok(format!("|1|{}|{hash}", BASE64_STANDARD.encode(salt)))
}

/// HMAC-SHA1, as names in those files are hashed.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64;
    let mut block = [0; BLOCK];
    let short = if key.len() > BLOCK { Sha1::digest(key).to_vec() } else { key.to_vec() };
    block[..short.len()].copy_from_slice(&short);
    let hash = |pad: u8, message: &[u8]| {
        let mut hasher = Sha1::new();
        hasher.update(block.map(|byte| byte ^ pad));
        hasher.update(message);
        hasher.finalize().to_vec()
    };
    hash(0x5c, &hash(0x36, message))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    #[test]
    fn patterns_mean_what_they_mean_to_openssh() {
        assert!(matches("a.example,b.example", "b.example"));
        assert!(matches("*.example,!bad.example", "good.example"));
        assert!(!matches("*.example,!bad.example", "bad.example"));
        assert!(matches("[10.0.0.?]:2222", "[10.0.0.7]:2222"));
        assert!(!matches("10.0.0.7", "[10.0.0.7]:2222"));
        assert!(matches("A.Example", "a.example"));
    }

    #[test]
    fn a_hash_hides_a_name_and_is_found_by_it() {
        let hashed = hash_name("host.example").unwrap();
        assert!(matches(&hashed, "host.example"));
        assert!(!matches(&hashed, "other.example"));
        // Made by ssh-keygen -H.
        let theirs = "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=";
        assert!(matches(theirs, "192.168.1.61"));
    }

    #[test]
    fn lines_that_nobody_understands_hide_no_other() {
        let text =
            format!("# words\n\nnonsense\n@new-marker * {KEY}\nhost no key\nhost {KEY} comment\n");
        let folder = tempfile::tempdir().unwrap();
        let file = Utf8PathBuf::try_from(folder.path().join("known_hosts")).unwrap();
        fs_err::write(&file, text).unwrap();
        let known = KnownHosts::default().look(&[file], "host", 22);
        assert_eq!(known.keys.iter().map(|entry| entry.line).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn what_is_said_of_a_host_without_its_port_counts_on_every_port() {
        let folder = tempfile::tempdir().unwrap();
        let file = Utf8PathBuf::try_from(folder.path().join("known_hosts")).unwrap();
        let text = format!("host {KEY}\n@revoked host {KEY}\n@cert-authority host {KEY}\n");
        fs_err::write(&file, text).unwrap();
        for port in [22, 2222] {
            let known = KnownHosts::default().look(std::slice::from_ref(&file), "host", port);
            assert!(known.has_authority(), "{port}");
            let shown = PublicKeyOrCertificate::from(PublicKey::from_openssh(KEY).unwrap());
            let judgement = known.judge(&shown, "host");
            assert!(matches!(judgement, Judgement::Revoked(Entry { line: 2, .. })), "{port}");
        }
    }

    #[tokio::test]
    async fn fifty_thousand_hosts_are_read_once_and_each_is_found_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = Utf8PathBuf::try_from(folder.path().join("known_hosts")).unwrap();
        let mut text =
            format!("*.example,!bad.example {KEY}\n{} {KEY}\n", hash_name("h1").unwrap());
        for number in 0..50_000 {
            let address = format!("10.0.{}.{}", number / 256, number % 256);
            writeln!(text, "host{number},{address} {KEY}").unwrap();
        }
        fs_err::write(&file, text).unwrap();
        let files = [file.clone()];
        let known = KnownHosts::default();
        let lines = |of: &Known| of.keys.iter().map(|entry| entry.line).collect::<Vec<_>>();
        assert_eq!(lines(&known.look(&files, "host49999", 22)), [50_002]);
        assert_eq!(lines(&known.look(&files, "10.0.0.1", 22)), [4]);
        assert_eq!(known.look(&files, "host7", 2222).without_port.len(), 1);
        // Written by us while others look: found at once, and nothing is read again, or this would be gone.
        let mark = format!("mark {KEY}");
        known.files.lock().unwrap().get_mut(&file).unwrap().lines.add(&mark, None);
        let key = PublicKey::from_openssh(KEY).unwrap();
        for number in 0..100 {
            let name = format!("new{number}");
            known.pin(&file, &name, &key, number % 2 == 0).await.unwrap();
            assert_eq!(lines(&known.look(&files, &name, 22)), [50_004 + number]);
        }
        let kept = known.files.lock().unwrap();
        let Lines { all, named, patterns, hashed, count } = &kept[&file].lines;
        assert_eq!((all.len(), *count), (50_103, 50_103));
        // What is compared for each host is what cannot be found by name.
        assert_eq!((patterns.len(), hashed.len(), named.len()), (1, 1, 100_101));
        drop(kept);
        assert_eq!(lines(&known.look(&files, "h1", 22)), [2]);
        assert!(known.files.lock().unwrap()[&file].lines.hashed.is_empty());
    }

    #[tokio::test]
    async fn what_somebody_else_wrote_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let file = Utf8PathBuf::try_from(folder.path().join("known_hosts")).unwrap();
        let (files, known) = ([file.clone()], KnownHosts::default());
        let key = PublicKey::from_openssh(KEY).unwrap();
        known.pin(&file, "mine", &key, false).await.unwrap();
        assert_eq!(known.look(&files, "mine", 22).keys.len(), 1);
        let text = fs_err::read_to_string(&file).unwrap();
        fs_err::write(&file, format!("theirs {KEY}\n{text}")).unwrap();
        known.pin(&file, "also-mine", &key, false).await.unwrap();
        for (name, line) in [("theirs", 1), ("mine", 2), ("also-mine", 3)] {
            let found = known.look(&files, name, 22).keys;
            assert_eq!(found.iter().map(|entry| entry.line).collect::<Vec<_>>(), [line], "{name}");
        }
    }
}
