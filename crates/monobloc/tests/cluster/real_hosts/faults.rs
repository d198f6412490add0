//! What goes wrong, in the middle of things.

use camino::Utf8PathBuf;
use local::{BOOT_MAX, Host, Options, Suite};
use testing::files::write_files;

use crate::site::{self, Run, Site, eventually};
use crate::state::{has_setup, live, path, processes, trial};
use crate::tree;

/// The disk of a host that becomes full: what is installed, twice, and what preflight wants to be free.
const DISK_BYTES: u64 = 400 << 20;
/// How many of 100 packets are lost, each way.
const LOST_PERCENT: u8 = 10;

/// What is done to hosts while something goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Install,
    Upgrade,
}

/// When something goes wrong, in the order in which things happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// The program is half there.
    Program,
    /// A package is half there.
    Package,
    /// All packages are there.
    Fetched,
    /// What runs is being stopped.
    Stopping,
    /// The new version runs, and is not confirmed.
    Trial,
}

impl Moment {
    /// Begins a change, and returns when the moment has come.
    fn reach(self, site: &Site, change: Change, host: &Host) -> Run {
        match self {
            Self::Program => site.gate.hold(host, "/programs/"),
            Self::Package => site.gate.hold(host, "/packages/data/"),
            Self::Fetched | Self::Stopping | Self::Trial => {}
        }
        let run = change.begin(site, host);
        match self {
            Self::Program | Self::Package => site.gate.wait_held(host),
            Self::Fetched => {
                eventually("all packages are there", || site.has_packages(host, change.version()));
            }
            Self::Stopping => eventually("it is on trial", || trial(host).is_some()),
            Self::Trial => eventually("the new version runs", || {
                trial(host).is_some_and(|trial| trial["started"] == true)
            }),
        }
        run
    }
}

impl Change {
    /// A cluster whose masters and agents are as they are before the change.
    fn site(self, name: &str, masters: usize, agents: usize) -> Site {
        self.with(&Options::new(
            name,
            site::hosts(Suite::Bookworm, masters, agents),
            site::program(),
        ))
    }

    /// The same of any hosts. Masters are installed in any case, so that agents have somebody to report to.
    fn with(self, options: &Options) -> Site {
        let mut site = Site::with(options);
        let all: Vec<String> = site.hosts().iter().map(|host| host.name().to_owned()).collect();
        let first = all.iter().filter(|name| self == Self::Upgrade || name.starts_with('m'));
        site.install(&first.map(String::as_str).collect::<Vec<_>>());
        if self == Self::Upgrade {
            site.publish("2", Some("1"));
        }
        for host in site.hosts() {
            if host.name().starts_with('m') {
                site.assert_live(host, "1", 1);
            } else {
                self.assert_before(&site, host);
            }
        }
        site
    }

    /// The version that hosts shall have.
    fn version(self) -> &'static str {
        match self {
            Self::Install => "1",
            Self::Upgrade => "2",
        }
    }

    fn begin(self, site: &Site, host: &Host) -> Run {
        match self {
            Self::Install => site.begin_install(host),
            Self::Upgrade => site.begin_upgrade(host, "2"),
        }
    }

    /// Nothing is changed yet, and what was installed runs.
    fn assert_waits(self, site: &Site, host: &Host) {
        match self {
            Self::Install => site.assert_absent(host),
            Self::Upgrade => site.assert_runs(host, "1", 1),
        }
    }

    /// The host is as it was, all of it.
    fn assert_before(self, site: &Site, host: &Host) {
        match self {
            Self::Install => site.assert_absent(host),
            Self::Upgrade => site.assert_live(host, "1", 1),
        }
    }

    /// The change is done, all of it.
    fn assert_after(self, site: &Site, host: &Host) {
        self.assert_after_trials(site, host, 1);
    }

    /// The same where it was tried so often.
    fn assert_after_trials(self, site: &Site, host: &Host, trials: u64) {
        match self {
            // The first generation stays, for there is nothing to go back to.
            Self::Install => site.assert_finished(host, "1", 1),
            Self::Upgrade => site.assert_finished(host, "2", 1 + trials),
        }
    }

    /// The change, undisturbed.
    fn done(self, site: &Site, host: &Host) {
        self.begin(site, host).done();
        self.assert_after(site, host);
    }
}

pub(super) fn power_cut(change: Change, name: &str) {
    let site = change.site(name, 1, 4);
    let moments = [
        ("a1", Moment::Program),
        ("a2", Moment::Package),
        ("a3", Moment::Stopping),
        ("a4", Moment::Trial),
    ];
    std::thread::scope(|scope| {
        // An installed host has the program already.
        for (host, moment) in moments.into_iter().skip(usize::from(change == Change::Upgrade)) {
            let (site, host) = (&site, site.host(host));
            scope.spawn(move || cut_power(site, change, host, moment));
        }
    });
}

fn cut_power(site: &Site, change: Change, host: &Host, moment: Moment) {
    let run = moment.reach(site, change, host);
    host.kill().unwrap();
    let (_, said) = run.end();
    assert!(!said.contains("installed: "), "{}: {said}", host.name());
    assert!(moment < Moment::Stopping || has_setup(host), "boot does not know of {}", host.name());
    site.gate.release(host);
    site.boot(host);
    if change == Change::Install && moment >= Moment::Stopping {
        assert_first_or_none(site, host);
    } else {
        change.assert_before(site, host);
    }
    change.begin(site, host).done();
    let trials = if moment < Moment::Stopping { 1 } else { 2 };
    change.assert_after_trials(site, host, trials);
}

/// Boot finished the first generation, if it was live already.
fn assert_first_or_none(site: &Site, host: &Host) {
    match live(host) {
        None => site.assert_still(host),
        Some(_) => site.assert_live(host, "1", 1),
    }
}

/// Something is wrong with one agent until another one is done.
fn goes_on_after(site: &Site, change: Change, moment: Moment, hosts: [&str; 2], fault: fn(&Host)) {
    let [host, other] = hosts.map(|host| site.host(host));
    let running = (change == Change::Upgrade).then(|| processes(host));
    let mut run = moment.reach(site, change, host);
    if moment < Moment::Stopping {
        change.assert_waits(site, host);
        assert_eq!((change == Change::Upgrade).then(|| processes(host)), running);
    }
    fault(host);
    site.gate.release(host);
    change.done(site, other);
    assert!(run.is_running(), "{} does not need what it lacks", host.name());
    host.heal().unwrap();
    run.done();
    change.assert_after(site, host);
}

pub(super) fn cut(change: Change, name: &str) {
    let site = change.site(name, 1, 3);
    let cut = |host: &Host| host.cut().unwrap();
    goes_on_after(&site, change, Moment::Package, ["a1", "a2"], cut);
    if change == Change::Install {
        return;
    }
    // A version that does not find the masters again is not kept.
    let host = site.host("a3");
    let run = Moment::Fetched.reach(&site, change, host);
    host.cut().unwrap();
    let said = run.failed();
    assert!(said.contains("generation 1 is live again: check `agent`"), "{said}");
    host.heal().unwrap();
    change.assert_before(&site, host);
    change.begin(&site, host).done();
    change.assert_after_trials(&site, host, 2);
}

pub(super) fn frozen(change: Change, name: &str) {
    let site = change.site(name, 1, 4);
    let freeze = |host: &Host| host.freeze().unwrap();
    goes_on_after(&site, change, Moment::Package, ["a1", "a2"], freeze);
    goes_on_after(&site, change, Moment::Trial, ["a3", "a4"], freeze);
}

pub(super) fn full_disk(change: Change, name: &str) {
    let hosts = site::hosts(Suite::Bookworm, 1, 3);
    let options = Options { disk: Some(DISK_BYTES), ..Options::new(name, hosts, site::program()) };
    let site = change.with(&options);
    // No room to download, and none to unpack.
    for (host, leave) in [("a1", 0), ("a2", tree::DATA_BYTES as u64)] {
        let host = site.host(host);
        let run = Moment::Package.reach(&site, change, host);
        host.fill(leave).unwrap();
        site.gate.release(host);
        let said = run.failed();
        assert!(said.contains("No space left on device"), "{said}");
        host.heal().unwrap();
        change.assert_before(&site, host);
        change.done(&site, host);
    }
    // And none left in the middle of the switch.
    let host = site.host("a3");
    let held = match change {
        Change::Install => Held::at(host, "/usr/sbin/useradd", "dcos_agent"),
        Change::Upgrade => Held::at(host, "/usr/bin/systemd-run", "--property=Conflicts="),
    };
    let run = change.begin(&site, host);
    held.wait();
    assert!(trial(host).is_some(), "the switch has begun");
    host.fill(0).unwrap();
    held.go();
    let said = run.failed();
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(trial(host), None, "it ended: {said}");
    match change {
        Change::Install => {
            assert_eq!(live(host), None, "{said}");
            site.assert_still(host);
        }
        Change::Upgrade => site.assert_runs(host, "1", 1),
    }
    host.heal().unwrap();
    drop(held);
    if change == Change::Upgrade {
        change.assert_before(&site, host);
    } else {
        host.reboot().unwrap();
        host.wait_booted(BOOT_MAX).unwrap();
        assert_eq!(live(host), None, "boot has nothing to finish");
        site.assert_still(host);
    }
    change.begin(&site, host).done();
    match change {
        // The first generation was given up.
        Change::Install => site.assert_finished(host, "1", 2),
        Change::Upgrade => change.assert_after_trials(&site, host, 2),
    }
}

/// A program of a host that waits when it is told something, so that whoever runs it is held at a known moment.
pub(super) struct Held<'a> {
    host: &'a Host,
    program: Utf8PathBuf,
}

impl<'a> Held<'a> {
    pub(super) fn at(host: &'a Host, program: &str, word: &str) -> Self {
        let script = format!(
            "#!/bin/sh\ncase $* in *'{word}'*)\n    touch /tmp/held\n    \
             until [ -e /tmp/go ]; do sleep 0.1; done ;;\nesac\nexec {program}.real \"$@\"\n"
        );
        let held = Self { host, program: path(host, program) };
        fs_err::rename(&held.program, held.real()).unwrap();
        write_files(host.root(), &[(program.trim_start_matches('/'), script, 0o755)]).unwrap();
        held
    }

    fn real(&self) -> Utf8PathBuf {
        format!("{}.real", self.program).into()
    }

    pub(super) fn wait(&self) {
        let is_there = || self.host.exec(&["test", "-e", "/tmp/held"]).unwrap().status.success();
        eventually("it is held", is_there);
    }

    fn go(&self) {
        self.host.run(&["touch", "/tmp/go"]).unwrap();
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        drop(fs_err::rename(self.real(), &self.program));
    }
}

pub(super) fn loss(change: Change, name: &str) {
    let site = change.site(name, 1, 1);
    let host = site.host("a1");
    host.lose(LOST_PERCENT).unwrap();
    change.done(&site, host);
    assert_eq!(host.faults(), [format!("loses {LOST_PERCENT} %")]);
}

pub(super) fn server_killed(change: Change, name: &str) {
    let site = change.site(name, 1, 3);
    // Those in the middle of it wait for it.
    let first = if change == Change::Install { Moment::Program } else { Moment::Package };
    let hosts = [("a1", first), ("a2", Moment::Package)];
    let hosts = hosts.map(|(host, moment)| (site.host(host), moment));
    let runs = hosts.map(|(host, moment)| moment.reach(&site, change, host));
    site.kill_server();
    for (host, _) in hosts {
        site.gate.release(host);
        change.assert_waits(&site, host);
    }
    site.start_server();
    for (run, (host, _)) in runs.into_iter().zip(hosts) {
        run.done();
        change.assert_after(&site, host);
    }
    // Those who find nobody for long say so.
    let host = site.host("a3");
    let run = Moment::Package.reach(&site, change, host);
    site.kill_server();
    site.gate.release(host);
    let said = run.failed();
    assert!(said.contains("cannot download"), "{said}");
    change.assert_before(&site, host);
    site.start_server();
    change.done(&site, host);
}

pub(super) fn lost_master(change: Change, name: &str) {
    let site = change.site(name, 3, 2);
    site.assert_votes(3);
    let hosts = ["a1", "a2"].map(|host| site.host(host));
    let runs = hosts.map(|host| Moment::Package.reach(&site, change, host));
    let lost = site.host("m3");
    lost.kill().unwrap();
    for (run, host) in runs.into_iter().zip(hosts) {
        site.gate.release(host);
        run.done();
        change.assert_after(&site, host);
    }
    site.assert_votes(2);
    site.boot(lost);
    site.assert_live(lost, "1", 1);
    site.assert_votes(3);
    for host in hosts {
        change.assert_after(&site, host);
    }
    if change == Change::Upgrade {
        // And masters are upgraded as agents are.
        cut_power(&site, change, lost, Moment::Trial);
        site.assert_votes(3);
    }
}
