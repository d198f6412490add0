//! `preflight.yaml` as people write it: short where it can be, and every mistake with its place.

use std::collections::BTreeSet;

use camino::Utf8Path;
use package::diagnostic::Diagnostic;
use package::id::RoleName;
use package::preflight::{Preflight, read};
use proptest::prelude::*;

fn roles() -> BTreeSet<RoleName> {
    ["master", "slave", "slave_public"].map(|role| role.parse().unwrap()).into()
}

fn parse(text: &str) -> Result<Preflight, Vec<Diagnostic>> {
    read(Utf8Path::new("config/preflight.yaml"), text, &roles())
}

fn mistakes(text: &str) -> String {
    let found = parse(text).expect_err("it must be refused");
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

const EVERYTHING: &str = r##"
checks:
  ports:
    - {tcp: [2379, 2380], udp: 53, roles: [master], severity: error}
    - {tcp: [9100], addresses: 127.0.0.1}
  commands: [curl, tar]
  memory: {at_least: 4 GiB, roles: master, fix: buy some}
  cpus: 2
  kernel: "3.10"
  disk: {path: /var/lib/x, at_least: 10 GiB}
  swap: off
  firewall: notice
  clock: {max_error: 250ms}
  docker: {at_least: "1.13", storage_drivers: overlay2}
  xfs: [/var/lib/docker]
  cgroup: 2
  installed:
  address: {script: "#!/bin/sh\necho 192.0.2.1\n", expected: [192.0.2.1, master-2], roles: [master]}
own:
  - name: raid
    script: |
      #!/bin/sh
      exit 0
    timeout: 500ms
    severity: warning
    fix: build a RAID
  - {name: ping, command: [ping, -c1, 192.0.2.1]}
reach:
  - {from: [slave, slave_public], to: master, tcp: [2379, 4222]}
  - {to: [master], tcp: 80}
"##;

#[test]
fn what_is_declared_has_one_form() {
    let read = parse(EVERYTHING).unwrap_or_else(|found| panic!("{found:?}"));
    let lines = read.checks.iter().map(|check| serde_json::to_string(check).unwrap());
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r##"
    {"check":"ports","tcp":[2379,2380],"udp":[53],"addresses":[],"roles":["master"],"severity":"error"}
    {"check":"ports","tcp":[9100],"udp":[],"addresses":["127.0.0.1"]}
    {"check":"commands","names":["curl","tar"]}
    {"check":"memory","at_least":4294967296,"roles":["master"],"fix":"buy some"}
    {"check":"cpus","at_least":2}
    {"check":"kernel","at_least":"3.10"}
    {"check":"disk","path":"/var/lib/x","at_least":10737418240}
    {"check":"swap","severity":"off"}
    {"check":"firewall","severity":"notice"}
    {"check":"clock","max_error_ms":250}
    {"check":"docker","at_least":"1.13","storage_drivers":["overlay2"]}
    {"check":"xfs","paths":["/var/lib/docker"]}
    {"check":"cgroup","version":2}
    {"check":"installed"}
    {"check":"address","script":"#!/bin/sh\necho 192.0.2.1\n","expected":["192.0.2.1","master-2"],"roles":["master"]}
    {"check":"own","name":"raid","program":{"script":"#!/bin/sh\nexit 0\n"},"timeout_ms":500,"severity":"warning","fix":"build a RAID"}
    {"check":"own","name":"ping","program":{"command":["ping","-c1","192.0.2.1"]},"timeout_ms":10000}
    "##);
    let lines = read.reach.iter().map(|reach| serde_json::to_string(reach).unwrap());
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    {"from":["slave","slave_public"],"to":["master"],"tcp":[2379,4222]}
    {"to":["master"],"tcp":[80]}
    "#);
    assert!(read.to_json().starts_with(b"{\n  \"checks\":[\n"));
    assert_eq!(Preflight::parse(&read.to_json()).unwrap(), read);
}

#[test]
fn every_mistake_is_told_at_its_place_with_what_was_meant() {
    let text = r#"
checks:
  portz: {tcp: [80]}
  ports: {tpc: [80], tcp: [0, 70000, http]}
  memory: {at_least: much, roles: [masster]}
  swap: 7
  kernel: 3.10
  cgroup: 3
  disk: {path: var/lib, severity: eror}
  address: {expected: [192.0.2.1]}
own:
  - {name: ports, command: [a]}
  - {name: a b, command: [a]}
  - {name: both, command: [a], script: "echo"}
  - {name: none}
  - {name: text, script: "echo"}
  - {name: long, command: [a], timeout: 1h}
extra: 1
reach:
  - {from: [masster], tcp: [80]}
  - {to: [master], ports: [80]}
  - {tcp: [0]}
  - {tcp: []}
  - master
"#;
    insta::assert_snapshot!(mistakes(text), @"
    config/preflight.yaml:18:1: unknown key `extra` in the file (known keys: checks, own, reach)
    config/preflight.yaml:3:3: there is no check `portz` (did you mean `ports`?)
    config/preflight.yaml:4:11: unknown key `tpc` in check `ports` (did you mean `tcp`?)
    config/preflight.yaml:4:28: `tcp` of check `ports` is no port (expected a number from 1 to 65535)
    config/preflight.yaml:4:31: `tcp` of check `ports` is no port (expected a number from 1 to 65535)
    config/preflight.yaml:4:38: `tcp` of check `ports` is no port (expected a number from 1 to 65535)
    config/preflight.yaml:5:22: `at_least` of check `memory`: expected a size such as `4 GiB`
    config/preflight.yaml:5:36: the distribution has no role `masster` (did you mean `master`?)
    config/preflight.yaml:6:9: check `swap` is a whole number, expected an object, or `error`, `warning`, `notice`, `off`
    config/preflight.yaml:7:11: `at_least` of check `kernel` is a number (put the version into quotes)
    config/preflight.yaml:8:11: there is no version 3 of cgroups (expected 1 or 2)
    config/preflight.yaml:9:16: `path` of check `disk` is `var/lib`, expected an absolute path
    config/preflight.yaml:9:35: `severity` of check `disk` is `eror` (did you mean `error`?)
    config/preflight.yaml:10:12: check `address` lacks the key `script`
    config/preflight.yaml:12:12: a check cannot be called `ports` (this program has a check of that name: choose another)
    config/preflight.yaml:13:12: a check cannot be called `a b` (expected letters, digits, `-`, `_` and `.`)
    config/preflight.yaml:14:5: a check has either `script` or `command`
    config/preflight.yaml:15:5: a check has either `script` or `command`
    config/preflight.yaml:16:26: `script` does not start with `#!` and the path of an interpreter (begin it with the line `#!/bin/sh`)
    config/preflight.yaml:17:5: check `long` may run for 1 ms to 5 minutes
    config/preflight.yaml:20:13: the distribution has no role `masster` (did you mean `master`?)
    config/preflight.yaml:21:20: unknown key `ports` in an entry of `reach` (known keys: from, to, tcp)
    config/preflight.yaml:21:5: an entry of `reach` lacks the key `tcp`
    config/preflight.yaml:22:12: `tcp` of an entry of `reach` is no port (expected a number from 1 to 65535)
    config/preflight.yaml:23:11: an entry of `reach` names no port
    config/preflight.yaml:24:5: an entry of `reach` is a string, expected an object
    ");
}

#[test]
fn a_newer_format_is_refused() {
    let newer = br#"{"format": 2, "checks": []}"#;
    assert!(Preflight::parse(newer).unwrap_err().to_string().contains("has format 2"));
    assert_eq!(parse("").unwrap().checks, []);
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader(text in "\\PC{0,200}") {
        drop(parse(&text));
    }

    #[test]
    fn what_is_read_is_written_and_read_back(
        name in prop::sample::select(vec!["ports", "memory", "commands", "disk", "clock", "swap", "own", "xfs"]),
        key in prop::sample::select(vec!["tcp", "at_least", "names", "path", "max_error", "roles", "severity", "paths"]),
        value in prop::sample::select(vec!["80", "[1, 2]", "4 GiB", "/a/b", "10ms", "master", "off", "error", "~", "{}"]),
    ) {
        for text in [
            format!("checks: {{{name}: {{{key}: {value}}}}}"),
            format!("checks: {{{name}: {value}}}"),
            format!("checks: {{{name}: [{{{key}: {value}}}, {value}]}}"),
            format!("own: [{{name: x, {key}: {value}, command: [{value}]}}]"),
        ] {
            if let Ok(read) = parse(&text) {
                prop_assert_eq!(Preflight::parse(&read.to_json()).unwrap(), read);
            }
        }
    }
}

#[test]
fn a_program_that_knows_nothing_of_who_reaches_whom_reads_the_rest() {
    let with = parse("checks: {swap: off}\nreach:\n  - {tcp: [80]}\n").unwrap();
    let without = parse("checks: {swap: off}\n").unwrap();
    assert!(!String::from_utf8(without.to_json()).unwrap().contains("reach"));
    assert_eq!(Preflight::parse(&without.to_json()).unwrap().reach, []);
    assert_eq!(Preflight::parse(&with.to_json()).unwrap().checks, without.checks);
}
