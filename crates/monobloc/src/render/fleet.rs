//! The progress of a run: a line for each group of hosts for those who watch, lines for those who keep them.
//! Of few hosts each is told, of thousands only those in trouble.

use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fleet::event::{Counts, Event, What};
use fleet::run::{HostState, RunSpec, Stopped, WaveKind};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::crowd::Crowd;
use super::{ERROR, Output, WARNING, bytes, plain, plural};
use crate::context::Context;

/// So many hosts are told one by one.
const FEW: usize = 24;
/// So many hosts in trouble are told one by one; the rest is in the end's account.
const TROUBLES_MAX: usize = 20;
/// How often it is drawn at least.
const TICK: Duration = Duration::from_millis(200);

/// While it is known who is through.
const COUNTING: &str = "{crowd}\n  {prefix:14} {bar:24} {pos}/{len} hosts";
/// While it is not.
const CLEANING: &str = "{crowd}\n  {prefix:14} {len} hosts";

/// Shows what happens while it happens.
#[derive(Debug)]
pub(crate) struct FleetProgress {
    bar: ProgressBar,
    is_few: bool,
    is_silent: bool,
    is_verbose: bool,
    seen: Arc<Mutex<Seen>>,
    /// What happened while somebody was asked; none: nobody is.
    meanwhile: Mutex<Option<Vec<Event>>>,
}

/// What was seen so far.
#[derive(Debug)]
struct Seen {
    crowd: Crowd,
    phase: String,
    /// How many tenths of the phase were told.
    tenths: usize,
    troubles: usize,
    asides: usize,
    gate: Vec<String>,
}

impl FleetProgress {
    /// Lines that change if somebody watches and nobody parses.
    pub(crate) fn new(context: &Context, output: &Output, spec: &RunSpec, verbose: bool) -> Self {
        let interactive = context.interactive && !output.is_json();
        Self { is_verbose: verbose, ..Self::with(spec, interactive, output.is_json()) }
    }

    /// Shows nothing, and can be asked through.
    pub(crate) fn silent(spec: &RunSpec) -> Self {
        Self::with(spec, false, true)
    }

    fn with(spec: &RunSpec, interactive: bool, is_silent: bool) -> Self {
        let target =
            if interactive { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let hosts = spec.worked_on();
        let bar = ProgressBar::with_draw_target(Some(hosts as u64), target);
        let seen = Arc::new(Mutex::new(Seen {
            crowd: Crowd::new(spec),
            phase: String::new(),
            tenths: 0,
            troubles: 0,
            asides: 0,
            gate: Vec::new(),
        }));
        bar.set_style(style(COUNTING, &seen));
        if interactive {
            bar.enable_steady_tick(TICK);
        }
        Self {
            bar,
            is_few: hosts <= FEW,
            is_silent,
            is_verbose: false,
            seen,
            meanwhile: Mutex::default(),
        }
    }

    /// Goes on from where a run was interrupted or paused, without telling it again.
    pub(crate) fn catch_up(&self, past: &[Event]) {
        if self.is_silent {
            return;
        }
        for event in past {
            self.seen().crowd.event(&event.what);
            if let What::Phase { phase: _, name, hosts } = &event.what {
                self.enter(name, *hosts);
            }
        }
    }

    /// Takes the lines away.
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

    fn meanwhile(&self) -> MutexGuard<'_, Option<Vec<Event>>> {
        self.meanwhile.lock().expect("rendering does not panic")
    }

    fn show(&self, event: &Event) {
        if self.is_silent {
            return;
        }
        let is_news = self.seen().crowd.event(&event.what);
        // Whoever is told something sees it counted, too.
        self.draw();
        if is_news {
            self.tell(&event.what);
        }
    }

    fn tell(&self, what: &What) {
        match what {
            What::Began { run, operation, hosts } => {
                self.say(&format!("{operation} of {}, run {run}", plural(*hosts, "host")));
            }
            What::Resumed => self.say("going on after an interruption"),
            What::Continued => self.say("going on"),
            What::Finishing { hosts } => self.warn(&format!(
                "stopping when {} ended what is at hand; Ctrl-C once more ends at once",
                if *hosts == 1 { "1 host has".to_owned() } else { format!("{hosts} hosts have") },
            )),
            What::Phase { name, hosts, .. } => {
                self.enter(name, *hosts);
                self.say(&format!("{name}: {}", plural(*hosts, "host")));
            }
            What::Waves { sizes } if sizes.len() > 1 => {
                self.say(&format!("in {} waves: {}", sizes.len(), sizes_of(sizes)));
            }
            What::Wave { wave, waves, kind, hosts } => {
                self.say(&format!("wave {wave} of {waves}, {}: {}", kind_of(*kind), some(hosts)));
            }
            What::WaveEnded { wave, well: false } => self.warn(&format!("wave {wave} failed")),
            What::Gate { wave, well, attempt, evidence, .. } if !well => {
                let mut found: Vec<String> =
                    evidence.iter().map(|seen| format!("{}: {}", seen.host, seen.cause)).collect();
                // In which order they answered says nothing.
                found.sort();
                self.gate(*wave, *attempt, &found);
            }
            What::Acted { host, on, action, output } => {
                let said = output.lines().last().unwrap_or_default().trim();
                let said =
                    if said.is_empty() { String::new() } else { format!(": {}", plain(said)) };
                self.say(&format!("{host}: {action} on {on}{said}"));
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
                let fault = plain(&fault.to_string());
                self.say(&format!("{host}: {step}: {fault}; trying again in {seconds} s"));
            }
            What::Supplied { host, from, bytes: moved } if self.is_few => {
                let from = from.as_deref().unwrap_or("here");
                self.say(&format!("{host}: has {} from {from}", bytes(*moved)));
            }
            What::Aside { host, during, cause } => {
                let mut seen = self.seen();
                seen.asides += 1;
                if seen.asides <= TROUBLES_MAX {
                    drop(seen);
                    self.say(&format!("{host}: {during}: {}", plain(cause)));
                }
            }
            What::Line { host, text } if self.is_verbose => {
                self.say(&format!("{host} | {}", plain(text)));
            }
            _ => {}
        }
    }

    fn enter(&self, name: &str, hosts: usize) {
        let mut seen = self.seen();
        name.clone_into(&mut seen.phase);
        seen.tenths = 0;
        let is_counting = seen.crowd.progress().is_some();
        // Whoever draws needs it.
        drop(seen);
        self.bar.set_style(style(if is_counting { COUNTING } else { CLEANING }, &self.seen));
        self.bar.set_prefix(name.to_owned());
        self.bar.set_length(hosts as u64);
        self.bar.set_position(0);
    }

    fn host(&self, host: &str, state: &HostState) {
        let mut seen = self.seen();
        let is_at_rest = !matches!(
            state,
            HostState::Asking | HostState::Staging | HostState::Switching | HostState::Undoing
        );
        if let Some(trouble) = state.trouble() {
            seen.troubles += 1;
            let troubles = seen.troubles;
            drop(seen);
            if troubles <= TROUBLES_MAX {
                let causes = plain(&trouble.causes.join(": "));
                self.error(&format!("{host}: {}: {causes}", words(state)));
            } else if troubles == TROUBLES_MAX + 1 {
                self.error("more hosts are in trouble; the end tells of all of them");
            }
        } else if self.is_few && is_at_rest && *state != HostState::Pending {
            drop(seen);
            self.say(&format!("{host}: {}", words(state)));
        } else {
            drop(seen);
        }
        self.tenths();
    }

    /// How far thousands of hosts are, for those who keep lines.
    fn tenths(&self) {
        if self.is_watched() || self.is_few {
            return;
        }
        let mut seen = self.seen();
        let Some((through, all)) = seen.crowd.progress() else { return };
        let tenths = (through * 10).checked_div(all).unwrap_or(0);
        if tenths > seen.tenths {
            seen.tenths = tenths;
            let line = format!("{}: {through} of {}", seen.phase, plural(all, "host"));
            drop(seen);
            self.say(&line);
        }
    }

    /// Says how far it is; it is drawn when it is time to.
    fn draw(&self) {
        let progress = self.seen().crowd.progress();
        if let Some((through, _)) = progress.filter(|_| self.is_watched()) {
            self.bar.set_position(through as u64);
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

    /// Whether lines change before somebody's eyes.
    fn is_watched(&self) -> bool {
        !self.bar.is_hidden()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
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

/// A style that reads what was seen whenever it is drawn: what came last must not wait for the next event.
fn style(template: &str, seen: &Arc<Mutex<Seen>>) -> ProgressStyle {
    let seen = Arc::clone(seen);
    let crowd = move |_: &ProgressState, to: &mut dyn std::fmt::Write| {
        let lines = lock(&seen).crowd.lines();
        // It is written to memory.
        let _ = to.write_str(&lines);
    };
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    style.with_key("crowd", crowd)
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().expect("rendering does not panic")
}

/// How many waves there are of which size.
fn sizes_of(sizes: &[usize]) -> String {
    let same = sizes.chunk_by(|one, other| one == other);
    let told = same.map(|same| format!("{} of {}", same.len(), plural(same[0], "host")));
    told.collect::<Vec<_>>().join(", ")
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

/// What kind of thing went wrong, as people say it. Most names are words.
pub(crate) fn kind_words(kind: &str) -> String {
    match kind {
        "setup" => "wrong settings",
        "busy" => "too many connections",
        "lost" => "connection lost",
        "login" => "login refused",
        "sudo" => "not allowed to become root",
        "machine" => "wrong machine",
        "protocol" => "not understood",
        "step" => "failed",
        kind => return kind.replace('_', " "),
    }
    .to_owned()
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
    let Counts {
        done,
        unchanged,
        rolled_back,
        failed,
        unreachable,
        in_doubt,
        skipped,
        switched,
        open,
    } = *counts;
    let all = [
        (done, "done"),
        (unchanged, "unchanged"),
        (rolled_back, "rolled back"),
        (failed, "failed"),
        (unreachable, "not reached"),
        (in_doubt, "in doubt"),
        (skipped, "left alone"),
        (switched, "switched and not confirmed"),
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
    use fleet::run::{Operation, RunId};
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn what_happens_while_somebody_is_asked_keeps_nobody_waiting_and_is_shown_afterwards() {
        let id = RunId::try_from("run".to_owned()).unwrap();
        let spec = RunSpec::new(id, "cluster", Operation::Status);
        let progress = FleetProgress::with(&spec, false, false);
        let aside = |host: &str| {
            let (during, cause) = ("leave".to_owned(), "gone".to_owned());
            let what = What::Aside { host: host.to_owned(), during, cause };
            progress.event(&Event { number: None, at: Timestamp::UNIX_EPOCH, what });
        };
        let asides = || progress.seen().asides;
        aside("a1");
        assert_eq!(asides(), 1);
        let answer = progress.while_asking(|| {
            // By another one, as in a run; it would wait for the answer if it drew anything.
            std::thread::scope(|scope| {
                scope.spawn(|| aside("a2"));
            });
            asides()
        });
        assert_eq!((answer, asides()), (1, 2));
    }

    #[test]
    fn waves_of_one_size_are_told_together() {
        let mut sizes = vec![1, 1, 1, 5];
        sizes.extend([10; 50]);
        sizes.push(3);
        assert_eq!(sizes_of(&sizes), "3 of 1 host, 1 of 5 hosts, 50 of 10 hosts, 1 of 3 hosts");
    }
}
