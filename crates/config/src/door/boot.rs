//! Doors of hosts that install themselves at first boot: user data, a template of AWS around it, and a
//! unit for images. All of them have the same unit and the same script.

use minijinja::{Value, context};

use super::template::{PLAIN, PROGRAM, Templates, put};
use super::{DoorError, Files};

pub(super) fn cloud_init(templates: &Templates<'_>) -> Result<Files, DoorError> {
    let mut files = templates.files(&[("README.md".to_owned(), "cloud-init.md", PLAIN)])?;
    for role in &templates.facts.roles {
        let text = templates.user_data(role, "key-command.sh")?;
        put(&mut files, &format!("{}.yaml", role.name), text, PLAIN)?;
    }
    Ok(files)
}

pub(super) fn formation(templates: &Templates<'_>) -> Result<Files, DoorError> {
    let mut files = templates.files(&[("README.md".to_owned(), "cloudformation.md", PLAIN)])?;
    let roles = templates.facts.roles.iter();
    let user_data = roles
        .map(|role| templates.user_data(role, "key-command-aws.sh"))
        .collect::<Result<Vec<String>, DoorError>>()?;
    let text = templates.text("cloudformation.yaml", context! { user_data })?;
    put(&mut files, "template.yaml", text, PLAIN)?;
    Ok(files)
}

pub(super) fn image(templates: &Templates<'_>) -> Result<Files, DoorError> {
    let name = &templates.facts.name;
    let unit = format!("root/etc/systemd/system/{name}-first-boot.service");
    let mut files = templates.files(&[
        ("README.md".to_owned(), "image.md", PLAIN),
        (format!("root/usr/local/sbin/{name}-install"), "install.sh", PROGRAM),
        (unit, "first-boot.service", PLAIN),
    ])?;
    if templates.facts.needs_keys {
        let text = templates.text("key-command.sh", Value::UNDEFINED)?;
        put(&mut files, &format!("root/etc/{name}-install/key-command"), text, PROGRAM)?;
    }
    Ok(files)
}
