//! What a new configuration changes of a cluster that runs with an old one. What follows from a change
//! is listed under it, so that a surprise is one.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::definition::{Default, Definition, How, Scope, Setter};
use crate::kind::MASK;
use crate::resolve::{Origin, Resolution, State};

/// A value that is another one, or that is there only before or after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The name.
    pub name: String,
    /// What happens to it.
    pub kind: ChangeKind,
    /// The value before; of a secret, that there was one.
    pub old: Option<Shown>,
    /// The value after.
    pub new: Option<Shown>,
    /// What it means for a cluster that is installed.
    pub effect: Effect,
    /// Whether hosts get the value; if not, they are unaffected.
    pub for_hosts: bool,
    /// The changes that it follows from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
    /// The changes that follow from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Change>,
}

/// What happens to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It begins to exist.
    Added,
    /// It ends to exist.
    Removed,
    /// It is another.
    Changed,
}

/// A value as it can be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// This, or the mask of a secret.
    Value(Json),
    /// Each host has a value of its own.
    Late,
}

/// What a change means for a cluster that is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// No service restarts.
    Harmless,
    /// Services restart.
    Restart,
    /// A cluster that is installed cannot follow it.
    Immutable,
}

impl Change {
    /// What it means together with all that follows from it.
    pub fn total_effect(&self) -> Effect {
        let below = self.consequences.iter().map(Self::total_effect);
        below.fold(self.effect, Effect::max)
    }
}

impl Definition {
    /// What changes from `old` to `new`, in the order of declaration. Only for resolutions that are
    /// complete: what has no value cannot be compared.
    pub fn diff(&self, old: &Resolution, new: &Resolution) -> Vec<Change> {
        let comparison = Comparison { definition: self, old, new };
        let mut changed: IndexMap<&str, Change> = IndexMap::new();
        for name in self.setters.keys() {
            changed.extend(comparison.change(name).map(|change| (name.as_str(), change)));
        }
        let mut because: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in changed.keys() {
            let names = comparison.follows_from(name);
            let names = changed.keys().filter(|one| *one != name && names.contains(**one));
            because.insert(name, names.copied().collect());
        }
        let mut roots: IndexMap<&str, Change> = IndexMap::new();
        let mut consequences: Vec<(&str, Change)> = Vec::new();
        for (name, change) in &changed {
            match root_of(name, &because) {
                root if root == *name => {
                    roots.insert(name, change.clone());
                }
                root => {
                    let because = because[name].iter().map(|name| (*name).to_owned()).collect();
                    consequences.push((root, Change { because, ..change.clone() }));
                }
            }
        }
        for (root, mut change) in consequences {
            let Some(cause) = roots.get_mut(root) else { continue };
            if !comparison.is_declared_of(&change.name) {
                change.effect = cause.effect;
            }
            cause.consequences.push(change);
        }
        roots.into_values().collect()
    }
}

/// The change that somebody made from which this one follows; itself, if that is not to be found.
fn root_of<'n>(name: &'n str, because: &BTreeMap<&'n str, Vec<&'n str>>) -> &'n str {
    let (mut next, mut seen) = (vec![name], BTreeSet::new());
    while let Some(at) = next.pop() {
        match because.get(at).map(Vec::as_slice) {
            None | Some([]) => return at,
            Some(causes) if seen.insert(at) => next.extend(causes.iter().rev()),
            Some(_) => {}
        }
    }
    name
}

struct Comparison<'a> {
    definition: &'a Definition,
    old: &'a Resolution,
    new: &'a Resolution,
}

impl Comparison<'_> {
    fn change(&self, name: &str) -> Option<Change> {
        let (old, new) = (raw(self.old, name), raw(self.new, name));
        let kind = match (&old, &new) {
            (None, None) => return None,
            (Some(old), Some(new)) if old == new => return None,
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Removed,
            (Some(_), Some(_)) => ChangeKind::Changed,
        };
        let is_secret = [self.old, self.new]
            .iter()
            .any(|side| side.known(name).is_some_and(|known| known.secret));
        let is_secret = is_secret || self.definition.is_secret(name);
        let shown = |value: Option<Shown>| match value {
            Some(Shown::Value(_)) if is_secret => Some(Shown::Value(json!(MASK))),
            value => value,
        };
        Some(Change {
            name: name.to_owned(),
            kind,
            old: shown(old),
            new: shown(new),
            effect: self.effect(name, kind),
            for_hosts: self.is_for_hosts(name),
            because: Vec::new(),
            consequences: Vec::new(),
        })
    }

    /// What begins or ends to exist is judged by what decided that.
    fn effect(&self, name: &str, kind: ChangeKind) -> Effect {
        let mut parameters = self.definition.parameters(name).peekable();
        if parameters.peek().is_none() {
            return if self.is_for_hosts(name) { Effect::Restart } else { Effect::Harmless };
        }
        let effects = parameters.map(|parameter| match () {
            () if parameter.immutable && kind == ChangeKind::Changed => Effect::Immutable,
            () if parameter.restart => Effect::Restart,
            () => Effect::Harmless,
        });
        effects.max().unwrap_or(Effect::Harmless)
    }

    fn is_for_hosts(&self, name: &str) -> bool {
        let scopes = [self.old, self.new].map(|side| side.known(name).map(|known| known.scope));
        let known: Vec<Scope> = scopes.into_iter().flatten().collect();
        known.is_empty() || known.contains(&Scope::Cluster)
    }

    /// Whether its declaration says what a change means, which only that of a parameter does.
    fn is_declared_of(&self, name: &str) -> bool {
        self.definition.parameters(name).next().is_some()
    }

    /// The names that decide a value which nobody set, before and after.
    fn follows_from(&self, name: &str) -> BTreeSet<&str> {
        let is_set = |side: &Resolution| match side.states.get(name) {
            Some(State::Known(known)) => matches!(known.origin, Origin::File { .. }),
            Some(State::Late) => true,
            _ => false,
        };
        let setters = self.definition.setters.get(name).into_iter().flatten();
        let conditions = setters.clone().filter_map(|setter| setter.when.as_ref());
        let mut names: BTreeSet<&str> =
            conditions.flat_map(|when| when.names.iter().map(String::as_str)).collect();
        // What somebody set follows from nothing but that it may be there at all.
        if is_set(self.old) == is_set(self.new) && !is_set(self.new) {
            names.extend(setters.flat_map(made_of));
        } else if raw(self.old, name).is_some() && raw(self.new, name).is_some() {
            names.clear();
        }
        names
    }
}

/// The value of a name, secret or not.
fn raw(side: &Resolution, name: &str) -> Option<Shown> {
    match side.states.get(name) {
        Some(State::Known(known)) => Some(Shown::Value(known.value.clone())),
        Some(State::Late) => Some(Shown::Late),
        _ => None,
    }
}

/// The names that a value is made of if nobody sets it.
fn made_of(setter: &Setter) -> impl Iterator<Item = &str> {
    let expression = match &setter.how {
        How::Computed(computed) => Some(&computed.value),
        How::Parameter(parameter) => match &parameter.default {
            Default::From(from) => Some(from),
            Default::Required | Default::Value(_) => None,
        },
    };
    expression.into_iter().flat_map(|expression| expression.names.iter().map(String::as_str))
}
