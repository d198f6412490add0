//! Which names are, or may be made of, what fewer may have: the controller's values and secrets. It
//! follows from the declarations alone, so that no value of the one kind decides about the other.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::{Default, How, Scope, Setter};

/// Names that fewer may have.
#[derive(Debug, Clone, std::default::Default)]
pub(crate) struct Reach {
    /// Those that only the controller needs.
    pub(crate) controller: BTreeSet<String>,
    /// Those that nobody may see.
    pub(crate) secret: BTreeSet<String>,
}

impl Reach {
    /// What the declarations say, and what follows from it.
    pub(super) fn of(setters: &IndexMap<String, Vec<Setter>>) -> Self {
        let mut reach = Self::default();
        for (name, setter) in each(setters) {
            if let How::Parameter(parameter) = &setter.how {
                if parameter.scope == Scope::Controller {
                    reach.controller.insert(name.clone());
                }
                if parameter.secret {
                    reach.secret.insert(name.clone());
                }
            }
        }
        spread(setters, &mut reach.controller);
        spread(setters, &mut reach.secret);
        reach
    }
}

/// Adds every computed value that is made of one of these.
fn spread(setters: &IndexMap<String, Vec<Setter>>, names: &mut BTreeSet<String>) {
    loop {
        let before = names.len();
        for (name, setter) in each(setters) {
            if matches!(setter.how, How::Computed(_))
                && uses(setter).any(|used| names.contains(used))
            {
                names.insert(name.clone());
            }
        }
        if names.len() == before {
            return;
        }
    }
}

/// Every way for every name.
pub(super) fn each(
    setters: &IndexMap<String, Vec<Setter>>,
) -> impl Iterator<Item = (&String, &Setter)> {
    setters.iter().flat_map(|(name, all)| all.iter().map(move |one| (name, one)))
}

/// The names that decide what a setter gives, and whether it does.
pub(super) fn uses(setter: &Setter) -> impl Iterator<Item = &String> {
    let made_of = match &setter.how {
        How::Computed(computed) => Some(&computed.value),
        How::Parameter(parameter) => match &parameter.default {
            Default::From(from) => Some(from),
            Default::Required | Default::Value(_) => None,
        },
    };
    setter.when.iter().chain(made_of).flat_map(|expression| &expression.names)
}
