//! What a distribution declares: its parameters, what is computed of them, the rules between them,
//! and the files that are made of them. It is data in the tree, not code in this program.

mod base;
mod kinds;
mod load;
mod reach;

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8PathBuf;
use indexmap::IndexMap;
use package::diagnostic::Diagnostic;
use package::id::{RoleName, UserName};
use package::path::PackagePath;
use serde_json::Value as Json;

use crate::expression::{Declared, Expression};
use crate::kind::Kind;

/// What a distribution declares.
#[derive(Debug, Clone)]
pub struct Definition {
    /// What its hosts can be.
    pub roles: BTreeSet<RoleName>,
    /// Everything that has a value, in the order of declaration; several setters of one name have
    /// conditions of which one holds.
    pub setters: IndexMap<String, Vec<Setter>>,
    /// What must hold between values.
    pub rules: Vec<Rule>,
    /// The files that are made, by their path in the package.
    pub templates: BTreeMap<PackagePath, Template>,
    /// What machines must be, as a file that is made of values.
    pub(crate) preflight: Option<Template>,
    /// What fewer may have.
    pub(crate) reach: reach::Reach,
}

/// One way for a name to get its value.
#[derive(Debug, Clone)]
pub struct Setter {
    /// When this is the way; `None`: always.
    pub when: Option<Expression>,
    /// How.
    pub how: How,
    /// Where it was declared.
    pub declared: Declared,
}

/// How a name gets its value.
#[derive(Debug, Clone)]
pub enum How {
    /// From who configures a cluster.
    Parameter(Box<Parameter>),
    /// From other values.
    Computed(Box<Computed>),
}

/// A value that somebody can set.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own in declarations")]
pub struct Parameter {
    /// What it may be.
    pub kind: Kind,
    /// What it is if nobody sets it.
    pub default: Default,
    /// Whether nobody may see it.
    pub secret: bool,
    /// Whether it can never change once a cluster is installed.
    pub immutable: bool,
    /// Whether services restart when it changes.
    pub restart: bool,
    /// Who needs it.
    pub scope: Scope,
    /// Whether it may become known only on a host.
    pub late: bool,
    /// What it is for.
    pub description: String,
    /// A value that somebody could set.
    pub example: Option<Json>,
    /// The version of the distribution that it came with.
    pub since: Option<String>,
}

/// What a parameter is if nobody sets it.
#[derive(Debug, Clone)]
pub enum Default {
    /// It must be set.
    Required,
    /// This.
    Value(Json),
    /// The value of this; it must be set if that is none.
    From(Expression),
}

/// A value that follows from others.
#[derive(Debug, Clone)]
pub struct Computed {
    /// How.
    pub value: Expression,
    /// What it may be, where that is declared.
    pub kind: Option<Kind>,
    /// What it is for.
    pub description: String,
}

/// Who needs a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Hosts: it is in the bundle.
    Cluster,
    /// Only who installs: it never is.
    Controller,
}

/// What must hold between values.
#[derive(Debug, Clone)]
pub struct Rule {
    /// When it matters; `None`: always.
    pub when: Option<Expression>,
    /// What must hold.
    pub check: Expression,
    /// What is wrong if it does not, as a template.
    pub message: String,
    /// What to do then, as a template.
    pub help: Option<String>,
    /// The keys to show, the first one with its place.
    pub keys: Vec<String>,
}

/// A file that is made of values.
#[derive(Debug, Clone)]
pub struct Template {
    /// Its text.
    pub source: String,
    /// The values that it uses.
    pub names: BTreeSet<String>,
    /// The permission bits; secrets are for their owner alone whatever this says.
    pub mode: u32,
    /// Who owns it on a host, if it has a secret in it.
    pub user: Option<UserName>,
    /// When it is made; `None`: always.
    pub when: Option<Expression>,
    /// Where it lies.
    pub declared: Declared,
}

/// Why a definition cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// It has mistakes.
    #[error("the configuration that the distribution declares has mistakes")]
    Mistakes(Vec<Diagnostic>),
    /// It cannot be read.
    #[error("cannot read `{path}`")]
    Io {
        /// The file or folder.
        path: Utf8PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Definition {
    /// The parameters of this name.
    pub fn parameters<'d>(&'d self, name: &str) -> impl Iterator<Item = &'d Parameter> {
        self.setters.get(name).into_iter().flatten().filter_map(|setter| match &setter.how {
            How::Parameter(parameter) => Some(&**parameter),
            How::Computed(_) => None,
        })
    }

    /// The names that somebody can set, in the order of declaration.
    pub fn settable(&self) -> impl Iterator<Item = &str> {
        let names = self.setters.keys().map(String::as_str);
        names.filter(|name| self.parameters(name).next().is_some())
    }

    /// Whether nobody may see a parameter of this name.
    pub fn is_secret(&self, name: &str) -> bool {
        self.parameters(name).any(|parameter| parameter.secret)
    }
}
