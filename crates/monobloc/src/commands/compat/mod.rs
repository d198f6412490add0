//! Old habits: the reference's programs, as thin translations.

pub(crate) mod installer;
pub(crate) mod mkpanda;
pub(crate) mod pkgpanda;
