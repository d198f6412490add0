//! The progress of work on a host: bars for those who watch, lines for those who keep them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;

use host::event::{Event, Observer};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use package::PackageId;

use super::{Output, WARNING, plural};
use crate::context::Context;

/// Shows what happens while it happens.
#[derive(Debug)]
pub(crate) struct HostProgress {
    bars: MultiProgress,
    downloads: Mutex<BTreeMap<PackageId, ProgressBar>>,
    audit: Mutex<Option<ProgressBar>>,
}

impl HostProgress {
    /// Bars if somebody watches and nobody parses.
    pub(crate) fn new(context: &Context, output: &Output) -> Self {
        let interactive = context.interactive && !output.is_json();
        let target =
            if interactive { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bars = MultiProgress::with_draw_target(target);
        Self { bars, downloads: Mutex::default(), audit: Mutex::default() }
    }

    /// Takes the bars away.
    pub(crate) fn finish(&self) {
        for bar in self.downloads.lock().expect("rendering does not panic").values() {
            bar.finish_and_clear();
        }
        if let Some(bar) = self.audit.lock().expect("rendering does not panic").take() {
            bar.finish_and_clear();
        }
    }

    fn bar(&self, template: &str) -> ProgressBar {
        let bar = self.bars.add(ProgressBar::new(0));
        bar.set_style(ProgressStyle::with_template(template).expect("the template is valid"));
        bar
    }

    fn say(&self, line: &str) {
        // Standard error may be closed; then nobody wants to know.
        self.bars.suspend(|| drop(writeln!(anstream::stderr(), "{line}")));
    }
}

impl Observer for HostProgress {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Waiting { what } => self.say(&format!("waiting for {what}")),
            Event::Fetching { id, done_bytes, total_bytes } => {
                let mut downloads = self.downloads.lock().expect("rendering does not panic");
                let bar = downloads.entry((*id).clone()).or_insert_with(|| {
                    let bar = self.bar("  {bar:24} {binary_bytes}/{binary_total_bytes} {prefix}");
                    bar.set_prefix(id.to_string());
                    bar
                });
                bar.set_length(total_bytes.unwrap_or(*done_bytes));
                bar.set_position(*done_bytes);
            }
            Event::Stored { id, already } => {
                if let Some(bar) =
                    self.downloads.lock().expect("rendering does not panic").remove(id)
                {
                    bar.finish_and_clear();
                }
                self.say(&format!("{} {id}", if *already { "have" } else { "added" }));
            }
            Event::Auditing { done_bytes, total_bytes } => {
                let mut audit = self.audit.lock().expect("rendering does not panic");
                let bar = audit.get_or_insert_with(|| {
                    self.bar("  {bar:24} {binary_bytes}/{binary_total_bytes} compared")
                });
                bar.set_length(*total_bytes);
                bar.set_position(*done_bytes);
            }
            Event::Lacking { .. } | Event::Building { .. } | Event::Syncing => {}
            Event::Stopping { units } => self.say(&format!("stopping {}", units.join(", "))),
            Event::Starting { units } => self.say(&format!("starting {}", units.join(", "))),
            Event::Trying { generation, checks, units } => self.say(&format!(
                "generation {generation} is on trial: {}, {}",
                plural(*checks, "check"),
                plural(*units, "unit")
            )),
            Event::Confirmed { generation } => {
                self.say(&format!("generation {generation} is confirmed"));
            }
            Event::StartByHand { units } => {
                self.say(&format!(
                    "nobody runs services here: start {} yourself",
                    units.join(", ")
                ));
            }
            Event::Live { generation } => self.say(&format!("generation {generation} is live")),
            Event::Warning { message } => {
                self.say(&format!("{WARNING}warning:{WARNING:#} {message}"));
            }
        }
    }
}
