//! The end of what a check writes: both streams as one, with a bound on how much is kept.
//!
//! Reading never waits: whoever else holds the pipe, for as long as they like, keeps nobody.

use std::io::{self, PipeReader, PipeWriter, Read as _};

use crate::platform::process;

/// How many bytes of the output are kept, the last ones.
const KEPT_MAX_BYTES: usize = 16 * 1024;
/// How many lines of the output are kept, the last ones.
const KEPT_MAX_LINES: usize = 100;
/// How much is read before somebody looks at the clock again; what fits into a pipe is less, unless
/// its writer made it larger.
const READ_MAX_BYTES: usize = 1024 * 1024;

/// Reads one end of a pipe.
#[derive(Debug)]
pub(super) struct Capture {
    /// `None` once all writers are gone.
    pipe: Option<PipeReader>,
    tail: Vec<u8>,
    dropped: bool,
}

impl Capture {
    /// A pipe to write into, and what reads it.
    pub(super) fn new() -> io::Result<(PipeWriter, Self)> {
        let (reader, writer) = io::pipe()?;
        process::never_wait(&reader)?;
        Ok((writer, Self { pipe: Some(reader), tail: Vec::new(), dropped: false }))
    }

    /// Reads what is there, up to a limit; says whether there was anything.
    pub(super) fn drain(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else {
            return false;
        };
        let mut buffer = [0; 16 * 1024];
        let mut read = 0;
        while read < READ_MAX_BYTES {
            match pipe.read(&mut buffer) {
                Ok(count) if count > 0 => {
                    read += count;
                    self.tail.extend_from_slice(&buffer[..count]);
                    let surplus = self.tail.len().saturating_sub(KEPT_MAX_BYTES);
                    self.tail.drain(..surplus);
                    self.dropped |= surplus > 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                _ => {
                    self.pipe = None;
                    break;
                }
            }
        }
        read > 0
    }

    /// The last lines, as text.
    pub(super) fn finish(self) -> String {
        last_lines(&self.tail, self.dropped)
    }
}

/// The last whole lines of `tail`, before which something was `dropped`.
fn last_lines(tail: &[u8], dropped: bool) -> String {
    let text = String::from_utf8_lossy(tail);
    // A byte that is no UTF-8 became three.
    let surplus = text.ceil_char_boundary(text.len().saturating_sub(KEPT_MAX_BYTES));
    let mut kept = &text[surplus..];
    if dropped || surplus > 0 {
        // The rest of a line says little; but a line that is longer than all that is kept is better
        // shown in part than not at all.
        kept = kept
            .split_once('\n')
            .map_or(kept, |(_, rest)| if rest.is_empty() { kept } else { rest });
    }
    let mut ends = kept.trim_end_matches('\n').rmatch_indices('\n');
    match ends.nth(KEPT_MAX_LINES - 1) {
        Some((at, _)) => kept[at + 1..].to_owned(),
        None => kept.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_kept_from_the_end() {
        assert_eq!(last_lines(b"", false), "");
        assert_eq!(last_lines(b"a\nb", false), "a\nb");
        assert_eq!(last_lines(b"rest\nb\nc\n", true), "b\nc\n");
        assert_eq!(last_lines(b"rest\n", true), "rest\n");
        assert_eq!(last_lines(b"one long line", true), "one long line");
        let many: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let many = many.join("\n");
        let kept = last_lines(many.as_bytes(), false);
        assert_eq!(kept.lines().count(), KEPT_MAX_LINES);
        assert!(kept.starts_with("900\n") && kept.ends_with("\n999"), "{kept}");
    }

    #[test]
    fn bytes_that_are_no_text_do_not_make_it_longer() {
        let kept = last_lines(&[0xff; KEPT_MAX_BYTES], false);
        assert!(kept.len() <= KEPT_MAX_BYTES && kept.chars().all(|char| char == '\u{fffd}'));
    }
}
