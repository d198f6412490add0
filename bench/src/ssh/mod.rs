//! Hundreds of SSH servers: our client beside pssh, clush and Ansible, in turns, with the same key
//! exchange and cipher; then a thousand hosts in this process.

mod others;
mod server;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command as Program;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use camino::Utf8PathBuf;
use fleet::inventory::Host;
use fleet::transport::shell::{Command, Kept, Shell as _, Stdin};
use fleet::transport::ssh::{Connection, HostKeys, Settings, Ssh};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use testing::ssh_host::{Behaviour, Reply, SshHost};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use server::Server;
use table::Verdict;

const FILE_BYTES: usize = 1_000_000;
/// Hosts at once, for every side.
const AT_ONCE: usize = 64;
/// Hosts in this process.
const FAKE_HOSTS: usize = 1_000;
const OURS: &str = "ours";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many servers; several times for several runs [default: 500 and 200]
    #[arg(long = "hosts", value_name = "N")]
    hosts: Vec<usize>,
    /// Only ours: without the others
    #[arg(long)]
    alone: bool,
    /// How often each side does its work; what is told is the median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// What it took to reach all hosts once.
#[derive(Debug, Clone, Copy)]
struct Cost {
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
        // Whoever has connections open is not done.
        let there_after = server.settled()?;
        Ok(Self {
            elapsed: started.elapsed(),
            client: processors(who)?.saturating_sub(here),
            server: there_after.saturating_sub(there),
        })
    }
}

/// One of those that are compared.
struct Side {
    name: &'static str,
    what: &'static str,
    /// None: ours.
    program: Option<Program>,
    /// Whether it can put a file at a place of its own for each host.
    own_places: bool,
    costs: Vec<Cost>,
}

impl Side {
    fn once(&mut self, runtime: &Runtime, server: &Server) -> anyhow::Result<()> {
        server.clear()?;
        crate::measure::settle()?;
        let cost = match &mut self.program {
            Some(program) => Cost::of(server, UsageWho::RUSAGE_CHILDREN, || {
                crate::measure::program(program)?;
                others::end_left(server)
            }),
            None => Cost::of(server, UsageWho::RUSAGE_SELF, || {
                runtime.block_on(ours(server, self.what == "file", false)).map(drop)
            }),
        };
        self.costs.push(cost.with_context(|| self.name)?);
        if self.what == "file" {
            server.verify(self.own_places).with_context(|| self.name)?;
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut counts = if args.hosts.is_empty() { vec![500, 200] } else { args.hosts.clone() };
    // Most first: memory is measured while this process has none to spare from earlier work.
    counts.sort_unstable();
    counts.reverse();
    let cores = std::thread::available_parallelism()?.get();
    let rounds = args.rounds;
    println!("{cores} cores, {AT_ONCE} hosts at once, medians of {rounds}, load {}", load()?);
    let (_guard, folder) = crate::work_folder()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut verdict = Verdict::default();
    for (number, count) in counts.into_iter().enumerate() {
        let server = Server::start(&folder.join(count.to_string()), count)?;
        if number == 0 {
            verdict.memory(memory(&runtime, &server, count)?);
        }
        let mut sides = Vec::new();
        for what in ["command", "file"] {
            let program = None;
            sides.push(Side { name: OURS, what, program, own_places: true, costs: Vec::new() });
            if !args.alone {
                sides.extend(others::installed(&server, what)?);
            }
        }
        for what in ["command", "file"] {
            for _ in 0..rounds {
                for side in sides.iter_mut().filter(|side| side.what == what) {
                    side.once(&runtime, &server)?;
                }
            }
        }
        table::show(count, cores, &sides);
        verdict.sides(count, cores, &sides);
    }
    println!("load {}", load()?);
    let mut fake = Vec::new();
    for _ in 0..rounds {
        fake.push(runtime.block_on(fake_hosts())?);
    }
    verdict.fake_hosts(table::median(fake));
    verdict.tell()
}

/// Memory of one connected host in kilobytes, with all of them connected.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn memory(runtime: &Runtime, server: &Server, count: usize) -> anyhow::Result<f64> {
    let before = resident_kb()?;
    let connections = runtime.block_on(ours(server, false, true))?;
    let each = resident_kb()?.saturating_sub(before) as f64 / count as f64;
    drop(connections);
    server.settled()?;
    Ok(each)
}

/// Runs a command on all hosts, or puts a file on them; returns the connections if they are to be kept.
async fn ours(server: &Server, is_file: bool, keep: bool) -> anyhow::Result<Vec<Connection>> {
    let ssh = Ssh::new(Settings {
        config: Some(server.empty_config()),
        known_hosts: Some(server.known_hosts()),
        host_keys: HostKeys::Strict,
        handshakes: AT_ONCE,
        ..Settings::default()
    });
    let bytes = if is_file { Some(Arc::new(fs_err::read(server.file())?)) } else { None };
    // As many as the others have: all of them together are more than the one server takes at its door.
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut work = JoinSet::new();
    for address in server.addresses() {
        let host = host(address.into(), server.port, Some(server.key()));
        let (ssh, bytes, places) = (ssh.clone(), bytes.clone(), Arc::clone(&places));
        let to = server.received().join(&host.name);
        work.spawn(async move {
            let _place = places.acquire().await?;
            let mut connection = ssh.connect(&host).await?;
            let command = match &bytes {
                Some(bytes) => {
                    Command { stdin: Stdin::Bytes(bytes), ..Command::new(format!("cat >{to}")) }
                }
                None => Command::new("true"),
            };
            let exit = connection.run(command, &mut Kept::default()).await?;
            ensure!(exit.is_success(), "{exit}");
            if keep {
                return Ok(Some(connection));
            }
            connection.close().await;
            anyhow::Ok(None)
        });
    }
    let done: anyhow::Result<Vec<Option<Connection>>> = work.join_all().await.into_iter().collect();
    Ok(done?.into_iter().flatten().collect())
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
async fn fake_hosts() -> anyhow::Result<Duration> {
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
            connection.close().await;
            Ok(())
        });
    }
    for result in work.join_all().await {
        result?;
    }
    let elapsed = started.elapsed();
    println!(
        "{FAKE_HOSTS} hosts in this process, three commands each: {:.1} s, {:.1} s of processors for \
         both sides, each key written down and synced",
        elapsed.as_secs_f64(),
        processors(UsageWho::RUSAGE_SELF)?.saturating_sub(used).as_secs_f64()
    );
    Ok(elapsed)
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
