//! Clusters: made whole or not at all, found again by name, removed without a trace.
//!
//! What a cluster is stands in its record, written before anything else is made. Whatever dies in between,
//! [`Cluster::remove`] finds by name all there is: control group, namespaces, link, mounts, folders.

use std::io;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use package::{Cancel, durable};

use crate::access::Access;
use crate::error::LocalError;
use crate::event::{Event, Job};
use crate::host::{BOOT_MAX, Host};
use crate::image::Image;
use crate::machine::Machine;
use crate::name::{ClusterName, HostName};
use crate::network::Subnet;
use crate::record::{self, ClusterRecord, HostRecord, HostSpec};
use crate::{cgroup, inventory, machine, needs, network, platform, settings, tool};

/// More hosts than this are not tried; a bridge of the kernel has at most 1023 ports.
pub const HOSTS_MAX: usize = 200;
/// The smallest disk that a host can live on.
const DISK_MIN: u64 = 64 << 20;
/// What a cluster is.
const RECORD: &str = "cluster.json";
/// The program that keeps its hosts on.
const PROGRAM: &str = "monobloc";
/// How long somebody who makes a cluster may take to see that it is being removed.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Hosts that boot at the same time, for each processor.
const BOOTS_PER_PROCESSOR: usize = 2;

/// A cluster that is wanted.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name, unique on the machine.
    pub name: String,
    /// Its hosts.
    pub hosts: Vec<HostSpec>,
    /// Its network; without it one that is free.
    pub subnet: Option<Subnet>,
    /// The program whose hidden `local supervise FILE [--boot]` calls [`crate::supervise`] or
    /// [`crate::boot`]. The cluster gets a copy: this one may go, or be another one tomorrow.
    pub program: Utf8PathBuf,
    /// Whether syncing files in hosts reaches the disk of the machine. That is slower, and matters only if
    /// the machine itself may lose its power.
    pub fsync: bool,
    /// The bytes of each host's disk, which is in memory; without it hosts share the disk of the machine.
    pub disk: Option<u64>,
}

impl Options {
    /// With a network that is free, without syncing, and on the disk of the machine.
    pub fn new(name: impl Into<String>, hosts: Vec<HostSpec>, program: Utf8PathBuf) -> Self {
        Self { name: name.into(), hosts, subnet: None, program, fsync: false, disk: None }
    }
}

/// A cluster of hosts on this machine.
#[derive(Debug, Clone)]
pub struct Cluster {
    machine: Machine,
    record: ClusterRecord,
    hosts: Vec<Host>,
}

impl Cluster {
    /// Makes a cluster, building images that are missing, and waits until all of its hosts have booted.
    /// If that fails nothing is left of it.
    pub fn up(machine: &Machine, options: &Options, job: &Job<'_>) -> Result<Self, LocalError> {
        needs::check()?;
        let name: ClusterName = options.name.parse()?;
        let names = host_names(&options.hosts)?;
        check_disk(options.disk, names.len())?;
        needs::check_kernel(machine, options.disk.is_some())?;
        let mut hosts = Vec::new();
        for (name, spec) in names.into_iter().zip(&options.hosts) {
            let image = Image::ensure(machine, spec.image, job)?;
            hosts.push((name, spec, image));
        }
        let record = reserve(machine, name, options, &hosts, job)?;
        let made = make(machine, &record, &options.program, job);
        if made.is_err() {
            // What made it fail is worth more than that something could not be removed.
            drop(tear_down_own(machine, &record));
        }
        made
    }

    /// A cluster that is up.
    pub fn open(machine: &Machine, name: &str) -> Result<Self, LocalError> {
        needs::check_root()?;
        let name: ClusterName = name.parse()?;
        match record::read(&machine.cluster(&name).join(RECORD))? {
            Some(record) if machine.cluster_run(&name).exists() => Self::of(machine, record),
            None if !is_anything(machine, &name) => Err(not_up(machine, &name)),
            _ => Err(LocalError::NotWhole(name.to_string())),
        }
    }

    /// The names of the clusters there are, whole or not.
    pub fn names(machine: &Machine) -> Result<Vec<String>, LocalError> {
        Ok(machine.cluster_names()?.into_iter().map(String::from).collect())
    }

    fn of(machine: &Machine, record: ClusterRecord) -> Result<Self, LocalError> {
        let hosts = record.hosts.iter().map(|host| Host::of(machine, &record, host));
        let hosts = hosts.collect::<Result<_, _>>()?;
        Ok(Self { machine: machine.clone(), record, hosts })
    }

    /// Removes everything that a cluster of this name made, whatever became of the programs that made it.
    pub fn remove(machine: &Machine, name: &str, job: &Job<'_>) -> Result<(), LocalError> {
        needs::check_root()?;
        let name: ClusterName = name.parse()?;
        if !is_anything(machine, &name) {
            return Err(not_up(machine, &name));
        }
        let _lock = machine.lock(job)?;
        tear_down(machine, &name)
    }

    /// Removes it.
    pub fn down(self) -> Result<(), LocalError> {
        Self::remove(&self.machine, self.name(), &Job::default())
    }

    /// The same cluster, whose hosts are waited for only until somebody raises `cancel`.
    #[must_use]
    pub fn until(mut self, cancel: &Cancel) -> Self {
        for host in &mut self.hosts {
            host.cancel = cancel.clone();
        }
        self
    }

    /// The same cluster, removed when it is dropped: for tests.
    pub fn guard(self) -> Guard {
        Guard(self)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.record.name.as_str()
    }

    /// Whether all of it was made; if not, `up` is still at it or was killed.
    pub fn is_made(&self) -> bool {
        self.record.is_made
    }

    /// Its network, in which the machine has the first address.
    pub fn subnet(&self) -> Subnet {
        self.record.subnet
    }

    /// Its hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// One of its hosts.
    pub fn host(&self, name: &str) -> Result<&Host, LocalError> {
        let found = self.hosts.iter().find(|host| host.name() == name);
        found.ok_or_else(|| LocalError::NoHost {
            cluster: self.name().to_owned(),
            host: name.to_owned(),
            others: self.hosts.iter().map(|host| host.name().to_owned()).collect(),
        })
    }

    /// The configuration that `monobloc configure --config` takes, if it has masters.
    pub fn config(&self) -> Option<Utf8PathBuf> {
        inventory::has_config(&self.record)
            .then(|| inventory::config(&self.machine.cluster(&self.record.name)))
    }

    /// Its hosts with their addresses, roles and ways in, as YAML.
    pub fn inventory(&self) -> Utf8PathBuf {
        inventory::hosts(&self.machine.cluster(&self.record.name))
    }

    /// The address of the machine in its network.
    pub fn machine_address(&self) -> Ipv4Addr {
        self.record.subnet.machine()
    }

    /// The configuration for `ssh -F`, which knows every host by name.
    pub fn ssh_config(&self) -> Utf8PathBuf {
        Access::in_folder(&self.machine.cluster(&self.record.name)).config()
    }

    /// The secret key that every user of every host accepts.
    pub fn ssh_key(&self) -> Utf8PathBuf {
        Access::in_folder(&self.machine.cluster(&self.record.name)).key()
    }

    /// The keys of the hosts, in the format of `ssh`.
    pub fn known_hosts(&self) -> Utf8PathBuf {
        Access::in_folder(&self.machine.cluster(&self.record.name)).known_hosts()
    }
}

/// A cluster that is removed when this is dropped.
#[derive(Debug)]
pub struct Guard(Cluster);

impl Deref for Guard {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let removed = Cluster::remove(&self.0.machine, self.0.name(), &Job::default());
        // A test may have removed it; a test that fails already must not abort.
        if let Err(error) = removed
            && !matches!(error, LocalError::NotUp { .. })
            && !std::thread::panicking()
        {
            panic!("cannot remove the cluster: {error}");
        }
    }
}

fn host_names(hosts: &[HostSpec]) -> Result<Vec<HostName>, LocalError> {
    if hosts.is_empty() || hosts.len() > HOSTS_MAX {
        return Err(LocalError::HostCount { max: HOSTS_MAX, count: hosts.len() });
    }
    let mut names = Vec::new();
    for host in hosts {
        let name: HostName = host.name.parse()?;
        if names.contains(&name) {
            return Err(LocalError::HostTwice(name.to_string()));
        }
        if let Some(bind) = host.binds.iter().find(|bind| !bind.from.exists()) {
            return Err(LocalError::BindMissing(bind.from.clone()));
        }
        names.push(name);
    }
    Ok(names)
}

/// A disk in memory has room for a host, and there is memory for those of all hosts.
fn check_disk(bytes: Option<u64>, hosts: usize) -> Result<(), LocalError> {
    let memory = platform::memory_bytes()?;
    let max = memory / hosts.max(1) as u64;
    match bytes {
        Some(bytes) if !(DISK_MIN..=max).contains(&bytes) => {
            Err(LocalError::Disk { min: DISK_MIN >> 20, hosts, memory: memory >> 20 })
        }
        _ => Ok(()),
    }
}

/// Takes a name and a network for a new cluster, and writes its record.
fn reserve(
    machine: &Machine,
    name: ClusterName,
    options: &Options,
    hosts: &[(HostName, &HostSpec, Image)],
    job: &Job<'_>,
) -> Result<ClusterRecord, LocalError> {
    let _lock = machine.lock(job)?;
    let names = machine.cluster_names()?;
    if names.contains(&name) {
        return Err(LocalError::AlreadyUp(name.to_string()));
    }
    // The clean-up of a cluster removes what has its name.
    if network::has_link(&name) {
        return Err(LocalError::LinkUsed(machine::link(&name)));
    }
    let mut used = Subnet::of_machine()?;
    for name in &names {
        let record = record::read::<ClusterRecord>(&machine.cluster(name).join(RECORD));
        used.extend(record?.map(|record| record.subnet));
    }
    let subnet = match options.subnet {
        None => Subnet::free(&used)?,
        Some(subnet) if used.iter().any(|other| subnet.overlaps(*other)) => {
            return Err(LocalError::SubnetUsed(subnet));
        }
        Some(subnet) => subnet,
    };
    if hosts.len() > subnet.hosts_max() {
        let (max, count) = (subnet.hosts_max(), hosts.len());
        return Err(LocalError::SubnetSmall { subnet, max, count });
    }
    let mut records = Vec::new();
    for (index, (name, spec, image)) in (0..).zip(hosts) {
        records.push(HostRecord {
            name: name.clone(),
            address: subnet.host(index),
            image: image.suite(),
            role: spec.role,
            lower: image.root().to_owned(),
            uuid: new_id()?,
            binds: spec.binds.clone(),
        });
    }
    let program = machine.cluster(&name).join(PROGRAM);
    let (fsync, disk) = (options.fsync, options.disk);
    let (id, is_made, hosts) = (new_id()?, false, records);
    let record = ClusterRecord { id, is_made, name, subnet, fsync, disk, program, hosts };
    settings::prepare(machine)?;
    durable::create_folders(&machine.cluster_run(&record.name))?;
    record::write(&machine.cluster(&record.name).join(RECORD), &record)?;
    Ok(record)
}

fn new_id() -> Result<String, LocalError> {
    Ok(fs_err::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// Makes what a record says.
fn make(
    machine: &Machine,
    record: &ClusterRecord,
    program: &Utf8Path,
    job: &Job<'_>,
) -> Result<Cluster, LocalError> {
    fs_err::copy(program, &record.program)?;
    let mut cluster = Cluster::of(machine, record.clone())?.until(job.cancel);
    cgroup::create_for(machine, &record.name)?;
    network::create_switch(&record.name, record.subnet)?;
    let folder = machine.cluster(&record.name);
    let access = Access::in_folder(&folder);
    access.create(record)?;
    inventory::write(&folder, record, &access.key())?;
    let mut known = String::new();
    for host in &cluster.hosts {
        check_wanted(machine, record, job)?;
        known += &host.create(record)?;
    }
    fs_err::write(access.known_hosts(), known)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut done = 0;
    for hosts in cluster.hosts.chunks(processors * BOOTS_PER_PROCESSOR) {
        for host in hosts {
            check_wanted(machine, record, job)?;
            host.start()?;
        }
        for host in hosts {
            host.wait_booted(BOOT_MAX)?;
            done += 1;
            let total = cluster.hosts.len();
            job.observer.event(&Event::Booted { host: host.name(), done, total });
        }
    }
    let _lock = machine.lock(job)?;
    check_wanted(machine, record, job)?;
    cluster.record.is_made = true;
    record::write(&folder.join(RECORD), &cluster.record)?;
    Ok(cluster)
}

/// The id of the cluster of this name, if one is on record.
fn id_of(machine: &Machine, name: &ClusterName) -> Result<Option<String>, LocalError> {
    let record = record::read::<ClusterRecord>(&machine.cluster(name).join(RECORD))?;
    Ok(record.map(|record| record.id))
}

/// Fails if nobody wants the cluster any more that is being made.
fn check_wanted(machine: &Machine, own: &ClusterRecord, job: &Job<'_>) -> Result<(), LocalError> {
    job.cancel.check()?;
    match id_of(machine, &own.name)? {
        Some(id) if id == own.id => Ok(()),
        _ => Err(not_up(machine, &own.name)),
    }
}

/// Removes a cluster that could not be made, unless there is another one of its name by now. If somebody
/// removed it meanwhile, that is what was made of it since.
fn tear_down_own(machine: &Machine, own: &ClusterRecord) -> Result<(), LocalError> {
    let _lock = machine.lock(&Job::default())?;
    match id_of(machine, &own.name)? {
        Some(id) if id != own.id => Ok(()),
        _ => tear_down(machine, &own.name),
    }
}

/// Removes all that there may be of a cluster; whoever calls it has the lock.
fn tear_down(machine: &Machine, name: &ClusterName) -> Result<(), LocalError> {
    let path = machine.cluster(name).join(RECORD);
    if let Ok(Some(record)) = record::read::<ClusterRecord>(&path) {
        // Whoever is still making it finds that it is not the one any more, and stops.
        record::write(&path, &ClusterRecord { id: new_id()?, ..record })?;
    }
    let group = cgroup::of_cluster(machine, name)?;
    // Until then more may come of what was removed already.
    let is_gone = tool::until(STOP_MAX, || match remove_parts(machine, name, &group) {
        Err(LocalError::Io(error)) if is_in_use(&error) => Ok(false),
        removed => removed.map(|()| true),
    })?;
    if !is_gone {
        remove_parts(machine, name, &group)?;
    }
    if machine.cluster_names()?.is_empty() {
        remove_shared(machine, &group)?;
    }
    Ok(())
}

fn is_in_use(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::ResourceBusy)
}

/// Removes all parts of a cluster, its record last.
fn remove_parts(machine: &Machine, name: &ClusterName, group: &Utf8Path) -> Result<(), LocalError> {
    let (folder, run) = (machine.cluster(name), machine.cluster_run(name));
    network::silence_switch(name);
    cgroup::kill_and_remove(group)?;
    network::remove_all(name)?;
    for folder in [&run, &folder] {
        platform::unmount_below(folder)?;
    }
    forget_containers(name)?;
    durable::remove_tree(&run)?;
    // The record goes last: until then it is known what was here.
    for entry in folder.read_dir_utf8().into_iter().flatten() {
        let entry = entry?;
        if entry.file_name() != RECORD {
            durable::remove_tree(entry.path())?;
        }
    }
    durable::remove_tree(&folder)?;
    Ok(())
}

/// Removes what systemd-nspawn keeps on the machine for the hosts of a cluster.
fn forget_containers(name: &ClusterName) -> Result<(), LocalError> {
    let prefix = format!("{name}.");
    for folder in ["propagate", "unix-export"] {
        let folder = Utf8Path::new("/run/systemd/nspawn").join(folder);
        let Ok(entries) = folder.read_dir_utf8() else { continue };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().starts_with(&prefix) {
                platform::unmount_below(entry.path())?;
                durable::remove_tree(entry.path())?;
            }
        }
    }
    Ok(())
}

/// Removes what all clusters share, after the last one.
fn remove_shared(machine: &Machine, group: &Utf8Path) -> Result<(), LocalError> {
    settings::restore(machine)?;
    if let Some(parent) = group.parent() {
        // Clusters of a machine with other folders are in it too; it goes with the last of them.
        drop(fs_err::remove_dir(parent));
    }
    platform::unmount_below(&cgroup::own_hierarchy(machine))?;
    for folder in [cgroup::own_hierarchy(machine), machine.run.join("clusters"), machine.clusters()]
    {
        durable::remove_tree(&folder)?;
    }
    Ok(())
}

/// Whether there is anything of a cluster, on record or not.
fn is_anything(machine: &Machine, name: &ClusterName) -> bool {
    machine.cluster(name).exists() || machine.cluster_run(name).exists()
}

fn not_up(machine: &Machine, name: &ClusterName) -> LocalError {
    let others = machine.cluster_names().unwrap_or_default();
    let others = others.into_iter().map(String::from).collect();
    LocalError::NotUp { name: name.to_string(), others }
}
