//! What the other commands need to know of a cluster, as files that they take as they are.

use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use package::durable;

use crate::access::KNOWN_HOSTS;
use crate::error::LocalError;
use crate::record::{ClusterRecord, Role};

/// Where hosts look for the bundle on the machine.
const BUNDLE_PORT: u16 = 8080;

/// The configuration of the cluster in `folder`. Whatever is made of it lies beside it, and goes with it.
pub(crate) fn config(folder: &Utf8Path) -> Utf8PathBuf {
    folder.join("genconf/config.yaml")
}

/// The list of the hosts of the cluster in `folder`.
pub(crate) fn hosts(folder: &Utf8Path) -> Utf8PathBuf {
    folder.join("inventory.yaml")
}

/// Whether there is a configuration: one without masters is none.
pub(crate) fn has_config(cluster: &ClusterRecord) -> bool {
    cluster.hosts.iter().any(|host| host.role == Some(Role::Master))
}

/// Writes both, the configuration only if there are masters.
pub(crate) fn write(
    folder: &Utf8Path,
    cluster: &ClusterRecord,
    key: &Utf8Path,
) -> Result<(), LocalError> {
    durable::write(&hosts(folder), list(cluster, key).as_bytes())?;
    if has_config(cluster) {
        let config = config(folder);
        durable::create_folders(config.parent().unwrap_or(folder))?;
        durable::write(&config, configuration(cluster, key).as_bytes())?;
    }
    Ok(())
}

/// Names, addresses and paths of ours need no quotes in YAML.
fn list(cluster: &ClusterRecord, key: &Utf8Path) -> String {
    let mut text = format!("known_hosts: {KNOWN_HOSTS}\nhosts:\n");
    for host in &cluster.hosts {
        let role = host.role.map_or("", Role::as_str);
        let _ = write!(
            text,
            "  - name: {}\n    address: {}\n    roles: [{role}]\n    user: root\n    key: {key}\n    \
             labels: {{image: {}}}\n",
            host.name, host.address, host.image
        );
    }
    text
}

fn configuration(cluster: &ClusterRecord, key: &Utf8Path) -> String {
    let of = |role| {
        let hosts = cluster.hosts.iter().filter(|host| host.role == Some(role));
        hosts.map(|host| host.address.to_string()).collect::<Vec<_>>().join(", ")
    };
    let machine = cluster.subnet.machine();
    format!(
        "# The cluster `{name}` on this machine. Hosts fetch the bundle from\n\
         # monobloc serve --listen {machine}:{BUNDLE_PORT} FOLDER\n\
         cluster_name: {name}\n\
         bootstrap_url: http://{machine}:{BUNDLE_PORT}\n\
         master_discovery: static\n\
         master_list: [{}]\n\
         agent_list: [{}]\n\
         public_agent_list: [{}]\n\
         ip_detect: interface eth0\n\
         ssh_user: root\n\
         ssh_key_path: {key}\n",
        of(Role::Master),
        of(Role::Slave),
        of(Role::SlavePublic),
        name = cluster.name,
    )
}
