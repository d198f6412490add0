//! Carries out what the machine decides. One loop: all that hosts answered goes to the machine, what it
//! decides is committed to the journal in one transaction, then hosts and whoever watches hear of it.
//! While a commit lasts, answers gather; that is what keeps commits few.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::attempt::{Message, Performed, Speaker, perform};
use super::machine::{Effect, Outcome, Stopped, Todo};
use super::{DONE, Run, RunError, RunSpec, STOPPED};
use crate::event::{Counts, Event, What};
use crate::fault::{Fault, FaultKind};
use crate::journal::{AnswerRow, Batch, IntentRow, Journal, Said, StateRow};
use crate::transport::Transport;

/// Lines that may wait for a commit that is needed anyway, and how long.
const LINES_GATHERED: usize = 1000;
const LINES_WAIT: Duration = Duration::from_secs(1);

/// What somebody asks of a run that is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Control {
    /// Go on.
    #[default]
    GoOn,
    /// Begin nothing more; end when hosts that are changing have answered. The run can be resumed.
    Finish,
    /// End at once, as if killed. Hosts that are changing go on; the run can be resumed.
    Now,
}

/// How a run ended, for now or for good.
#[derive(Debug)]
pub struct Finished {
    /// How.
    pub end: End,
    /// How many hosts are in which state.
    pub counts: Counts,
    /// The journal, to read what became of whom.
    pub journal: Journal,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It did all it was to do, except on hosts that failed, which were no more than may.
    Done,
    /// It stopped by itself.
    Stopped(Stopped),
    /// Somebody must say go on, which is to resume it.
    Paused,
    /// Somebody asked for the end; it can be resumed.
    Interrupted,
}

/// What is under way.
struct Flow<T: Transport> {
    transport: Arc<T>,
    tasks: JoinSet<Performed<T::Session>>,
    running: HashMap<Id, Running>,
    sessions: HashMap<usize, T::Session>,
    to: mpsc::UnboundedSender<(usize, Message)>,
    from: mpsc::UnboundedReceiver<(usize, Message)>,
    watched: watch::Receiver<Control>,
    is_watched: bool,
    control: Control,
    began: Instant,
    /// When it began, by the controller's clock.
    now: Timestamp,
}

#[derive(Debug)]
struct Running {
    host: usize,
    tag: String,
    changes: bool,
    abort: AbortHandle,
}

type Joined<S> = Result<(Id, Performed<S>), JoinError>;

/// What was decided at one moment.
#[derive(Debug, Default)]
struct Decided {
    batch: Batch,
    launches: Vec<Todo>,
}

/// Lines that wait for a commit: hosts that talk a lot would cost one for each line.
#[derive(Debug, Default)]
struct Gathered {
    lines: Vec<Said>,
    since: Option<Instant>,
}

impl Gathered {
    fn append(&mut self, lines: &mut Vec<Said>) {
        if self.lines.is_empty() {
            self.since = (!lines.is_empty()).then(Instant::now);
        }
        self.lines.append(lines);
    }

    /// When they must be written at the latest.
    fn due(&self) -> Option<Instant> {
        self.since.filter(|_| !self.lines.is_empty()).map(|since| since + LINES_WAIT)
    }

    fn are_due(&self) -> bool {
        self.lines.len() >= LINES_GATHERED || self.due().is_some_and(|due| due <= Instant::now())
    }

    fn write<T: Transport>(&mut self, run: &mut Run, flow: &Flow<T>) -> Result<(), RunError> {
        if !self.lines.is_empty() {
            let batch = Batch { lines: std::mem::take(&mut self.lines), ..Batch::default() };
            run.journal.commit(run.number, &batch, flow.time())?;
        }
        Ok(())
    }
}

impl Run {
    /// Does all that is to be done, and tells `watch` of it in order. Whatever ends this, a journal that
    /// fails, a dropped future, a lost machine, the run can be resumed.
    pub async fn go<T: Transport>(
        mut self,
        transport: Arc<T>,
        control: watch::Receiver<Control>,
        watch: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Finished, RunError> {
        let mut flow = Flow::new(transport, control, self.now);
        let (mut decided, mut gathered) = (Decided::default(), Gathered::default());
        let first = std::mem::take(&mut self.effects);
        self.decide(first, &flow, &mut decided);
        decided.batch.goes_on = self.goes_on.take();
        loop {
            let Decided { mut batch, launches } = std::mem::take(&mut decided);
            if self.machine.is_ended() {
                let is_stopped = self.machine.stopped().is_some();
                batch.outcome = Some(if is_stopped { STOPPED } else { DONE }.to_owned());
            }
            gathered.append(&mut batch.lines);
            if !batch.is_empty() || gathered.are_due() {
                batch.lines = std::mem::take(&mut gathered.lines);
                let (journal, number, now) = (&mut self.journal, self.number, flow.time());
                without_blocking(|| journal.commit(number, &batch, now))?;
            }
            batch.events.iter().for_each(&mut *watch);
            for todo in launches {
                let heard = self.heard.remove(&(todo.host, todo.tag.clone()));
                flow.launch(todo, heard, self.machine.spec());
            }
            if let Some(end) = self.end(&flow) {
                gathered.write(&mut self, &flow)?;
                let counts = self.machine.counts();
                flow.close().await;
                return Ok(Finished { end, counts, journal: self.journal });
            }
            let was_going_on = flow.control == Control::GoOn;
            let (joined, messages) = flow.wait(gathered.due()).await;
            let hosts = flow.running.values().filter(|running| running.changes).count();
            if was_going_on && flow.control == Control::Finish && hosts > 0 {
                self.tell(What::Finishing { hosts }, &flow, &mut decided);
            }
            for (host, message) in messages {
                self.hear(host, message, &flow, &mut decided);
            }
            for joined in joined {
                self.answered(joined, &mut flow, &mut decided);
            }
        }
    }

    fn end<T: Transport>(&self, flow: &Flow<T>) -> Option<End> {
        match flow.control {
            _ if self.machine.is_ended() => Some(match self.machine.stopped() {
                Some(why) => End::Stopped(why.clone()),
                None => End::Done,
            }),
            _ if self.machine.is_paused() => Some(End::Paused),
            Control::Now => Some(End::Interrupted),
            Control::Finish if flow.running.is_empty() => Some(End::Interrupted),
            Control::Finish | Control::GoOn => None,
        }
    }

    /// Writes decisions into what is to be committed.
    fn decide<T: Transport>(
        &mut self,
        effects: Vec<Effect>,
        flow: &Flow<T>,
        decided: &mut Decided,
    ) {
        for effect in effects {
            match effect {
                // Without an intent nothing was done; when the run is resumed it is decided again.
                Effect::Do(_) if flow.control != Control::GoOn => {}
                Effect::Do(todo) => {
                    let (host, tag, name) = (todo.host, todo.tag.clone(), todo.name);
                    decided.batch.intents.push(IntentRow { host, tag, name });
                    let host = self.name(host);
                    self.tell(What::Told { host, step: name.to_owned() }, flow, decided);
                    decided.launches.push(todo);
                }
                Effect::State { host, state, before, live } => {
                    let what = What::Host { host: self.name(host), state: state.clone() };
                    decided.batch.states.push(StateRow { host, state, before, live });
                    self.tell(what, flow, decided);
                }
                Effect::Tell(what) => self.tell(what, flow, decided),
            }
        }
    }

    fn tell<T: Transport>(&mut self, what: What, flow: &Flow<T>, decided: &mut Decided) {
        let number = what.is_kept().then(|| {
            self.event += 1;
            self.event
        });
        decided.batch.events.push(Event { number, at: flow.time(), what });
    }

    fn name(&self, host: usize) -> String {
        self.spec().hosts[host].host.name.clone()
    }

    fn hear<T: Transport>(
        &mut self,
        host: usize,
        message: Message,
        flow: &Flow<T>,
        decided: &mut Decided,
    ) {
        let name = self.name(host);
        let what = match message {
            Message::Connecting => What::Connecting { host: name },
            Message::Retrying { step, fault, attempt, wait } => What::Retrying {
                host: name,
                step: step.to_owned(),
                fault,
                attempt,
                wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            },
            Message::Line { tag, number, text } => {
                decided.batch.lines.push(Said { host, tag, number, text: text.clone() });
                What::Line { host: name, text }
            }
            Message::Progress { done_bytes, total_bytes } => {
                What::Progress { host: name, done_bytes, total_bytes }
            }
        };
        self.tell(what, flow, decided);
    }

    fn answered<T: Transport>(
        &mut self,
        joined: Joined<T::Session>,
        flow: &mut Flow<T>,
        decided: &mut Decided,
    ) {
        let (id, performed) = match joined {
            Ok((id, performed)) => (id, performed),
            Err(error) if error.is_cancelled() => {
                flow.running.remove(&error.id());
                return;
            }
            Err(error) => {
                let fault = Fault::new(FaultKind::Protocol, "this program failed, not the host");
                let outcome = Outcome::Faulted { fault, sent: true };
                (error.id(), Performed { session: None, outcome, dropped: 0 })
            }
        };
        let Some(Running { host, tag, .. }) = flow.running.remove(&id) else { return };
        let Performed { session, outcome, dropped } = performed;
        if let Some(session) = session
            && flow.sessions.len() < self.spec().limits.sessions
        {
            flow.sessions.insert(host, session);
        }
        let mut effects = Vec::new();
        self.machine.answer(host, &outcome, &mut effects);
        self.place += 1;
        decided.batch.answers.push(AnswerRow { host, tag, place: self.place, outcome, dropped });
        self.decide(effects, flow, decided);
    }
}

impl<T: Transport> Flow<T> {
    fn new(transport: Arc<T>, mut watched: watch::Receiver<Control>, now: Timestamp) -> Self {
        let (to, from) = mpsc::unbounded_channel();
        let control = *watched.borrow_and_update();
        Self {
            transport,
            tasks: JoinSet::new(),
            running: HashMap::new(),
            sessions: HashMap::new(),
            to,
            from,
            control,
            watched,
            is_watched: true,
            began: Instant::now(),
            now,
        }
    }

    /// The time, which never goes back.
    fn time(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.began.elapsed()).unwrap_or_default();
        self.now.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    fn launch(&mut self, todo: Todo, heard: bool, spec: &Arc<RunSpec>) {
        let session = self.sessions.remove(&todo.host);
        let (host, tag, changes) = (todo.host, todo.tag.clone(), todo.action.changes_host());
        let said = Speaker::new(&todo, spec.limits.lines, self.to.clone());
        let (transport, spec) = (Arc::clone(&self.transport), Arc::clone(spec));
        let abort = self.tasks.spawn(perform(transport, spec, todo, heard, session, said));
        self.running.insert(abort.id(), Running { host, tag, changes, abort });
    }

    /// Waits until something happens, or it is time, and takes all that did.
    async fn wait(
        &mut self,
        due: Option<Instant>,
    ) -> (Vec<Joined<T::Session>>, Vec<(usize, Message)>) {
        let (mut joined, mut messages) = (Vec::new(), Vec::new());
        tokio::select! {
            biased;
            changed = self.watched.changed(), if self.is_watched => match changed {
                Ok(()) => self.controlled(),
                Err(_) => self.is_watched = false,
            },
            Some(message) = self.from.recv() => messages.push(message),
            Some(done) = self.tasks.join_next_with_id() => joined.push(done),
            () = sleep_until(due.unwrap_or(self.began)), if due.is_some() => {}
        }
        while let Some(done) = self.tasks.try_join_next_with_id() {
            joined.push(done);
        }
        // After the last of those, so that nothing is missing that they said.
        while let Ok(message) = self.from.try_recv() {
            messages.push(message);
        }
        (joined, messages)
    }

    /// Lets go of all hosts. Whoever ends the runtime next would keep them from ending what was aborted.
    async fn close(mut self) {
        self.tasks.shutdown().await;
        self.sessions.clear();
        self.transport.settle().await;
    }

    fn controlled(&mut self) {
        self.control = *self.watched.borrow_and_update();
        if self.control == Control::Finish {
            let others = self.running.values().filter(|running| !running.changes);
            others.for_each(|running| running.abort.abort());
        }
    }
}

impl What {
    /// Whether it is in the journal.
    fn is_kept(&self) -> bool {
        !matches!(
            self,
            Self::Told { .. }
                | Self::Connecting { .. }
                | Self::Line { .. }
                | Self::Progress { .. }
                | Self::Finishing { .. }
        )
    }
}

/// Runs what waits for a disk where others do not have to wait with it.
fn without_blocking<R>(work: impl FnOnce() -> R) -> R {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}
