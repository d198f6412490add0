//! The small scripts that hosts run: they get the program, verify it, and hand over to it.

use package::Sha256;
use package::bundle::BundleFile;
use package::path::PackagePath;

use super::{Job, Script};

const HAND_OVER: &str = include_str!("../../scripts/hand_over.sh");
const INSTALL: &str = include_str!("../../scripts/install.sh");
const UPGRADE: &str = include_str!("../../scripts/upgrade.sh");

/// The name under which the script that installs a distribution is served.
pub(crate) fn install_name(distribution: &str) -> String {
    format!("{distribution}_install.sh")
}

/// The program that a bundle brings.
pub(super) struct Program {
    pub(super) path: PackagePath,
    pub(super) file: BundleFile,
}

impl Script {
    /// The one that installs what is published.
    pub(super) fn install(job: &Job<'_>, program: &Program) -> Self {
        let name = install_name(&job.release.distribution.name);
        Self::new(name, fill(INSTALL, job, program, None))
    }

    /// The one that upgrades hosts with the version `from` to the bundle `to`; it lies in `folder`.
    pub(super) fn upgrade(
        job: &Job<'_>,
        program: &Program,
        (from, to): (&str, &Sha256),
        folder: &str,
    ) -> Self {
        let path = format!("{folder}/{}_node_upgrade.sh", job.release.distribution.name);
        Self::new(path, fill(UPGRADE, job, program, Some((from, to))))
    }

    fn new(path: String, content: Vec<u8>) -> Self {
        let sha256 = Sha256::of(&content);
        Self { path, content, sha256 }
    }
}

fn fill(
    template: &str,
    job: &Job<'_>,
    program: &Program,
    upgrade: Option<(&str, &Sha256)>,
) -> Vec<u8> {
    let distribution = &job.release.distribution;
    let roles: Vec<&str> = job.definition.roles.iter().map(package::id::RoleName::as_str).collect();
    let values = [
        ("name", distribution.name.as_str()),
        ("version", &distribution.version),
        ("install_root", distribution.install_root.as_str()),
        ("url", &job.address().unwrap_or_default()),
        ("roles", &roles.join(" ")),
        ("program_path", program.path.as_str()),
        ("program_sha256", &program.file.sha256.to_string()),
        ("program_megabytes", &program.file.size.div_ceil(1_000_000).to_string()),
        ("public_key", &job.signer.public.to_string()),
    ];
    let is_used = |name: &str| {
        template.contains(&format!("${name}")) || HAND_OVER.contains(&format!("${name}"))
    };
    let values = values.iter().filter(|(name, _)| is_used(name));
    let values: Vec<String> =
        values.map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    let named = package::distribution::Distribution::called(&distribution.name, "");
    let mut places = vec![format!("--distribution {}", quoted(&distribution.name))];
    let own = [
        ("--root", &distribution.install_root, &named.install_root),
        ("--config-dir", &distribution.config_directory, &named.config_directory),
        ("--state-dir-root", &distribution.state_directory, &named.state_directory),
    ];
    for (option, path, usual) in own {
        if path != usual {
            places.push(format!("{option} {}", quoted(path.as_str())));
        }
    }
    if places.len() > 1 {
        places.push("--own-places".to_owned());
    }
    let comment = format!("{} {}", distribution.name, distribution.version);
    let comment: String = comment.chars().filter(|char| !char.is_control()).collect();
    let parts = [
        ("@HAND_OVER@", HAND_OVER.trim_end()),
        ("@VALUES@", &values.join("\n")),
        ("@PLACES@", &places.join(" ")),
        ("@FROM_VERSION@", &quoted(upgrade.map_or("", |(from, _)| from))),
        ("@BUNDLE@", &quoted(&upgrade.map(|(_, to)| to.to_string()).unwrap_or_default())),
        ("@NAME_COMMENT@", &comment),
    ];
    replaced(template, &parts).into_bytes()
}

/// The text with every name in `parts` replaced; what comes in for one is not looked at again.
fn replaced(text: &str, parts: &[(&str, &str)]) -> String {
    let mut made = String::new();
    let mut rest = text;
    let next = |rest: &str| {
        let found =
            parts.iter().filter_map(|(name, value)| Some((rest.find(name)?, *name, *value)));
        found.min_by_key(|(at, ..)| *at).map(|(at, name, value)| (at, name.len(), value.to_owned()))
    };
    while let Some((at, length, value)) = next(rest) {
        made.push_str(&rest[..at]);
        made.push_str(&value);
        rest = &rest[at + length..];
    }
    made + rest
}

/// A word that means itself for a shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl Job<'_> {
    /// Where hosts find what is published, if the configuration says it.
    pub(super) fn address(&self) -> Option<String> {
        let values = self.resolution.cluster_values();
        let url = values.get("bootstrap_url")?.as_str()?;
        Some(url.trim_end_matches('/').to_owned())
    }
}
