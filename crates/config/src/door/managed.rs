//! Tools that look after a host again and again: they put the script there, and run it once for each
//! bundle.

use super::template::{PLAIN, PROGRAM, Templates};
use super::{DoorError, Files};

pub(super) fn puppet(templates: &Templates<'_>) -> Result<Files, DoorError> {
    let (name, module) = (&templates.facts.name, &templates.facts.module);
    templates.files(&[
        ("README.md".to_owned(), "puppet/README.md", PLAIN),
        (format!("{module}/manifests/init.pp"), "puppet/init.pp", PLAIN),
        (format!("{module}/files/{name}-install.sh"), "install.sh", PROGRAM),
    ])
}

pub(super) fn salt(templates: &Templates<'_>) -> Result<Files, DoorError> {
    let (name, module) = (&templates.facts.name, &templates.facts.module);
    templates.files(&[
        ("README.md".to_owned(), "salt/README.md", PLAIN),
        (format!("{module}/init.sls"), "salt/init.sls", PLAIN),
        (format!("{module}/{name}-install.sh"), "install.sh", PROGRAM),
    ])
}

pub(super) fn chef(templates: &Templates<'_>) -> Result<Files, DoorError> {
    let (name, module) = (&templates.facts.name, &templates.facts.module);
    templates.files(&[
        ("README.md".to_owned(), "chef/README.md", PLAIN),
        (format!("{module}/metadata.rb"), "chef/metadata.rb", PLAIN),
        (format!("{module}/attributes/default.rb"), "chef/attributes.rb", PLAIN),
        (format!("{module}/recipes/default.rb"), "chef/recipe.rb", PLAIN),
        (format!("{module}/files/{name}-install.sh"), "install.sh", PROGRAM),
    ])
}
