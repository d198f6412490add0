//! What the reference says of configurations, from running it.

use std::collections::BTreeSet;

use config::Resolution;
use config::compat::reference_hash;
use serde_json::{Value, json};

use crate::world::{BASE, World};

fn unset(resolution: &Resolution) -> Vec<&str> {
    resolution.unset.iter().map(String::as_str).collect()
}

fn keys(resolution: &Resolution) -> BTreeSet<&str> {
    resolution.errors().into_keys().collect()
}

/// The base with other values for some keys.
fn base_with(changes: &[(&str, &str)]) -> String {
    let stays = |line: &&str| !changes.iter().any(|(key, _)| line.starts_with(key));
    let mut lines: Vec<String> = BASE.lines().filter(stays).map(str::to_owned).collect();
    lines.extend(changes.iter().map(|(key, value)| format!("{key}: {value}")));
    lines.join("\n")
}

#[track_caller]
fn is_unset(changes: &[(&str, &str)], names: &[&str]) {
    let resolution = World::new().resolve(&base_with(changes));
    assert_eq!(unset(&resolution), names);
    assert_eq!(keys(&resolution), BTreeSet::new());
}

#[test]
fn names_of_values_are_those_of_the_reference() {
    let vectors: [(Value, &str); 9] = [
        (json!(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        (json!("a"), "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        (json!({"a": "b"}), "b9a56f5fe137206360c62f6e5c12892a0b27b6d0"),
        (json!({"a": "b", "b": "c"}), "86b0f7017b8bf7abc5d606cea95441d0ceec570c"),
        (json!(["a", "b"]), "0421aff1ede93c890870a448b6fcfe3b0079f5ec"),
        (json!(["b", "a"]), "0421aff1ede93c890870a448b6fcfe3b0079f5ec"),
        (json!(1), "356a192b7913b04c54574d18c28d46e6395428ab"),
        (json!({"k": ["x", "y"], "n": {"z": "1"}}), "6dd8dd55edc75220e6eea1e2d51479d2a2373daf"),
        (json!(["mesos--abc", "marathon--def"]), "363d2a5d875df6277f0664e0cc16a102d99ebe3d"),
    ];
    for (value, expected) in vectors {
        assert_eq!(reference_hash(&value), expected, "{value}");
    }
}

#[test]
fn the_smallest_configuration_is_complete() {
    let resolution = World::new().good(BASE);
    assert!(resolution.diagnostics.is_empty());
    assert!(resolution.unset.is_empty());
}

#[test]
fn four_keys_must_always_be_set() {
    let resolution = World::new().resolve("{}");
    let names = ["bootstrap_url", "cluster_name", "exhibitor_storage_backend", "master_discovery"];
    assert_eq!(unset(&resolution), names);
    assert_eq!(keys(&resolution), BTreeSet::new());
}

#[test]
fn each_storage_back_end_needs_its_own_keys() {
    let storage = |backend| ("exhibitor_storage_backend", backend);
    is_unset(&[storage("zookeeper")], &["exhibitor_zk_hosts", "exhibitor_zk_path"]);
    is_unset(
        &[storage("aws_s3")],
        &["aws_region", "exhibitor_explicit_keys", "s3_bucket", "s3_prefix"],
    );
    is_unset(
        &[storage("aws_s3"), ("exhibitor_explicit_keys", "'true'")],
        &["aws_access_key_id", "aws_region", "s3_bucket", "s3_prefix"],
    );
    is_unset(&[storage("azure")], &["exhibitor_azure_account_name", "exhibitor_azure_prefix"]);
    is_unset(&[storage("shared_filesystem")], &["exhibitor_fs_config_dir"]);
}

#[test]
fn masters_behind_a_load_balancer_are_no_static_list() {
    let text = base_with(&[("master_discovery", "master_http_loadbalancer")]);
    let resolution = World::new().resolve(&text);
    assert_eq!(unset(&resolution), ["exhibitor_address", "num_masters"]);
    assert_eq!(
        keys(&resolution),
        BTreeSet::from(["exhibitor_storage_backend", "master_discovery"])
    );
}

#[test]
fn two_masters_are_no_majority() {
    let resolution = World::new().resolve(&base_with(&[("master_list", "[10.0.0.1, 10.0.0.2]")]));
    assert_eq!(keys(&resolution), BTreeSet::from(["num_masters"]));
}

#[test]
fn the_number_of_listed_masters_cannot_be_set() {
    let resolution = World::new().resolve(&base_with(&[("num_masters", "1")]));
    let errors = resolution.errors();
    assert_eq!(errors["num_masters"], "`num_masters`: must be calculated, but was explicitly set");
    assert_eq!(errors.len(), 1);
}

#[test]
fn the_clusters_own_name_server_is_no_resolver() {
    for resolver in ["198.51.100.1", "198.51.100.3:53"] {
        let text = base_with(&[("resolvers", &format!("['{resolver}']"))]);
        assert_eq!(keys(&World::new().resolve(&text)), BTreeSet::from(["resolvers"]));
    }
    World::new().good(&base_with(&[("resolvers", "['198.51.100.4', 198.51.100.10]")]));
}

#[test]
fn the_ensemble_is_sorted_and_the_list_stays_as_given() {
    let text = base_with(&[("master_list", "[10.0.0.3, 10.0.0.1, 10.0.0.2]")]);
    let resolution = World::new().good(&text);
    let value = |name| resolution.known(name).unwrap().value.clone();
    assert_eq!(value("exhibitor_static_ensemble"), "1:10.0.0.1,2:10.0.0.2,3:10.0.0.3");
    assert_eq!(value("master_list"), json!(["10.0.0.3", "10.0.0.1", "10.0.0.2"]));
    assert_eq!(value("num_masters"), 3);
    assert_eq!(value("master_quorum"), 2);
}

#[test]
fn lists_and_words_in_quotes_are_what_they_look_like() {
    let text = r#"
bootstrap_url: 'http://10.0.0.5:8080'
cluster_name: 'DC/OS'
exhibitor_storage_backend: 'zookeeper'
exhibitor_zk_hosts: '10.0.0.6:2181,10.0.0.7:2181'
exhibitor_zk_path: '/dcos'
master_discovery: static
master_list: '["10.0.0.1", "10.0.0.2", "10.0.0.3"]'
resolvers: '["8.8.8.8", "[2001:db8::53]:5353"]'
telemetry_enabled: 'false'
use_proxy: 'true'
http_proxy: http://proxy:3128
https_proxy: http://proxy:3128
no_proxy: '[".example.com"]'
ssh_port: '2222'
process_timeout: 120
dns_forward_zones: '{"a.contoso.com": ["1.1.1.1:53", "2.2.2.2:53"]}'
custom_checks: '{"cluster_checks": {"x": {"description": "x", "cmd": ["true"], "timeout": "1s"}}}'
"#;
    let resolution = World::new().good(text);
    assert!(resolution.diagnostics.is_empty());
    let value = |name| resolution.known(name).unwrap().value.clone();
    assert_eq!(value("master_list"), json!(["10.0.0.1", "10.0.0.2", "10.0.0.3"]));
    assert_eq!(value("use_proxy"), true);
    assert_eq!(value("ssh_port"), 2222);
    assert_eq!(
        value("no_proxy_final"),
        ".mesos,.thisdcos.directory,.dcos.directory,.zk,127.0.0.1,localhost,.example.com"
    );
    assert_eq!(value("resolvers_str"), "8.8.8.8,[2001:db8::53]:5353");
}
