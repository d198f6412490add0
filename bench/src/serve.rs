//! `monobloc serve` beside nginx: the same file, the same clients, in turns; then 500 hosts at once.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use package::Sha256;
use package::digest::Hasher;

use crate::measure::megabytes;

/// A large package.
const FILE_BYTES: usize = 50_000_000;
const CONNECTIONS: [usize; 3] = [1, 50, 500];
/// How many hosts fetch at once in the second part.
const HOSTS: usize = 500;
const ROUND: Duration = Duration::from_secs(3);
/// How long a server may take to be there.
const START: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;
const STACK_BYTES: usize = 256 << 10;
const NAME: &str = "packages/large/large--1.tar.zst";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sides: crate::Sides,
    /// The other side
    #[arg(long, value_name = "PATH", default_value = "/usr/sbin/nginx")]
    nginx: Utf8PathBuf,
}

/// A server that runs; told to end when it is dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Not killed: nginx has to end its workers.
        let ended = kill(self.pid(), Signal::SIGTERM).is_ok() && self.child.wait().is_ok();
        debug_assert!(ended, "a server that was started can be ended");
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let monobloc = crate::monobloc(args.sides.program.as_ref())?;
    ensure!(
        args.nginx.is_file(),
        "`{}` is missing: install nginx (Debian: nginx-light), or name it with `--nginx`",
        args.nginx
    );
    let (_guard, work) = crate::work_folder()?;
    let file = work.join("serve").join(NAME);
    fs_err::create_dir_all(file.parent().context("it lies in a folder")?)?;
    fs_err::write(&file, crate::audit::Noise(1).bytes(FILE_BYTES))?;
    let (ours, theirs) = (start_monobloc(&monobloc, &work)?, start_nginx(&args.nginx, &work)?);
    println!("a file of {} MB, from memory, plain HTTP/1.1", FILE_BYTES / 1_000_000);
    // Both are warm, and have been asked for all that they will be asked for.
    for server in [&ours, &theirs] {
        throughput(server, 50)?;
    }
    let before = ours.memory("VmRSS")?;
    println!("{:>11} {:>14} {:>14} {:>8}", "connections", "ours MB/s", "nginx MB/s", "ratio");
    for connections in CONNECTIONS {
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for _ in 0..args.sides.rounds {
            here.push(throughput(&ours, connections)?);
            there.push(throughput(&theirs, connections)?);
        }
        let (here, there) = (median(here), median(there));
        println!("{connections:>11} {here:>14.0} {there:>14.0} {:>8.2}", here / there);
    }
    let (after, peak) = (ours.memory("VmRSS")?, ours.memory("VmHWM")?);
    println!("memory of monobloc serve: {before} kB before, {after} kB after, at most {peak} kB");
    fetch_all(&ours, &Sha256::of_file(&file)?)?;
    println!("memory of monobloc serve: at most {} kB", ours.memory("VmHWM")?);
    Ok(())
}

fn start_monobloc(program: &Utf8Path, work: &Utf8Path) -> anyhow::Result<Server> {
    let mut child = Command::new(program)
        .current_dir(work)
        .args(["serve", "serve", "--listen", "127.0.0.1:0", "--access-log", "ours.log", "--json"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    BufReader::new(child.stdout.take().context("it was piped")?).read_line(&mut said)?;
    let port = said.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next());
    let port = port.with_context(|| format!("no address in `{said}`"))?.parse()?;
    Ok(Server { child, address: (Ipv4Addr::LOCALHOST, port).into() })
}

fn start_nginx(program: &Utf8Path, work: &Utf8Path) -> anyhow::Result<Server> {
    // A port that is free now; nginx cannot say which one it chose.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let user = if nix::unistd::geteuid().is_root() { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {work}/nginx-{kind};\n"))
        .concat();
    let config = format!(
        "{user} daemon off; worker_processes auto; pid {work}/nginx.pid;\n\
         error_log {work}/nginx-error.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n{temporary}\
         access_log {work}/theirs.log; sendfile on; tcp_nopush on; keepalive_requests 1000000;\n\
         server {{ listen {address} backlog=4096; root {work}/serve; }} }}\n"
    );
    let path = work.join("nginx.conf");
    fs_err::write(&path, config)?;
    let child = Command::new(program)
        .args(["-p", work.as_str(), "-c", path.as_str(), "-e"])
        .arg(work.join("nginx-error.log"))
        .spawn()?;
    let mut server = Server { child, address };
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        if server.child.try_wait()?.is_some() || started.elapsed() > START {
            let log = fs_err::read_to_string(work.join("nginx-error.log")).unwrap_or_default();
            bail!("nginx did not start: {log}");
        }
        thread::yield_now();
    }
    Ok(server)
}

impl Server {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// A figure about its memory, in kB.
    fn memory(&self, what: &str) -> anyhow::Result<u64> {
        let status = fs_err::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(what));
        let figure = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(figure.with_context(|| format!("no {what}"))?.parse()?)
    }

    /// Asks for the file, and returns what is left to read of the answer's content in `buffer`.
    fn ask(&self, stream: &mut TcpStream, buffer: &mut [u8]) -> anyhow::Result<usize> {
        write!(stream, "GET /{NAME} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address)?;
        let mut filled = 0;
        loop {
            let read = stream.read(&mut buffer[filled..])?;
            ensure!(read > 0, "the server closed the connection");
            filled += read;
            let end = buffer[..filled].windows(4).position(|bytes| bytes == b"\r\n\r\n");
            if let Some(end) = end {
                ensure!(buffer.starts_with(b"HTTP/1.1 200"), "the server did not send the file");
                buffer.copy_within(end + 4..filled, 0);
                return Ok(filled - end - 4);
            }
        }
    }
}

/// MB/s that clients get who ask again and again, each over one connection.
fn throughput(server: &Server, connections: usize) -> anyhow::Result<f64> {
    let (total, is_over, begin) =
        (AtomicU64::new(0), AtomicBool::new(false), Barrier::new(connections + 1));
    let client = || -> anyhow::Result<()> {
        let mut stream = TcpStream::connect(server.address)?;
        let mut buffer = vec![0; READ_BYTES];
        begin.wait();
        while !is_over.load(Ordering::Relaxed) {
            let mut done = server.ask(&mut stream, &mut buffer)?;
            while done < FILE_BYTES && !is_over.load(Ordering::Relaxed) {
                let read = stream.read(&mut buffer)?;
                ensure!(read > 0, "the server closed the connection");
                done += read;
                total.fetch_add(read as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for _ in 0..connections {
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            clients.push(builder.spawn_scoped(scope, client)?);
        }
        begin.wait();
        let started = Instant::now();
        thread::sleep(ROUND);
        let speed = megabytes(total.load(Ordering::Relaxed)) / started.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().expect("a client does not panic")?;
        }
        Ok(speed)
    })
}

/// All hosts fetch the file at once, and verify it.
fn fetch_all(server: &Server, expected: &Sha256) -> anyhow::Result<()> {
    let begin = Barrier::new(HOSTS);
    let (refused, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
    let host = || {
        begin.wait();
        match fetch(server) {
            Ok(digest) if digest == *expected => {}
            Ok(_) => drop(wrong.fetch_add(1, Ordering::Relaxed)),
            Err(_) => drop(refused.fetch_add(1, Ordering::Relaxed)),
        }
    };
    let started = Instant::now();
    thread::scope(|scope| -> anyhow::Result<()> {
        for _ in 0..HOSTS {
            thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, host)?;
        }
        Ok(())
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let speed = megabytes((HOSTS * FILE_BYTES) as u64) / seconds;
    let (refused, wrong) = (refused.into_inner(), wrong.into_inner());
    println!(
        "{HOSTS} hosts at once, each {} MB, hashed: {seconds:.1} s, {speed:.0} MB/s; \
         {refused} refused or broken, {wrong} wrong",
        FILE_BYTES / 1_000_000
    );
    ensure!(refused == 0 && wrong == 0, "not every host got the file");
    Ok(())
}

fn fetch(server: &Server) -> anyhow::Result<Sha256> {
    let mut stream = TcpStream::connect(server.address)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut hasher = Hasher::new();
    let mut filled = server.ask(&mut stream, &mut buffer)?;
    let mut left = FILE_BYTES;
    loop {
        hasher.update(&buffer[..filled]);
        left -= filled;
        if left == 0 {
            return Ok(hasher.finish());
        }
        filled = match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Ok(0) => bail!("the server closed the connection"),
            read => read?,
        };
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
