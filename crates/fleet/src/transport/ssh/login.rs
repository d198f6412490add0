//! Logging in, in the order in which OpenSSH does: keys of the agent, key files, questions, a password.
//!
//! A server ends the connection after six failures by default, and keys that it does not want count.
//! So the key that was good last is the first, and what only a person knows keeps its place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use russh::client::{AuthResult, Handle, KeyboardInteractiveAuthResponse};
use russh::keys::agent::AgentIdentity;
use russh::keys::{Certificate, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey};
use russh::{AgentAuthError, MethodKind, MethodSet, Signer};
use tokio::sync::{Mutex, OnceCell};

use super::ask::{Answers, Question};
use super::connection::Watch;
use super::known_hosts::fingerprint;
use super::options::Options;
use super::platform;
use crate::fault::{Fault, FaultKind};

/// Tries before a server with OpenSSH's defaults ends the connection.
const TRIES: usize = 6;
/// Rounds of questions in one login.
const ROUNDS: usize = 8;

/// Keys, read and opened once.
#[derive(Debug, Default)]
pub(super) struct Keys {
    files: Mutex<HashMap<Utf8PathBuf, Arc<OnceCell<Loaded>>>>,
    agents: Mutex<HashMap<Utf8PathBuf, Arc<OnceCell<Vec<AgentIdentity>>>>>,
    /// What let us in last.
    good: StdMutex<Option<String>>,
}

/// What is in the file of a key.
#[derive(Debug, Clone)]
enum Loaded {
    /// Nothing.
    Missing,
    /// Something that cannot be used, and why.
    Unusable(String),
    /// A key and the certificates of it.
    Key(Arc<PrivateKey>, Vec<Certificate>),
    /// A key of an older format, of which nothing can be read without its passphrase.
    Sealed(Arc<Sealed>),
    /// Only an agent has the key itself.
    Public(PublicKey),
}

/// What there is of a key that cannot be read.
#[derive(Debug)]
struct Sealed {
    text: String,
    public: Option<PublicKey>,
    certificates: Vec<Utf8PathBuf>,
}

/// Something to log in with.
#[derive(Debug, Clone)]
enum Identity {
    Agent(Box<AgentIdentity>, Utf8PathBuf),
    Certificate(Arc<PrivateKey>, Box<Certificate>, Utf8PathBuf),
    Key(Arc<PrivateKey>, Utf8PathBuf),
    /// Opened when its turn comes, for which somebody has to be asked.
    Locked(Utf8PathBuf),
}

impl Identity {
    fn label(&self) -> String {
        match self {
            Self::Agent(identity, _) => {
                let kind = match **identity {
                    AgentIdentity::PublicKey { .. } => "key",
                    AgentIdentity::Certificate { .. } => "certificate",
                };
                format!("the agent's {kind} {}", fingerprint(&identity.public_key()))
            }
            Self::Certificate(_, _, path) => format!("the certificate of `{path}`"),
            Self::Key(_, path) | Self::Locked(path) => format!("the key `{path}`"),
        }
    }
}

/// What was tried, and what came of it.
#[derive(Debug, Default)]
struct Tried {
    said: Vec<String>,
    count: usize,
    offered: Option<MethodSet>,
}

impl Tried {
    fn note(&mut self, what: &str, outcome: &str) {
        self.said.push(format!("{what} ({outcome})"));
    }

    fn offers(&self, method: MethodKind) -> bool {
        self.offered.as_ref().is_none_or(|offered| offered.contains(&method))
    }

    /// Takes the server's answer; true if we are in.
    fn take(&mut self, what: &str, answer: AuthResult) -> Outcome {
        match answer {
            AuthResult::Success => Outcome::In,
            AuthResult::Failure { remaining_methods, partial_success } => {
                self.count += 1;
                let outcome = if partial_success { "not enough" } else { "refused" };
                self.note(what, outcome);
                // An end of the connection is told as a refusal without any methods.
                if !remaining_methods.is_empty() {
                    self.offered = Some(remaining_methods);
                }
                if partial_success { Outcome::Partly } else { Outcome::Refused }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    In,
    Partly,
    Refused,
}

/// Logs in, or says what was tried.
pub(super) async fn log_in(
    handle: &mut Handle<Watch>,
    options: &Options,
    keys: &Keys,
    answers: &Answers,
) -> Result<(), Fault> {
    let mut tried = Tried::default();
    if with_keys(handle, options, keys, answers, &mut tried).await?
        || with_questions(handle, options, answers, &mut tried).await?
        || with_password(handle, options, answers, &mut tried).await?
    {
        return Ok(());
    }
    Err(refused(options, &tried))
}

fn refused(options: &Options, tried: &Tried) -> Fault {
    let offered: Vec<&str> =
        tried.offered.iter().flat_map(|set| set.iter()).map(Into::into).collect();
    let user = &options.user;
    let offers = if offered.is_empty() {
        "the server does not say how it lets people in".to_owned()
    } else {
        format!("the server takes {}", offered.join(", "))
    };
    let said = if tried.said.is_empty() {
        "there was nothing to try".to_owned()
    } else {
        format!("tried: {}", tried.said.join(", "))
    };
    Fault::new(FaultKind::Login, format!("{offers}; {said}"))
        .during(format!("`{user}` is not let in"))
        .remedy(format!(
            "name the right user and key, add the key to `{user}`'s authorized_keys, or give a password"
        ))
}

async fn with_keys(
    handle: &mut Handle<Watch>,
    options: &Options,
    keys: &Keys,
    answers: &Answers,
    tried: &mut Tried,
) -> Result<bool, Fault> {
    for identity in keys.identities(options, tried).await {
        // One try is left for what a person knows.
        if !tried.offers(MethodKind::PublicKey) || tried.count + 1 >= TRIES {
            break;
        }
        let label = identity.label();
        let outcome = with_key(handle, options, keys, answers, identity, tried).await?;
        match outcome {
            Outcome::In => {
                *keys.good.lock().unwrap_or_else(PoisonError::into_inner) = Some(label);
                return Ok(true);
            }
            Outcome::Partly => break,
            Outcome::Refused => {}
        }
    }
    Ok(false)
}

async fn with_key(
    handle: &mut Handle<Watch>,
    options: &Options,
    keys: &Keys,
    answers: &Answers,
    identity: Identity,
    tried: &mut Tried,
) -> Result<Outcome, Fault> {
    let (label, user) = (identity.label(), options.user.clone());
    let answer = match identity {
        Identity::Agent(identity, socket) => {
            let hash = rsa_hash(handle, &identity.public_key()).await?;
            let Ok(agent) = platform::connect_agent(&socket).await else {
                tried.note(&label, "the agent does not answer");
                return Ok(Outcome::Refused);
            };
            let mut agent = Signing(agent);
            let answer = match *identity {
                AgentIdentity::PublicKey { key, .. } => {
                    handle.authenticate_publickey_with(user, key, hash, &mut agent).await
                }
                AgentIdentity::Certificate { certificate, .. } => {
                    handle.authenticate_certificate_with(user, certificate, hash, &mut agent).await
                }
            };
            match answer {
                Ok(answer) => answer,
                Err(error) => {
                    tried.note(&label, &format!("the agent does not sign: {error}"));
                    return Ok(Outcome::Refused);
                }
            }
        }
        Identity::Certificate(key, certificate, _) => {
            handle.authenticate_openssh_cert(user, key, *certificate).await.map_err(lost)?
        }
        Identity::Key(key, _) => {
            let hash = rsa_hash(handle, key.public_key()).await?;
            let key = PrivateKeyWithHashAlg::new(key, hash);
            handle.authenticate_publickey(user, key).await.map_err(lost)?
        }
        Identity::Locked(path) => {
            return match keys.open(&path, answers).await {
                Loaded::Key(key, certificates) => {
                    let identities = of_file(&path, key, certificates);
                    Box::pin(first_good(handle, options, keys, answers, identities, tried)).await
                }
                Loaded::Unusable(why) => {
                    tried.note(&label, &why);
                    Ok(Outcome::Refused)
                }
                Loaded::Missing | Loaded::Sealed(_) | Loaded::Public(_) => Ok(Outcome::Refused),
            };
        }
    };
    Ok(tried.take(&label, answer))
}

/// An agent that signs. It may have the key of a certificate, and not the certificate.
struct Signing(platform::Agent);

impl Signer for Signing {
    type Error = AgentAuthError;

    async fn auth_sign(
        &mut self,
        identity: &AgentIdentity,
        hash: Option<HashAlg>,
        data: Vec<u8>,
    ) -> Result<Vec<u8>, AgentAuthError> {
        match self.0.auth_sign(identity, hash, data.clone()).await {
            Err(_) if matches!(identity, AgentIdentity::Certificate { .. }) => {
                let key = AgentIdentity::from(identity.public_key().into_owned());
                self.0.auth_sign(&key, hash, data).await
            }
            signed => signed,
        }
    }
}

async fn first_good(
    handle: &mut Handle<Watch>,
    options: &Options,
    keys: &Keys,
    answers: &Answers,
    identities: Vec<Identity>,
    tried: &mut Tried,
) -> Result<Outcome, Fault> {
    for identity in identities {
        match with_key(handle, options, keys, answers, identity, tried).await? {
            Outcome::Refused => {}
            outcome => return Ok(outcome),
        }
    }
    Ok(Outcome::Refused)
}

/// RSA keys sign with a hash that the server must know.
async fn rsa_hash(handle: &Handle<Watch>, key: &PublicKey) -> Result<Option<HashAlg>, Fault> {
    if !key.algorithm().is_rsa() {
        return Ok(None);
    }
    let hash = handle.best_supported_rsa_hash().await.map_err(lost)?;
    // A server that says nothing of it is old, and may still know the better one.
    Ok(hash.unwrap_or(Some(HashAlg::Sha256)))
}

async fn with_questions(
    handle: &mut Handle<Watch>,
    options: &Options,
    answers: &Answers,
    tried: &mut Tried,
) -> Result<bool, Fault> {
    if tried.offered.is_none() {
        // Nothing was tried, so nobody said what there is.
        let answer = handle.authenticate_none(options.user.clone()).await.map_err(lost)?;
        if answer.success() {
            return Ok(true);
        }
        if let AuthResult::Failure { remaining_methods, .. } = answer {
            tried.offered = Some(remaining_methods);
        }
    }
    if !tried.offers(MethodKind::KeyboardInteractive) || tried.count >= TRIES {
        return Ok(false);
    }
    let user = options.user.clone();
    let mut answer =
        handle.authenticate_keyboard_interactive_start(user, None).await.map_err(lost)?;
    for _ in 0..ROUNDS {
        match answer {
            KeyboardInteractiveAuthResponse::Success => return Ok(true),
            KeyboardInteractiveAuthResponse::Failure { remaining_methods, partial_success } => {
                let failed = AuthResult::Failure { remaining_methods, partial_success };
                tried.take("questions", failed);
                return Ok(false);
            }
            KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => {
                let mut replies = Vec::new();
                for prompt in &prompts {
                    let question = question(options, &prompt.prompt, prompt.echo);
                    let secret = answers.secret(question).await;
                    if secret.is_none() {
                        tried.note("questions", "nobody answers");
                    }
                    // Whoever does not answer has failed, and can still do something else.
                    replies.push(secret.map_or(String::new(), |secret| secret.reveal().to_owned()));
                }
                answer = handle
                    .authenticate_keyboard_interactive_respond(replies)
                    .await
                    .map_err(lost)?;
            }
        }
    }
    Ok(false)
}

/// Most servers ask for nothing but the password. Only then that is the answer: what else has a password in
/// its words is another one, such as one that is good only once.
fn question(options: &Options, prompt: &str, echo: bool) -> Question {
    let words = prompt.trim().to_ascii_lowercase();
    let of_user = format!("password for {}", options.user.to_ascii_lowercase());
    let is_password = words == "password:"
        || words.ends_with("'s password:")
        || words.ends_with(':') && words.starts_with(&of_user);
    if !echo && is_password {
        return Question::Password { user: options.user.clone() };
    }
    Question::Prompt {
        user: options.user.clone(),
        host: options.asked.clone(),
        prompt: prompt.trim().to_owned(),
    }
}

async fn with_password(
    handle: &mut Handle<Watch>,
    options: &Options,
    answers: &Answers,
    tried: &mut Tried,
) -> Result<bool, Fault> {
    // Who was asked for the password already would only be refused again, or be locked out.
    let asked = tried.said.iter().any(|said| said.starts_with("questions (refused"));
    if asked || !tried.offers(MethodKind::Password) || tried.count >= TRIES {
        return Ok(false);
    }
    let user = options.user.clone();
    let Some(password) = answers.secret(Question::Password { user: user.clone() }).await else {
        return Ok(false);
    };
    let answer =
        handle.authenticate_password(user, password.reveal().to_owned()).await.map_err(lost)?;
    Ok(tried.take("a password", answer) == Outcome::In)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn lost(error: russh::Error) -> Fault {
    Fault::of(FaultKind::Lost, &error).during("the connection ended during the login")
}

impl Keys {
    /// All there is to log in with, the best first.
    async fn identities(&self, options: &Options, tried: &mut Tried) -> Vec<Identity> {
        let mut files = Vec::new();
        for path in &options.keys {
            match self.load(path, &options.certificates).await {
                Loaded::Missing => {}
                Loaded::Unusable(why) => tried.note(&format!("the key `{path}`"), &why),
                loaded => files.push((path, loaded)),
            }
        }
        let public = |loaded: &Loaded| match loaded {
            Loaded::Key(key, _) => Some(key.public_key().key_data().clone()),
            Loaded::Public(key) => Some(key.key_data().clone()),
            Loaded::Sealed(key) => key.public.as_ref().map(|key| key.key_data().clone()),
            Loaded::Missing | Loaded::Unusable(_) => None,
        };
        let mut identities = Vec::new();
        let agent = match &options.agent {
            Some(socket) => self.of_agent(socket).await,
            None => Vec::new(),
        };
        let certificates = for_agent(options, &agent);
        let is_named = |identity: &AgentIdentity| {
            let key = identity.public_key().key_data().clone();
            files.iter().any(|(_, loaded)| public(loaded).as_ref() == Some(&key))
        };
        let (named, others): (Vec<_>, Vec<_>) = agent.into_iter().partition(is_named);
        let in_agent: Vec<_> =
            named.iter().map(|identity| identity.public_key().key_data().clone()).collect();
        let others = others.into_iter().filter(|_| !options.only_keys);
        if let Some(socket) = &options.agent {
            identities.extend(
                certificates
                    .into_iter()
                    .chain(named)
                    .chain(others)
                    .map(|one| Identity::Agent(Box::new(one), socket.clone())),
            );
        }
        for (path, loaded) in files {
            let is_in_agent = public(&loaded).is_some_and(|key| in_agent.contains(&key));
            let is_locked = match &loaded {
                Loaded::Key(key, _) => key.is_encrypted(),
                Loaded::Sealed(_) => true,
                _ => false,
            };
            match loaded {
                _ if is_locked && !is_in_agent => identities.push(Identity::Locked(path.clone())),
                Loaded::Key(key, certificates) if !is_in_agent => {
                    identities.extend(of_file(path, key, certificates));
                }
                _ => {}
            }
        }
        let good = self.good.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(good) = good {
            identities.sort_by_key(|identity| identity.label() != good);
        }
        identities
    }

    /// What the agent has; none if it does not answer.
    async fn of_agent(&self, socket: &Utf8Path) -> Vec<AgentIdentity> {
        let cell = Arc::clone(self.agents.lock().await.entry(socket.to_owned()).or_default());
        let ask = || async {
            match platform::connect_agent(socket).await {
                Ok(mut agent) => agent.request_identities().await.unwrap_or_default(),
                Err(_) => Vec::new(),
            }
        };
        cell.get_or_init(ask).await.clone()
    }

    async fn load(&self, path: &Utf8Path, certificates: &[Utf8PathBuf]) -> Loaded {
        let cell = Arc::clone(self.files.lock().await.entry(path.to_owned()).or_default());
        cell.get_or_init(|| async { read(path, certificates) }).await.clone()
    }

    /// Opens a key that is locked; whoever comes second finds it open.
    async fn open(&self, path: &Utf8Path, answers: &Answers) -> Loaded {
        let opened = Utf8PathBuf::from(format!("{path}\0opened"));
        let cell = Arc::clone(self.files.lock().await.entry(opened).or_default());
        let locked = self.load(path, &[]).await;
        let open = || async {
            if !matches!(locked, Loaded::Key(..) | Loaded::Sealed(_)) {
                return locked;
            }
            let question = Question::Passphrase { key: path.to_owned() };
            let Some(passphrase) = answers.secret(question).await else {
                return Loaded::Unusable("nobody knows its passphrase".into());
            };
            let of_key = path.to_owned();
            let open = move || unlock(&of_key, locked, passphrase.reveal());
            let opened = tokio::task::spawn_blocking(open).await;
            opened.unwrap_or_else(|error| Loaded::Unusable(error.to_string()))
        };
        cell.get_or_init(open).await.clone()
    }
}

/// Certificates in files, of keys that the agent has: it signs for them as for its own.
fn for_agent(options: &Options, agent: &[AgentIdentity]) -> Vec<AgentIdentity> {
    let beside = options.keys.iter().map(|path| Utf8PathBuf::from(format!("{path}-cert.pub")));
    let files = beside.chain(options.certificates.iter().cloned());
    let certificates = files.filter_map(|path| russh::keys::load_openssh_certificate(path).ok());
    let is_wanted = |certificate: &Certificate| {
        let has = |wanted: &dyn Fn(&AgentIdentity) -> bool| agent.iter().any(wanted);
        has(&|one| one.public_key().key_data() == certificate.public_key())
            && !has(
                &|one| matches!(one, AgentIdentity::Certificate { certificate: own, .. } if own == certificate),
            )
    };
    certificates
        .filter(is_wanted)
        .map(|certificate| AgentIdentity::Certificate { certificate, comment: String::new() })
        .collect()
}

/// Opens a key with its passphrase.
fn unlock(path: &Utf8Path, locked: Loaded, passphrase: &str) -> Loaded {
    match locked {
        Loaded::Key(key, certificates) => match key.decrypt(passphrase.as_bytes()) {
            Ok(key) => Loaded::Key(Arc::new(key), certificates),
            Err(_) => Loaded::Unusable("the passphrase is wrong".into()),
        },
        Loaded::Sealed(sealed) => {
            match russh::keys::decode_secret_key(&sealed.text, Some(passphrase)) {
                Ok(key) => {
                    let certificates = certificates_of(path, &key, &sealed.certificates);
                    Loaded::Key(Arc::new(key), certificates)
                }
                Err(_) => Loaded::Unusable(format!(
                    "the passphrase is wrong, or its format is too old: `ssh-keygen -p -f {path}` renews that"
                )),
            }
        }
        other => other,
    }
}

/// A key and its certificates, which come first.
fn of_file(path: &Utf8Path, key: Arc<PrivateKey>, certificates: Vec<Certificate>) -> Vec<Identity> {
    let with_certificate = certificates.into_iter().map(|certificate| {
        Identity::Certificate(Arc::clone(&key), Box::new(certificate), path.to_owned())
    });
    let mut identities: Vec<_> = with_certificate.collect();
    identities.push(Identity::Key(key, path.to_owned()));
    identities
}

fn read(path: &Utf8Path, certificates: &[Utf8PathBuf]) -> Loaded {
    let text = match fs_err::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Of a key in an agent there may be only the other half.
            return public_half(path).map_or(Loaded::Missing, Loaded::Public);
        }
        Err(error) => return Loaded::Unusable(error.to_string()),
    };
    if let Ok(public) = PublicKey::from_openssh(&text) {
        return Loaded::Public(public);
    }
    let key = match PrivateKey::from_openssh(&text) {
        Ok(key) => key,
        // Older formats, which are opened with the passphrase at once or not at all, and say so.
        Err(_) if text.contains("ENCRYPTED") => {
            let (public, certificates) = (public_half(path), certificates.to_vec());
            return Loaded::Sealed(Arc::new(Sealed { text, public, certificates }));
        }
        Err(_) => match russh::keys::decode_secret_key(&text, None) {
            Ok(key) => key,
            Err(error) => return Loaded::Unusable(format!("it cannot be read: {error}")),
        },
    };
    let certificates = certificates_of(path, &key, certificates);
    Loaded::Key(Arc::new(key), certificates)
}

/// What is beside the file of a key.
fn public_half(path: &Utf8Path) -> Option<PublicKey> {
    let text = fs_err::read_to_string(format!("{path}.pub")).ok()?;
    PublicKey::from_openssh(&text).ok()
}

/// The certificates of a key, in the file beside it and in others.
fn certificates_of(path: &Utf8Path, key: &PrivateKey, others: &[Utf8PathBuf]) -> Vec<Certificate> {
    let own = Utf8PathBuf::from(format!("{path}-cert.pub"));
    let is_of_key =
        |certificate: &Certificate| certificate.public_key() == key.public_key().key_data();
    std::iter::once(&own)
        .chain(others)
        .filter_map(|path| russh::keys::load_openssh_certificate(path).ok())
        .filter(is_of_key)
        .collect()
}
