//! What of a cluster is to be seen on the machine.

use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use local::{Cluster, Machine};

/// Everything on the machine that belongs to the cluster `name`.
pub(crate) fn of_cluster(name: &str) -> Vec<String> {
    let mut traces = Vec::new();
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
    let folder = format!("/clusters/{name}/");
    traces.extend(mounts.lines().filter(|line| line.contains(&folder)).map(str::to_owned));
    let starts = [
        ("/run/netns", format!("monobloc.{name}.")),
        ("/run/systemd/nspawn/propagate", format!("{name}.")),
        ("/run/systemd/nspawn/unix-export", format!("{name}.")),
    ];
    for (folder, start) in starts {
        traces.extend(names(folder.into()).into_iter().filter(|name| name.starts_with(&start)));
    }
    let machine = Machine::default();
    let mut places = vec![
        machine.state.join("clusters").join(name),
        machine.run.join("clusters").join(name),
        Utf8Path::new("/sys/class/net").join(format!("mb-{name}")),
    ];
    places.extend(groups().iter().map(|group| group.join(name)));
    traces.extend(places.into_iter().filter(|place| place.exists()).map(String::from));
    traces.extend(processes(&[&folder, &format!("/monobloc-local/{name}/")]));
    traces
}

/// How long others may have clusters up.
const ALONE_MAX: Duration = Duration::from_mins(8);

/// What all clusters share, at a moment when there is none. Other tests may have clusters up until then.
pub(crate) fn shared() -> Vec<String> {
    let begun = Instant::now();
    loop {
        let clusters = || Cluster::names(&Machine::default()).unwrap();
        let shared = clusters().is_empty().then(look);
        match shared.filter(|_| clusters().is_empty()) {
            Some(shared) => return shared,
            None if begun.elapsed() > ALONE_MAX => panic!("others are up: {:?}", clusters()),
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn look() -> Vec<String> {
    let mut shared = names("/run/systemd".into());
    for limit in [
        "fs/inotify/max_user_instances",
        "fs/inotify/max_user_watches",
        "kernel/pid_max",
        "net/ipv4/neigh/default/gc_thresh3",
        "net/ipv6/neigh/default/gc_thresh1",
    ] {
        let value = fs_err::read_to_string(Utf8Path::new("/proc/sys").join(limit)).unwrap();
        shared.push(format!("{limit} = {}", value.trim()));
    }
    for place in ["/run/netns", "/run/monobloc-local/before.json", "/run/monobloc-local/clusters"] {
        shared.push(format!("{place}: {}", Utf8Path::new(place).exists()));
    }
    for group in groups() {
        shared.push(format!("{group}: {}", group.exists()));
    }
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
    let point = |line: &str| line.split(' ').nth(4).unwrap().to_owned();
    shared.extend(mounts.lines().map(point).filter(|point| point.starts_with("/run")));
    shared
}

/// Where the control groups of clusters can be.
fn groups() -> Vec<Utf8PathBuf> {
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
    let points = mounts.lines().filter(|line| line.contains(" - cgroup2 "));
    let points = points.map(|line| Utf8PathBuf::from(line.split(' ').nth(4).unwrap()));
    points.map(|point| point.join("monobloc-local")).collect()
}

/// Processes whose arguments or control group have one of `words` in them.
fn processes(words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for process in names("/proc".into()).iter().filter(|name| name.parse::<u32>().is_ok()) {
        let read = |file: &str| fs_err::read(format!("/proc/{process}/{file}")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let group = String::from_utf8_lossy(&read("cgroup")).into_owned();
        // A process that has ended and is not yet forgotten has no arguments.
        if !arguments.is_empty()
            && words.iter().any(|word| arguments.contains(word) || group.contains(word))
        {
            found.push(format!("{process} {arguments}"));
        }
    }
    found
}

fn names(folder: &Utf8Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir_utf8() else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().to_owned()).collect();
    names.sort();
    names
}
