//! Ports that services of the host need, and who has them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use camino::Utf8PathBuf;

use super::judged::{Judged, bad, doubt, good};
use super::listeners::{Holder, Listener, Listening, Protocol};

/// The port of name servers, which many machines have one of.
const NAME_SERVER: u16 = 53;

/// The ports that services need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) tcp: &'a BTreeSet<u16>,
    pub(super) udp: &'a BTreeSet<u16>,
    /// Where services listen; empty: anywhere.
    pub(super) addresses: &'a BTreeSet<IpAddr>,
}

impl Wanted<'_> {
    /// Whether a listener is in the way, or is what is wanted.
    pub(super) fn is_taken_by(&self, listener: &Listener) -> bool {
        let ports = match listener.protocol {
            Protocol::Tcp => self.tcp,
            Protocol::Udp => self.udp,
        };
        let ip = listener.at.ip();
        let is_there =
            self.addresses.is_empty() || ip.is_unspecified() || self.addresses.contains(&ip);
        ports.contains(&listener.at.port()) && is_there
    }
}

/// What is live on this host, whose own sockets are in nobody's way.
#[derive(Debug, Clone, Default)]
pub(super) struct Ours {
    /// Where its programs are.
    pub(super) folders: Vec<Utf8PathBuf>,
    /// Its units.
    pub(super) units: BTreeSet<String>,
    /// The lines of its sockets, which the service manager itself holds.
    pub(super) sockets: Vec<String>,
}

impl Ours {
    fn holds(&self, listener: &Listener, holder: &Holder) -> bool {
        let program = holder.program.trim_end_matches(" (deleted)");
        let is_below = |folder: &Utf8PathBuf| Utf8PathBuf::from(program).starts_with(folder);
        self.folders.iter().any(is_below)
            || holder.unit.as_ref().is_some_and(|unit| self.units.contains(unit))
            || holder.pid == 1 && self.sockets.iter().any(|line| names(line, listener))
    }

    /// Whether anything of it runs.
    fn is_live(&self) -> bool {
        !self.units.is_empty()
    }
}

/// Whether a line of a socket unit, such as `ListenStream=127.0.0.1:80`, is about this listener.
fn names(line: &str, listener: &Listener) -> bool {
    let Some((key, at)) = line.split_once('=') else { return false };
    let expected = match listener.protocol {
        Protocol::Tcp => "ListenStream",
        Protocol::Udp => "ListenDatagram",
    };
    let port = at.trim().rsplit(':').next().and_then(|port| port.parse().ok());
    key.trim() == expected && port == Some(listener.at.port())
}

/// Says whose sockets are in the way, each apart.
pub(super) fn judge(wanted: Wanted<'_>, listening: &Listening, ours: &Ours) -> Vec<Judged> {
    let mut judged = Vec::new();
    let mut own = BTreeSet::new();
    for listener in listening.listeners.iter().filter(|one| wanted.is_taken_by(one)) {
        let holders = listening.holders.get(&listener.inode).map_or(&[][..], Vec::as_slice);
        if holders.iter().any(|holder| ours.holds(listener, holder)) {
            own.insert(shown(listener));
        } else if holders.is_empty() && ours.is_live() {
            let found = format!("{} is in use, perhaps by what is live here", shown(listener));
            judged.push(doubt(found, "run it as root, which can tell by whom"));
        } else {
            judged.push(taken(listener, holders.first()));
        }
    }
    if judged.is_empty() {
        let count = wanted.tcp.len() + wanted.udp.len();
        let own: Vec<String> = own.into_iter().collect();
        return vec![good(if own.is_empty() {
            format!("{count} free")
        } else {
            format!("{count} free or held by what is live here ({})", own.join(", "))
        })];
    }
    // Who listens on all addresses of both kinds is told once.
    let mut told: Vec<Judged> = Vec::new();
    for one in judged {
        if !told.contains(&one) {
            told.push(one);
        }
    }
    told
}

fn shown(listener: &Listener) -> String {
    let ip = listener.at.ip();
    let at = if ip.is_unspecified() { String::new() } else { format!(" on {ip}") };
    format!("{} {}{at}", listener.protocol, listener.at.port())
}

fn taken(listener: &Listener, holder: Option<&Holder>) -> Judged {
    let Some(Holder { pid, name, program, unit }) = holder else {
        let fix = format!(
            "find it with `ss -lnp 'sport = {}'` as root, and stop it or move it elsewhere",
            listener.at.port()
        );
        return bad(format!("{} is in use", shown(listener)), fix);
    };
    let unit_of = unit.as_ref().map(|unit| format!(", {unit}")).unwrap_or_default();
    let by = if program.is_empty() { name } else { program };
    let found = format!("{} is held by {by} (pid {pid}{unit_of})", shown(listener));
    let stop = match unit {
        Some(unit) if unit.ends_with(".service") => format!("`systemctl disable --now {unit}`"),
        _ => format!("end process {pid}"),
    };
    let fix = match (listener.at.port(), name.as_str()) {
        (NAME_SERVER, "systemd-resolve") => "let systemd-resolved keep away from port 53: \
            `DNSStubListener=no` in /etc/systemd/resolved.conf, then `systemctl restart systemd-resolved`"
            .to_owned(),
        (NAME_SERVER, "dnsmasq") => format!(
            "dnsmasq answers names here: {stop}, or let it bind other addresses \
             (`bind-interfaces`, `listen-address` in /etc/dnsmasq.conf)"
        ),
        (NAME_SERVER, _) => format!("another name server runs here: {stop}, or let it bind other addresses"),
        _ => format!("{stop}, or move it to another port"),
    };
    bad(found, fix)
}

#[cfg(test)]
mod tests {
    use package::preflight::Severity;

    use super::*;

    fn listening(all: &[(Protocol, &str, Option<Holder>)]) -> Listening {
        let mut listening = Listening::default();
        for (inode, (protocol, at, holder)) in (1..).zip(all) {
            let at = at.parse().unwrap();
            listening.listeners.insert(Listener { protocol: *protocol, at, inode });
            listening.holders.insert(inode, holder.iter().cloned().collect());
        }
        listening
    }

    fn holder(name: &str, program: &str, unit: &str) -> Holder {
        let unit = Some(unit.to_owned()).filter(|unit| !unit.is_empty());
        Holder { pid: 7, name: name.to_owned(), program: program.to_owned(), unit }
    }

    fn judged(tcp: &[u16], addresses: &[&str], listening: &Listening, ours: &Ours) -> String {
        let (tcp, udp) = (tcp.iter().copied().collect(), BTreeSet::from([53]));
        let addresses = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        let wanted = Wanted { tcp: &tcp, udp: &udp, addresses: &addresses };
        let shown = judge(wanted, listening, ours).into_iter().map(|judged| {
            let (level, fix) = (judged.level(Severity::Error), judged.fix.unwrap_or_default());
            format!("{level:?}: {}\n  {fix}\n", judged.found)
        });
        shown.collect()
    }

    #[test]
    fn who_is_in_the_way_is_told_with_what_to_do() {
        let nginx = Some(holder("nginx", "/usr/sbin/nginx", "nginx.service"));
        let resolved = Some(holder("systemd-resolve", "/lib/systemd/systemd-resolved", ""));
        let all = listening(&[
            (Protocol::Tcp, "0.0.0.0:443", nginx.clone()),
            (Protocol::Tcp, "[::]:443", nginx),
            (Protocol::Tcp, "[::1]:5050", None),
            (Protocol::Udp, "127.0.0.53:53", resolved),
            (Protocol::Udp, "0.0.0.0:443", Some(holder("other", "", ""))),
        ]);
        insta::assert_snapshot!(judged(&[443, 5050, 8080], &[], &all, &Ours::default()), @"
        Error: tcp 443 is held by /usr/sbin/nginx (pid 7, nginx.service)
          `systemctl disable --now nginx.service`, or move it to another port
        Error: tcp 5050 on ::1 is in use
          find it with `ss -lnp 'sport = 5050'` as root, and stop it or move it elsewhere
        Error: udp 53 on 127.0.0.53 is held by /lib/systemd/systemd-resolved (pid 7)
          let systemd-resolved keep away from port 53: `DNSStubListener=no` in /etc/systemd/resolved.conf, then `systemctl restart systemd-resolved`
        ");
    }

    #[test]
    fn services_with_addresses_share_a_port_with_others() {
        let all = listening(&[
            (Protocol::Tcp, "127.0.0.1:80", None),
            (Protocol::Udp, "127.0.0.53:53", None),
            (Protocol::Tcp, "[::]:81", None),
        ]);
        insta::assert_snapshot!(judged(&[80], &["127.0.0.153"], &all, &Ours::default()), @"Ok: 2 free");
        insta::assert_snapshot!(judged(&[81], &["127.0.0.153"], &all, &Ours::default()), @"
        Error: tcp 81 is in use
          find it with `ss -lnp 'sport = 81'` as root, and stop it or move it elsewhere
        ");
    }

    #[test]
    fn what_is_live_here_is_in_nobodys_way() {
        let ours = Ours {
            folders: vec!["/opt/atoll".into()],
            units: BTreeSet::from(["atoll-web.service".to_owned()]),
            sockets: vec!["ListenStream=127.0.0.1:81".to_owned()],
        };
        let systemd = Holder { pid: 1, ..holder("systemd", "/sbin/init", "init.scope") };
        let all = listening(&[
            (
                Protocol::Tcp,
                "0.0.0.0:79",
                Some(holder("x", "/opt/atoll/packages/x--1/bin/x (deleted)", "")),
            ),
            (
                Protocol::Tcp,
                "0.0.0.0:80",
                Some(holder("java", "/usr/bin/java", "atoll-web.service")),
            ),
            (Protocol::Tcp, "127.0.0.1:81", Some(systemd)),
        ]);
        insta::assert_snapshot!(judged(&[79, 80, 81], &[], &all, &ours), @"Ok: 4 free or held by what is live here (tcp 79, tcp 80, tcp 81 on 127.0.0.1)");
        let alike = listening(&[(
            Protocol::Tcp,
            "0.0.0.0:80",
            Some(holder("x", "/opt/atoll-other/x", "other-atoll-web.service")),
        )]);
        insta::assert_snapshot!(judged(&[80], &[], &alike, &ours), @"
        Error: tcp 80 is held by /opt/atoll-other/x (pid 7, other-atoll-web.service)
          `systemctl disable --now other-atoll-web.service`, or move it to another port
        ");
        let unknown = listening(&[(Protocol::Tcp, "0.0.0.0:80", None)]);
        insta::assert_snapshot!(judged(&[80], &[], &unknown, &ours), @"
        Warning: tcp 80 is in use, perhaps by what is live here
          run it as root, which can tell by whom
        ");
    }
}
