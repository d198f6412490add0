//! The way to one host and back: connects if it must, has the host do one thing, and tries again if what
//! went wrong may pass. The same step has the same id in every try, so a host does it once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use host::wire::{Order, VERSION};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};

use super::machine::{Action, Outcome, Todo};
use super::spec::RunSpec;
use crate::fault::{Fault, FaultKind};
use crate::transport::{Listener, Session, Transport};

/// How much longer than a step may take the transport is given, in seconds: it gives the host half a minute
/// to say so itself, ends what runs there, and can tell more than that nothing came.
const GRACE: u64 = 60;

/// The longest wait for a server that turns us away, in seconds: OpenSSH shuts out who came too often for
/// a minute and a half, and adds up.
const BUSY_MOST: u64 = 120;

/// The longest line that is kept, in bytes.
const LINE_MAX: usize = 4096;

/// What is told on the way.
#[derive(Debug)]
pub(super) enum Message {
    Connecting,
    Retrying { step: &'static str, fault: Fault, attempt: u32, wait: Duration },
    Line { tag: Arc<str>, number: u64, text: String },
    Progress { done_bytes: u64, total_bytes: u64 },
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Performed<S> {
    /// The connection, if it is still good.
    pub(super) session: Option<S>,
    pub(super) outcome: Outcome,
    /// Lines that were not kept.
    pub(super) dropped: u64,
}

/// Has a host do something. `heard`: it may have heard of it from a controller that died.
pub(super) async fn perform<T: Transport>(
    transport: Arc<T>,
    spec: Arc<RunSpec>,
    todo: Todo,
    heard: bool,
    mut session: Option<T::Session>,
    mut said: Speaker,
) -> Performed<T::Session> {
    if todo.wait > 0 {
        sleep(Duration::from_secs(todo.wait)).await;
    }
    let limits = &spec.limits;
    let mut sent = heard;
    let mut was_reached = session.is_some() || heard;
    let mut attempt = 1;
    loop {
        let done = once(&*transport, &spec, &todo, &mut session, &mut sent, &mut said).await;
        was_reached |= session.is_some();
        let fault = match done {
            Ok(outcome) => {
                let dropped = said.finish();
                return Performed { session, outcome, dropped };
            }
            Err(fault) => fault,
        };
        session = None;
        // Who is turned away has reached the host: it is there.
        let is_there = was_reached || fault.kind == FaultKind::Busy;
        let most = if is_there { limits.tries_again } else { limits.tries };
        if !fault.passes() || attempt >= most {
            let dropped = said.finish();
            return Performed { session, outcome: Outcome::Faulted { fault, sent }, dropped };
        }
        let wait = backoff(&spec, todo.host, attempt, fault.kind);
        attempt += 1;
        said.tell(Message::Retrying { step: todo.name, fault, attempt, wait });
        sleep(wait).await;
    }
}

async fn once<T: Transport>(
    transport: &T,
    spec: &RunSpec,
    todo: &Todo,
    session: &mut Option<T::Session>,
    sent: &mut bool,
    said: &mut Speaker,
) -> Result<Outcome, Fault> {
    if session.is_none() {
        said.tell(Message::Connecting);
        let host = &spec.hosts[todo.host].host;
        // It knows when its time begins, and what does not count.
        let made = transport.connect(host).await?;
        // Once for each connection: those that are kept are ready.
        let made = session.insert(made);
        // As long as something moves: many programs at once over a slow link take their time.
        made.prepare().await?;
    }
    let Some(ready) = session.as_mut() else { unreachable!("it was just made") };
    let limit = todo.limit + GRACE;
    match &todo.action {
        Action::Push => {
            within(limit, ready.push(said)).await?;
            Ok(Outcome::Silent)
        }
        Action::Leave => {
            within(limit, ready.leave()).await?;
            // Whoever comes back has to prepare it again.
            *session = None;
            Ok(Outcome::Silent)
        }
        Action::Order(request) => {
            let order = Order {
                version: VERSION,
                id: spec.step_id(&todo.tag, todo.host),
                limit_seconds: todo.limit,
                request: request.clone(),
            };
            *sent = true;
            said.begin_again();
            let answer = within(limit, ready.step(&order, said)).await?;
            Ok(Outcome::Answered { report: answer.report, already: answer.already })
        }
    }
}

async fn within<R>(seconds: u64, work: impl Future<Output = Result<R, Fault>>) -> Result<R, Fault> {
    match timeout(Duration::from_secs(seconds), work).await {
        Ok(done) => done,
        Err(_) => {
            Err(Fault::new(FaultKind::TimedOut, format!("nothing came of it in {seconds} s"))
                .remedy("look at what the host is busy with, or allow it more time"))
        }
    }
}

/// How long to wait after a try: twice as long each time, and not for all hosts the same.
fn backoff(spec: &RunSpec, host: usize, attempt: u32, kind: FaultKind) -> Duration {
    let limits = &spec.limits;
    let longest = match kind {
        FaultKind::Busy => limits.backoff_most.max(BUSY_MOST),
        _ => limits.backoff_most,
    };
    let doubled = limits.backoff.saturating_mul(1 << (attempt - 1).min(16));
    let most = doubled.min(longest).saturating_mul(1000);
    let seed = spec
        .id
        .as_str()
        .bytes()
        .fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let place = u64::try_from(host).unwrap_or(u64::MAX).wrapping_mul(1009);
    let chance = crate::chance::mix(seed.wrapping_add(place).wrapping_add(u64::from(attempt)));
    Duration::from_millis(most / 2 + chance % (most / 2 + 1))
}

/// Passes on what a host says: the first lines at once, of the others the last ones when the step ends.
#[derive(Debug)]
pub(super) struct Speaker {
    host: usize,
    tag: Arc<str>,
    to: UnboundedSender<(usize, Message)>,
    most: usize,
    number: u64,
    last: VecDeque<String>,
    dropped: u64,
    /// The next line is the first of the step.
    is_new: bool,
    percent: Option<u64>,
}

impl Speaker {
    pub(super) fn new(todo: &Todo, most: usize, to: UnboundedSender<(usize, Message)>) -> Self {
        Self {
            host: todo.host,
            tag: todo.tag.as_str().into(),
            to,
            most,
            number: 0,
            last: VecDeque::new(),
            dropped: 0,
            is_new: true,
            percent: None,
        }
    }

    /// A host tells a step from its beginning each time it is asked for it, so lines come in the place of
    /// those that came before. If there are none, those stay.
    fn begin_again(&mut self) {
        self.is_new = true;
    }

    fn tell(&self, message: Message) {
        // Nobody listens any more: the run is being interrupted.
        let _ = self.to.send((self.host, message));
    }

    fn pass_on(&mut self, text: String) {
        self.number += 1;
        self.tell(Message::Line { tag: Arc::clone(&self.tag), number: self.number, text });
    }

    /// Tells the last lines, and returns how many are missing before them.
    fn finish(&mut self) -> u64 {
        self.number += self.dropped;
        for text in std::mem::take(&mut self.last) {
            self.pass_on(text);
        }
        self.dropped
    }
}

impl Listener for Speaker {
    fn line(&mut self, text: &str) {
        let end = (0..=text.len().min(LINE_MAX)).rev().find(|end| text.is_char_boundary(*end));
        let text = text[..end.unwrap_or(0)].to_owned();
        if std::mem::take(&mut self.is_new) {
            (self.number, self.dropped) = (0, 0);
            self.last.clear();
        }
        if usize::try_from(self.number).is_ok_and(|number| number < self.most) {
            return self.pass_on(text);
        }
        self.last.push_back(text);
        if self.last.len() > self.most {
            self.last.pop_front();
            self.dropped += 1;
        }
    }

    fn progress(&mut self, done_bytes: u64, total_bytes: u64) {
        let percent = done_bytes.saturating_mul(100).checked_div(total_bytes);
        // Nobody sees less.
        if percent != self.percent {
            self.percent = percent;
            self.tell(Message::Progress { done_bytes, total_bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU32, Ordering};

    use host::wire::{Report, Request};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;
    use crate::inventory::Host;
    use crate::run::spec::{Group, Operation, Target};
    use crate::transport::Answer;
    use crate::transport::kit::{Kit, Program};
    use crate::transport::remote::{Remote, Shared};
    use crate::transport::shell::{Command, Exit, Heard, Shell, too_long};

    type Connect = fn(u32) -> Result<(), Fault>;
    type Step = fn(u32, &mut dyn Listener) -> Result<Answer, Fault>;

    /// A host that does what a test says, by the number of the try.
    struct Fake {
        tries: AtomicU32,
        connect: Connect,
        step: Step,
    }

    struct FakeSession(u32, Step);

    impl Transport for Fake {
        type Session = FakeSession;

        async fn connect(&self, _: &Host) -> Result<FakeSession, Fault> {
            let number = self.tries.fetch_add(1, Ordering::Relaxed) + 1;
            (self.connect)(number).map(|()| FakeSession(number, self.step))
        }
    }

    impl Session for FakeSession {
        async fn prepare(&mut self) -> Result<(), Fault> {
            Ok(())
        }

        async fn push(&mut self, _: &mut dyn Listener) -> Result<(), Fault> {
            Ok(())
        }

        async fn step(&mut self, _: &Order, said: &mut dyn Listener) -> Result<Answer, Fault> {
            (self.1)(self.0, said)
        }

        async fn leave(&mut self) -> Result<(), Fault> {
            Ok(())
        }
    }

    const ANSWER: Answer = Answer { report: Report::Unknown, already: false };

    fn spec() -> RunSpec {
        let id = String::from("run").try_into().unwrap();
        let mut spec = RunSpec::new(id, "cluster", Operation::Status);
        let host = Host {
            name: "a1".into(),
            address: "a1".into(),
            port: None,
            user: None,
            key: None,
            jump: None,
            roles: std::collections::BTreeSet::new(),
            rack: None,
            labels: BTreeMap::new(),
        };
        let (group, wanted, back, planned) = (Group::Agent, None, None, None);
        spec.hosts.push(Target {
            host,
            group,
            wanted,
            back,
            canary: false,
            planned,
            membership: crate::run::Membership::default(),
        });
        spec
    }

    type Told = UnboundedReceiver<(usize, Message)>;

    /// Asks a host for its status; returns how that ended, and what was told.
    async fn performed<T: Transport>(transport: T, spec: RunSpec) -> (Outcome, Told) {
        let action = Action::Order(Request::Status);
        let (tag, name) = ("p0-0-status".to_owned(), "status");
        let todo = Todo { host: 0, tag, name, action, limit: spec.limits.look, wait: 0 };
        let (to, heard) = unbounded_channel();
        let said = Speaker::new(&todo, spec.limits.lines, to);
        let done = perform(Arc::new(transport), Arc::new(spec), todo, false, None, said).await;
        (done.outcome, heard)
    }

    #[tokio::test(start_paused = true)]
    async fn lines_of_a_step_that_is_told_again_take_the_place_of_those_before() {
        let step: Step = |number, said| {
            for line in ["one", "two", "three", "four"].iter().take(if number == 1 { 2 } else { 4 })
            {
                said.line(line);
            }
            if number == 1 { Err(Fault::new(FaultKind::Lost, "cut")) } else { Ok(ANSWER) }
        };
        let fake = Fake { tries: AtomicU32::new(0), connect: |_| Ok(()), step };
        let (_, mut heard) = performed(fake, spec()).await;
        let mut lines = BTreeMap::new();
        while let Ok((_, message)) = heard.try_recv() {
            if let Message::Line { number, text, .. } = message {
                lines.insert(number, text);
            }
        }
        let lines: Vec<(u64, &str)> = lines.iter().map(|(at, text)| (*at, text.as_str())).collect();
        assert_eq!(lines, [(1, "one"), (2, "two"), (3, "three"), (4, "four")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_turns_us_away_is_tried_until_its_penalties_are_over() {
        let turned_away = |kind| {
            let connect: Connect = match kind {
                FaultKind::Busy => |_| Err(Fault::new(FaultKind::Busy, "no")),
                FaultKind::Unreachable => |_| Err(Fault::new(FaultKind::Unreachable, "no")),
                _ => |_| Err(Fault::new(FaultKind::Login, "no")),
            };
            performed(Fake { tries: AtomicU32::new(0), connect, step: |_, _| Ok(ANSWER) }, spec())
        };
        let limits = spec().limits;
        for (kind, tries) in [
            (FaultKind::Busy, limits.tries_again),
            (FaultKind::Unreachable, limits.tries),
            (FaultKind::Login, 1),
        ] {
            let begun = tokio::time::Instant::now();
            let (outcome, mut heard) = turned_away(kind).await;
            assert!(matches!(outcome, Outcome::Faulted { fault, .. } if fault.kind == kind));
            let (mut waits, mut connects) = (Vec::new(), 0);
            while let Ok((_, message)) = heard.try_recv() {
                match message {
                    Message::Retrying { wait, .. } => waits.push(wait),
                    Message::Connecting => connects += 1,
                    _ => {}
                }
            }
            assert_eq!(connects, tries, "{kind}");
            if kind == FaultKind::Busy {
                // The longest single penalty of OpenSSH is a minute and a half.
                assert!(begun.elapsed() > Duration::from_secs(90), "{waits:?}");
                assert!(waits[..7].is_sorted(), "{waits:?}");
            }
        }
    }

    #[test]
    fn no_two_hosts_come_back_at_the_same_moment() {
        let spec = spec();
        let waits: std::collections::BTreeSet<Duration> =
            (0..100).map(|host| backoff(&spec, host, 6, FaultKind::Busy)).collect();
        assert!(waits.len() > 90, "{waits:?}");
        assert!(waits.iter().all(|wait| (16_000..=32_000).contains(&wait.as_millis())));
    }

    /// Finds the program at once; ends a command some time after its limit, as it takes over a network.
    struct Hanging;

    impl Shell for Hanging {
        async fn run(
            &mut self,
            command: Command<'_>,
            heard: &mut dyn Heard,
        ) -> Result<Exit, Fault> {
            let Some(whole) = command.limits.whole else {
                heard.stdout(b"program /opt/app/tool/monobloc\n");
                return Ok(Exit::Status(0));
            };
            sleep(whole + Duration::from_secs(10)).await;
            Err(too_long(whole, false))
        }
    }

    /// Hosts with the program of a path, each with a shell by the number of the try.
    struct Shells<S> {
        shared: Arc<Shared>,
        tries: AtomicU32,
        shell: fn(u32) -> S,
    }

    impl<S> Shells<S> {
        fn new(path: camino::Utf8PathBuf, shell: fn(u32) -> S) -> Self {
            let (sha256, served) = (package::Sha256::of(b"program"), "monobloc".to_owned());
            let distribution = package::distribution::Distribution::named("app", "1");
            let program = Program { path, sha256, bytes: 7, served };
            let shared = Shared::new(Kit { distribution, program, bundle: None });
            Self { shared, tries: AtomicU32::new(0), shell }
        }
    }

    impl<S: Shell> Transport for Shells<S> {
        type Session = Remote<S>;

        async fn connect(&self, host: &Host) -> Result<Remote<S>, Fault> {
            let number = self.tries.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(Remote::new((self.shell)(number), host.clone(), Arc::clone(&self.shared)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_hangs_is_told_with_what_was_done_about_it() {
        let (outcome, _) = performed(Shells::new("/nowhere".into(), |_| Hanging), spec()).await;
        let Outcome::Faulted { fault, sent: true } = outcome else { panic!("{outcome:?}") };
        let told = format!("{fault}; {}", fault.remedy.as_deref().unwrap_or_default());
        insta::assert_snapshot!(told, @"the command took longer than 150 s and was ended; look at what the host is busy with, or allow it more time");
    }

    /// Takes ten minutes for the program, during which something moves; the first time it gets stuck.
    struct SlowLink(u32);

    impl Shell for SlowLink {
        async fn run(
            &mut self,
            command: Command<'_>,
            heard: &mut dyn Heard,
        ) -> Result<Exit, Fault> {
            if command.script.starts_with("exec ") {
                let report = Box::new(Report::Findings { findings: Vec::new() });
                let said = host::wire::Said::Report { version: VERSION, already: false, report };
                heard.stdout(serde_json::to_string(&said).unwrap().as_bytes());
            } else if !command.script.contains("gzip -dc") {
                heard.stdout(b"part gzip 0 /var/lib/.monobloc-app\n");
            } else if self.0 == 1 {
                return Err(too_long(command.limits.idle.unwrap(), true));
            } else {
                sleep(Duration::from_mins(10)).await;
                heard.stdout(b"program /var/lib/.monobloc-app/monobloc\n");
            }
            Ok(Exit::Status(0))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_may_take_as_long_as_it_moves_and_one_that_is_stuck_is_sent_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::try_from(folder.path().join("monobloc")).unwrap();
        fs_err::write(&path, "program").unwrap();
        let (outcome, mut heard) = performed(Shells::new(path, SlowLink), spec()).await;
        assert!(matches!(outcome, Outcome::Answered { .. }), "{outcome:?}");
        let mut told = Vec::new();
        while let Ok((_, message)) = heard.try_recv() {
            if let Message::Retrying { fault, .. } = message {
                told.push(fault.to_string());
            }
        }
        let stuck =
            "cannot put the program on the host: the command wrote nothing for 60 s and was ended";
        assert_eq!(told, [stuck]);
    }
}
