//! What machines must be: `config/preflight.yaml` of a tree, with its values filled in.

use package::diagnostic::{Diagnostic, Severity};
use package::preflight::{self, Preflight};

use crate::definition::{Definition, Template};
use crate::render::{self, Audience};
use crate::resolve::Resolution;

impl Definition {
    /// What machines must be, as things are; nothing if the distribution does not say. Only for a
    /// resolution that is complete.
    pub fn preflight(&self, resolution: &Resolution) -> Result<Option<Preflight>, Vec<Diagnostic>> {
        let Some(template) = &self.preflight else { return Ok(None) };
        let environment = render::template_engine(&resolution.engine);
        let file = &template.declared.file;
        let made = render::file(&environment, resolution, file.as_str(), template);
        let Some(made) = made.map_err(|found| vec![*found])? else { return Ok(None) };
        if made.audience != Audience::Everybody {
            let message = "this file has a late value in it, which nobody knows before".to_owned();
            let (severity, file, place) = (Severity::Error, file.clone(), None);
            return Err(vec![Diagnostic {
                severity,
                file,
                place,
                keys: vec![],
                message,
                help: None,
            }]);
        }
        let read = preflight::read(file, &made.content, &self.roles);
        let at_home = |found| at_home(found, &made.content, template);
        read.map(Some).map_err(|found| found.into_iter().map(at_home).collect())
    }
}

/// A mistake at its place in the file that somebody wrote, if its line stands there as it is.
/// Otherwise it stands in what became of the file, and is shown as that.
fn at_home(mut found: Diagnostic, made: &str, template: &Template) -> Diagnostic {
    let Some(place) = &mut found.place else { return found };
    let is_it = |line: &str| line == place.text;
    let mut written = template.source.lines().zip(1..).filter(|(line, _)| is_it(line));
    let same = template.source.lines().nth(place.line - 1).is_some_and(is_it);
    match (written.next(), written.next()) {
        _ if same => {}
        (Some((_, line)), None) if made.lines().filter(|line| is_it(line)).count() == 1 => {
            place.line = line;
        }
        _ => found.message.push_str(" (in the file as it is with its values filled in)"),
    }
    found
}
