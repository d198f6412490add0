//! What only a person knows: whether a key is a host's, and secrets. Each is asked for once, but for what hosts
//! ask in their own words.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use camino::Utf8PathBuf;
use tokio::sync::Mutex;

/// Something that nobody else shall read. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A secret that is needed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// What opens a key.
    Passphrase {
        /// The file of the key.
        key: Utf8PathBuf,
    },
    /// What somebody logs in with, on every host.
    Password {
        /// Who.
        user: String,
    },
    /// What somebody becomes root with, on every host.
    SudoPassword {
        /// Who.
        user: String,
    },
    /// What a host wants to know, in its own words.
    Prompt {
        /// Who logs in.
        user: String,
        /// Where.
        host: String,
        /// The words.
        prompt: String,
    },
}

/// A host that nobody has known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewHost {
    /// What it is called where known hosts are written down.
    pub name: String,
    /// The type of its key.
    pub key_type: String,
    /// `SHA256:…`
    pub fingerprint: String,
}

/// Asks a person. Called on a thread of its own, once at a time.
pub trait Ask: Send + Sync + 'static {
    /// A secret, or none.
    fn secret(&self, question: &Question) -> Option<Secret>;

    /// Whether a host is the right one.
    fn is_right(&self, host: &NewHost) -> bool;
}

/// There is nobody to ask.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Ask for Nobody {
    fn secret(&self, _: &Question) -> Option<Secret> {
        None
    }

    fn is_right(&self, _: &NewHost) -> bool {
        false
    }
}

/// Asks, and keeps the answers as long as it lives.
pub(super) struct Answers {
    ask: Arc<dyn Ask>,
    kept: Mutex<HashMap<Question, Option<Secret>>>,
    one_at_a_time: Mutex<()>,
    /// Questions that nobody has answered yet.
    open: AtomicUsize,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

impl Answers {
    pub(super) fn new(ask: Arc<dyn Ask>) -> Self {
        Self {
            ask,
            kept: Mutex::default(),
            one_at_a_time: Mutex::default(),
            open: AtomicUsize::new(0),
        }
    }

    /// A secret; asked for if nobody was asked before, whatever the answer was.
    pub(super) async fn secret(&self, question: Question) -> Option<Secret> {
        // What a host asks in its own words may be good only once.
        if matches!(question, Question::Prompt { .. }) {
            return self.ask(move |ask| ask.secret(&question)).await.flatten();
        }
        let mut kept = self.kept.lock().await;
        if let Some(answer) = kept.get(&question) {
            return answer.clone();
        }
        let asked = question.clone();
        let answer = self.ask(move |ask| ask.secret(&asked)).await.flatten();
        kept.insert(question, answer.clone());
        answer
    }

    /// A secret that was given before.
    pub(super) async fn kept(&self, question: &Question) -> Option<Secret> {
        self.kept.lock().await.get(question).cloned().flatten()
    }

    /// Whether a person is being asked, which takes as long as it takes.
    pub(super) fn is_asking(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    pub(super) async fn is_right(&self, host: NewHost) -> bool {
        self.ask(move |ask| ask.is_right(&host)).await.unwrap_or(false)
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Ask) -> T + Send + 'static,
    ) -> Option<T> {
        let _open = Open::new(&self.open);
        let _one_at_a_time = self.one_at_a_time.lock().await;
        let ask = Arc::clone(&self.ask);
        tokio::task::spawn_blocking(move || question(&*ask)).await.ok()
    }
}

/// A question that is open as long as this lives.
struct Open<'a>(&'a AtomicUsize);

impl<'a> Open<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
