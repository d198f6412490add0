//! The machine that hosts are made on: where their files are, and the names of what the kernel keeps.

use camino::Utf8PathBuf;
use package::lock::Lock;
use serde::{Deserialize, Serialize};

use crate::error::LocalError;
use crate::event::{Event, Job};
use crate::name::{ClusterName, HostName};

/// Where this machine keeps its hosts. What the kernel has of a cluster is named by the cluster alone, so names
/// must differ even between clusters in different folders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Images and the disks of hosts.
    pub state: Utf8PathBuf,
    /// What does not outlive the machine's own restart.
    pub run: Utf8PathBuf,
    /// Where images are built from; without it, where apt on this machine gets its packages.
    pub mirror: Option<String>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            state: "/var/lib/monobloc/local".into(),
            run: "/run/monobloc-local".into(),
            mirror: None,
        }
    }
}

impl Machine {
    /// Where images are.
    pub(crate) fn images(&self) -> Utf8PathBuf {
        self.state.join("images")
    }

    /// Where clusters are.
    pub(crate) fn clusters(&self) -> Utf8PathBuf {
        self.state.join("clusters")
    }

    /// What of a cluster outlives the power of its hosts.
    pub(crate) fn cluster(&self, name: &ClusterName) -> Utf8PathBuf {
        self.clusters().join(name.as_str())
    }

    /// What of a cluster does not outlive the machine's own restart.
    pub(crate) fn cluster_run(&self, name: &ClusterName) -> Utf8PathBuf {
        self.run.join("clusters").join(name.as_str())
    }

    /// The clusters there are.
    pub(crate) fn cluster_names(&self) -> Result<Vec<ClusterName>, LocalError> {
        let mut names = Vec::new();
        for folder in [self.clusters(), self.run.join("clusters")] {
            let Ok(entries) = folder.read_dir_utf8() else { continue };
            for entry in entries {
                names.extend(entry?.file_name().parse::<ClusterName>());
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Makes or removes one cluster at a time: they share networks and settings of the kernel.
    pub(crate) fn lock(&self, job: &Job<'_>) -> Result<Lock, LocalError> {
        let wait = || job.observer.event(&Event::Waiting { what: "another cluster" });
        Ok(Lock::take(&self.run.join("lock"), job.cancel, &wait)?)
    }
}

/// The machine's end of the cable to a cluster's switch.
pub(crate) fn link(cluster: &ClusterName) -> String {
    format!("mb-{cluster}")
}

/// How the names of a cluster's network namespaces begin. No name has a dot in it.
pub(crate) fn namespaces(cluster: &ClusterName) -> String {
    format!("monobloc.{cluster}.")
}

/// The network namespace of a cluster's switch.
pub(crate) fn switch_namespace(cluster: &ClusterName) -> String {
    namespaces(cluster) + "switch"
}

/// The network namespace of a host.
pub(crate) fn host_namespace(cluster: &ClusterName, host: &HostName) -> String {
    namespaces(cluster) + host.as_str()
}
