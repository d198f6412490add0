//! A small distribution whose services talk to each other: masters answer and count each other, agents report
//! to the masters which version they are.
//!
//! Hosts have no program that listens, so systemd does, and a shell answers each connection.

use camino::Utf8Path;
use testing::files::write_files;

/// Where masters answer.
pub(crate) const PORT: u16 = 7000;
/// How much incompressible data comes with each version.
pub(crate) const DATA_BYTES: usize = 16 << 20;

const DISTRIBUTION: &str = "name = \"dcos\"\ninstall_root = \"/opt/mesosphere\"\n\
                            config_directory = \"/etc/mesosphere\"\n";
/// A package is what lies in its folder `extra`.
const BUILD: &str = "#!/bin/sh\ncp -R /pkg/extra/. \"$PKG_PATH/\"\n";

const QUORUM: &str = r#"{"username": "dcos_quorum", "state_directory": true,
    "checks": {
        "quorum": {"program": "bin/quorum-check", "roles": ["master"], "within_seconds": 10},
        "votes": {"program": "bin/votes-check", "roles": ["master"], "scope": "cluster"}}}"#;
const SOCKET: &str = "[Socket]\nListenStream=7000\nAccept=yes\n";
const ANSWER_UNIT: &str = "[Service]\nUser=dcos_quorum\nExecStart=-/opt/mesosphere/bin/quorum-answer\n\
                           StandardInput=socket\nStandardOutput=socket\nStandardError=journal\n";
const QUORUM_UNIT: &str = "[Service]\nUser=dcos_quorum\nExecStart=/opt/mesosphere/bin/quorum\n";

/// Says which version this master has and how many masters it hears, and notes which agent reports.
const ANSWER: &str = r#"
read -r _ path _
while read -r line && [ "$line" != $'\r' ]; do :; done
case $path in
    /agent/*)
        IFS=/ read -r _ _ name reported <<<"$path"
        echo "$reported" >"$state/.$name.$$" && mv "$state/.$name.$$" "$state/agent-$name"
        ;;
esac
answer="version $version votes $(cat "$state/votes")"
printf 'HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' "${#answer}" "$answer"
"#;

/// Counts the masters that answer.
const COUNT: &str = r#"
while :; do
    votes=0
    for master in $(cat /opt/mesosphere/etc/masters); do
        curl -fsS -m 2 -o /dev/null "http://$master:7000/" && votes=$((votes + 1))
    done
    echo "$votes" >"$state/.votes" && mv "$state/.votes" "$state/votes"
    sleep 0.5
done
"#;

const QUORUM_CHECK: &str = "
answer=$(curl -fsS -m 5 http://127.0.0.1:7000/) || exit 1
[ \"${answer#version $version votes }\" != \"$answer\" ]
";

/// More than half of the masters hear each other.
const VOTES_CHECK: &str = r#"
set -- $(cat /opt/mesosphere/etc/masters)
answer=$(curl -fsS -m 5 http://127.0.0.1:7000/) || exit 1
echo "${answer##* } of $# masters answer"
[ "${answer##* }" -gt $(($# / 2)) ]
"#;

const AGENT: &str = r#"{"username": "dcos_agent", "state_directory": true,
    "sysctl": {"agent": {"net.core.somaxconn": 2222}},
    "checks": {"agent": {"program": "bin/agent-check", "roles": ["slave"], "within_seconds": 10}}}"#;
const AGENT_UNIT: &str = "[Service]\nUser=dcos_agent\nExecStart=/opt/mesosphere/bin/agent\n";

/// The first report takes a while, so that there is a time in which a version runs and has not joined.
const REPORT: &str = r#"
while :; do
    sleep 1
    for master in $(cat /opt/mesosphere/etc/masters); do
        curl -fsS -m 2 -o /dev/null "http://$master:7000/agent/$(hostname)/$version" &&
            echo "$version $(date +%s)" >"$state/.joined" && mv "$state/.joined" "$state/joined"
    done
done
"#;

/// An agent that never found a master waits for one; one that did must find one again.
const AGENT_CHECK: &str = r#"
[ -e "$state/joined" ] || exit 0
read -r reported when <"$state/joined"
echo "reported version $reported at $when, it is $(date +%s)"
[ "$reported" = "$version" ] && [ $(($(date +%s) - when)) -le 10 ]
"#;

/// Writes the tree in a version, whose checks fail if it `is_ill`.
pub(crate) fn write(folder: &Utf8Path, version: &str, is_ill: bool) {
    let script = |package: &str, body: &str| {
        format!("#!/bin/bash\nversion={version}\nstate=/var/lib/dcos/{package}\n{body}")
    };
    let check = |package: &str, body: &str| {
        script(package, if is_ill { "echo the version is ill; exit 7\n" } else { body })
    };
    let distribution = format!("{DISTRIBUTION}version = \"{version}\"\n");
    let files = [
        ("distribution.toml", distribution.as_str(), 0o644),
        ("config/parameters.yaml", "include: [cluster, detect, ssh]\n", 0o644),
        ("config/files/etc/masters", "{{ master_list | join(' ') }}\n", 0o644),
        ("data/buildinfo.json", "{}", 0o644),
        ("data/build", BUILD, 0o755),
        ("quorum/buildinfo.json", QUORUM, 0o644),
        ("quorum/build", BUILD, 0o755),
        ("quorum/extra/bin/quorum", &script("quorum", COUNT), 0o755),
        ("quorum/extra/bin/quorum-answer", &script("quorum", ANSWER), 0o755),
        ("quorum/extra/bin/quorum-check", &check("quorum", QUORUM_CHECK), 0o755),
        ("quorum/extra/bin/votes-check", &script("quorum", VOTES_CHECK), 0o755),
        ("quorum/extra/dcos.target.wants_master/quorum.service", QUORUM_UNIT, 0o644),
        ("quorum/extra/dcos.target.wants_master/quorum-answer.socket", SOCKET, 0o644),
        ("quorum/extra/dcos.target.wants_master/quorum-answer@.service", ANSWER_UNIT, 0o644),
        ("agent/buildinfo.json", AGENT, 0o644),
        ("agent/build", BUILD, 0o755),
        ("agent/extra/bin/agent", &script("agent", REPORT), 0o755),
        ("agent/extra/bin/agent-check", &check("agent", AGENT_CHECK), 0o755),
        ("agent/extra/dcos.target.wants_slave/agent.service", AGENT_UNIT, 0o644),
    ];
    write_files(folder, &files).unwrap();
    write_files(folder, &[("data/extra/share/data", noise(version), 0o644)]).unwrap();
}

/// Data that cannot be compressed, another for each version.
fn noise(version: &str) -> Vec<u8> {
    let mut number = 0x9e37_79b9_7f4a_7c15 ^ u64::from(version.as_bytes()[0]);
    let words = std::iter::repeat_with(|| {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        number.to_le_bytes()
    });
    words.take(DATA_BYTES / 8).flatten().collect()
}
