//! Running one command over one channel.
//!
//! The command is wrapped: before it begins it says, on both streams, a word that nobody can guess and
//! the group of its processes. What comes before that word is not the command's: greetings of the
//! login shell, and what `sudo` says. The group is what has to end if the command must.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Pty, Sig};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;

use super::ask::{Question, Secret};
use super::connection::{Connection, Inner};
use super::tty;
use crate::fault::{Fault, FaultKind};
use crate::transport::shell::{Command, Exit, Heard, Shell, Stdin, asked, quoted, too_long};

/// Told by both streams before the command begins, with the group of its processes.
const BEGIN: &str =
    r#"g=$$; read -r _ _ _ _ g _ 2>/dev/null </proc/$$/stat; echo "$0 $g"; echo "$0 $g" >&2; "#;
/// Asks a group of processes to end, and makes it end two seconds later.
const END: &str = r"kill -s TERM -- -$0 2>/dev/null; i=0; while [ $i -lt 20 ] && kill -s 0 -- -$0 2>/dev/null; do i=$((i+1)); sleep 0.1; done; kill -s KILL -- -$0 2>/dev/null; :";
/// How long `sudo` may take to start a command that has no limit for silence: it may ask other machines.
const SUDO_LIMIT: Duration = Duration::from_mins(2);
/// How long it may take to end a command.
pub(super) const END_LIMIT: Duration = Duration::from_secs(10);
/// How long somebody may take to say the rest after the end of the command: it may have left others
/// behind that hold its output, and these may live for ever.
pub(super) const REST_LIMIT: Duration = Duration::from_secs(2);
/// How long it may take to open and close a channel.
const CHANNEL_LIMIT: Duration = Duration::from_secs(20);
/// What is kept of what is said before the command.
const BEFORE_BYTES_MAX: usize = 16 << 10;
const STDIN_BYTES: usize = 32 << 10;

impl Shell for Connection {
    async fn run(&mut self, command: Command<'_>, heard: &mut dyn Heard) -> Result<Exit, Fault> {
        run(&self.0, command, heard).await
    }
}

/// Who runs a command.
#[derive(Debug, Clone)]
pub(super) enum Who {
    /// Who logged in.
    Login,
    /// Root, by `sudo`, with a password if there is one.
    Root(Option<Secret>),
}

/// Why a command was ended.
#[derive(Debug)]
pub(super) enum Stop {
    Idle(Duration),
    Whole(Duration),
    Cancelled,
    /// There is nothing to end.
    Failed(Fault),
    /// `sudo` did not start it, and said this.
    NotRoot(String),
    /// The same, and it has not ended for so long.
    Hangs(Duration, String),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

async fn run(
    inner: &Arc<Inner>,
    mut command: Command<'_>,
    heard: &mut dyn Heard,
) -> Result<Exit, Fault> {
    // Never closed.
    let _place = inner.channels.acquire().await.ok();
    if !command.as_root || inner.options.user == "root" {
        return match once(inner, &Who::Login, &mut command, heard).await {
            Ok(exit) => Ok(exit),
            Err(stop) => Err(fault_of(stop, inner)),
        };
    }
    let question = Question::SudoPassword { user: inner.options.user.clone() };
    let mut who = Who::Root(inner.shared.answers.kept(&question).await);
    // At most: without a password, with one, with a terminal.
    for _ in 0..3 {
        let said = if inner.needs_terminal.load(Ordering::Relaxed) {
            tty::once(inner, &who, &mut command, heard).await
        } else {
            once(inner, &who, &mut command, heard).await
        };
        let said = match said {
            Ok(exit) => return Ok(exit),
            Err(Stop::NotRoot(said)) => said,
            Err(stop) => return Err(fault_of(stop, inner)),
        };
        if said.contains("must have a tty") {
            if inner.needs_terminal.swap(true, Ordering::Relaxed) {
                return Err(not_root(inner, &said));
            }
        } else if matches!(who, Who::Root(None)) && wants_password(&said) {
            let Some(password) = inner.shared.answers.secret(question.clone()).await else {
                return Err(not_root(inner, &said));
            };
            who = Who::Root(Some(password));
        } else {
            return Err(not_root(inner, &said));
        }
    }
    Err(not_root(inner, "it wants neither a password nor a terminal, and does not start"))
}

fn fault_of(stop: Stop, inner: &Inner) -> Fault {
    match stop {
        Stop::Idle(limit) => too_long(limit, true),
        Stop::Whole(limit) => too_long(limit, false),
        Stop::Cancelled => Fault::new(FaultKind::Cancelled, "the command was ended on request"),
        Stop::Failed(fault) => fault,
        Stop::NotRoot(said) => not_root(inner, &said),
        Stop::Hangs(limit, said) => {
            let seconds = limit.as_secs_f64();
            let said = if said.is_empty() { "it said nothing".to_owned() } else { said };
            let cause = format!("sudo did not start the command within {seconds} s: {said}");
            Fault::new(FaultKind::Sudo, cause)
                .during(format!("`{}` cannot become root", inner.place()))
                .remedy("log in there, run `sudo true` and see what it waits for")
        }
    }
}

/// Whether `sudo` asks for a password, in its own words and in those of `sudo-rs`.
fn wants_password(said: &str) -> bool {
    said.contains("password is required") || said.contains("interactive authentication is required")
}

fn not_root(inner: &Inner, said: &str) -> Fault {
    let user = &inner.options.user;
    let remedy = if wants_password(said) {
        format!("give the password of `{user}` for sudo, or allow it without (NOPASSWD)")
    } else if said.contains("not found") {
        format!("install sudo, or log in as root rather than as `{user}`")
    } else if said.contains("incorrect password") || said.contains("try again") {
        format!("give the right password of `{user}` for sudo")
    } else {
        format!("allow `{user}` to run commands as root in the host's sudoers, or log in as root")
    };
    let said = if said.is_empty() { "it said nothing" } else { said };
    Fault::new(FaultKind::Sudo, format!("sudo did not start the command: {said}"))
        .during(format!("`{}` cannot become root", inner.place()))
        .remedy(remedy)
}

/// Runs a command by somebody.
async fn once(
    inner: &Arc<Inner>,
    who: &Who,
    command: &mut Command<'_>,
    heard: &mut dyn Heard,
) -> Result<Exit, Stop> {
    let marker = random_word()?;
    let mut talk = Talk::start(inner, who, &marker, &command.script, Terminal::None).await?;
    let (idle, whole) = (command.limits.idle, command.limits.whole);
    let stdin = std::mem::replace(&mut command.stdin, Stdin::Empty);
    let mut stdin = Some(stdin);
    let work = async {
        if matches!(who, Who::Root(_)) {
            talk.until_begun(who, idle, heard).await?;
        }
        let input = stdin.take().unwrap_or(Stdin::Empty);
        let write = Arc::clone(&talk.write);
        listen(&mut talk, pump(input, &write), idle, heard).await
    };
    let result = bounded(work, whole, &mut command.cancel).await;
    // Nobody has read it: there may be another try.
    if let Some(stdin) = stdin.take() {
        command.stdin = stdin;
    }
    match result {
        Ok(()) => talk.finish().await.map_err(Stop::Failed),
        Err(stop) => {
            if !matches!(stop, Stop::Failed(_) | Stop::NotRoot(_)) {
                talk.end(heard).await;
            }
            talk.close().await;
            Err(stop)
        }
    }
}

/// Work that somebody can end, and that a limit ends.
pub(super) async fn bounded<T>(
    work: impl Future<Output = Result<T, Stop>>,
    whole: Option<Duration>,
    cancel: &mut Option<watch::Receiver<bool>>,
) -> Result<T, Stop> {
    tokio::select! {
        result = work => result,
        () = asked(cancel) => Err(Stop::Cancelled),
        limit = elapsed(whole) => Err(Stop::Whole(limit)),
    }
}

async fn elapsed(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}

/// Hears a command until it ends, while `pump` gives it what it reads.
async fn listen(
    talk: &mut Talk,
    pump: impl Future<Output = ()>,
    idle: Option<Duration>,
    heard: &mut dyn Heard,
) -> Result<(), Stop> {
    tokio::pin!(pump);
    let mut is_pumping = true;
    while !talk.is_closed {
        let moved = talk.moved();
        tokio::select! {
            message = talk.read.wait() => {
                talk.take(message, heard)?;
            }
            () = &mut pump, if is_pumping => is_pumping = false,
            limit = elapsed(idle), if talk.exit.is_none() => {
                // What was written meanwhile counts, too.
                if talk.moved() == moved {
                    return Err(Stop::Idle(limit));
                }
            }
            _ = elapsed(Some(REST_LIMIT)), if talk.exit.is_some() => break,
        }
    }
    Ok(())
}

/// Gives a command all that it reads. That it reads no more is no mistake.
pub(super) async fn pump(stdin: Stdin<'_>, write: &Input) {
    let sent = match stdin {
        Stdin::Empty => Ok(()),
        Stdin::Bytes(bytes) => write.send(bytes).await,
        Stdin::Reader(reader) => {
            let mut buffer = vec![0; STDIN_BYTES];
            loop {
                match reader.read(&mut buffer).await {
                    // A file that ends early is told by what the command makes of it.
                    Ok(0) | Err(_) => break Ok(()),
                    Ok(count) => {
                        if let Err(error) = write.send(&buffer[..count]).await {
                            break Err(error);
                        }
                    }
                }
            }
        }
    };
    if sent.is_ok() {
        drop(write.half.eof().await);
    }
}

/// What a command is given, and a count of it.
pub(super) struct Input {
    half: ChannelWriteHalf<Msg>,
    sent: AtomicU64,
}

impl Input {
    /// Tells the server to send a signal, if the connection takes that.
    async fn signal(&self, signal: Sig) {
        drop(tokio::time::timeout(REST_LIMIT, self.half.signal(signal)).await);
    }

    /// Copies no more of it than is on its way.
    async fn send(&self, bytes: &[u8]) -> Result<(), russh::Error> {
        for piece in bytes.chunks(STDIN_BYTES) {
            self.half.data_bytes(piece.to_vec()).await?;
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whether, and for what, a command has a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Terminal<'a> {
    None,
    /// For `sudo`; the command's own streams are the pipes in this folder.
    Pipes(&'a str),
}

/// A channel with a command.
pub(super) struct Talk {
    inner: Arc<Inner>,
    read: ChannelReadHalf,
    pub(super) write: Arc<Input>,
    who: Who,
    marker: String,
    out: Before,
    err: Before,
    received: u64,
    pub(super) group: Option<u32>,
    pub(super) exit: Option<Exit>,
    pub(super) is_closed: bool,
    has_terminal: bool,
    is_over: bool,
}

/// How sudo begins to say that it allows other commands only.
const REFUSED: &str = "is not allowed to execute";

/// What is said before the command begins.
#[derive(Debug, Default)]
struct Before {
    said: Vec<u8>,
    is_over: bool,
}

impl Before {
    /// Returns what belongs to the command, and the group if this says it.
    fn take(&mut self, marker: &str, bytes: &[u8]) -> (Vec<u8>, Option<u32>) {
        self.said.extend_from_slice(bytes);
        // A prompt has the word without a space; who refuses a command may repeat it, with the word in it.
        let word = format!("{marker} ");
        let mut from = 0;
        while let Some(at) = position(&self.said[from..], word.as_bytes()) {
            from += at + word.len();
            let Some(length) = self.said[from..].iter().position(|byte| *byte == b'\n') else {
                break;
            };
            let line = String::from_utf8_lossy(&self.said[from..from + length]);
            if let Ok(group) = line.trim().parse() {
                let rest = self.said.split_off(from + length + 1);
                self.said.clear();
                self.is_over = true;
                return (rest, Some(group));
            }
        }
        let excess = self.said.len().saturating_sub(BEFORE_BYTES_MAX);
        self.said.drain(..excess);
        (Vec::new(), None)
    }
}

/// Where a text has another.
fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|found| found == part)
}

impl Talk {
    pub(super) async fn start(
        inner: &Arc<Inner>,
        who: &Who,
        marker: &str,
        script: &str,
        terminal: Terminal<'_>,
    ) -> Result<Self, Fault> {
        let pipes = match terminal {
            Terminal::None => String::new(),
            Terminal::Pipes(folder) => format!("exec <{folder}/i >{folder}/o 2>{folder}/e; "),
        };
        let wrapped = format!("{BEGIN}{pipes}eval \"$1\"");
        let line = format!(
            "{}/bin/sh -c {} {} {}",
            prefix(who, marker),
            quoted(&wrapped),
            marker,
            quoted(script)
        );
        let has_terminal = terminal != Terminal::None;
        let (read, half) = open(inner, &line, has_terminal).await?;
        Ok(Self {
            inner: Arc::clone(inner),
            read,
            write: Arc::new(Input { half, sent: AtomicU64::new(0) }),
            who: who.clone(),
            marker: marker.to_owned(),
            out: Before::default(),
            err: Before { is_over: has_terminal, ..Before::default() },
            received: 0,
            group: None,
            exit: None,
            is_closed: false,
            has_terminal,
            is_over: false,
        })
    }

    /// Changes when anything was received or sent.
    fn moved(&self) -> u64 {
        self.received + self.write.sent.load(Ordering::Relaxed)
    }

    /// The next message, for [`Talk::take`].
    pub(super) async fn next(&mut self) -> Option<ChannelMsg> {
        self.read.wait().await
    }

    /// Takes what the host says.
    pub(super) fn take(
        &mut self,
        message: Option<ChannelMsg>,
        heard: &mut dyn Heard,
    ) -> Result<(), Stop> {
        self.received += 1;
        match message {
            Some(ChannelMsg::Data { data }) => {
                if self.out.is_over {
                    heard.stdout(&data);
                } else {
                    let (rest, group) = self.out.take(&self.marker, &data);
                    self.group = self.group.or(group);
                    heard.stdout(&rest);
                }
            }
            Some(ChannelMsg::ExtendedData { data, .. }) => {
                if self.err.is_over {
                    heard.stderr(&data);
                } else {
                    let (rest, group) = self.err.take(&self.marker, &data);
                    self.group = self.group.or(group);
                    heard.stderr(&rest);
                }
            }
            Some(ChannelMsg::ExitStatus { exit_status }) => {
                self.exit = Some(Exit::Status(exit_status));
            }
            Some(ChannelMsg::ExitSignal { signal_name, .. }) => {
                self.exit = Some(Exit::Signal(match signal_name {
                    Sig::Custom(name) => name,
                    known => format!("{known:?}"),
                }));
            }
            Some(ChannelMsg::Close) => self.is_closed = true,
            None => {
                self.is_closed = true;
                if self.exit.is_none() {
                    return Err(Stop::Failed(self.inner.lost()));
                }
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Waits until `sudo` has started the command, which may take as long as the command may be silent.
    pub(super) async fn until_begun(
        &mut self,
        who: &Who,
        idle: Option<Duration>,
        heard: &mut dyn Heard,
    ) -> Result<(), Stop> {
        let limit = idle.unwrap_or(SUDO_LIMIT);
        match tokio::time::timeout(limit, self.begin(who, heard)).await {
            Ok(begun) => begun,
            Err(_) => Err(Stop::Hangs(limit, self.said())),
        }
    }

    /// Gives `sudo` the password if it asks.
    async fn begin(&mut self, who: &Who, heard: &mut dyn Heard) -> Result<(), Stop> {
        let prompt = prompt(&self.marker);
        let mut is_asked = false;
        while self.group.is_none() {
            if self.is_closed {
                return Err(Stop::NotRoot(self.said()));
            }
            let message = self.read.wait().await;
            self.take(message, heard)?;
            let before = if self.has_terminal { &mut self.out } else { &mut self.err };
            // It may have words of its own around it.
            let Some(start) = position(&before.said, prompt.as_bytes()) else { continue };
            before.said.drain(..start + prompt.len());
            let Who::Root(Some(password)) = who else {
                return Err(Stop::NotRoot("a password is required".into()));
            };
            if std::mem::replace(&mut is_asked, true) {
                return Err(Stop::NotRoot("incorrect password".into()));
            }
            let line = format!("{}\n", password.reveal());
            self.write.send(line.as_bytes()).await.map_err(|_| Stop::Failed(self.inner.lost()))?;
        }
        Ok(())
    }

    /// What was said before the command.
    fn said(&self) -> String {
        let said = [&self.err.said[..], &self.out.said[..]].concat();
        let mut said = String::from_utf8_lossy(&said).into_owned();
        // What follows is the whole command.
        if let Some(at) = said.find(REFUSED) {
            said.truncate(at + REFUSED.len());
            said.push_str(" our commands as root");
        }
        let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        // Its last lines say why; before them it may lecture.
        let lines: Vec<&str> = lines.collect();
        lines[lines.len().saturating_sub(3)..].join("; ")
    }

    /// How it ended.
    async fn finish(mut self) -> Result<Exit, Fault> {
        let exit = self.exit.take();
        let (begun, said) = (self.group.is_some(), self.said());
        let fault = match exit {
            Some(exit) if begun => {
                self.close().await;
                return Ok(exit);
            }
            Some(exit) => Fault::new(FaultKind::Protocol, format!("{exit}: {said}"))
                .during(format!("`{}` runs no commands", self.inner.place()))
                .remedy("look at the login shell of the user, and at commands its key is bound to"),
            None => Fault::new(FaultKind::Lost, "the host did not say how the command ended"),
        };
        self.close().await;
        Err(fault)
    }

    /// Ends the command and all that it started, and hears the rest. It is heard meanwhile, too: what nobody
    /// takes holds up the whole connection, and with it what ends the command.
    pub(super) async fn end(&mut self, heard: &mut dyn Heard) {
        self.is_over = true;
        let (inner, who) = (Arc::clone(&self.inner), self.who.clone());
        let (write, group, has_terminal) = (Arc::clone(&self.write), self.group, self.has_terminal);
        tokio::select! {
            () = end_group(&inner, &who, group, &write, has_terminal) => {}
            () = self.hear_on(heard) => {}
        }
        let rest = async {
            while !self.is_closed {
                let message = self.read.wait().await;
                if self.take(message, heard).is_err() {
                    break;
                }
            }
        };
        drop(tokio::time::timeout(REST_LIMIT, rest).await);
    }

    /// Hears it, without end.
    pub(super) async fn hear_on(&mut self, heard: &mut dyn Heard) {
        while !self.is_closed {
            let message = self.read.wait().await;
            // An end of the connection is told by whoever waits for something.
            drop(self.take(message, heard));
        }
        std::future::pending::<()>().await;
    }

    /// Closes the channel. A server counts it as long as not both have closed it.
    pub(super) async fn close(mut self) {
        self.is_over = true;
        let write = Arc::clone(&self.write);
        let closed = async {
            while !self.is_closed {
                match self.read.wait().await {
                    Some(ChannelMsg::Close) | None => self.is_closed = true,
                    Some(_) => {}
                }
            }
        };
        let both = async { tokio::join!(write.half.close(), closed) };
        drop(tokio::time::timeout(REST_LIMIT, both).await);
    }
}

impl Drop for Talk {
    /// Nobody waits for it any more: it ends.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (inner, who, group) = (Arc::clone(&self.inner), self.who.clone(), self.group);
        let (write, has_terminal) = (Arc::clone(&self.write), self.has_terminal);
        self.inner.shared.end_later(async move {
            end_group(&inner, &who, group, &write, has_terminal).await;
            drop(tokio::time::timeout(REST_LIMIT, write.half.close()).await);
        });
    }
}

/// Hears nothing.
pub(super) struct Nothing;

impl Heard for Nothing {
    fn stdout(&mut self, _: &[u8]) {}
    fn stderr(&mut self, _: &[u8]) {}
}

/// Ends a group of processes, by whoever runs it.
async fn end_group(
    inner: &Arc<Inner>,
    who: &Who,
    group: Option<u32>,
    write: &Input,
    has_terminal: bool,
) {
    if inner.handle.is_closed() {
        return;
    }
    // Newer servers do it themselves, if they may.
    write.signal(Sig::TERM).await;
    let Some(group) = group else {
        return write.signal(Sig::KILL).await;
    };
    let ending = async {
        let line = format!("{}/bin/sh -c {} {group}", prefix(who, ""), quoted(END));
        let Ok((mut read, other)) = open(inner, &line, has_terminal).await else { return false };
        if let Who::Root(Some(password)) = who {
            let line = format!("{}\n", password.reveal()).into_bytes();
            drop(other.data_bytes(line).await);
        }
        let started = Instant::now();
        while started.elapsed() < END_LIMIT {
            match read.wait().await {
                Some(ChannelMsg::Close | ChannelMsg::ExitStatus { .. }) | None => break,
                Some(_) => {}
            }
        }
        drop(other.close().await);
        true
    };
    if !tokio::time::timeout(END_LIMIT, ending).await.unwrap_or(false) {
        write.signal(Sig::KILL).await;
    }
}

/// What comes before the shell so that it is run by somebody.
fn prefix(who: &Who, marker: &str) -> String {
    match who {
        Who::Login => "exec ".to_owned(),
        // What it says is compared.
        Who::Root(None) => "exec env LC_ALL=C sudo -n -H -- ".to_owned(),
        Who::Root(Some(_)) => {
            format!("exec env LC_ALL=C sudo -S -H -p {} -- ", quoted(&prompt(marker)))
        }
    }
}

fn prompt(marker: &str) -> String {
    format!("{marker}?")
}

/// A word that nobody can guess.
pub(super) fn random_word() -> Result<String, Fault> {
    let mut bytes = [0_u8; 12];
    getrandom::fill(&mut bytes).map_err(|error| Fault::of(FaultKind::Protocol, &error))?;
    Ok(bytes.iter().fold(String::from("m"), |word, byte| format!("{word}{byte:02x}")))
}

/// Opens a channel and starts a command line in it.
async fn open(
    inner: &Inner,
    line: &str,
    terminal: bool,
) -> Result<(ChannelReadHalf, ChannelWriteHalf<Msg>), Fault> {
    let opening = async {
        let channel = inner.handle.channel_open_session().await.map_err(|error| match error {
            russh::Error::ChannelOpenFailure(_) => Fault::of(FaultKind::Busy, &error)
                .during(format!("`{}` takes no more commands at once", inner.place()))
                .remedy("wait, or raise MaxSessions of its SSH server"),
            _ => inner.lost(),
        })?;
        let (read, write) = channel.split();
        let lost = |_| inner.lost();
        if terminal {
            let modes = [(Pty::ECHO, 0), (Pty::ONLCR, 0), (Pty::ISIG, 0)];
            write.request_pty(false, "dumb", 80, 24, 0, 0, &modes).await.map_err(lost)?;
        }
        // No answer is waited for: what is refused ends by itself, and says so.
        write.exec(false, line).await.map_err(lost)?;
        Ok((read, write))
    };
    match tokio::time::timeout(CHANNEL_LIMIT, opening).await {
        Ok(result) => result,
        Err(_) => Err(Fault::new(FaultKind::Lost, "the host opens no channel")
            .during(format!("the connection to `{}` is stuck", inner.place()))),
    }
}
