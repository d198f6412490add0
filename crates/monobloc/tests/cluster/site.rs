//! A cluster on this machine, what is published for it, and scripts that run on its hosts.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use local::{
    BOOT_MAX, Cluster, Guard, Host, HostSpec, Image, Job, LocalError, Machine, Options, Role, Suite,
};
use package::bundle::Bundle;

use crate::gate::Gate;
use crate::tree;

/// How long anything may take.
pub(crate) const LIMIT: Duration = Duration::from_mins(3);

/// Where hosts look for the bundle.
const PORT: u16 = 8080;

/// What was published as a version.
pub(crate) struct Published {
    pub(crate) bundle: Bundle,
    /// Where its script is that upgrades, if there is one.
    upgrade: Option<String>,
}

pub(crate) struct Site {
    /// It goes before the network that it listens in.
    pub(crate) gate: Gate,
    cluster: Guard,
    /// What is installed; the scripts are named after it.
    distribution: &'static str,
    /// Trees and the files that are made of them.
    folder: tempfile::TempDir,
    server: Mutex<Option<Server>>,
    pub(crate) published: BTreeMap<String, Published>,
}

/// Masters `m1`… and agents `a1`… of a release.
pub(crate) fn hosts(release: Suite, masters: usize, agents: usize) -> Vec<HostSpec> {
    let masters =
        (1..=masters).map(|number| HostSpec::new(format!("m{number}"), release).role(Role::Master));
    let agents =
        (1..=agents).map(|number| HostSpec::new(format!("a{number}"), release).role(Role::Slave));
    masters.chain(agents).collect()
}

impl Site {
    /// A cluster of hosts of one release, for which version 1 is published and served.
    pub(crate) fn new(name: &str, masters: usize, agents: usize) -> Self {
        Self::with(&Options::new(name, hosts(Suite::Bookworm, masters, agents), program()))
    }

    pub(crate) fn with(options: &Options) -> Self {
        let mut site = Self::bare(options, "dcos");
        site.publish("1", None);
        site.start_server();
        site
    }

    /// A cluster for which nothing is published yet.
    pub(crate) fn bare(options: &Options, distribution: &'static str) -> Self {
        let machine = Machine::default();
        for host in &options.hosts {
            Image::ensure(&machine, host.image, &Job::default()).unwrap();
        }
        // There is something to remove only if a run was killed.
        match Cluster::remove(&machine, &options.name, &Job::default()) {
            Ok(()) | Err(LocalError::NotUp { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let cluster = Cluster::up(&machine, options, &Job::default()).unwrap().guard();
        let gate = Gate::new(SocketAddr::from((cluster.machine_address(), PORT)));
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (server, published) = (Mutex::default(), BTreeMap::new());
        Self { gate, cluster, distribution, folder, server, published }
    }

    pub(crate) fn host(&self, name: &str) -> &Host {
        self.cluster.host(name).unwrap()
    }

    pub(crate) fn hosts(&self) -> &[Host] {
        self.cluster.hosts()
    }

    /// The keys of hosts, by which they are known.
    pub(crate) fn known_hosts(&self) -> Utf8PathBuf {
        self.cluster.known_hosts()
    }

    /// The key that lets in.
    pub(crate) fn ssh_key(&self) -> Utf8PathBuf {
        self.cluster.ssh_key()
    }

    /// Where the configuration is.
    pub(crate) fn config(&self) -> Utf8PathBuf {
        self.cluster.config().unwrap()
    }

    /// The folder that is served.
    fn served(&self) -> Utf8PathBuf {
        self.cluster.config().unwrap().with_file_name("serve")
    }

    /// Builds a version and publishes it, with a script that upgrades hosts which have `from`.
    pub(crate) fn publish(&mut self, version: &str, from: Option<&str>) {
        self.publish_as(version, from, false);
    }

    /// The same of a version whose checks fail.
    pub(crate) fn publish_ill(&mut self, version: &str, from: &str) {
        self.publish_as(version, Some(from), true);
    }

    fn publish_as(&mut self, version: &str, from: Option<&str>, is_ill: bool) {
        tree::write(&self.tree(), version, is_ill);
        self.publish_tree(version, from);
    }

    /// Where trees are built.
    pub(crate) fn tree(&self) -> Utf8PathBuf {
        Utf8Path::from_path(self.folder.path()).unwrap().join("tree")
    }

    /// Builds the tree that is there, whose version this is, and publishes it.
    pub(crate) fn publish_tree(&mut self, version: &str, from: Option<&str>) {
        self.monobloc(&["build", "tree", "-o", "one.sh"]);
        let config = self.cluster.config().unwrap();
        let mut words = vec!["configure", "--tree", "one.sh", "--config", config.as_str()];
        words.extend(from.into_iter().flat_map(|from| ["--upgrade-from", from]));
        let said = self.monobloc(&words);
        let upgrade = said.lines().find_map(|line| line.strip_prefix("Node upgrade script URL: "));
        let bundle = fs_err::read(self.served().join("bundle.json")).unwrap();
        let bundle = Bundle::parse(&bundle).unwrap();
        let published = Published { bundle, upgrade: upgrade.map(str::to_owned) };
        self.published.insert(version.to_owned(), published);
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).current_dir(self.folder.path());
        command.env("MONOBLOC_PROGRAM", host_program());
        command
    }

    fn monobloc(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", all(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A command for all hosts of the cluster, over SSH.
    pub(crate) fn fleet(&self, words: &[&str]) -> Command {
        self.fleet_of(words, &self.cluster.inventory(), None)
    }

    /// The same for hosts that somebody else lists, with keys that somebody else knows.
    pub(crate) fn fleet_of(
        &self,
        words: &[&str],
        inventory: &Utf8Path,
        known: Option<&Utf8Path>,
    ) -> Command {
        let config = self.cluster.config().unwrap();
        let mut command = self.command(words);
        command.args(["--config", config.as_str()]);
        // A run, or a plan, knows its hosts.
        if !["apply", "resume", "logs", "export"].contains(&words[0]) {
            command.args(["--inventory", inventory.as_str()]);
        }
        command.args(known.iter().flat_map(|known| ["--known-hosts", known.as_str()]));
        command
    }

    /// Runs one to its end, which must be a good one; returns what it answers.
    pub(crate) fn fleet_does(&self, words: &[&str]) -> String {
        let output = self.fleet(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", all(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts the server, and leads hosts to it.
    pub(crate) fn start_server(&self) {
        let words = ["serve", self.served().as_str(), "--listen", "127.0.0.1:0"].map(str::to_owned);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let server = Server::start(self.command(&words));
        self.gate.lead(Some(server.address));
        *self.server.lock().unwrap() = Some(server);
    }

    /// Ends the server at once, as if its machine had lost its power.
    pub(crate) fn kill_server(&self) {
        self.gate.lead(None);
        drop(self.server.lock().unwrap().take());
    }

    /// Runs the install script on a host, as somebody at its console would.
    pub(crate) fn begin_install(&self, host: &Host) -> Run {
        let (script, role) = (format!("{}_install.sh", self.distribution), host.role().unwrap());
        let url = format!("http://machine:{PORT}/{script}");
        begin(host, &format!("curl -fsSO {url} && exec sh {script} {}", role.as_str()))
    }

    /// Runs the script on a host that upgrades it to a version.
    pub(crate) fn begin_upgrade(&self, host: &Host, version: &str) -> Run {
        let url = self.published[version].upgrade.as_ref().unwrap();
        let script = format!("{}_node_upgrade.sh", self.distribution);
        begin(host, &format!("curl -fsSo {script} {url} && exec sh {script}"))
    }

    /// Installs hosts at once, undisturbed.
    pub(crate) fn install(&self, hosts: &[&str]) {
        let runs: Vec<Run> = hosts.iter().map(|host| self.begin_install(self.host(host))).collect();
        for run in runs {
            run.done();
        }
    }

    /// Boots a host again that lost its power, and waits until what boot begins is over.
    pub(crate) fn boot(&self, host: &Host) {
        host.start().unwrap();
        host.wait_booted(BOOT_MAX).unwrap();
    }
}

/// The program on this machine.
pub(crate) fn program() -> Utf8PathBuf {
    env!("CARGO_BIN_EXE_monobloc").into()
}

/// The program as hosts get it.
fn host_program() -> Utf8PathBuf {
    let program = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/dist/monobloc");
    let found = program.canonicalize_utf8();
    found.unwrap_or_else(|_| {
        panic!("`{program}` is missing: `cargo xtask dist` makes it, as `./check` does")
    })
}

pub(crate) fn all(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server that ends with the test.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            line.split_once("http://").map(|(_, address)| address.trim_end_matches('/').to_owned())
        });
        // Whoever stops reading would stop the server.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.unwrap().parse().unwrap() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A script that runs on a host.
pub(crate) struct Run {
    host: String,
    child: Child,
}

/// Runs a script on a host as a unit of its own: it is frozen and killed with the host, and needs no network
/// to go on.
pub(crate) fn begin(host: &Host, script: &str) -> Run {
    let words = ["systemd-run", "--wait", "--pipe", "--quiet", "--collect"];
    let words = [&words[..], &["--working-directory=/root", "sh", "-c", script]].concat();
    let mut command = host.command(&words).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Run { host: host.name().to_owned(), child: command.spawn().unwrap() }
}

impl Run {
    /// How it ends: its exit code, if nobody killed it, and all that it said.
    pub(crate) fn end(self) -> (Option<i32>, String) {
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), all(&output))
    }

    /// What it said; it must succeed.
    pub(crate) fn done(self) -> String {
        let host = self.host.clone();
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{host}: {said}");
        said
    }

    /// What it said; it must fail, and not be killed.
    pub(crate) fn failed(self) -> String {
        let host = self.host.clone();
        let (code, said) = self.end();
        assert_eq!(code, Some(1), "{host}: {said}");
        said
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}
