//! Masters that nobody knows beforehand: hosts find them through a load balancer and a shared store.

use std::fmt::Write as _;

use crate::world::{BASE, World};

const DISCOVERY: &str = "installation: http
bootstrap_url: https://bootstrap.example.com
cluster_name: Reef
master_discovery: master_http_loadbalancer
exhibitor_address: masters.example.com
num_masters: 5
";

#[test]
fn masters_behind_a_load_balancer_need_no_list() {
    let zookeeper = "exhibitor_storage_backend: zookeeper
exhibitor_zk_hosts: 192.0.2.5:2181,192.0.2.6:2181
exhibitor_zk_path: /reef
";
    let world = World::new();
    let text = format!("{DISCOVERY}{zookeeper}");
    assert_eq!(world.good(&text).known("master_quorum").unwrap().value, 3);
    insta::assert_snapshot!(world.files_text(&text));
}

#[test]
fn every_shared_store_has_its_own_settings() {
    let stores = [
        "exhibitor_storage_backend: aws_s3\naws_region: us-west-2\ns3_bucket: masters\n\
         s3_prefix: reef/masters\nexhibitor_explicit_keys: false\n",
        "exhibitor_storage_backend: aws_s3\naws_region: us-west-2\ns3_bucket: masters\n\
         s3_prefix: reef/masters\nexhibitor_explicit_keys: true\naws_access_key_id: AKIA1\n\
         aws_secret_access_key: not/a+secret=\n",
        "exhibitor_storage_backend: azure\nexhibitor_azure_account_name: reef\n\
         exhibitor_azure_prefix: masters\nexhibitor_azure_account_key: not/a+key==\n",
        "exhibitor_storage_backend: shared_filesystem\nexhibitor_fs_config_dir: /mnt/masters\n",
    ];
    let world = World::new();
    let mut shown = String::new();
    for store in stores {
        let files = world.files(&format!("{DISCOVERY}{store}"));
        for (path, file) in files.iter().filter(|(path, _)| path.contains("exhibitor")) {
            let _ =
                write!(shown, "=== {path} {:o} {:?}\n{}", file.mode, file.audience, file.content);
        }
        shown += "\n";
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn the_files_of_listed_masters() {
    let mut world = World::new();
    world.write("genconf/ip6-detect", "#!/bin/sh\necho ::1\n", 0o755);
    world.write("genconf/fault-domain-detect", "#!/bin/sh\necho '{}'\n", 0o755);
    world.distribution = package::distribution::Distribution::named("reef", "1");
    let more = "use_proxy: true
http_proxy: http://proxy.example.com:3128
https_proxy: http://proxy.example.com:3128
no_proxy: [.example.com]
resolvers: [192.0.2.53, '2001:db8::53']
dns_search: a.example.com  b.example.com
dns_forward_zones: {corp.example.com: ['192.0.2.54:5353']}
dns_bind_ip_blacklist: [192.0.2.200]
ip6_detect_filename: genconf/ip6-detect
fault_domain_enabled: true
custom_checks:
  cluster_checks:
    quota: {description: there is room, cmd: [quota, --check], timeout: 1m30s}
  node_checks:
    checks:
      disk: {description: the disk is mounted, cmd: [mountpoint, /data], timeout: 5s, roles: [agent]}
    prestart: [disk]
";
    let text = format!("{BASE}{more}").replace("[192.0.2.11]", "[m3, m1, m2]");
    insta::assert_snapshot!(world.files_text(&text));
}
