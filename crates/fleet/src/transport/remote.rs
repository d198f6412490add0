//! A host on which commands can be run becomes one that does steps: the program is put there, the bundle
//! if it must be, and orders are handed to the program.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use host::wire::{Order, Report, Request, Said, VERSION};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeekExt as _};
use tokio::sync::OnceCell;

use super::kit::{self, Kit};
use super::packed::Packed;
use super::push;
use super::shell::{
    ByLine, Command, Exit, Heard, Kept, Limits, Shell, Stdin, Stream, last_words, parts, quoted,
};
use super::{Answer, Listener, Session};
use crate::fault::{Fault, FaultKind};
use crate::inventory::Host;
use crate::run::RunId;

/// Finds the program, or a place for it.
const PREPARE: &str = include_str!("prepare.sh");
/// The longest that a host is silent while it looks for the program, or fetches it.
const PREPARE_IDLE: Duration = Duration::from_mins(2);
/// The longest that nothing moves while something is sent.
pub(super) const SEND_IDLE: Duration = Duration::from_mins(1);
/// What a host may take longer than its own limit for a step, to end it and to say so.
const STEP_GRACE: Duration = Duration::from_secs(30);
/// How long a step that only looks or clears up may take.
const SMALL_STEP_SECONDS: u64 = 120;
/// What a host says that does not reach the bundle.
const UNREACHABLE_BUNDLE: &str = "unreachable_bundle";
/// The longest report that a host can give: it is one line.
const REPORT_BYTES_MAX: usize = 4 << 20;
/// How many of the last words of a program are kept for who asks why.
const LAST_WORDS: usize = 5;

/// What all hosts of a run have in common.
#[derive(Debug)]
pub struct Shared {
    /// What they get.
    pub kit: Kit,
    /// The program, compressed once for all.
    packed: OnceCell<Packed>,
    /// Whose folder hosts keep it in, and which steps they forget when they are left.
    owner: Owner,
    /// Hosts that cannot fetch the bundle, and are sent it.
    cannot_fetch: Mutex<HashSet<String>>,
}

impl Shared {
    /// What hosts get in a run that changes them, of which there is one at a time.
    pub fn new(kit: Kit) -> Arc<Self> {
        Self::of(kit, Owner::Change)
    }

    /// The same in one that only looks. What it leaves on hosts is its own: a run that changes them may be at
    /// work beside it.
    pub fn looking(kit: Kit, run: &RunId) -> Arc<Self> {
        Self::of(kit, Owner::Look(run.to_string()))
    }

    fn of(kit: Kit, owner: Owner) -> Arc<Self> {
        Arc::new(Self { kit, packed: OnceCell::new(), owner, cannot_fetch: Mutex::default() })
    }

    /// The end of the name of the folder that the program and the bundle lie in.
    fn folder(&self) -> String {
        let name = &self.kit.distribution.name;
        match &self.owner {
            Owner::Change => name.clone(),
            Owner::Look(run) => format!("{name}-{run}"),
        }
    }

    /// Whether a host fetches the bundle by itself, as far as is known.
    fn can_fetch(&self, host: &str) -> bool {
        let is_served = self.kit.bundle.as_ref().is_none_or(|supply| supply.url.is_some());
        is_served && !self.without_fetching().contains(host)
    }

    /// Hosts that could not fetch the bundle, and are sent it.
    pub fn sent(&self) -> BTreeSet<String> {
        self.without_fetching().iter().cloned().collect()
    }

    fn cannot_fetch(&self, host: &str) {
        self.without_fetching().insert(host.to_owned());
    }

    fn without_fetching(&self) -> MutexGuard<'_, HashSet<String>> {
        self.cannot_fetch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which run works on hosts.
#[derive(Debug)]
enum Owner {
    /// One that changes them; what others before it left is its business, too.
    Change,
    /// One that only looks.
    Look(String),
}

/// A host that does steps by commands that are run on it.
#[derive(Debug)]
pub struct Remote<S> {
    pub(super) shell: S,
    pub(super) host: Host,
    pub(super) shared: Arc<Shared>,
    /// How the program is told which installation it is about.
    places: Vec<String>,
    /// Where the program is.
    program: Option<String>,
    /// Whether it is there for good.
    is_ready: bool,
    /// Where the bundle was pushed to.
    pub(super) pushed: Option<String>,
    /// Whether it has the packages, too, that the host lacks.
    has_packages: bool,
}

/// What a host answers to who looks for the program.
enum Found {
    Program(String),
    Part { is_packed: bool, bytes: u64, place: String },
}

impl<S: Shell> Remote<S> {
    /// The host behind `shell`, where the installation is where its distribution puts it.
    pub fn new(shell: S, host: Host, shared: Arc<Shared>) -> Self {
        let places = vec!["--distribution".to_owned(), shared.kit.distribution.name.clone()];
        Self {
            shell,
            host,
            shared,
            places,
            program: None,
            is_ready: false,
            pushed: None,
            has_packages: false,
        }
    }

    /// The same for an installation elsewhere, with a program that is there already.
    #[must_use]
    pub fn at(self, places: Vec<String>, program: &str) -> Self {
        Self { places, program: Some(program.to_owned()), is_ready: true, ..self }
    }

    /// Runs a script as root; returns what it wrote.
    pub(super) async fn ask(&mut self, script: String, stdin: Stdin<'_>) -> Result<Kept, Fault> {
        let limits = Limits { idle: Some(PREPARE_IDLE), whole: None };
        let mut kept = Kept::default();
        let command = Command { stdin, as_root: true, limits, ..Command::new(script) };
        let exit = self.shell.run(command, &mut kept).await?;
        if exit.is_success() { Ok(kept) } else { Err(unexpected(&exit, &kept.talk())) }
    }

    /// The words that scripts begin with.
    pub(super) fn words(&self) -> String {
        let Kit { distribution, program, bundle } = &self.shared.kit;
        let url = bundle.as_ref().and_then(|supply| supply.url.as_deref());
        let url = url.map(|url| format!("{}/{}", url.trim_end_matches('/'), program.served));
        let folder = self.shared.folder();
        let words = [
            ("name", folder.as_str()),
            ("install_root", distribution.install_root.as_str()),
            ("sha256", &program.sha256.to_string()),
            ("bytes", &program.bytes.to_string()),
            ("url", &url.unwrap_or_default()),
        ];
        let mut text = String::new();
        for (name, value) in words {
            let _ = writeln!(text, "{name}={}", quoted(value));
        }
        text
    }

    async fn find(&mut self) -> Result<Found, Fault> {
        let kept = self.ask(format!("{}{PREPARE}", self.words()), Stdin::Empty).await?;
        let text = kept.text();
        // Another controller of this run had to send it there.
        if text.lines().any(|line| line == "pushed") {
            self.shared.cannot_fetch(&self.host.name);
        }
        let line = text.lines().last().unwrap_or_default();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let fault = match (word, rest.splitn(3, ' ').collect::<Vec<_>>().as_slice()) {
            ("program", _) => return Ok(Found::Program(rest.to_owned())),
            ("part", [packed, bytes, place]) => {
                let bytes = bytes.parse().map_err(|_| not_understood(line))?;
                let (is_packed, place) = (*packed == "gzip", (*place).to_owned());
                return Ok(Found::Part { is_packed, bytes, place });
            }
            ("machine", _) => Fault::new(FaultKind::Machine, format!("the machine is `{rest}`"))
                .remedy("hosts are x86-64 machines with Linux"),
            ("full", _) => {
                // A program that comes in pieces, or packed, is there twice for a moment.
                let megabytes = (2 * self.shared.kit.program.bytes).div_ceil(1_000_000);
                Fault::new(FaultKind::NoSpace, format!("`{rest}` has no {megabytes} MB free"))
                    .remedy("make room there")
            }
            ("nowhere", _) => nowhere(),
            _ => not_understood(line),
        };
        Err(fault)
    }

    /// Sends what the host lacks of the program.
    async fn send(&mut self, place: &str, is_packed: bool, there: u64) -> Result<String, Fault> {
        let shared = Arc::clone(&self.shared);
        let program = &shared.kit.program;
        let there = if there < program.bytes { there } else { 0 };
        let into = if there == 0 { ">" } else { ">>" };
        let unpack = if is_packed { "gzip -dc" } else { "cat" };
        let part = quoted(&format!("{place}/{}.part", program.sha256));
        let script = format!(
            "umask 077\n{unpack} {into}{part} || exit\n{}place={}\npart={part}\n{}\naccept\n\
             rm -f {part}\necho damaged",
            self.words(),
            quoted(place),
            functions(),
        );
        let mut file;
        let mut packed;
        let rest: &mut (dyn AsyncRead + Send + Unpin) = if is_packed {
            let whole = shared.packed.get_or_try_init(|| pack(program.path.clone())).await?;
            let (end, others) = whole.rest(&program.path, there).map_err(unreadable)?;
            packed = io::Cursor::new(end).chain(others);
            &mut packed
        } else {
            file = open_at(&program.path, there).await.map_err(unreadable)?;
            &mut file
        };
        let limits = Limits { idle: Some(SEND_IDLE), whole: None };
        let stdin = Stdin::Reader(rest);
        let command = Command { stdin, as_root: true, limits, ..Command::new(script) };
        let mut kept = Kept::default();
        let exit = self.shell.run(command, &mut kept).await?;
        if !exit.is_success() {
            return Err(no_space_or(&exit, &kept.talk(), place));
        }
        let text = kept.text();
        let line = text.lines().last().unwrap_or_default();
        match line.split_once(' ') {
            Some(("program", path)) => Ok(path.to_owned()),
            Some(("full", place)) => Err(no_space(place)),
            _ => Err(Fault::new(FaultKind::Lost, "the program was damaged on its way to the host")),
        }
    }

    /// Removes a part of the program for the rest of which there is no room: nobody comes back for it.
    async fn clear(&mut self, place: &str) {
        let part = quoted(&format!("{place}/{}.part", self.shared.kit.program.sha256));
        let script = format!("rm -f {part}; rmdir {} 2>/dev/null; :", quoted(place));
        // If it cannot be removed there is something else to tell.
        drop(self.ask(script, Stdin::Empty).await);
    }

    /// Keeps a copy of the program that an uninstallation removes: what was done is still to be told.
    async fn keep_program(&mut self) -> Result<(), Fault> {
        let tool = self.shared.kit.distribution.install_root.join("tool/monobloc");
        if self.is_ready || self.program.as_deref() != Some(tool.as_str()) {
            return Ok(());
        }
        let script = format!(
            "{}{}\numask 077\nfind_place && rm -f \"$place/monobloc.new\" && \
             cp {} \"$place/monobloc.new\" && mv \"$place/monobloc.new\" \"$place/monobloc\" && \
             echo \"$place/monobloc\"",
            self.words(),
            functions(),
            quoted(tool.as_str()),
        );
        let kept = self.ask(script, Stdin::Empty).await?;
        self.program = Some(kept.text());
        Ok(())
    }

    /// The command that does a step.
    async fn program(&mut self) -> Result<String, Fault> {
        if self.program.is_none() {
            self.prepare().await?;
        }
        let program = self.program.as_deref().unwrap_or_default();
        let places: Vec<String> = self.places.iter().map(|word| quoted(word)).collect();
        Ok(format!("exec {} host {} step", quoted(program), places.join(" ")))
    }
}

impl<S: Shell> Session for Remote<S> {
    async fn prepare(&mut self) -> Result<(), Fault> {
        if self.is_ready {
            return Ok(());
        }
        let during = |fault: Fault| {
            // What is stuck changed nothing there: another connection goes on where this one stopped.
            let kind = match fault.kind {
                FaultKind::TimedOut => FaultKind::Lost,
                kind => kind,
            };
            Fault { kind, ..fault }.during("cannot put the program on the host")
        };
        let found = self.find().await.map_err(during)?;
        let program = match found {
            Found::Program(path) => path,
            Found::Part { is_packed, bytes, place } => {
                let sent = self.send(&place, is_packed, bytes).await;
                if sent.as_ref().is_err_and(|fault| fault.kind == FaultKind::NoSpace) {
                    self.clear(&place).await;
                }
                sent.map_err(during)?
            }
        };
        self.program = Some(program);
        Ok(())
    }

    async fn push(&mut self, said: &mut dyn Listener) -> Result<(), Fault> {
        let pushed = push::push(self, said).await;
        self.has_packages = pushed.is_ok();
        pushed.map_err(|fault| fault.during("cannot push the bundle"))
    }

    async fn step(&mut self, order: &Order, said: &mut dyn Listener) -> Result<Answer, Fault> {
        if matches!(order.request, Request::Uninstall { .. }) {
            self.program().await?;
            self.keep_program().await?;
        }
        if !kit::needs_bundle(&order.request) {
            return self.hand_over(order, said).await;
        }
        let can_fetch = self.shared.can_fetch(&self.host.name);
        if !can_fetch && self.pushed.is_none() {
            push::begin(self, said).await?;
        }
        if self.pushed.is_some() && !self.has_packages && matches!(order.request, Request::Stage(_))
        {
            self.push(said).await?;
        }
        let answer = self.hand_over(order, said).await?;
        // What changes a host is done once, so whether it can fetch is found out by what only looks.
        let is_without = can_fetch
            && !order.request.changes()
            && matches!(&answer.report, Report::Failed(failed) if failed.kind == UNREACHABLE_BUNDLE);
        if !is_without {
            return Ok(answer);
        }
        said.line("the host cannot fetch the bundle, so it is sent over this connection");
        self.shared.cannot_fetch(&self.host.name);
        push::begin(self, said).await?;
        self.hand_over(order, said).await
    }

    async fn leave(&mut self) -> Result<(), Fault> {
        let run = match &self.shared.owner {
            Owner::Change => "*",
            Owner::Look(run) => run.as_str(),
        };
        let forget = Request::Forget { run: run.to_owned() };
        self.hand_over(&order("forget", forget)?, &mut super::Unheard).await?;
        if self.is_ready {
            return Ok(());
        }
        let name = quoted(&format!(".monobloc-{}", self.shared.folder()));
        // Of looks that were killed nobody else clears up.
        let script = format!(
            "for parent in /var/lib /opt /root /run; do rm -rf \"$parent\"/{name}\n\
             find \"$parent\" -maxdepth 1 -name {name}'-[0-9]*' -mtime +0 -exec rm -rf {{}} + 2>/dev/null\n\
             done\ntrue"
        );
        self.ask(script, Stdin::Empty).await?;
        (self.program, self.pushed, self.has_packages) = (None, None, false);
        Ok(())
    }
}

impl<S: Shell> Remote<S> {
    /// Has the program on the host do what an order says.
    pub(super) async fn hand_over(
        &mut self,
        order: &Order,
        said: &mut dyn Listener,
    ) -> Result<Answer, Fault> {
        let script = self.program().await?;
        let request = self.shared.kit.complete(&order.request, &self.host, self.pushed.as_deref());
        let order = Order { request, ..order.clone() };
        let text =
            serde_json::to_vec(&order).map_err(|error| Fault::of(FaultKind::Protocol, &error))?;
        let whole = Duration::from_secs(order.limit_seconds).saturating_add(STEP_GRACE);
        let limits = Limits { idle: None, whole: Some(whole) };
        let mut told = Told { said, answer: None, last: Vec::new() };
        let mut heard = ByLine::new(|stream, line: &str| told.hear(stream, line))
            .with_lines_up_to(REPORT_BYTES_MAX);
        let stdin = Stdin::Bytes(&text);
        let command = Command { stdin, as_root: true, limits, ..Command::new(script) };
        let exit = self.shell.run(command, &mut heard as &mut dyn Heard).await;
        heard.finish();
        match (told.answer, exit) {
            (Some(answer), _) => Ok(answer),
            (None, Err(fault)) => Err(fault),
            (None, Ok(exit)) => {
                // Somebody may have removed it: the next try puts it there again.
                self.program = self.program.take().filter(|_| self.is_ready);
                Err(unexpected(&exit, &told.last.join("\n")))
            }
        }
    }
}

/// An order that belongs to no run, and that only looks or clears up.
pub(super) fn order(name: &str, request: Request) -> Result<Order, Fault> {
    let id = name.to_owned().try_into();
    let id = id.map_err(|error| Fault::of(FaultKind::Protocol, &error))?;
    Ok(Order { version: VERSION, id, limit_seconds: SMALL_STEP_SECONDS, request })
}

/// What a program says while it does a step.
struct Told<'a> {
    said: &'a mut dyn Listener,
    answer: Option<Answer>,
    last: Vec<String>,
}

impl Told<'_> {
    fn hear(&mut self, stream: Stream, line: &str) {
        let said = match stream {
            Stream::Stdout => serde_json::from_str(line).ok(),
            Stream::Stderr => None,
        };
        match said {
            Some(Said::Line { text }) => parts(&text).for_each(|part| self.said.line(part)),
            Some(Said::Progress { done_bytes, total_bytes }) => {
                self.said.progress(done_bytes, total_bytes);
            }
            Some(Said::Report { already, report, .. }) => {
                self.answer = Some(Answer { report: *report, already });
            }
            Some(Said::Unknown) => {}
            None => {
                if self.last.len() == LAST_WORDS {
                    self.last.remove(0);
                }
                self.last.push(last_words(line).to_owned());
                parts(line).for_each(|part| self.said.line(part));
            }
        }
    }
}

/// The part of [`PREPARE`] that only says how things are done.
pub(super) fn functions() -> &'static str {
    PREPARE.split_once("\numask").map_or(PREPARE, |(functions, _)| functions)
}

async fn pack(path: Utf8PathBuf) -> Result<Packed, Fault> {
    let packed = tokio::task::spawn_blocking(move || Packed::of(&path)).await;
    packed.map_err(|error| Fault::of(FaultKind::Cancelled, &error))?.map_err(unreadable)
}

async fn open_at(path: &Utf8Path, from: u64) -> io::Result<tokio::fs::File> {
    let mut file = tokio::fs::File::open(path).await?;
    file.seek(io::SeekFrom::Start(from)).await?;
    Ok(file)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unreadable(error: io::Error) -> Fault {
    Fault::of(FaultKind::Step, &error).during("cannot read the program here")
}

/// A script of ours that ended as it should not.
pub(super) fn no_space_or(exit: &Exit, talk: &str, place: &str) -> Fault {
    if talk.contains("No space left") || talk.contains("Disk quota exceeded") {
        return no_space(place);
    }
    unexpected(exit, talk)
}

pub(super) fn no_space(place: &str) -> Fault {
    Fault::new(FaultKind::NoSpace, format!("there is no space at `{place}`"))
        .remedy("make room there")
}

fn unexpected(exit: &Exit, talk: &str) -> Fault {
    let said = match last_words(talk) {
        "" => "and said nothing".to_owned(),
        said => format!("saying: {said}"),
    };
    Fault::new(FaultKind::Protocol, format!("what was run on the host ended with {exit}, {said}"))
        .remedy("log in there and look: `monobloc logs` has everything that it said")
}

fn not_understood(line: &str) -> Fault {
    let line = last_words(line);
    Fault::new(FaultKind::Protocol, format!("the host answered `{line}`, which nobody understands"))
        .remedy("see that logging in there prints nothing and `sh` is a POSIX shell")
}

pub(super) fn nowhere() -> Fault {
    let cause = "none of /var/lib, /opt, /root, /run lets root write and run programs";
    Fault::new(FaultKind::Machine, cause).remedy("mount one of them without `noexec`")
}

/// What a step that failed is told as.
pub fn fault_of(report: &Report) -> Option<Fault> {
    let Report::Failed(failed) = report else { return None };
    let kind = if failed.kind == "no_space" { FaultKind::NoSpace } else { FaultKind::Step };
    Some(Fault { kind, causes: failed.causes.clone(), remedy: failed.remedy.clone() })
}
