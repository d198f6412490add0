//! Whether somebody else's installation is where ours will be, or what is left of one.

use camino::Utf8Path;

use super::judged::{Judged, bad, doubt, good};

/// What was found where an installation will be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// The names in the install root.
    pub(super) names: Vec<String>,
    /// The generation that is live, if there is one of ours.
    pub(super) live: Option<u64>,
    /// Whether a receipt says what an installation of ours made.
    pub(super) has_receipt: bool,
    /// Units of the installer that are there.
    pub(super) units: Vec<String>,
}

/// What this program itself puts there before anything is live, and what a new volume has.
const KNOWN: [&str; 9] = [
    "packages",
    "generations",
    "late",
    "keys",
    "log",
    "tool",
    "trust.json",
    "trial.json",
    "lost+found",
];

pub(super) fn judge(root: &Utf8Path, found: &Found) -> Judged {
    if let Some(live) = found.live {
        return good(format!("generation {live} is live in `{root}`: this is no new host"));
    }
    if found.has_receipt {
        return good(format!("`{root}` keeps what an earlier installation left for this one"));
    }
    let is_foreign = |name: &&String| !name.starts_with('.') && !KNOWN.contains(&name.as_str());
    let foreign: Vec<&str> = found.names.iter().filter(is_foreign).map(String::as_str).collect();
    if foreign.contains(&"active") && foreign.contains(&"environment") {
        return doubt(
            format!("`{root}` holds an installation of the reference, which will be taken over"),
            "keep a copy of it, or remove it for a new installation",
        );
    }
    let mut remains = Vec::new();
    if !foreign.is_empty() {
        let more = if foreign.len() > 5 { ", …" } else { "" };
        let some = foreign[..foreign.len().min(5)].join(", ");
        remains.push(format!("`{root}` has {some}{more} in it"));
    }
    if !found.units.is_empty() {
        remains.push(format!("there is {}", found.units.join(", ")));
    }
    if remains.is_empty() {
        return good(format!("nothing is in `{root}`"));
    }
    bad(
        format!("remains of an installation that is not ours: {}", remains.join("; ")),
        "uninstall it with the program that installed it, or move these away",
    )
}

#[cfg(test)]
mod tests {
    use package::preflight::Severity;

    use super::super::judged::Level;
    use super::*;

    fn level(names: &[&str], change: impl FnOnce(&mut Found)) -> Level {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let mut found = Found { names, ..Found::default() };
        change(&mut found);
        judge("/opt/atoll".into(), &found).level(Severity::Error)
    }

    #[test]
    fn only_what_is_not_ours_is_in_the_way() {
        assert_eq!(level(&[], |_| {}), Level::Ok);
        assert_eq!(level(&["lost+found"], |_| {}), Level::Ok);
        assert_eq!(level(&[".lock", "packages"], |_| {}), Level::Ok);
        assert_eq!(level(&["bin", "current", "data"], |found| found.live = Some(3)), Level::Ok);
        assert_eq!(level(&["receipt.json"], |found| found.has_receipt = true), Level::Ok);
        assert_eq!(level(&["data"], |_| {}), Level::Error);
        assert_eq!(level(&["active", "bin", "environment"], |_| {}), Level::Warning);
        let units = ["/etc/systemd/system/atoll.target".to_owned()];
        assert_eq!(level(&[], |found| found.units = units.into()), Level::Error);
    }
}
