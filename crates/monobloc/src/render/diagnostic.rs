//! Mistakes in files, in the form that compilers have made familiar.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use package::diagnostic::{Diagnostic, Severity};

/// The mistake with its place, the line it stands in, and what to do.
pub(super) fn render(found: &Diagnostic) -> String {
    let level = match found.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let file = found.file.as_str();
    let mut group = match &found.place {
        None => level.primary_title(&found.message).element(annotate_snippets::Origin::path(file)),
        Some(place) => {
            let start: usize = place.text.chars().take(place.column - 1).map(char::len_utf8).sum();
            let length: usize = place
                .text
                .chars()
                .skip(place.column - 1)
                .take(place.length)
                .map(char::len_utf8)
                .sum();
            let snippet = Snippet::source(&place.text)
                .line_start(place.line)
                .path(file)
                .annotation(AnnotationKind::Primary.span(start..start + length));
            level.primary_title(&found.message).element(snippet)
        }
    };
    if let Some(help) = &found.help {
        group = group.element(Level::HELP.message(help));
    }
    Renderer::styled().render(&[group])
}
