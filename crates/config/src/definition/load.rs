//! Reads what a distribution declares: the pieces it includes, its own files over them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use indexmap::IndexMap;
use package::diagnostic::{Diagnostic, Place, Severity};
use package::document::{self, Fields, Node, Reader};
use package::durable;
use package::path::PackagePath;

use super::reach::{Reach, each, uses};
use super::{Computed, Default, Definition, DefinitionError, How, Parameter, Rule, Scope};
use super::{Setter, Template, base, kinds};
use crate::expression::{Declared, Engine, Expression, free_names, message_of};
use crate::kind::Kind;

/// The folder of a tree that declares its configuration.
const FOLDER: &str = "config";
/// The folder in it with the files that are made of values.
const FILES: &str = "files";
/// The file in it that says what machines must be.
const PREFLIGHT: &str = "preflight.yaml";

/// A file of declarations.
struct Source {
    file: Utf8PathBuf,
    text: String,
    /// Whether it comes from this program, so that a tree's own declarations replace it.
    included: bool,
}

/// A file to be made, before what is declared of it is known.
struct Found {
    file: Utf8PathBuf,
    text: String,
    executable: bool,
}

#[derive(Default)]
struct Loader {
    roles: BTreeSet<package::id::RoleName>,
    setters: IndexMap<String, Vec<Setter>>,
    own: BTreeSet<String>,
    rules: Vec<Rule>,
    files: BTreeMap<PackagePath, Found>,
    declared: BTreeMap<PackagePath, DeclaredFile>,
    preflight: Option<Found>,
    diagnostics: Vec<Diagnostic>,
}

/// What is declared of a file besides its text.
#[derive(Clone)]
struct DeclaredFile {
    mode: Option<u32>,
    user: Option<package::id::UserName>,
    when: Option<Expression>,
    at: Declared,
}

impl Definition {
    /// Reads the folder `config` of `tree`; without one, the distribution has what everyone has.
    pub fn load(tree: &Utf8Path) -> Result<Self, DefinitionError> {
        let folder = tree.join(FOLDER);
        let mut loader = Loader::default();
        let mut own = Vec::new();
        if is_folder(&folder)? {
            for name in names(&folder)? {
                if name == PREFLIGHT {
                    let text = read(&folder.join(&name))?;
                    let file = Utf8Path::new(FOLDER).join(&name);
                    loader.preflight = Some(Found { file, text, executable: false });
                } else if Utf8Path::new(&name).extension() == Some("yaml") {
                    let text = read(&folder.join(&name))?;
                    let file = Utf8Path::new(FOLDER).join(&name);
                    own.push(Source { file, text, included: false });
                } else if name != FILES && !name.starts_with('.') {
                    let message = "not a part of the configuration: expected `NAME.yaml` files, \
                                   and `files/` with what is made of them";
                    loader.report(Utf8Path::new(FOLDER).join(&name), message, None);
                }
            }
            loader.files_below(&folder.join(FILES), "")?;
        }
        loader.finish(&own)
    }

    /// What this program brings, as if a distribution included these pieces of it.
    pub fn of_base(pieces: &[&str]) -> Result<Self, DefinitionError> {
        let text = format!("include: {}", serde_json::json!(pieces));
        let file = Utf8PathBuf::from("config.yaml");
        Loader::default().finish(&[Source { file, text, included: false }])
    }
}

impl Loader {
    fn finish(mut self, own: &[Source]) -> Result<Definition, DefinitionError> {
        let mut included: Vec<&base::Piece> = Vec::new();
        if own.is_empty() {
            included.extend(&base::PIECES);
        }
        for source in own {
            self.includes(source, &mut included);
        }
        let mine = std::mem::take(&mut self.files);
        for piece in included {
            let file = Utf8PathBuf::from(format!("{}.yaml", piece.name));
            let text = piece.declarations.to_owned();
            self.source(&Source { file, text, included: true });
            for file in piece.files {
                let path = file.path.parse().expect("a path in this program's own list");
                let found = Found {
                    file: format!("files/{}", file.path).into(),
                    text: file.text.to_owned(),
                    executable: file.executable,
                };
                self.files.insert(path, found);
            }
        }
        self.files.extend(mine);
        for source in own {
            self.source(source);
        }
        let templates = self.templates();
        let preflight = self.preflight.take().and_then(|found| self.template(found, None));
        let all: Vec<&Template> = templates.values().chain(&preflight).collect();
        self.check_names(&all);
        let reach = Reach::of(&self.setters);
        self.check_reach(&reach, &all);
        for used in preflight.iter().flat_map(|template| &template.names) {
            if reach.secret.contains(used) {
                let file = Utf8Path::new(FOLDER).join(PREFLIGHT);
                let place = preflight.as_ref().map(|template| place_of(&template.source, used));
                let message = format!("`{used}` is a secret, and everybody can read this file");
                self.report(file, &message, place);
            }
        }
        let Self { roles, setters, rules, diagnostics, .. } = self;
        if diagnostics.iter().any(|found| found.severity == Severity::Error) {
            return Err(DefinitionError::Mistakes(diagnostics));
        }
        Ok(Definition { roles, setters, rules, templates, preflight, reach })
    }

    fn report(&mut self, file: Utf8PathBuf, message: &str, place: Option<Place>) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file,
            place,
            keys: Vec::new(),
            message: message.to_owned(),
            help: None,
        });
    }

    fn files_below(&mut self, folder: &Utf8Path, prefix: &str) -> Result<(), DefinitionError> {
        if !is_folder(folder)? {
            return Ok(());
        }
        for name in names(folder)? {
            // What editors and file managers leave behind is different on every machine.
            if name.starts_with('.') || name.ends_with('~') {
                continue;
            }
            let at = folder.join(&name);
            let path = format!("{prefix}{name}");
            let file = Utf8Path::new(FOLDER).join(FILES).join(&path);
            // A link may lead out of the tree, to what others shall not see.
            if at.is_symlink() {
                self.report(file, "a link, expected a file or folder", None);
                continue;
            }
            if is_folder(&at)? {
                self.files_below(&at, &format!("{path}/"))?;
                continue;
            }
            match path.parse::<PackagePath>() {
                Ok(path) => {
                    let text = read(&at)?;
                    let executable = crate::platform::is_executable(&at)
                        .map_err(|source| DefinitionError::Io { path: at.clone(), source })?;
                    self.files.insert(path, Found { file, text, executable });
                }
                Err(error) => self.report(file, &error.to_string(), None),
            }
        }
        Ok(())
    }

    /// The pieces that a file asks for, in the order of this program's list.
    fn includes(&mut self, source: &Source, included: &mut Vec<&'static base::Piece>) {
        let mut reader = Reader::new(&source.file, &source.text);
        let Some(node) = reader.yaml() else { return };
        let package::document::Value::Object(_) = &node.value else { return };
        let Some(fields) = reader.map(&node, "the file") else { return };
        let Some(list) = fields.get("include") else { return };
        let words: Vec<(&str, Option<&'static base::Piece>)> = std::iter::once(("base", None))
            .chain(base::PIECES.iter().map(|piece| (piece.name, Some(piece))))
            .collect();
        for item in reader.list(list, "`include`") {
            match kinds::one_of(&mut reader, item, "an item of `include`", &words) {
                Some(Some(piece)) => {
                    let needed = |one: &&base::Piece| piece.needs.contains(&one.name);
                    included.extend(base::PIECES.iter().filter(needed));
                    included.push(piece);
                }
                Some(None) => included.extend(&base::PIECES),
                None => {}
            }
        }
        let at = |piece: &&base::Piece| base::PIECES.iter().position(|one| one.name == piece.name);
        included.sort_by_key(at);
        included.dedup_by_key(|piece| piece.name);
        self.diagnostics.append(&mut reader.diagnostics);
    }

    fn source(&mut self, source: &Source) {
        let mut reader = Reader::new(&source.file, &source.text);
        let Some(node) = reader.yaml() else {
            self.diagnostics.append(&mut reader.diagnostics);
            return;
        };
        let known = ["include", "roles", "parameters", "computed", "groups", "rules", "files"];
        let mut context = Context { reader, source, loader: self };
        if let Some(fields) = context.reader.object(&node, "the file", &known) {
            context.section(fields, None);
            context.roles(fields);
            context.groups(fields);
            context.declared_files(fields);
        }
        let mut found = context.reader.diagnostics;
        self.diagnostics.append(&mut found);
    }

    fn templates(&mut self) -> BTreeMap<PackagePath, Template> {
        let mut templates = BTreeMap::new();
        let mut declared = std::mem::take(&mut self.declared);
        for (path, found) in std::mem::take(&mut self.files) {
            if let Some(template) = self.template(found, declared.remove(&path)) {
                templates.insert(path, template);
            }
        }
        for (path, known) in declared {
            let message = format!("there is no file `{FOLDER}/{FILES}/{path}`");
            self.report(known.at.file, &message, known.at.place);
        }
        templates
    }

    /// A file to be made, with what is declared of it.
    fn template(&mut self, found: Found, known: Option<DeclaredFile>) -> Option<Template> {
        let engine = crate::render::template_engine(&Engine::new(Utf8Path::new(".")));
        let names = match engine.template_from_named_str(found.file.as_str(), &found.text) {
            Ok(template) => free_names(template.undeclared_variables(false)),
            Err(error) => {
                let place =
                    error.range().map(|range| Place::of(&found.text, range.start, range.end));
                let message = format!("not a template: {}", message_of(&error));
                self.report(found.file, &message, place);
                return None;
            }
        };
        let mode = if found.executable { 0o755 } else { 0o644 };
        Some(Template {
            source: found.text,
            names,
            mode: known.as_ref().and_then(|known| known.mode).unwrap_or(mode),
            user: known.as_ref().and_then(|known| known.user.clone()),
            when: known.and_then(|known| known.when),
            declared: Declared { file: found.file, place: None },
        })
    }

    /// Nothing that everybody has may be made of what fewer may have.
    fn check_reach(&mut self, reach: &Reach, templates: &[&Template]) {
        let mut found: Vec<(&Declared, String)> = Vec::new();
        for (name, setter) in each(&self.setters) {
            let How::Parameter(parameter) = &setter.how else { continue };
            let used =
                |names: &BTreeSet<String>| uses(setter).find(|used| names.contains(*used)).cloned();
            if parameter.scope == Scope::Cluster
                && let Some(used) = used(&reach.controller)
            {
                let message =
                    format!("`{name}` is for hosts, but depends on `{used}`, which is not");
                found.push((&setter.declared, message));
            }
            if !parameter.secret
                && let Some(used) = used(&reach.secret)
            {
                let message =
                    format!("`{name}` is no secret, but depends on `{used}`, which is one");
                found.push((&setter.declared, message));
            }
            if parameter.secret && parameter.late {
                let message = format!("`{name}` cannot be secret and late");
                found.push((&setter.declared, message));
            }
        }
        for template in templates {
            let when = template.when.iter().flat_map(|when| &when.names);
            let mut names = template.names.iter().chain(when);
            if let Some(used) = names.find(|name| reach.controller.contains(*name)) {
                let message = format!("`{used}` is not for hosts, but this file uses it");
                found.push((&template.declared, message));
            }
        }
        let found: Vec<_> =
            found.into_iter().map(|(declared, message)| (declared.clone(), message)).collect();
        for (declared, message) in found {
            self.report(declared.file, &message, declared.place);
        }
    }

    /// Whatever uses a value must use one that exists.
    fn check_names(&mut self, templates: &[&Template]) {
        let known: BTreeSet<&str> =
            self.setters.keys().map(String::as_str).chain(crate::resolve::FACTS).collect();
        let mut uses: Vec<(&BTreeSet<String>, &Declared)> = Vec::new();
        let mut unknown = Vec::new();
        for setter in self.setters.values().flatten() {
            uses.extend(setter.when.iter().map(|when| (&when.names, &when.declared)));
            match &setter.how {
                How::Computed(computed) => {
                    uses.push((&computed.value.names, &computed.value.declared));
                }
                How::Parameter(parameter) => {
                    if let Default::From(from) = &parameter.default {
                        uses.push((&from.names, &from.declared));
                    }
                }
            }
        }
        for rule in &self.rules {
            uses.extend(rule.when.iter().map(|when| (&when.names, &when.declared)));
            uses.push((&rule.check.names, &rule.check.declared));
        }
        for template in templates {
            uses.extend(template.when.iter().map(|when| (&when.names, &when.declared)));
            for name in template.names.iter().filter(|name| !known.contains(name.as_str())) {
                let place = Some(place_of(&template.source, name));
                unknown.push((name, &template.declared.file, place));
            }
        }
        for (names, declared) in uses {
            for name in names.iter().filter(|name| !known.contains(name.as_str())) {
                unknown.push((name, &declared.file, declared.place.clone()));
            }
        }
        let unknown = unknown.into_iter().map(|(name, file, place)| {
            let near = package::diagnostic::nearest(name, known.iter().copied());
            Diagnostic {
                severity: Severity::Error,
                file: file.clone(),
                place,
                keys: Vec::new(),
                message: format!("no parameter is called `{name}`"),
                help: near.map(|near| format!("did you mean `{near}`?")),
            }
        });
        let mut unknown: Vec<Diagnostic> = unknown.collect();
        self.diagnostics.append(&mut unknown);
    }
}

/// A file of declarations while it is read.
struct Context<'a> {
    reader: Reader<'a>,
    source: &'a Source,
    loader: &'a mut Loader,
}

impl Context<'_> {
    fn declared(&self, node: &Node) -> Declared {
        Declared { file: self.source.file.clone(), place: Some(self.reader.place(&node.span)) }
    }

    fn roles(&mut self, fields: Fields<'_>) {
        let Some(node) = fields.get("roles") else { return };
        let items = self.reader.list(node, "`roles`");
        let roles: BTreeSet<_> =
            items.iter().filter_map(|item| self.reader.parse(item, "a role")).collect();
        // A tree that names its roles means exactly these.
        self.loader.roles = roles;
    }

    fn groups(&mut self, fields: Fields<'_>) {
        let Some(node) = fields.get("groups") else { return };
        for group in self.reader.list(node, "`groups`") {
            let known = ["when", "parameters", "computed", "rules"];
            let Some(fields) = self.reader.object(group, "a group", &known) else { continue };
            let when = self.reader.required(fields, &group.span, "when", "a group");
            let Some(when) = when.and_then(|when| self.expression(when, "`when` of a group"))
            else {
                continue;
            };
            self.section(fields, Some(&when));
        }
    }

    /// Parameters, computed values and rules, all under one condition.
    fn section(&mut self, fields: Fields<'_>, when: Option<&Expression>) {
        let parameters = fields.get("parameters");
        let parameters = parameters.and_then(|node| self.reader.map(node, "`parameters`"));
        for (key, node) in parameters.iter().flat_map(|fields| fields.iter()) {
            let what = format!("parameter `{}`", key.name);
            if let Some(parameter) = self.parameter(node, &what) {
                self.setter(&key.name, node, when, How::Parameter(Box::new(parameter)));
            }
        }
        let computed = fields.get("computed");
        let computed = computed.and_then(|node| self.reader.map(node, "`computed`"));
        for (key, node) in computed.iter().flat_map(|fields| fields.iter()) {
            let what = format!("computed value `{}`", key.name);
            if let Some(computed) = self.computed(node, &what) {
                self.setter(&key.name, node, when, How::Computed(Box::new(computed)));
            }
        }
        if let Some(node) = fields.get("rules") {
            for rule in self.reader.list(node, "`rules`") {
                if let Some(rule) = self.rule(rule, when) {
                    self.loader.rules.push(rule);
                }
            }
        }
    }

    fn setter(&mut self, name: &str, node: &Node, when: Option<&Expression>, how: How) {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase());
        if !starts_well || !name.bytes().all(is_name) {
            let message = format!("`{}` cannot be the name of a value", name.escape_debug());
            let help = "expected small letters, digits and `_`, starting with a letter".to_owned();
            self.reader.error(&node.span, message, Some(help));
            return;
        }
        let setter = Setter { when: when.cloned(), how, declared: self.declared(node) };
        let setters = self.loader.setters.entry(name.to_owned()).or_default();
        if !self.source.included && self.loader.own.insert(name.to_owned()) {
            setters.clear();
        }
        setters.push(setter);
    }

    fn parameter(&mut self, node: &Node, what: &str) -> Option<Parameter> {
        let mut known = kinds::KIND_KEYS.to_vec();
        known.extend([
            "default",
            "default_from",
            "required",
            "secret",
            "immutable",
            "restart",
            "scope",
            "late",
            "description",
            "example",
            "since",
        ]);
        let fields = self.reader.object(node, what, &known)?;
        let kind = kinds::kind(&mut self.reader, &self.source.text, fields, node, what)?;
        let mut flag = |name: &str, default: bool| {
            let node = fields.get(name);
            node.and_then(|node| self.reader.boolean(node, what)).unwrap_or(default)
        };
        let (secret, immutable) = (flag("secret", kind.holds_secret()), flag("immutable", false));
        let (late, required) = (flag("late", false), flag("required", false));
        let kind = Kind { credentials: secret, ..kind };
        let scopes = [("cluster", Scope::Cluster), ("controller", Scope::Controller)];
        let scope = fields
            .get("scope")
            .and_then(|node| kinds::one_of(&mut self.reader, node, what, &scopes))
            .unwrap_or(Scope::Cluster);
        let restart = fields.get("restart").and_then(|node| self.reader.boolean(node, what));
        let default = match (fields.get("default"), fields.get("default_from"), required) {
            (Some(node), None, false) => {
                let what = format!("`default` of {what}");
                let source = &self.source.text;
                Default::Value(kinds::value(&mut self.reader, source, &kind, node, &what)?)
            }
            (None, Some(node), false) => Default::From(self.expression(node, what)?),
            (None, None, true) => Default::Required,
            _ => {
                let message =
                    format!("{what} needs one of `required: true`, `default`, `default_from`");
                self.reader.error(&node.span, message, None);
                return None;
            }
        };
        let example = match fields.get("example") {
            Some(node) => {
                let what = format!("`example` of {what}");
                kinds::value(&mut self.reader, &self.source.text, &kind, node, &what)
            }
            None => None,
        };
        let mut text = |name: &str| {
            let node = fields.get(name);
            node.and_then(|node| self.reader.string(node, what)).map(|text| text.trim().to_owned())
        };
        let (description, since) = (text("description").unwrap_or_default(), text("since"));
        let restart = restart.unwrap_or(scope == Scope::Cluster);
        Some(Parameter {
            kind,
            default,
            secret,
            immutable,
            restart,
            scope,
            late,
            description,
            example,
            since,
        })
    }

    fn computed(&mut self, node: &Node, what: &str) -> Option<Computed> {
        // The short form is the expression alone.
        if let package::document::Value::String(_) = node.value {
            let value = self.expression(node, what)?;
            return Some(Computed { value, kind: None, description: String::new() });
        }
        let mut known = kinds::KIND_KEYS.to_vec();
        known.extend(["value", "description"]);
        let fields = self.reader.object(node, what, &known)?;
        let value = self.reader.required(fields, &node.span, "value", what)?;
        let value = self.expression(value, what)?;
        let kind = match fields.get("type") {
            Some(_) => Some(kinds::kind(&mut self.reader, &self.source.text, fields, node, what)?),
            None => None,
        };
        let description = fields.get("description");
        let description = description.and_then(|node| self.reader.string(node, what));
        Some(Computed { value, kind, description: description.unwrap_or_default().to_owned() })
    }

    fn rule(&mut self, node: &Node, when: Option<&Expression>) -> Option<Rule> {
        let fields = self.reader.object(node, "a rule", &["check", "message", "help", "keys"])?;
        let check = self.reader.required(fields, &node.span, "check", "a rule");
        let check = check.and_then(|node| self.expression(node, "`check` of a rule"));
        let message = self.reader.required(fields, &node.span, "message", "a rule");
        let message = message.and_then(|node| self.reader.string(node, "`message` of a rule"));
        let (check, message) = (check?, message?.to_owned());
        let help = fields.get("help").and_then(|node| self.reader.string(node, "`help` of a rule"));
        let keys = match fields.get("keys") {
            Some(node) => {
                let items = self.reader.list(node, "`keys` of a rule");
                let keys = items.iter().filter_map(|item| self.reader.string(item, "a key"));
                keys.map(str::to_owned).collect()
            }
            None => check.names.iter().cloned().collect(),
        };
        Some(Rule { when: when.cloned(), check, message, help: help.map(str::to_owned), keys })
    }

    fn declared_files(&mut self, fields: Fields<'_>) {
        let Some(node) = fields.get("files") else { return };
        let Some(files) = self.reader.map(node, "`files`") else { return };
        for (key, node) in files.iter() {
            let what = format!("file `{}`", key.name);
            let path = match key.name.parse::<PackagePath>() {
                Ok(path) => path,
                Err(error) => {
                    self.reader.error(&key.span, error.to_string(), None);
                    continue;
                }
            };
            let Some(fields) = self.reader.object(node, &what, &["mode", "user", "when"]) else {
                continue;
            };
            let mode = fields.get("mode").and_then(|node| self.mode(node, &what));
            let user = fields.get("user").and_then(|node| self.reader.parse(node, &what));
            let when = fields.get("when").and_then(|node| self.expression(node, &what));
            let at = Declared {
                file: self.source.file.clone(),
                place: Some(self.reader.place(&key.span)),
            };
            self.loader.declared.insert(path, DeclaredFile { mode, user, when, at });
        }
    }

    fn mode(&mut self, node: &Node, what: &str) -> Option<u32> {
        let text = self.reader.string(node, &format!("`mode` of {what}"))?;
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        if mode.is_none() {
            let message = format!("`mode` of {what} is `{}`", text.escape_debug());
            let help = "expected octal digits in quotes, such as \"0644\"".to_owned();
            self.reader.error(&node.span, message, Some(help));
        }
        mode
    }

    fn expression(&mut self, node: &Node, what: &str) -> Option<Expression> {
        let text = self.reader.string(node, what)?;
        match Expression::parse(text, self.declared(node)) {
            Ok(expression) => Some(expression),
            Err(message) => {
                self.reader.error(&node.span, format!("{what} is no expression: {message}"), None);
                None
            }
        }
    }
}

/// Where a template first has a name.
fn place_of(source: &str, name: &str) -> Place {
    let word = regex::Regex::new(&format!(r"\b{}\b", regex::escape(name)));
    let found = word.ok().and_then(|word| word.find(source));
    let (start, end) = found.map_or((0, 0), |found| (found.start(), found.end()));
    Place::of(source, start, end)
}

fn is_folder(path: &Utf8Path) -> Result<bool, DefinitionError> {
    durable::is_folder(path).map_err(|source| DefinitionError::Io { path: path.to_owned(), source })
}

fn names(folder: &Utf8Path) -> Result<Vec<String>, DefinitionError> {
    let failed = |source| DefinitionError::Io { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs_err::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.into_string().map_err(|name| {
            failed(std::io::Error::other(format!("the name `{}` is not UTF-8", name.display())))
        })?;
        names.push(name);
    }
    names.sort();
    Ok(names)
}

fn read(path: &Utf8Path) -> Result<String, DefinitionError> {
    let text = document::read(path).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
    });
    text.map_err(|source| DefinitionError::Io { path: path.to_owned(), source })
}
