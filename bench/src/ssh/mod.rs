//! Hundreds of SSH servers: our client beside pssh, clush and Ansible, in turns, with the same key
//! exchange; then a thousand hosts in this process.

mod others;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use fleet::inventory::Host;
use fleet::transport::shell::{Command, Kept, Shell as _, Stdin};
use fleet::transport::ssh::{Connection, HostKeys, Settings, Ssh};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use testing::ssh_host::{Behaviour, Reply, SshHost};
use tokio::task::JoinSet;

use server::Server;

const FILE_BYTES: usize = 1_000_000;
/// Hosts at once, for every side.
const AT_ONCE: usize = 64;
/// Hosts in this process, and the time that three commands on each may take.
const FAKE_HOSTS: usize = 1_000;
const FAKE_LIMIT: Duration = Duration::from_secs(5);
const MEMORY_LIMIT_KB: f64 = 200.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many servers; several times for several runs [default: 200 and 500]
    #[arg(long = "hosts", value_name = "N")]
    hosts: Vec<usize>,
    /// Only ours: without the others
    #[arg(long)]
    alone: bool,
}

/// What it took to reach all hosts once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    elapsed: Duration,
    client: Duration,
    server: Duration,
}

impl Cost {
    /// Measures `work`, with the time of processors that the client takes from `who`.
    fn of(
        server: &Server,
        who: UsageWho,
        work: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let (here, there) = (processors(who)?, server.processors()?);
        let started = Instant::now();
        work()?;
        let elapsed = started.elapsed();
        let client = processors(who)?.saturating_sub(here);
        Ok(Self { elapsed, client, server: server.settled()?.saturating_sub(there) })
    }
}

/// A line of the table.
struct Line {
    name: &'static str,
    what: &'static str,
    cost: Cost,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let hosts = if args.hosts.is_empty() { vec![200, 500] } else { args.hosts.clone() };
    let cores = std::thread::available_parallelism()?.get();
    println!("{cores} cores, {AT_ONCE} hosts at once, load {}", load()?);
    let (_guard, folder) = crate::work_folder()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for count in hosts {
        let folder = folder.join(count.to_string());
        let server = Server::start(&folder, count)?;
        // First, while this process has no memory to spare from earlier work.
        memory(&runtime, &server, count)?;
        let mut lines = Vec::new();
        for what in ["command", "file"] {
            let file = (what == "file").then(|| server.file());
            let cost = Cost::of(&server, UsageWho::RUSAGE_SELF, || {
                runtime.block_on(ours(&server, file.as_deref())).map(drop)
            })?;
            lines.push(Line { name: "ours", what, cost });
            if !args.alone {
                lines.extend(others::run(&server, what)?);
            }
        }
        table(count, cores, &lines);
    }
    println!("load {}", load()?);
    runtime.block_on(fake_hosts())
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn table(count: usize, cores: usize, lines: &[Line]) {
    println!(
        "\n{count} hosts {:>10} {:>9} {:>14} {:>12} {:>10} {:>12}",
        "what", "hosts/s", "client ms/host", "sshd ms/host", "of cores", "ours is"
    );
    for line in lines {
        let each = |time: Duration| time.as_secs_f64() * 1000.0 / count as f64;
        let speed = |cost: &Cost| count as f64 / cost.elapsed.as_secs_f64();
        let of_cores = (line.cost.client + line.cost.server).as_secs_f64()
            / (line.cost.elapsed.as_secs_f64() * cores as f64);
        let own = lines.iter().find(|own| own.name == "ours" && own.what == line.what);
        let versus = own.map_or(String::new(), |own| {
            format!(
                "{:.1}x faster, 1/{:.0} CPU",
                speed(&own.cost) / speed(&line.cost),
                line.cost.client.as_secs_f64() / own.cost.client.as_secs_f64()
            )
        });
        println!(
            "{:>9} {:>10} {:>9.1} {:>14.2} {:>12.1} {of_cores:>10.2}   {versus}",
            line.name,
            line.what,
            speed(&line.cost),
            each(line.cost.client),
            each(line.cost.server),
        );
    }
}

/// Memory of one connected host, with all of them connected.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn memory(runtime: &tokio::runtime::Runtime, server: &Server, count: usize) -> anyhow::Result<()> {
    let before = resident_kb()?;
    let connections = runtime.block_on(ours(server, None))?;
    let each = resident_kb()?.saturating_sub(before) as f64 / count as f64;
    drop(connections);
    println!("memory of a connected host: {each:.0} kB (at most {MEMORY_LIMIT_KB:.0})");
    server.settled().map(drop)
}

/// Runs a command on all hosts, or puts a file on them, and returns the connections.
async fn ours(server: &Server, file: Option<&Utf8Path>) -> anyhow::Result<Vec<Connection>> {
    let ssh = Ssh::new(Settings {
        config: Some(server.empty_config()),
        known_hosts: Some(server.known_hosts()),
        host_keys: HostKeys::Strict,
        handshakes: AT_ONCE,
        ..Settings::default()
    });
    let file = match file {
        Some(path) => Some((Arc::new(fs_err::read(path)?), server.received())),
        None => None,
    };
    let mut work = JoinSet::new();
    for address in server.addresses() {
        let host = host(address.into(), server.port, Some(server.key()));
        let (ssh, file) = (ssh.clone(), file.clone());
        work.spawn(async move {
            let mut connection = ssh.connect(&host).await?;
            let command = match &file {
                Some((bytes, to)) => {
                    Command { stdin: Stdin::Bytes(bytes), ..Command::new(format!("cat >{to}")) }
                }
                None => Command::new("true"),
            };
            let exit = connection.run(command, &mut Kept::default()).await?;
            ensure!(exit.is_success(), "{exit}");
            anyhow::Ok(connection)
        });
    }
    work.join_all().await.into_iter().collect()
}

fn host(address: IpAddr, port: u16, key: Option<Utf8PathBuf>) -> Host {
    Host {
        name: address.to_string(),
        address: address.to_string(),
        port: Some(port),
        user: Some("root".into()),
        key,
        jump: None,
        roles: BTreeSet::new(),
        rack: None,
        labels: BTreeMap::new(),
    }
}

/// Three commands on each of a thousand hosts of this process, logins and all.
async fn fake_hosts() -> anyhow::Result<()> {
    let guard = tempfile::tempdir()?;
    let folder = Utf8PathBuf::try_from(guard.path().to_owned())?;
    fs_err::write(folder.join("config"), "")?;
    let mut hosts = Vec::new();
    for number in 0..FAKE_HOSTS {
        let [high, low] = u16::try_from(number)?.to_be_bytes();
        let commands = Arc::new(|_: &_| Reply::says("done\n"));
        let behaviour = Behaviour { commands, ..Behaviour::default() };
        let address = IpAddr::V4(Ipv4Addr::new(127, 1, high, low));
        hosts.push(SshHost::start_at(address, behaviour).await);
    }
    let ssh = Ssh::new(Settings {
        config: Some(folder.join("config")),
        known_hosts: Some(folder.join("known_hosts")),
        host_keys: HostKeys::AcceptNew,
        ..Settings::default()
    });
    let (started, used) = (Instant::now(), processors(UsageWho::RUSAGE_SELF)?);
    let mut work = JoinSet::new();
    for fake in &hosts {
        let (ssh, host) = (ssh.clone(), host(fake.address.ip(), fake.address.port(), None));
        work.spawn(async move {
            let mut connection = ssh.connect(&host).await?;
            for _ in 0..3 {
                let mut kept = Kept::default();
                connection.run(Command::new("work"), &mut kept).await?;
                ensure!(kept.text() == "done", "`{}`", kept.text());
            }
            Ok(())
        });
    }
    for result in work.join_all().await {
        result?;
    }
    println!(
        "{FAKE_HOSTS} hosts in this process, three commands each: {:.1} s (at most {} s), \
         {:.1} s of processors for both sides, each key written down and synced",
        started.elapsed().as_secs_f64(),
        FAKE_LIMIT.as_secs(),
        processors(UsageWho::RUSAGE_SELF)?.saturating_sub(used).as_secs_f64()
    );
    Ok(())
}

fn processors(who: UsageWho) -> anyhow::Result<Duration> {
    let usage = getrusage(who)?;
    let time = |time: TimeVal| -> anyhow::Result<Duration> {
        let micros = u32::try_from(time.tv_usec())?;
        Ok(Duration::new(u64::try_from(time.tv_sec())?, micros * 1000))
    };
    Ok(time(usage.user_time())? + time(usage.system_time())?)
}

fn resident_kb() -> anyhow::Result<u64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let figure = line.and_then(|line| line.split_whitespace().next());
    Ok(figure.context("no VmRSS")?.parse()?)
}

fn load() -> anyhow::Result<String> {
    let load = fs_err::read_to_string("/proc/loadavg")?;
    load.split(' ').next().map(str::to_owned).ok_or_else(|| anyhow!("no load"))
}
