//! Built-in scripts on a host with a network of its own, and in clouds that answer there. Only root
//! can make such a network.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

use config::detect::{Answer, Kind};
use nix::sched::{CloneFlags, unshare};

use super::{KINDS, script};

/// What a cloud answers: method, path, a header without which it does not, and the answer.
type Cloud = [(&'static str, &'static str, &'static str, &'static str)];

const FAULT_DOMAIN: &str = r#"{"fault_domain":{"region":{"name":"R"},"zone":{"name":"Z"}}}"#;

const AWS: &Cloud = &[
    ("PUT", "/latest/api/token", "x-aws-ec2-metadata-token-ttl-seconds: 60", "TOKEN-_=="),
    ("GET", "/latest/meta-data/local-ipv4", TOKEN, "10.1.2.3"),
    ("GET", "/latest/meta-data/public-ipv4", TOKEN, "198.51.100.7"),
    ("GET", "/latest/meta-data/ipv6", TOKEN, "2001:db8::a"),
    ("GET", "/latest/meta-data/placement/region", TOKEN, "us-west-2"),
    ("GET", "/latest/meta-data/placement/availability-zone", TOKEN, "us-west-2a"),
];
const TOKEN: &str = "x-aws-ec2-metadata-token: TOKEN-_==";

const OLD_AWS: &Cloud = &[
    ("GET", "/latest/meta-data/local-ipv4", "", "10.1.2.3"),
    ("GET", "/latest/meta-data/public-ipv4", "", "198.51.100.7"),
    ("GET", "/latest/meta-data/ipv6", "", "2001:db8::a"),
    ("GET", "/latest/meta-data/placement/region", "", "us-west-2"),
    ("GET", "/latest/meta-data/placement/availability-zone", "", "us-west-2a"),
];

/// The path of something that Azure tells.
macro_rules! azure {
    ($name:literal) => {
        concat!("/metadata/instance/", $name, "?api-version=2021-02-01&format=text")
    };
}

const AZURE: &Cloud = &[
    ("GET", azure!("network/interface/0/ipv4/ipAddress/0/privateIpAddress"), M, "10.1.2.3"),
    ("GET", azure!("network/interface/0/ipv4/ipAddress/0/publicIpAddress"), M, "198.51.100.7"),
    ("GET", azure!("network/interface/0/ipv6/ipAddress/0/privateIpAddress"), M, "2001:db8::a"),
    ("GET", azure!("compute/location"), M, "westus2"),
    ("GET", azure!("compute/zone"), M, "3"),
];
const AZURE_WITHOUT_ZONES: &Cloud = &[
    ("GET", azure!("compute/location"), M, "westus"),
    ("GET", azure!("compute/zone"), M, ""),
    ("GET", azure!("compute/platformFaultDomain"), M, "1"),
];
const M: &str = "metadata: true";

const GCP: &Cloud = &[
    ("GET", "/computeMetadata/v1/instance/network-interfaces/0/ip", G, "10.1.2.3"),
    (
        "GET",
        "/computeMetadata/v1/instance/network-interfaces/0/access-configs/0/external-ip",
        G,
        "198.51.100.7",
    ),
    (
        "GET",
        "/computeMetadata/v1/instance/network-interfaces/0/ipv6s",
        G,
        "2001:db8::a\n2001:db8::b\n",
    ),
    ("GET", "/computeMetadata/v1/instance/zone", G, "projects/12/zones/us-central1-f"),
];
const G: &str = "metadata-flavor: Google";

/// The programs that a host has.
#[derive(Debug, Clone, Copy)]
enum Programs {
    Curl,
    Wget,
    Busybox,
}

#[test]
fn clouds_tell_addresses_and_fault_domains() {
    for (cloud, name, region, zone) in [
        (AWS, "aws", "us-west-2", "us-west-2a"),
        (AZURE, "azure", "westus2", "3"),
        (GCP, "gcp", "us-central1", "us-central1-f"),
    ] {
        let domain = fault_domain(name, region, zone);
        in_network(move || {
            serve(cloud);
            for programs in [Programs::Curl, Programs::Wget] {
                assert_answers(name, programs, &domain);
            }
        });
    }
}

#[test]
fn an_old_aws_without_tokens_tells_them_too_and_busybox_is_enough() {
    in_network(|| {
        serve(OLD_AWS);
        let domain = fault_domain("aws", "us-west-2", "us-west-2a");
        for programs in [Programs::Curl, Programs::Wget, Programs::Busybox] {
            assert_answers("aws", programs, &domain);
        }
    });
}

#[test]
fn azure_without_zones_tells_the_fault_domain_of_the_host() {
    in_network(|| {
        serve(AZURE_WITHOUT_ZONES);
        for programs in [Programs::Curl, Programs::Wget, Programs::Busybox] {
            let output = run(&script("azure", Kind::FaultDomain), programs);
            assert_eq!(text(&output.stdout), fault_domain("azure", "westus", "1"), "{output:?}");
        }
    });
}

#[test]
fn what_a_cloud_does_not_know_is_a_failure_and_prints_nothing() {
    in_network(|| {
        serve(&[
            ("GET", "/latest/meta-data/local-ipv4", "", "<html>Please log in</html>"),
            ("GET", "/latest/meta-data/ipv6", "", ""),
            ("GET", "/latest/meta-data/placement/region", "", "\"},{"),
            ("GET", "/latest/meta-data/placement/availability-zone", "", "a"),
        ]);
        for programs in [Programs::Curl, Programs::Wget, Programs::Busybox] {
            for (kind, message) in [
                (Kind::Ip, "this is no IPv4 address of a host: <html>Please log in</html>\n"),
                (Kind::PublicIp, "the metadata service of AWS does not tell public-ipv4\n"),
                (Kind::Ip6, "there is no IPv6 address\n"),
                (Kind::FaultDomain, "this is no name of a region or zone: '\"},{'\n"),
            ] {
                assert_fails(&script("aws", kind), programs, message);
            }
        }
    });
}

#[test]
fn without_a_cloud_a_detection_fails_and_prints_nothing() {
    in_network(|| {
        for (name, message) in [
            ("aws", "the metadata service of AWS does not tell local-ipv4\n"),
            ("azure", "privateIpAddress\n"),
            ("gcp", "the metadata service of Google Cloud does not tell network-interfaces/0/ip\n"),
        ] {
            for programs in [Programs::Curl, Programs::Wget, Programs::Busybox] {
                assert_fails(&script(name, Kind::Ip), programs, message);
            }
        }
    });
}

#[test]
fn an_interface_tells_the_first_address_that_is_there_to_stay() {
    in_network(|| {
        ip("addr add 169.254.7.7/16 dev v0 scope link");
        ip("addr add 10.7.0.1/24 dev v0");
        ip("addr add 10.7.0.2/24 dev v0");
        ip("-6 addr add 2001:db8:7::9/64 dev v0 nodad preferred_lft 0");
        ip("-6 addr add 2001:db8:7::1/64 dev v0 nodad");
        for programs in [Programs::Curl, Programs::Busybox] {
            for (kind, address) in [
                (Kind::Ip, "10.7.0.1\n"),
                (Kind::PublicIp, "10.7.0.1\n"),
                (Kind::Ip6, "2001:db8:7::1\n"),
            ] {
                let output = run(&script("interface v0", kind), programs);
                assert_eq!(text(&output.stdout), address, "{output:?}");
            }
            assert_fails(
                &script("interface v1", Kind::Ip),
                programs,
                "v1 has no address of this kind\n",
            );
            let message = "cannot ask for the addresses of nosuch\n";
            assert_fails(&script("interface nosuch", Kind::Ip), programs, message);
        }
    });
}

#[test]
fn a_route_tells_the_address_that_others_see() {
    in_network(|| {
        ip("addr add 10.7.0.1/24 dev v0");
        ip("addr add 10.8.0.1/24 dev v1");
        ip("route add 192.0.2.0/24 via 10.8.0.9");
        ip("-6 addr add 2001:db8:7::1/64 dev v0 nodad");
        for programs in [Programs::Curl, Programs::Busybox] {
            for (detector, kind, address) in [
                ("route-to 10.7.0.200", Kind::Ip, "10.7.0.1\n"),
                ("route-to 192.0.2.1", Kind::PublicIp, "10.8.0.1\n"),
                // The host itself is one that others may name.
                ("route-to 10.8.0.1", Kind::Ip, "10.8.0.1\n"),
                ("route-to 2001:db8:7::2", Kind::Ip6, "2001:db8:7::1\n"),
            ] {
                let output = run(&script(detector, kind), programs);
                assert_eq!(text(&output.stdout), address, "{output:?}");
            }
            let message = "there is no route to 203.0.113.1\n";
            assert_fails(&script("route-to 203.0.113.1", Kind::Ip), programs, message);
        }
    });
}

fn fault_domain(provider: &str, region: &str, zone: &str) -> String {
    let [region, zone] = [region, zone].map(|name| format!("\"{provider}/{name}\""));
    FAULT_DOMAIN.replace("\"R\"", &region).replace("\"Z\"", &zone) + "\n"
}

fn assert_answers(detector: &str, programs: Programs, domain: &str) {
    let expected = ["10.1.2.3\n", "198.51.100.7\n", "2001:db8::a\n", domain];
    for (kind, expected) in KINDS.into_iter().zip(expected) {
        let output = run(&script(detector, kind), programs);
        assert_eq!(text(&output.stdout), expected, "{programs:?}: {output:?}");
        assert!(output.status.success() && output.stderr.is_empty(), "{programs:?}: {output:?}");
        Answer::parse(kind, expected).unwrap();
    }
}

fn assert_fails(script: &str, programs: Programs, message: &str) {
    let output = run(script, programs);
    assert_eq!(output.status.code(), Some(1), "{programs:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{programs:?}: {output:?}");
    assert!(text(&output.stderr).ends_with(message), "{programs:?}: {output:?}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a script on a host that has these programs only, behind a proxy that does not answer.
fn run(script: &str, programs: Programs) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs_err::create_dir(&bin).unwrap();
    let busybox = find("busybox");
    let names: &[&str] = match programs {
        Programs::Curl => &["curl", "ip"],
        Programs::Wget | Programs::Busybox => &["wget", "timeout", "ip"],
    };
    for name in names {
        let program = match programs {
            Programs::Busybox => busybox.clone(),
            _ => find(name),
        };
        fs_err::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    }
    let file = folder.path().join("detect");
    fs_err::write(&file, script).unwrap();
    let mut command = match programs {
        Programs::Busybox => {
            let mut command = Command::new(busybox);
            command.arg("sh");
            command
        }
        _ => Command::new("/bin/sh"),
    };
    command.arg(file).env_clear().env("PATH", bin).env("HOME", folder.path());
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy"] {
        command.env(name, "http://127.0.0.1:9");
    }
    fs_err::write(folder.path().join(".curlrc"), "proxy = http://127.0.0.1:9\n").unwrap();
    fs_err::write(folder.path().join(".wgetrc"), "http_proxy = http://127.0.0.1:9\n").unwrap();
    command.output().unwrap()
}

fn find(program: &str) -> std::path::PathBuf {
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let mut found = folders.iter().map(|folder| Path::new(folder).join(program));
    found.find(|path| path.exists()).unwrap_or_else(|| panic!("{program} is missing"))
}

/// Runs `work` in a network of its own, with two interfaces and the address of the metadata service.
fn in_network(work: impl FnOnce() + Send + 'static) {
    let host = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        ip("link set lo up");
        ip("addr add 169.254.169.254/32 dev lo");
        ip("link add v0 type veth peer name v1");
        ip("link set v0 up");
        ip("link set v1 up");
        work();
    });
    if let Err(panic) = host.join() {
        std::panic::resume_unwind(panic);
    }
}

fn ip(arguments: &str) {
    let output = Command::new(find("ip")).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

/// Answers in the network of this thread, for as long as the process lives.
fn serve(cloud: &'static Cloud) {
    let listener = TcpListener::bind("169.254.169.254:80").unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&stream.unwrap(), cloud);
        }
    });
}

fn answer(mut stream: &TcpStream, cloud: &Cloud) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let has = |wanted: &str| {
        let (name, value) = wanted.split_once(": ").unwrap_or_default();
        let is = |line: &String| {
            line.split_once(": ")
                .is_some_and(|(its, text)| its.eq_ignore_ascii_case(name) && text == value)
        };
        wanted.is_empty() || headers.iter().any(is)
    };
    let found = cloud.iter().find(|(method, path, header, _)| {
        request.starts_with(&format!("{method} {path} ")) && has(header)
    });
    let (status, body) =
        found.map_or(("404 Not Found", "no\n"), |(_, _, _, body)| ("200 OK", body));
    // Whoever asked may be gone.
    drop(write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ));
}
