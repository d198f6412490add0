//! Ansible: a role, an inventory with a group for each role of hosts, and a playbook.

use super::template::{PLAIN, PROGRAM, Templates};
use super::{DoorError, Files};

pub(super) fn files(templates: &Templates<'_>) -> Result<Files, DoorError> {
    let (name, module) = (&templates.facts.name, &templates.facts.module);
    let role = format!("roles/{module}");
    templates.files(&[
        ("README.md".to_owned(), "ansible/README.md", PLAIN),
        ("inventory.yaml".to_owned(), "ansible/inventory.yaml", PLAIN),
        ("site.yaml".to_owned(), "ansible/site.yaml", PLAIN),
        (format!("{role}/defaults/main.yaml"), "ansible/defaults.yaml", PLAIN),
        (format!("{role}/tasks/main.yaml"), "ansible/tasks.yaml", PLAIN),
        (format!("{role}/files/{name}-install.sh"), "install.sh", PROGRAM),
    ])
}
