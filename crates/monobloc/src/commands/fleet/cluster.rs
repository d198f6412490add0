//! Which cluster, which hosts of it, and how they are reached.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use config::bundle::{Cluster, Controller, Genconf};
use fleet::inventory::file::{self, InventoryError};
use fleet::inventory::{Host, Inventory, Lists, SelectError, Selection};
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

/// The key to log in with, if the configuration names no other; it need not be there.
const KEY: &str = "genconf/ssh_key";

/// Which cluster.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ConfigArgs {
    /// The configuration of the cluster; what `monobloc configure` made of it lies beside it
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub(super) config: Utf8PathBuf,
}

/// Which cluster, and which of its hosts.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    pub(super) place: ConfigArgs,

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

impl ConfigArgs {
    /// The folder of the cluster.
    pub(super) fn folder(&self) -> Utf8PathBuf {
        match self.config.parent() {
            Some(folder) if folder != "" => folder.to_owned(),
            _ => ".".into(),
        }
    }

    /// What was configured last, whatever became of the file since, and without hosts: enough for who looks
    /// back, and for what has hosts of its own.
    pub(super) fn configured(&self) -> Result<Opened, Failure> {
        let folder = self.folder();
        let genconf = Genconf::new(folder.clone());
        let Some(cluster) = genconf.cluster()? else {
            return Err(Failure::usage(format!("`{folder}` has nothing that was configured"))
                .hint("configure the cluster first: `monobloc configure`"));
        };
        let (inventory, chosen) = (Inventory::default(), Inventory::default());
        Ok(Opened { genconf, folder, cluster, inventory, chosen, is_all: true })
    }

    /// The hosts in the lists of what was configured.
    pub(super) fn listed(&self, controller: &Controller) -> Result<Inventory, Failure> {
        let inventory = Inventory::of_lists(&lists(controller, &self.folder())?)
            .map_err(|error| Failure::new(error.to_string()))?;
        if inventory.hosts.is_empty() {
            return Err(Failure::usage(format!("`{}` has no lists of hosts", self.config)).hint(
                "set `master_list` and `agent_list` there, or name the hosts in a file: `--inventory FILE`",
            ));
        }
        Ok(inventory)
    }
}

impl ClusterArgs {
    /// Reads what was configured and who the hosts are.
    pub(super) fn open(&self) -> Result<Opened, Failure> {
        let opened = self.place.configured()?.whole()?;
        let text = fs_err::read(&self.place.config)?;
        if Sha256::of(&text) != opened.cluster.controller.file {
            return Err(Failure::new(format!(
                "`{}` is not what was configured: it changed since",
                self.place.config
            ))
            .hint("make a bundle of it: `monobloc configure`"));
        }
        let opened = self.with_hosts(opened)?;
        check_roles(&opened)?;
        Ok(opened)
    }

    /// The same of what was configured last, whatever became of the file since.
    pub(super) fn open_as_configured(&self) -> Result<Opened, Failure> {
        self.with_hosts(self.place.configured()?.whole()?)
    }

    fn with_hosts(&self, opened: Opened) -> Result<Opened, Failure> {
        let inventory = match &self.inventory {
            Some(path) => read_inventory(path)?,
            None => self.place.listed(&opened.cluster.controller)?,
        };
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
        check_keys(&chosen)?;
        Ok(Opened { inventory, chosen, is_all: selection.is_all(), ..opened })
    }
}

/// The bundle has something for every role that hosts shall have.
fn check_roles(opened: &Opened) -> Result<(), Failure> {
    let of_systems = opened.cluster.bundle.packages.values();
    let known: BTreeSet<&RoleName> = of_systems.flat_map(BTreeMap::keys).collect();
    let roles = |host: &Host| host.roles.iter().find(|role| !known.contains(role)).cloned();
    let Some((host, role)) =
        opened.chosen.hosts.iter().find_map(|host| Some((&host.name, roles(host)?)))
    else {
        return Ok(());
    };
    let known: Vec<&str> = known.into_iter().map(RoleName::as_str).collect();
    let near = package::diagnostic::nearest(role.as_str(), known.iter().copied());
    Err(Failure::usage(format!(
        "host `{host}` has the role `{role}`, which what was configured does not have"
    ))
    .hint(match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("it has: {}", known.join(", ")),
    }))
}

/// The keys to log in with that an inventory names are there.
fn check_keys(inventory: &Inventory) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for host in &inventory.hosts {
        let Some(key) = host.key.as_ref().filter(|key| !key.as_str().starts_with('~')) else {
            continue;
        };
        if seen.insert(key) && !key.is_file() {
            return Err(Failure::usage(format!(
                "there is no file `{key}`, the key to log in at `{}` with",
                host.name
            ))
            .hint("put the private key there, or correct the inventory"));
        }
    }
    Ok(())
}

/// The hosts that a file names.
pub(super) fn read_inventory(path: &Utf8Path) -> Result<Inventory, Failure> {
    file::read(path).map_err(|error| match error {
        InventoryError::Mistakes(found) => Failure::mistakes_in(&format!("`{path}`"), found),
        InventoryError::Read(error) => Failure::of(&error),
    })
}

/// The hosts that a configuration names. Paths in it start where its folder lies.
fn lists(controller: &Controller, folder: &Utf8Path) -> Result<Lists, Failure> {
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
    let key = match controller.text("ssh_key_path") {
        Some(named) if base.join(named).is_file() => Some(base.join(named)),
        Some(named) if named != KEY => {
            return Err(Failure::new(format!("there is no file `{}`", base.join(named)))
                .hint("put the private key there, or say with `ssh_key_path` where it is"));
        }
        _ => None,
    };
    Ok(Lists {
        addresses,
        user: controller.text("ssh_user").map(str::to_owned),
        port: port.and_then(|port| u16::try_from(port).ok()),
        key,
    })
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

    /// The same, if what was published last is what was kept for us.
    pub(super) fn whole(self) -> Result<Self, Failure> {
        if self.cluster.controller.bundle == self.cluster.latest.bundle {
            return Ok(self);
        }
        Err(Failure::new(format!("`monobloc configure` did not end in `{}`", self.folder))
            .hint("run it again"))
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
