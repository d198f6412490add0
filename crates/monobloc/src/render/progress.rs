//! The progress of a build: bars for those who watch, lines for those who keep them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use build::event::{Event, Failure, How, Observer, Step};
use build::tree::PackageKey;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{ERROR, HINT, Output, WARNING, bytes, seconds};
use crate::context::Context;

/// Shows what happens while it happens.
#[derive(Debug)]
pub(crate) struct Progress {
    bars: MultiProgress,
    interactive: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: Option<ProgressBar>,
    running: BTreeMap<PackageKey, (ProgressBar, Instant)>,
}

impl Progress {
    /// Bars if somebody watches and nobody parses.
    pub(crate) fn new(context: &Context, output: &Output) -> Self {
        let interactive = context.interactive && !output.is_json();
        let target =
            if interactive { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self { bars: MultiProgress::with_draw_target(target), interactive, state: Mutex::default() }
    }

    /// Takes the bars away.
    pub(crate) fn finish(&self) {
        if let Some(total) = self.state.lock().expect("rendering does not panic").total.take() {
            total.finish_and_clear();
        }
    }

    /// A line that stays.
    fn say(&self, line: &str) {
        // Without bars to keep in place; standard error may be closed, then nobody wants to know.
        self.bars.suspend(|| drop(writeln!(anstream::stderr(), "{line}")));
    }

    fn step(&self, key: &PackageKey, step: Step) {
        let word = match step {
            Step::Fetching => "fetching",
            Step::Preparing => "preparing",
            Step::Building => "building",
            Step::Packing => "packing",
        };
        if !self.interactive {
            if step == Step::Building {
                self.say(&format!("building {key}"));
            }
            return;
        }
        let mut state = self.state.lock().expect("rendering does not panic");
        let (bar, _) = state.running.entry(key.clone()).or_insert_with(|| {
            let bar = self.bars.add(ProgressBar::new_spinner());
            bar.set_style(style("  {spinner} {prefix:24} {msg}"));
            bar.set_prefix(key.to_string());
            bar.enable_steady_tick(Duration::from_millis(120));
            (bar, Instant::now())
        });
        bar.set_message(word);
    }

    fn ended(&self, key: &PackageKey) {
        let mut state = self.state.lock().expect("rendering does not panic");
        if let Some((bar, _)) = state.running.remove(key) {
            bar.finish_and_clear();
        }
        if let Some(total) = &state.total {
            total.inc(1);
        }
    }

    fn failed(&self, key: &PackageKey, failure: &Failure) {
        let mut lines =
            vec![format!("{ERROR}failed:{ERROR:#} {key}: {}", failure.causes.join(": "))];
        lines.extend(failure.log_tail.iter().map(|line| format!("  | {line}")));
        if let Some(log) = &failure.log {
            lines.push(format!("  the whole log: {log}"));
        }
        if let Some(hint) = &failure.hint {
            lines.push(format!("{HINT}hint:{HINT:#} {hint}"));
        }
        self.say(&lines.join("\n"));
    }

    fn plan(&self, packages: usize) {
        let total = self.bars.add(ProgressBar::new(packages as u64));
        total.set_style(style("  {bar:30} {pos}/{len} packages, {elapsed}"));
        self.state.lock().expect("rendering does not panic").total = Some(total);
    }
}

impl Observer for Progress {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Waiting => self.say("waiting for another build of this tree to end"),
            Event::Planned { packages } => self.plan(*packages),
            Event::Step { key, step } => self.step(key, *step),
            Event::Downloaded { key, bytes: done, total } => {
                let state = self.state.lock().expect("rendering does not panic");
                if let Some((bar, _)) = state.running.get(*key) {
                    bar.set_message(match total {
                        Some(total) => format!("fetching {} of {}", bytes(*done), bytes(*total)),
                        None => format!("fetching {}", bytes(*done)),
                    });
                }
            }
            Event::Warning { key, message } => {
                self.say(&format!("{WARNING}warning:{WARNING:#} {key}: {message}"));
            }
            Event::Left { error } => self.say(&format!("{WARNING}warning:{WARNING:#} {error}")),
            Event::Finished { key, record, how, took } => {
                self.ended(key);
                let size = bytes(record.archive_bytes);
                let impure = if record.impure { ", impure: it could use the network" } else { "" };
                match how {
                    How::Cached => {}
                    How::Remote => self.say(&format!("got {} ({size})", record.id)),
                    How::Built => {
                        self.say(&format!(
                            "built {} ({size}, {}{impure})",
                            record.id,
                            seconds(*took)
                        ));
                    }
                }
            }
            Event::Fetched { key } => {
                self.ended(key);
                if !self.interactive {
                    self.say(&format!("fetched {key}"));
                }
            }
            Event::Failed { key, failure } => {
                self.ended(key);
                self.failed(key, failure);
            }
            Event::Skipped { key, needed } => {
                self.ended(key);
                self.say(&format!("{WARNING}not tried:{WARNING:#} {key} needs {needed}"));
            }
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates in this file are valid")
}
