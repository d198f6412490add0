//! The process that does a step.

use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Duration;

use super::answer::{self, Answer, Attempt};
use super::launch::Word;
use super::relay::Relaying;
use super::store::{Begun, digest};
use super::{Doer, Steps, listener};
use crate::generation;
use crate::wire::{Order, Request, Said};

/// How many lines of a step are kept.
const LINES_MAX: usize = 10_000;

/// Does a step, unless it is done or somebody else is at it, and writes down how it ended. `word` hears
/// first which of these it is; nobody may be there to hear more.
pub fn run(doer: &Doer<'_>, order: &Order, word: &mut dyn Write) -> io::Result<()> {
    if let Request::Listen { ports, seconds } = &order.request {
        return listener::run(doer, &order.id, ports, Duration::from_secs(*seconds), word);
    }
    let mut say = |said: Word| writeln!(word, "{}", said.as_str()).and_then(|()| word.flush());
    let (steps, id) = (Steps::of(doer.host), &order.id);
    steps.make(id)?;
    let Some(_at_it) = steps.take(id)? else {
        return say(Word::Busy);
    };
    if steps.report(id)?.is_some() {
        return say(Word::Done);
    }
    let known = steps.begun(id)?;
    let begun = match &known {
        // Whoever asks tells the two apart, and does not come here.
        Some(known) if known.request != digest(&order.request) => return say(Word::Busy),
        Some(known) => known.clone(),
        None => {
            let live = generation::live(&doer.host.paths).ok().flatten();
            Begun::new(digest(&order.request), live)
        }
    };
    steps.begin(id, &begun)?;
    let lines = Lines::open(&steps, order)?;
    // Whoever waits for the word may be gone.
    drop(say(Word::Begun));
    let keep_target = |target| steps.begin(id, &Begun { target: Some(target), ..begun.clone() });
    let keep_agreed = || steps.begin(id, &Begun { is_agreed: true, ..begun.clone() });
    let attempt = Attempt {
        earlier: known,
        keep_target: Some(&keep_target),
        keep_agreed: Some(&keep_agreed),
    };
    if attempt.earlier.is_some() {
        lines.say(&Said::Line { text: "it was interrupted, and is done again".to_owned() });
    }
    let mut relaying = None;
    let answered = match &order.request {
        Request::Relay(relay) => {
            let relay = relaying.insert(Relaying::new(doer, &steps, id, relay)?);
            relay.get(Duration::from_secs(order.limit_seconds), &|said| lines.say(said))
        }
        _ => answer::answer(doer, order, &attempt, &|said| lines.say(said)),
    };
    match answered {
        Answer::Report(report) => steps.end(id, &report)?,
        Answer::Interrupted => return Err(io::Error::other("it was told to stop")),
    }
    // What is over is over; old ones that cannot be removed are only waste.
    drop(steps.collect());
    // The step is still this process's: whoever forgets it waits for its end.
    relaying.map_or(Ok(()), Relaying::serve)
}

/// What is told while a step is done.
struct Lines(Mutex<(fs_err::File, usize)>);

impl Lines {
    fn open(steps: &Steps, order: &Order) -> io::Result<Self> {
        let path = steps.path(&order.id, "lines.jsonl");
        let mut file = fs_err::File::options().create(true).append(true).open(&path)?;
        if !fs_err::read(&path)?.is_empty() {
            // A crash may have cut the last line short; ours must not become a part of it.
            file.write_all(b"\n")?;
        }
        Ok(Self(Mutex::new((file, 0))))
    }

    fn say(&self, said: &Said) {
        let mut lines = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (file, count) = &mut *lines;
        *count += 1;
        if *count <= LINES_MAX
            && let Ok(mut line) = serde_json::to_vec(said)
        {
            line.push(b'\n');
            // On a full disk it is done without words.
            drop(file.write_all(&line));
        }
    }
}
