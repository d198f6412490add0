//! The progress of a run: one line for all hosts for those who watch, lines for those who keep them. Of
//! few hosts each is told, of thousands only those in trouble.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use fleet::event::{Counts, Event, What};
use fleet::run::{HostState, RunSpec, Stopped, WaveKind};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{ERROR, Output, WARNING, bytes, plain, plural};
use crate::context::Context;

/// So many hosts are told one by one.
const FEW: usize = 24;
/// So many hosts in trouble are told one by one; the rest is in the end's account.
const TROUBLES_MAX: usize = 20;

/// Shows what happens while it happens.
#[derive(Debug)]
pub(crate) struct FleetProgress {
    bar: ProgressBar,
    is_few: bool,
    is_silent: bool,
    is_verbose: bool,
    seen: Mutex<Seen>,
    /// What happened while somebody was asked; none: nobody is.
    meanwhile: Mutex<Option<Vec<Event>>>,
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Seen {
    states: HashMap<String, &'static str>,
    moved: HashMap<String, (u64, u64)>,
    troubles: usize,
    gate: Vec<String>,
}

impl FleetProgress {
    /// A line that changes if somebody watches and nobody parses.
    pub(crate) fn new(context: &Context, output: &Output, spec: &RunSpec, verbose: bool) -> Self {
        let interactive = context.interactive && !output.is_json();
        let target =
            if interactive { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let hosts = spec.worked_on();
        let bar = ProgressBar::with_draw_target(Some(hosts as u64), target);
        let template = "  {prefix:10} {bar:24} {pos}/{len} hosts {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is valid"));
        if interactive {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self {
            bar,
            is_few: hosts <= FEW,
            is_silent: output.is_json(),
            is_verbose: verbose,
            seen: Mutex::default(),
            meanwhile: Mutex::default(),
        }
    }

    /// Takes the line away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Something happened. While somebody is asked it is shown later: the run goes on without waiting, and
    /// nothing is drawn over the question.
    pub(crate) fn event(&self, event: &Event) {
        match &mut *self.meanwhile() {
            Some(meanwhile) => meanwhile.push(event.clone()),
            None => self.show(event),
        }
    }

    /// Asks somebody, with nothing else on the screen.
    pub(crate) fn while_asking<T>(&self, ask: impl FnOnce() -> T) -> T {
        *self.meanwhile() = Some(Vec::new());
        let answer = self.bar.suspend(ask);
        let mut meanwhile = self.meanwhile();
        meanwhile.take().unwrap_or_default().iter().for_each(|event| self.show(event));
        answer
    }

    fn meanwhile(&self) -> std::sync::MutexGuard<'_, Option<Vec<Event>>> {
        self.meanwhile.lock().expect("rendering does not panic")
    }

    fn show(&self, event: &Event) {
        match &event.what {
            What::Began { run, operation, hosts } => {
                self.say(&format!("{operation} of {}, run {run}", plural(*hosts, "host")));
            }
            What::Resumed => self.say("going on after an interruption"),
            What::Continued => self.say("going on"),
            What::Phase { name, hosts, .. } => self.phase(name, *hosts),
            What::Waves { sizes } if sizes.len() > 1 => {
                let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
                self.say(&format!("in {} waves of {} hosts", sizes.len(), sizes.join(", ")));
            }
            What::Wave { wave, waves, kind, hosts } => {
                self.say(&format!("wave {wave} of {waves}, {}: {}", kind_of(*kind), some(hosts)));
            }
            What::WaveEnded { wave, well: false } => self.warn(&format!("wave {wave} failed")),
            What::Gate { wave, well, attempt, evidence, .. } if !well => {
                let found: Vec<String> =
                    evidence.iter().map(|seen| format!("{}: {}", seen.host, seen.cause)).collect();
                self.gate(*wave, *attempt, &found);
            }
            What::Undoing { wave, hosts } => {
                let hosts = plural(*hosts, "host");
                self.warn(&format!("wave {wave}: {hosts} to be rolled back"));
            }
            What::Stopping { why } => self.warn(&format!("stopping: {}", stopped(why))),
            What::Paused { .. } => self.say("paused; `monobloc resume` goes on"),
            What::Host { host, state } => self.host(host, state),
            What::Retrying { host, step, fault, wait_ms, .. } if self.is_few => {
                let seconds = wait_ms.div_ceil(1000);
                self.say(&format!("{host}: {step}: {fault}; trying again in {seconds} s"));
            }
            What::Aside { host, during, cause } => {
                self.say(&format!("{host}: {during}: {cause}"));
            }
            What::Line { host, text } if self.is_verbose => {
                self.say(&format!("{host} | {}", plain(text)));
            }
            What::Progress { host, done_bytes, total_bytes } => {
                self.moved(host, *done_bytes, *total_bytes);
            }
            _ => {}
        }
    }

    fn phase(&self, name: &str, hosts: usize) {
        self.bar.set_prefix(name.to_owned());
        self.bar.set_length(hosts as u64);
        self.bar.set_position(0);
        self.bar.set_message("");
        self.seen().moved.clear();
        self.say(&format!("{name}: {}", plural(hosts, "host")));
    }

    fn host(&self, host: &str, state: &HostState) {
        let mut seen = self.seen();
        seen.states.insert(host.to_owned(), state.name());
        let is_at_rest = !matches!(
            state,
            HostState::Asking | HostState::Staging | HostState::Switching | HostState::Undoing
        );
        if is_at_rest {
            self.bar.inc(1);
        }
        if let Some(trouble) = state.trouble() {
            seen.troubles += 1;
            if seen.troubles <= TROUBLES_MAX {
                let causes = plain(&trouble.causes.join(": "));
                let text = format!("{host}: {}: {causes}", words(state));
                drop(seen);
                self.error(&text);
            }
        } else if self.is_few && is_at_rest && *state != HostState::Pending {
            drop(seen);
            self.say(&format!("{host}: {}", words(state)));
        }
    }

    /// What keeps a cluster from being well, when it is something else than before.
    fn gate(&self, wave: usize, attempt: u32, found: &[String]) {
        let mut seen = self.seen();
        if attempt == 1 || seen.gate != found {
            found.clone_into(&mut seen.gate);
            drop(seen);
            let found: Vec<String> = found.iter().map(|found| plain(found)).collect();
            self.say(&format!("wave {wave}: waiting for the cluster: {}", found.join("; ")));
        }
    }

    fn moved(&self, host: &str, done: u64, total: u64) {
        let mut seen = self.seen();
        seen.moved.insert(host.to_owned(), (done, total));
        let sum = |part: fn(&(u64, u64)) -> u64| seen.moved.values().map(part).sum();
        let (done, total): (u64, u64) = (sum(|moved| moved.0), sum(|moved| moved.1));
        self.bar.set_message(format!("{} of {}", bytes(done), bytes(total)));
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("rendering does not panic")
    }

    fn warn(&self, text: &str) {
        self.say(&format!("{WARNING}{text}{WARNING:#}"));
    }

    fn error(&self, text: &str) {
        self.say(&format!("{ERROR}{text}{ERROR:#}"));
    }

    fn say(&self, line: &str) {
        if !self.is_silent {
            // Standard error may be closed; then nobody wants to know.
            self.bar.suspend(|| drop(writeln!(anstream::stderr(), "{line}")));
        }
    }
}

fn kind_of(kind: WaveKind) -> &'static str {
    match kind {
        WaveKind::Masters => "masters",
        WaveKind::Canaries => "the first agents",
        WaveKind::Agents => "agents",
    }
}

/// A few names, and how many more there are.
pub(crate) fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

/// The state of a host as people say it.
pub(crate) fn words(state: &HostState) -> &'static str {
    match state {
        HostState::Pending => "waiting",
        HostState::Asking => "being asked",
        HostState::Answered => "answered",
        HostState::Staging => "staging",
        HostState::Staged => "staged",
        HostState::Switching => "switching",
        HostState::Switched => "switched",
        HostState::Done => "done",
        HostState::Unchanged => "unchanged",
        HostState::Undoing => "going back",
        HostState::RolledBack => "rolled back",
        HostState::Failed(_) => "failed",
        HostState::Unreachable(_) => "not reached",
        HostState::InDoubt(_) => "in doubt",
        HostState::Skipped => "left alone",
    }
}

/// Why a run stopped by itself.
pub(crate) fn stopped(why: &Stopped) -> String {
    match why {
        Stopped::Budget { failed, allowed } => {
            format!("{} failed, and {allowed} may", plural(*failed, "host"))
        }
        Stopped::Gate { wave, before: true } => {
            format!("the cluster is not well before wave {wave}")
        }
        Stopped::Gate { wave, before: false } => {
            format!("the cluster is not well after wave {wave}")
        }
        Stopped::Wave { wave, failed } => {
            format!("{} of wave {wave} failed", plural(*failed, "host"))
        }
        Stopped::Phase { phase } => format!("not every host came through `{phase}`"),
    }
}

/// How many hosts are in which state.
pub(crate) fn counted(counts: &Counts) -> String {
    let Counts { done, unchanged, rolled_back, failed, unreachable, in_doubt, skipped, open } =
        *counts;
    let all = [
        (done, "done"),
        (unchanged, "unchanged"),
        (rolled_back, "rolled back"),
        (failed, "failed"),
        (unreachable, "not reached"),
        (in_doubt, "in doubt"),
        (skipped, "left alone"),
        (open, "not at an end"),
    ];
    let told: Vec<String> = all
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn what_happens_while_somebody_is_asked_keeps_nobody_waiting_and_is_shown_afterwards() {
        let progress = FleetProgress {
            bar: ProgressBar::hidden(),
            is_few: false,
            is_silent: true,
            is_verbose: false,
            seen: Mutex::default(),
            meanwhile: Mutex::default(),
        };
        let done = |host: &str| {
            let what = What::Host { host: host.to_owned(), state: HostState::Done };
            progress.event(&Event { number: None, at: Timestamp::UNIX_EPOCH, what });
        };
        done("a1");
        assert_eq!(progress.bar.position(), 1);
        let answer = progress.while_asking(|| {
            // By another one, as in a run; it would wait for the answer if it drew anything.
            std::thread::scope(|scope| {
                scope.spawn(|| done("a2"));
            });
            progress.bar.position()
        });
        assert_eq!((answer, progress.bar.position()), (1, 2));
    }
}
