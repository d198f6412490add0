//! Promise: only what is well, and only a version that the distribution allows, is upgraded.

use host::install::{Install, InstallError, Installed, Upgrade};

use crate::install::Scene;

/// A publication with this version, which packages tell as a bundle's metadata does.
fn publish(scene: &mut Scene, version: &str, sequence: u64, upgrade_from: &[&str]) {
    let bundle = &mut scene.publisher.bundle;
    version.clone_into(&mut bundle.distribution.version);
    let allowed: Vec<String> = upgrade_from.iter().map(|&from| from.to_owned()).collect();
    bundle.distribution.upgrade_from = Some(allowed).filter(|allowed| !allowed.is_empty());
    let of_roles = bundle.packages.values_mut().flat_map(|all| all.values_mut());
    of_roles.for_each(|ids| ids.retain(|id| id.name().as_str() != "dcos-metadata"));
    let id = format!("dcos-metadata--{version}");
    let text = format!(r#"{{"version":"{version}"}}"#);
    let archive = scene.fake.world.archive(&id, "{}", &[("etc/dcos-version.json", &text)]);
    scene.publisher.package("master", &archive);
    scene.publisher.publish(sequence, None);
}

fn upgrade(
    scene: &Scene,
    from_version: Option<&str>,
    skip_checks: bool,
) -> Result<Installed, InstallError> {
    let from_version = from_version.map(str::to_owned);
    let upgrade = Upgrade { from_version, skip_checks };
    scene.install(&Install { upgrade: Some(upgrade), ..scene.request(&[]) })
}

fn installed(version: &str) -> Scene {
    let mut scene = Scene::new();
    publish(&mut scene, version, 1, &[]);
    scene.master().unwrap();
    scene
}

#[test]
fn a_host_becomes_the_new_version_and_again_nothing_is_done() {
    let mut scene = installed("1.0");
    publish(&mut scene, "1.1", 2, &["1.0", "1.1"]);
    let done = upgrade(&scene, Some("1.0"), false).unwrap();
    assert_eq!(done.version, "1.1");
    assert_eq!(scene.fake.world.host.installed_version().unwrap().as_deref(), Some("1.1"));
    // Who is upgraded already is not asked where it came from.
    assert!(upgrade(&scene, Some("1.0"), false).unwrap().plan.is_empty());
}

#[test]
fn a_version_that_the_distribution_does_not_allow_is_refused_by_every_command() {
    let mut scene = installed("1.0");
    publish(&mut scene, "3.0", 2, &["2.*", "1.9"]);
    let said = "version 1.0 is installed, which cannot become 3.0: it follows 2.*, 1.9";
    assert_eq!(upgrade(&scene, None, false).unwrap_err().to_string(), said);
    assert_eq!(scene.master().unwrap_err().to_string(), said);
    publish(&mut scene, "2.1", 3, &["1.*"]);
    upgrade(&scene, None, false).unwrap();
    publish(&mut scene, "3.0", 4, &["2.*", "1.9"]);
    upgrade(&scene, None, false).unwrap();
}

#[test]
fn a_script_for_another_version_names_both() {
    let mut scene = installed("1.0");
    publish(&mut scene, "1.2", 2, &[]);
    let error = upgrade(&scene, Some("1.1"), false).unwrap_err();
    let said = "version 1.0 is installed, and this upgrade is from 1.1 to 1.2";
    assert_eq!(error.to_string(), said);
    assert_eq!(scene.fake.world.host.installed_version().unwrap().as_deref(), Some("1.0"));
}

#[test]
fn nothing_is_upgraded_where_nothing_is_installed() {
    let mut scene = Scene::new();
    publish(&mut scene, "1.0", 1, &[]);
    let request = Install { upgrade: Some(Upgrade::default()), ..scene.request(&["master"]) };
    let error = scene.install(&request).unwrap_err();
    assert!(matches!(error, InstallError::NotInstalled), "{error:?}");
}

#[test]
fn a_host_that_is_ill_is_left_alone_unless_somebody_says_so() {
    let mut scene = Scene::new();
    let sick = scene.fake.world.top.join("sick");
    let check = format!("#!/bin/sh\n! [ -e {sick} ]\n");
    let archive = scene.fake.world.archive("health--1", "{}", &[("check/pulse", &check)]);
    scene.publisher.package("master", &archive);
    publish(&mut scene, "1.0", 1, &[]);
    scene.master().unwrap();
    publish(&mut scene, "1.1", 2, &[]);
    fs_err::write(&sick, "").unwrap();
    let error = upgrade(&scene, None, false).unwrap_err();
    let said = error.to_string();
    assert!(
        said.starts_with(
            "what is live fails its checks, and was left alone:\n  pulse of health--1"
        ),
        "{said}"
    );
    assert_eq!(scene.fake.world.host.installed_version().unwrap().as_deref(), Some("1.0"));
    // The gate is about before; the trial afterwards goes back if it is still so.
    let error = upgrade(&scene, None, true).unwrap_err();
    assert!(matches!(error, InstallError::Host(host::HostError::Returned { .. })), "{error:?}");
    assert_eq!(scene.fake.world.host.installed_version().unwrap().as_deref(), Some("1.0"));
    fs_err::remove_file(&sick).unwrap();
    upgrade(&scene, None, false).unwrap();
}
