//! Which cluster, which hosts of it, and how they are reached.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use config::bundle::{Cluster, Controller, Genconf};
use fleet::inventory::file::{self, InventoryError};
use fleet::inventory::{Inventory, Lists, SelectError, Selection};
use fleet::transport::kit::{Kit, Program, Supply};
use package::Sha256;
use package::bundle::Bundle;
use package::id::RoleName;
use package::preflight::{PREFLIGHT, Preflight};

use crate::failure::Failure;

/// Where the configuration is, unless somebody says otherwise.
const CONFIG: &str = "genconf/config.yaml";

/// The lists of a configuration, and what hosts in them are.
const LISTS: [(&str, &str); 3] =
    [("master_list", "master"), ("agent_list", "slave"), ("public_agent_list", "slave_public")];

/// Which cluster, and which of its hosts.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClusterArgs {
    /// The configuration of the cluster; what `monobloc configure` made of it lies beside it
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub(super) config: Utf8PathBuf,

    /// The hosts of the cluster [default: those in the lists of the configuration]
    #[arg(long, value_name = "FILE")]
    inventory: Option<Utf8PathBuf>,

    /// Only these hosts, by name or address
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', help_heading = "Which hosts")]
    hosts: Vec<String>,

    /// Only hosts with this role; may be repeated
    #[arg(long = "role", value_name = "ROLE", help_heading = "Which hosts")]
    roles: Vec<RoleName>,

    /// Only hosts with this label; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label, help_heading = "Which hosts")]
    labels: Vec<(String, String)>,
}

/// A cluster that was configured, with its hosts.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) genconf: Genconf,
    pub(super) folder: Utf8PathBuf,
    pub(super) cluster: Cluster,
    /// All hosts.
    pub(super) inventory: Inventory,
    /// Those that are meant.
    pub(super) chosen: Inventory,
    /// Whether they are all.
    pub(super) is_all: bool,
}

impl ClusterArgs {
    /// The folder of the cluster.
    pub(super) fn folder(&self) -> Utf8PathBuf {
        match self.config.parent() {
            Some(folder) if folder != "" => folder.to_owned(),
            _ => ".".into(),
        }
    }

    /// Reads what was configured and who the hosts are.
    pub(super) fn open(&self) -> Result<Opened, Failure> {
        let folder = self.folder();
        let genconf = Genconf::new(folder.clone());
        let configure = "configure the cluster first: `monobloc configure`";
        let Some(cluster) = genconf.cluster()? else {
            return Err(Failure::usage(format!("`{folder}` has nothing that was configured"))
                .hint(configure));
        };
        if cluster.controller.bundle != cluster.latest.bundle {
            return Err(Failure::new(format!("`monobloc configure` did not end in `{folder}`"))
                .hint("run it again"));
        }
        let text = fs_err::read(&self.config)?;
        if Sha256::of(&text) != cluster.controller.file {
            return Err(Failure::new(format!(
                "`{}` is not what was configured: it changed since",
                self.config
            ))
            .hint("make a bundle of it: `monobloc configure`"));
        }
        let inventory = self.inventory(&cluster.controller)?;
        let selection = Selection {
            hosts: self.hosts.clone(),
            roles: self.roles.iter().cloned().collect(),
            labels: self.labels.clone(),
        };
        let chosen = inventory.select(&selection).map_err(|error| match &error {
            SelectError::Unknown { near: Some(near), .. } => {
                Failure::usage(error.to_string()).hint(format!("did you mean `{near}`?"))
            }
            _ => Failure::usage(error.to_string()),
        })?;
        let is_all = selection.is_all();
        Ok(Opened { genconf, folder, cluster, inventory, chosen, is_all })
    }

    fn inventory(&self, controller: &Controller) -> Result<Inventory, Failure> {
        if let Some(path) = &self.inventory {
            return read_inventory(path);
        }
        let inventory = Inventory::of_lists(&lists(controller, &self.folder()))
            .map_err(|error| Failure::new(error.to_string()))?;
        if inventory.hosts.is_empty() {
            return Err(Failure::usage(format!("`{}` has no lists of hosts", self.config)).hint(
                "set `master_list` and `agent_list` there, or name the hosts in a file: `--inventory FILE`",
            ));
        }
        Ok(inventory)
    }
}

/// The hosts that a file names.
pub(super) fn read_inventory(path: &Utf8Path) -> Result<Inventory, Failure> {
    file::read(path).map_err(|error| match error {
        InventoryError::Mistakes(found) => Failure::mistakes_in(&format!("`{path}`"), found),
        InventoryError::Read(error) => Failure::of(&error),
    })
}

/// The hosts that a configuration names. Paths in it start where its folder lies.
fn lists(controller: &Controller, folder: &Utf8Path) -> Lists {
    let mut addresses = BTreeMap::new();
    for (list, role) in LISTS {
        if let Ok(role) = role.parse() {
            addresses.insert(role, controller.list(list));
        }
    }
    let base = match folder.file_name() {
        Some("genconf") => folder.parent().unwrap_or(folder),
        _ => folder,
    };
    let port = controller.values.get("ssh_port").and_then(serde_json::Value::as_u64);
    let key = controller.text("ssh_key_path").map(|key| base.join(key));
    Lists {
        addresses,
        user: controller.text("ssh_user").map(str::to_owned),
        port: port.and_then(|port| u16::try_from(port).ok()),
        key: key.filter(|key| key.is_file()),
    }
}

impl Opened {
    /// What the distribution says of what machines must be, if it does.
    pub(super) fn preflight(&self) -> Result<Option<Preflight>, Failure> {
        if !self.cluster.bundle.files.contains_key(PREFLIGHT) {
            return Ok(None);
        }
        let folder = self.genconf.serve().join(Bundle::folder(&self.cluster.latest.bundle));
        let text = fs_err::read(folder.join(PREFLIGHT))?;
        Preflight::parse(&text).map(Some).map_err(|error| Failure::of(&error))
    }

    /// What hosts get; `push`: from here, rather than from where the configuration says.
    pub(super) fn kit(&self, push: bool) -> Result<Kit, Failure> {
        let Cluster { latest, bundle, controller, role_keys } = &self.cluster;
        let serve = self.genconf.serve();
        let programs = bundle.files.iter().find(|(path, _)| path.as_str().starts_with("programs/"));
        let Some((path, file)) = programs else {
            return Err(Failure::new("the bundle brings no program for hosts")
                .hint("configure it with `--program FILE`"));
        };
        let url = controller.text("bootstrap_url").filter(|url| url.starts_with("http"));
        Ok(Kit {
            distribution: bundle.distribution.clone(),
            program: Program {
                path: serve.join(path.as_str()),
                sha256: file.sha256,
                bytes: file.size,
                served: path.to_string(),
            },
            bundle: Some(Supply {
                serve,
                id: latest.bundle,
                bundle: bundle.clone(),
                url: url.filter(|_| !push).map(str::to_owned),
                public_key: controller.public_key.clone(),
                role_keys: role_keys.clone(),
            }),
        })
    }
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected a label such as `site=east`".to_owned()),
    }
}
