//! A folder with what an operator has, and what comes of a configuration in it.

use std::collections::BTreeMap;

use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};
use camino::{Utf8Path, Utf8PathBuf};
use config::render::Rendered;
use config::{Definition, Input, Resolution};
use package::diagnostic::{Diagnostic, Severity};
use package::distribution::Distribution;

/// The smallest configuration that is complete.
pub(crate) const BASE: &str = "bootstrap_url: http://192.0.2.10
cluster_name: Reef
master_discovery: static
exhibitor_storage_backend: static
master_list: [192.0.2.11]
";

/// The address script of the operator.
pub(crate) const IP_DETECT: &str = "#!/bin/sh\necho 192.0.2.1\n";

pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) definition: Definition,
    pub(crate) distribution: Distribution,
}

impl World {
    /// With what this program brings.
    pub(crate) fn new() -> Self {
        Self::with(Definition::of_base(&["base"]).unwrap())
    }

    pub(crate) fn with(definition: Definition) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = Self { folder, definition, distribution: Distribution::default() };
        world.write("genconf/ip-detect", IP_DETECT, 0o755);
        world.write("genconf/ssh_key", "a key\n", 0o600);
        world
    }

    /// With a distribution that declares this in one file.
    pub(crate) fn declared(text: &str) -> Self {
        Self::with(load(&[("config/config.yaml", text)]).unwrap_or_else(|found| panic!("{found}")))
    }

    pub(crate) fn folder(&self) -> &Utf8Path {
        Utf8Path::from_path(self.folder.path()).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str, mode: u32) {
        testing::files::write_files(self.folder(), &[(path, text, mode)]).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        fs_err::remove_file(self.folder().join(path)).unwrap();
    }

    pub(crate) fn resolve(&self, text: &str) -> Resolution {
        let file = Utf8Path::new("genconf/config.yaml");
        let input = Input { file, text, folder: self.folder() };
        self.definition.resolve(&input, &self.distribution)
    }

    /// A resolution without errors.
    pub(crate) fn good(&self, text: &str) -> Resolution {
        let resolution = self.resolve(text);
        assert!(resolution.is_ok(), "{}", show(&resolution.diagnostics));
        resolution
    }

    /// What is said of a configuration, as people see it.
    pub(crate) fn said(&self, text: &str) -> String {
        show(&self.resolve(text).diagnostics)
    }

    pub(crate) fn files(&self, text: &str) -> BTreeMap<String, Rendered> {
        let files = self.definition.render(&self.good(text));
        let files = files.unwrap_or_else(|found| panic!("{}", show(&found)));
        files.into_iter().map(|(path, file)| (path.to_string(), file)).collect()
    }

    /// All files in one text.
    pub(crate) fn files_text(&self, text: &str) -> String {
        let files = self.files(text).into_iter().map(|(path, file)| {
            format!("=== {path} {:o} {:?}\n{}", file.mode, file.audience, file.content)
        });
        files.collect()
    }
}

/// The definition that a tree with these files has, or what is wrong with it.
pub(crate) fn load(files: &[(&str, &str)]) -> Result<Definition, String> {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, *text, 0o644)).collect();
    testing::files::write_files(&root, &files).unwrap();
    Definition::load(&root).map_err(|error| match error {
        config::definition::DefinitionError::Mistakes(found) => show(&found),
        error @ config::definition::DefinitionError::Io { .. } => error.to_string(),
    })
}

/// Mistakes as the program shows them, without colours.
pub(crate) fn show(found: &[Diagnostic]) -> String {
    let shown = found.iter().map(|found| {
        let level = match found.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(&found.message);
        let mut group = match &found.place {
            None => title.element(Origin::path(found.file.as_str())),
            Some(place) => {
                let bytes = |chars: usize| -> usize {
                    place.text.chars().take(chars).map(char::len_utf8).sum()
                };
                let (start, end) = (place.column - 1, place.column - 1 + place.length);
                title.element(
                    Snippet::source(&place.text)
                        .line_start(place.line)
                        .path(found.file.as_str())
                        .annotation(AnnotationKind::Primary.span(bytes(start)..bytes(end))),
                )
            }
        };
        if let Some(help) = &found.help {
            group = group.element(Level::HELP.message(help));
        }
        Renderer::plain().render(&[group]) + "\n"
    });
    shown.collect()
}
