//! What happens while hosts are made: one line for each thing worth knowing.

use std::io::Write as _;

use local::{Event, Observer};

use super::{Output, seconds};

/// Tells what happens while it happens.
#[derive(Debug)]
pub(crate) struct LocalProgress {
    is_quiet: bool,
}

impl LocalProgress {
    /// Says nothing to programs.
    pub(crate) fn new(output: &Output) -> Self {
        Self { is_quiet: output.is_json() }
    }
}

impl Observer for LocalProgress {
    fn event(&self, event: &Event<'_>) {
        if self.is_quiet {
            return;
        }
        let line = match event {
            Event::Waiting { what } => format!("waiting for {what}"),
            Event::BuildingImage { suite } => {
                format!("building the image {suite}, once; this takes a minute or two")
            }
            Event::ImageStep { suite, text } => format!("  {suite}: {text}"),
            Event::BuiltImage { suite, took } => {
                format!("built the image {suite} in {}", seconds(*took))
            }
            Event::Booted { host, done, total } => format!("{host} is up ({done}/{total})"),
        };
        // Standard error may be closed; then nobody wants to know.
        drop(writeln!(anstream::stderr(), "{line}"));
    }
}
