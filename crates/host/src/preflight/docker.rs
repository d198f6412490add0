//! Docker, where a distribution needs it: asked for JSON, so that no release can break the answer by
//! other words.

use std::collections::BTreeSet;

use package::preflight::Version;
use serde_json::Value;

use super::facts::Said;
use super::judged::{Judged, bad, doubt, good, worst};

/// What Docker was asked, and what it said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Docker {
    /// `docker version --format '{{json .}}'`.
    pub(super) version: Said,
    /// `docker info --format '{{json .Driver}}'`.
    pub(super) driver: Said,
    /// `docker info --format '{{json .DriverStatus}}'`.
    pub(super) status: Said,
}

pub(super) fn judge(
    docker: &Docker,
    at_least: Option<&Version>,
    drivers: &BTreeSet<String>,
) -> Judged {
    if !docker.version.is_there {
        return bad("there is no `docker`", "install Docker as its makers tell");
    }
    let version: Value = serde_json::from_str(docker.version.text.trim()).unwrap_or_default();
    let of = |side: &str| version[side]["Version"].as_str();
    // It answers for the client alone if nobody serves.
    let Some(server) = of("Server") else {
        let reason = docker.version.reason();
        return bad(
            format!("Docker does not run: {reason}"),
            "start it: `systemctl enable --now docker`, and look at `docker info`",
        );
    };
    let client = of("Client").unwrap_or(server);
    let mut judged = vec![judge_version(client, server, at_least)];
    judged.push(judge_storage(docker, drivers));
    worst(&judged)
}

fn judge_version(client: &str, server: &str, at_least: Option<&Version>) -> Judged {
    let Some(at_least) = at_least else { return good(format!("version {server}")) };
    for (side, found) in [("server", server), ("client", client)] {
        match Version::leading(found) {
            Some(version) if version >= *at_least => {}
            Some(_) => {
                return bad(
                    format!("the {side} has version {found}, at least {at_least} needed"),
                    "update Docker",
                );
            }
            None => {
                let found = format!("the {side} says version `{}`", found.escape_debug());
                return doubt(found, "look at `docker version`");
            }
        }
    }
    good(format!("version {server}, at least {at_least} needed"))
}

fn judge_storage(docker: &Docker, drivers: &BTreeSet<String>) -> Judged {
    let driver: Value = serde_json::from_str(docker.driver.text.trim()).unwrap_or_default();
    let Some(driver) = driver.as_str() else {
        return doubt("its storage driver cannot be told", "look at `docker info`");
    };
    let status: Value = serde_json::from_str(docker.status.text.trim()).unwrap_or_default();
    let pairs = status.as_array().map_or(&[][..], Vec::as_slice);
    let is_loop =
        |pair: &Value| pair[0].as_str().is_some_and(|key| key.to_lowercase().contains("loop file"));
    let known: Vec<&str> = drivers.iter().map(String::as_str).collect();
    if driver == "devicemapper" && pairs.iter().any(is_loop) {
        return bad(
            "storage driver devicemapper on a loop device, which loses data under load",
            "use the storage driver overlay2",
        );
    }
    if !drivers.is_empty() && !drivers.contains(driver) {
        let fix =
            format!("set `storage-driver` in /etc/docker/daemon.json to {}", known.join(" or "));
        return bad(format!("storage driver {driver}, expected {}", known.join(" or ")), fix);
    }
    good(format!("storage driver {driver}"))
}

#[cfg(test)]
mod tests {
    use package::preflight::Severity;

    use super::super::judged::Level;
    use super::*;

    fn said(text: &str) -> Said {
        Said { is_there: true, is_good: true, text: text.to_owned(), errors: String::new() }
    }

    fn docker(version: &str, driver: &str, status: &str) -> Docker {
        let version = format!(
            r#"{{"Client":{{"Version":"{version}","ApiVersion":"1.40"}},"Server":{{"Version":"{version}"}}}}"#
        );
        Docker { version: said(&version), driver: said(driver), status: said(status) }
    }

    fn shown(docker: &Docker) -> String {
        let judged = judge(docker, Some(&"1.13".parse().unwrap()), &BTreeSet::new());
        format!("{:?}: {}", judged.level(Severity::Error), judged.found)
    }

    // Defect 18 of the reference: versions were cut out of text for people, which new releases changed.
    #[test]
    fn versions_of_every_release_are_understood() {
        for version in
            ["18.09.1", "19.03.0-ce", "20.10.5+dfsg1", "1.13.1", "24.0.7-1.el8", "28.0.0-rc.1"]
        {
            let found = shown(&docker(version, r#""overlay2""#, "[]"));
            assert!(found.starts_with("Ok: "), "{version}: {found}");
        }
        let old = shown(&docker("1.6.2", r#""overlay2""#, "[]"));
        assert_eq!(old, "Error: the server has version 1.6.2, at least 1.13 needed");
        let odd = shown(&docker("dev", r#""overlay2""#, "[]"));
        assert_eq!(odd, "Warning: the server says version `dev`");
    }

    #[test]
    fn docker_that_does_not_run_is_no_matter_of_versions() {
        assert_eq!(shown(&Docker::default()), "Error: there is no `docker`");
        let mut stopped = docker("1", "null", "null");
        stopped.version = Said {
            is_good: false,
            text: r#"{"Client":{"Version":"20.10.5"},"Server":null}"#.to_owned(),
            errors: "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\n"
                .to_owned(),
            ..said("")
        };
        assert_eq!(
            shown(&stopped),
            "Error: Docker does not run: Cannot connect to the Docker daemon at unix:///var/run/docker.sock."
        );
        for garbage in ["", "Client: Docker Engine", "[]", "{\"Server\": 7}"] {
            let odd = Docker { version: said(garbage), ..Docker::default() };
            assert!(shown(&odd).starts_with("Error: Docker does not run"), "{garbage}");
        }
    }

    // Defect 7 of the reference: this one ended the whole preflight.
    #[test]
    fn a_loop_device_is_refused() {
        let status = r#"[["Pool Name","docker-8:1"],["Data loop file","/var/lib/docker/data"]]"#;
        let found = shown(&docker("20.10.1", r#""devicemapper""#, status));
        assert_eq!(
            found,
            "Error: storage driver devicemapper on a loop device, which loses data under load"
        );
        let level = judge(&docker("1", "7", "{}"), None, &BTreeSet::new()).level(Severity::Error);
        assert_eq!(level, Level::Warning);
    }
}
