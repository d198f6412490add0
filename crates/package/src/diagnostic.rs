//! A mistake in a file that a person wrote: where, what was expected, and what to do.

use std::fmt;

use camino::Utf8PathBuf;
use serde::Serialize;

/// One mistake, or one thing worth a warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Whether work can go on.
    pub severity: Severity,
    /// The file.
    pub file: Utf8PathBuf,
    /// The place in it, where there is one.
    #[serde(flatten)]
    pub place: Option<Place>,
    /// The keys in it that this is about, where keys are more than a place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// What is wrong and what was expected, as a lower-case fragment.
    pub message: String,
    /// What to do, where that can be said.
    pub help: Option<String>,
}

/// Whether work can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but somebody should look.
    Warning,
}

/// A place in a text file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Length in characters, within the line.
    pub length: usize,
    /// The line itself.
    pub text: String,
}

impl Place {
    /// The place of the bytes `start..end` of `source`.
    pub fn of(source: &str, start: usize, end: usize) -> Self {
        let start = floor_boundary(source, start);
        let end = floor_boundary(source, end).max(start);
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let text = source[line_start..].lines().next().unwrap_or_default();
        let line_end = line_start + text.len();
        Self {
            line: source[..line_start].matches('\n').count() + 1,
            column: source[line_start..start].chars().count() + 1,
            length: source[start..end.min(line_end).max(start)].chars().count().max(1),
            text: text.to_owned(),
        }
    }
}

fn floor_boundary(source: &str, at: usize) -> usize {
    let at = at.min(source.len());
    (0..=at).rev().find(|at| source.is_char_boundary(*at)).unwrap_or(0)
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(place) = &self.place {
            write!(f, ":{}:{}", place.line, place.column)?;
        }
        write!(f, ": {}", self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

/// The known name that was most likely meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|known| {
        // One slip of the finger is always close, however short the name.
        let is_slip = strsim::osa_distance(name, known) == 1 && name.len() > 1;
        (if is_slip { 1.0 } else { strsim::jaro_winkler(name, known) }, known)
    });
    let best = scored.max_by(|left, right| left.0.total_cmp(&right.0))?;
    (best.0 > 0.75).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_lines_and_characters() {
        let source = "a\né: x\r\nlast";
        let place = |start, end| {
            let place = Place::of(source, start, end);
            (place.line, place.column, place.length, place.text)
        };
        assert_eq!(place(0, 1), (1, 1, 1, "a".to_owned()));
        assert_eq!(place(6, 7), (2, 4, 1, "é: x".to_owned()));
        assert_eq!(place(6, 14), (2, 4, 1, "é: x".to_owned()));
        assert_eq!(place(99, 99), (3, 5, 1, "last".to_owned()));
    }
}
