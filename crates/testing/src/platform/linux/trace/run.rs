//! One run of a program: it is started, stopped at every call of the kernel, resumed, and ended.
//!
//! A thread of its own starts the program and waits for it, because `ptrace` belongs to a thread, and
//! so that it never waits for a process that another test started. Whatever happens, the thread ends
//! only when every process of the program did.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use camino::Utf8Path;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::change::{Call, Origins};
use super::look::{Class, Request, Seen, Watch};
use super::numbers::{self, Kind};
use super::place::Ids;
use super::{Calls, Outcome, Program};

/// Says that it runs and waits until it is traced, so that the next program that takes its place is
/// the one that is meant, and nothing of that happens unseen.
const START: &str = r#"echo >&0 && read -r line && exec "$@" </dev/null"#;

/// What a run is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal {
    Record,
    Kill { after: usize },
    Fail { after: usize, errno: Errno, calls: Calls },
}

/// What came of a run.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) calls: Vec<Call>,
    pub(super) origins: Origins,
    pub(super) hit: Option<String>,
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl From<Finished> for Outcome {
    fn from(run: Finished) -> Self {
        let Finished { hit, status, stdout, stderr, .. } = run;
        Self { hit, status, stdout, stderr }
    }
}

/// Runs `program` and looks at what it does below `root`.
pub(super) fn run(program: &Program, root: &Utf8Path, goal: Goal) -> io::Result<Finished> {
    let root = root.canonicalize_utf8().map_err(|error| {
        io::Error::new(error.kind(), format!("the root `{root}` must exist: {error}"))
    })?;
    let whole = matches!(goal, Goal::Record);
    let ids = if whole { Ids::read(&root)? } else { Ids::default() };
    let reads = matches!(goal, Goal::Fail { calls: Calls::All, .. });
    let watch = Watch { root, ids, reads, whole };
    thread::scope(|scope| {
        let tracer = scope.spawn(|| trace(program, watch, goal));
        tracer.join().unwrap_or_else(|_| Err(io::Error::other("the tracer panicked")))
    })
}

fn trace(program: &Program, watch: Watch, goal: Goal) -> io::Result<Finished> {
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", START, "sh", program.path.as_str()]).args(&program.args);
    command.envs(program.env.iter().map(|(name, value)| (name, value)));
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    let (mut ours, theirs) = UnixStream::pair()?;
    command.stdin(OwnedFd::from(theirs)).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let child = command.process_group(0).spawn()?;
    // Only the child has the other end now: if it ends, so does what can be read.
    drop(command);
    let main = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let mut tracer = Tracer {
        watch,
        goal,
        main,
        tree: Arc::new(Mutex::new(BTreeSet::from([main]))),
        threads: HashMap::new(),
        turn: None,
        waiting: VecDeque::new(),
        started: false,
        changes: 0,
        counted: 0,
        calls: Vec::new(),
        hit: None,
        status: None,
    };
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    let (end, ended) = mpsc::channel::<()>();
    let tree = Arc::clone(&tracer.tree);
    let limit = program.limit;
    let watchdog = thread::spawn(move || {
        let late = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        if late {
            end_all(main, &tree);
        }
        late
    });
    let mut line = [0];
    let followed = ours.read_exact(&mut line).and_then(|()| {
        ptrace::seize(main, options)?;
        ours.write_all(&line)?;
        tracer.follow()
    });
    tracer.drain();
    drop(end);
    let late = watchdog.join().unwrap_or(false);
    let (stdout, stderr) = (text(&mut stdout)?, text(&mut stderr)?);
    let said = || format!("it said `{}`", String::from_utf8_lossy(&stderr).trim());
    if late {
        let message = format!("`{}` did not end within {limit:?}; {}", program.path, said());
        return Err(io::Error::new(io::ErrorKind::TimedOut, message));
    }
    followed?;
    if !tracer.started {
        let message = format!("`{}` cannot be started; {}", program.path, said());
        return Err(io::Error::other(message));
    }
    let status = tracer.status.ok_or_else(|| io::Error::other("the program is lost"))?;
    let (calls, hit) = (tracer.calls, tracer.hit);
    Ok(Finished { calls, origins: tracer.watch.ids.into_origins(), hit, status, stdout, stderr })
}

/// Kills every process of the program.
fn end_all(main: Pid, tree: &Mutex<BTreeSet<Pid>>) {
    let tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
    if tree.contains(&main) {
        // One call for all of them; those that left the group are killed one by one.
        let _ = killpg(main, Signal::SIGKILL);
    }
    for pid in tree.iter() {
        let _ = kill(*pid, Signal::SIGKILL);
    }
}

fn text(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where a thread of the program is.
#[derive(Debug)]
enum State {
    /// Not in a call.
    Outside,
    /// In a call that is of no interest.
    Inside,
    /// Before a call for which it must wait.
    Waiting,
    /// In a call that may change files.
    Changing(Seen),
    /// In a call that was taken from it.
    Failing(Errno),
}

struct Tracer {
    watch: Watch,
    goal: Goal,
    main: Pid,
    /// Every process and thread of the program that has not ended.
    tree: Arc<Mutex<BTreeSet<Pid>>>,
    threads: HashMap<Pid, State>,
    /// The thread that is changing files.
    turn: Option<Pid>,
    /// Threads that want to.
    waiting: VecDeque<Pid>,
    /// Whether the program itself runs, no longer the shell that starts it.
    started: bool,
    /// How many changes took effect.
    changes: usize,
    /// How many calls there were that could have failed.
    counted: usize,
    calls: Vec<Call>,
    hit: Option<String>,
    status: Option<ExitStatus>,
}

fn wait() -> nix::Result<WaitStatus> {
    // Only children of this thread: others belong to other tests.
    waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))
}

/// A thread may be killed at any moment; its end is reported by [`wait`].
fn unless_gone(result: nix::Result<()>) -> io::Result<()> {
    match result {
        Err(Errno::ESRCH) => Ok(()),
        result => Ok(result?),
    }
}

impl Tracer {
    /// Follows the program until all of it ended, or until it is to be killed.
    fn follow(&mut self) -> io::Result<()> {
        loop {
            match wait() {
                Err(Errno::ECHILD) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
                Ok(WaitStatus::PtraceSyscall(pid)) => {
                    if self.stopped(pid)? {
                        return Ok(());
                    }
                }
                Ok(WaitStatus::PtraceEvent(pid, _, event)) => {
                    self.enlist(pid);
                    if event == libc::PTRACE_EVENT_EXEC {
                        self.replaced(pid);
                    }
                    self.resume(pid, None)?;
                }
                Ok(WaitStatus::Stopped(pid, signal)) => {
                    self.enlist(pid);
                    self.resume(pid, Some(signal))?;
                }
                Ok(status) => {
                    self.ended(status);
                    if self.next_turn()? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Kills what is left and waits until it ended.
    fn drain(&mut self) {
        end_all(self.main, &self.tree);
        loop {
            match wait() {
                Err(Errno::ECHILD) => return,
                Ok(status @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) => {
                    self.ended(status);
                }
                // A child that was born while its parent was killed.
                Ok(status) => {
                    status.pid().map(|pid| kill(pid, Signal::SIGKILL));
                }
                Err(_) => {}
            }
        }
    }

    fn enlist(&mut self, pid: Pid) {
        self.threads.entry(pid).or_insert(State::Outside);
        self.tree.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
    }

    fn resume(&self, pid: Pid, signal: Option<Signal>) -> io::Result<()> {
        let resume = if self.started { ptrace::syscall } else { ptrace::cont };
        unless_gone(resume(pid, signal))
    }

    /// A process became another program: of its threads one is left, under the process's number.
    fn replaced(&mut self, pid: Pid) {
        self.started = true;
        if let Ok(before) = ptrace::getevent(pid) {
            let before = Pid::from_raw(i32::try_from(before).unwrap_or(pid.as_raw()));
            if before != pid {
                self.forget(before);
            }
        }
        self.threads.insert(pid, State::Inside);
    }

    fn forget(&mut self, pid: Pid) {
        self.threads.remove(&pid);
        self.waiting.retain(|waiting| *waiting != pid);
        if self.turn == Some(pid) {
            self.turn = None;
        }
        self.tree.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    fn ended(&mut self, status: WaitStatus) {
        let (pid, status) = match status {
            WaitStatus::Exited(pid, code) => (pid, ExitStatus::from_raw((code & 0xff) << 8)),
            WaitStatus::Signaled(pid, signal, _) => (pid, ExitStatus::from_raw(signal as i32)),
            _ => return,
        };
        self.forget(pid);
        if pid == self.main {
            self.status = Some(status);
        }
    }

    /// A thread stopped before a call or after it; says whether the run is over.
    fn stopped(&mut self, pid: Pid) -> io::Result<bool> {
        self.enlist(pid);
        match self.threads.insert(pid, State::Outside).unwrap_or(State::Outside) {
            State::Outside | State::Waiting => return self.before(pid),
            State::Inside => {}
            State::Failing(errno) => {
                if let Ok(mut registers) = ptrace::getregs(pid) {
                    registers.rax = i64::from(-(errno as i32)).cast_unsigned();
                    unless_gone(ptrace::setregs(pid, registers))?;
                }
            }
            State::Changing(seen) => {
                self.turn.take_if(|turn| *turn == pid);
                if let Ok(registers) = ptrace::getregs(pid) {
                    self.after(pid, seen, registers.rax.cast_signed())?;
                }
                self.resume(pid, None)?;
                return self.next_turn();
            }
        }
        self.resume(pid, None)?;
        Ok(false)
    }

    /// A thread is about to make a call; says whether the run is over.
    fn before(&mut self, pid: Pid) -> io::Result<bool> {
        let Ok(registers) = ptrace::getregs(pid) else { return Ok(false) };
        let (name, kind) = numbers::lookup(registers.orig_rax);
        let interesting = match kind {
            Kind::Unknown => {
                let number = registers.orig_rax;
                let message = format!("the call `{name}` ({number}) is not known to be harmless");
                return Err(io::Error::other(message));
            }
            Kind::Read => self.watch.reads,
            Kind::Ends | Kind::Change if self.turn.is_some() => {
                self.threads.insert(pid, State::Waiting);
                self.waiting.push_back(pid);
                return Ok(false);
            }
            Kind::Harmless | Kind::Ends => false,
            Kind::Change => true,
        };
        let r = registers;
        let args = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9];
        let request = Request { pid, name, kind, args };
        let seen = if interesting { self.watch.look(request)? } else { None };
        let state = match seen {
            None => State::Inside,
            Some(seen) if self.is_target(&seen) => {
                // The kernel makes no call of this number, and so none at all.
                unless_gone(ptrace::setregs(
                    pid,
                    libc::user_regs_struct { orig_rax: u64::MAX, ..r },
                ))?;
                self.hit = Some(seen.text);
                match self.goal {
                    Goal::Fail { errno, .. } => State::Failing(errno),
                    _ => return Ok(true),
                }
            }
            Some(seen) if seen.class == Class::Read => State::Inside,
            Some(seen) => {
                if !seen.waits {
                    self.turn = Some(pid);
                }
                State::Changing(seen)
            }
        };
        self.threads.insert(pid, state);
        self.resume(pid, None)?;
        Ok(false)
    }

    /// Whether this call is the one the run is for.
    fn is_target(&mut self, seen: &Seen) -> bool {
        match self.goal {
            Goal::Record => false,
            Goal::Kill { after } => seen.class == Class::Change && self.changes == after,
            Goal::Fail { after, errno, .. } => {
                if !seen.opens && matches!(errno, Errno::EMFILE | Errno::ENFILE) {
                    return false;
                }
                self.counted += 1;
                self.counted == after + 1
            }
        }
    }

    /// A call that may have changed files returned.
    fn after(&mut self, pid: Pid, seen: Seen, result: i64) -> io::Result<()> {
        if Watch::took_effect(&seen, result) {
            self.changes += usize::from(seen.class == Class::Change);
            if self.watch.whole {
                self.calls.extend(self.watch.done(pid, seen, result)?);
            }
        }
        Ok(())
    }

    /// Lets waiting threads go on until one of them is changing files; says whether the run is over.
    fn next_turn(&mut self) -> io::Result<bool> {
        while self.turn.is_none() {
            let Some(pid) = self.waiting.pop_front() else { return Ok(false) };
            if self.before(pid)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
