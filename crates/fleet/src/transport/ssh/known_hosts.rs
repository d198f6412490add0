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
    line: String,
    told: oneshot::Sender<Result<(), Arc<io::Error>>>,
}

/// What a file said when it was read.
type Kept = (Stamp, Arc<Vec<Line>>);

/// Changes when a file does.
type Stamp = (Option<SystemTime>, u64);

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
        for file in files {
            for line in self.lines(file).iter() {
                let entry = || {
                    let key = PublicKey::from_openssh(&line.key).ok()?;
                    Some(Entry { file: file.clone(), line: line.number, key })
                };
                if matches(&line.patterns, &known.name) {
                    let list = match line.marker {
                        Marker::Plain => &mut known.keys,
                        Marker::Authority => &mut known.authorities,
                        Marker::Revoked => &mut known.revoked,
                    };
                    list.extend(entry());
                } else if line.marker == Marker::Plain
                    && plain != known.name
                    && matches(&line.patterns, &plain)
                {
                    known.without_port.extend(entry());
                }
            }
        }
        known
    }

    fn lines(&self, file: &Utf8Path) -> Arc<Vec<Line>> {
        let stamp = fs_err::metadata(file)
            .map(|about| (about.modified().ok(), about.len()))
            .unwrap_or_default();
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((kept, lines)) = files.get(file)
            && *kept == stamp
        {
            return Arc::clone(lines);
        }
        let text = fs_err::read(file).unwrap_or_default();
        let lines = Arc::new(parse(&String::from_utf8_lossy(&text)));
        files.insert(file.to_owned(), (stamp, Arc::clone(&lines)));
        lines
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
        let name = if hashed { hash_name(name)? } else { name.to_owned() };
        let key = key.to_openssh().map_err(io::Error::other)?;
        let key: Vec<&str> = key.split(' ').take(2).collect();
        let (told, hear) = oneshot::channel();
        let line = format!("{name} {}\n", key.join(" "));
        let pending = Pending { file: file.to_owned(), line, told };
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(pending);
        {
            let _one_at_a_time = self.writing.lock().await;
            let all = {
                let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *pending)
            };
            if !all.is_empty() {
                // Whoever was first has written for all others; how it ended is told to each.
                drop(tokio::task::spawn_blocking(move || write_all(all)).await);
            }
        }
        hear.await.unwrap_or_else(|error| Err(Arc::new(io::Error::other(error))))
    }
}

fn write_all(mut all: Vec<Pending>) {
    all.sort_by(|one, other| one.file.cmp(&other.file));
    for of_file in all.chunk_by_mut(|one, other| one.file == other.file) {
        let lines: String = of_file.iter().map(|pending| pending.line.as_str()).collect();
        let result = append(&of_file[0].file, lines).map_err(Arc::new);
        for pending in of_file {
            let (unused, _) = oneshot::channel();
            // Whoever does not wait any more need not know.
            drop(std::mem::replace(&mut pending.told, unused).send(result.clone()));
        }
    }
}

fn append(file: &Utf8Path, mut lines: String) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        package::durable::create_folders(folder)?;
    }
    let mut open = fs_err::OpenOptions::new().read(true).append(true).create(true).open(file)?;
    if open.metadata()?.len() > 0 {
        let mut last = [0];
        open.seek(SeekFrom::End(-1))?;
        open.read_exact(&mut last)?;
        if last != *b"\n" {
            lines.insert(0, '\n');
        }
    }
    // One write at the end: whoever else appends to it does not come in between.
    open.write_all(lines.as_bytes())?;
    open.sync_all()
}

impl Known {
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

/// Lines that say nothing, or what nobody understands, are left out: other programs write here too.
fn parse(text: &str) -> Vec<Line> {
    let parsed = text.lines().enumerate().filter_map(|(index, line)| {
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
        let key = format!("{kind} {key}");
        Some(Line { number: index + 1, marker, patterns: first.to_owned(), key })
    });
    parsed.collect()
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
}
