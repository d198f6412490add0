//! Names, firewalls, and the address that a host finds for itself.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::judged::{Judged, bad, doubt, good, worst};
use super::script::Ran;
use crate::check::Verdict;

/// A name, and what the resolver says of it.
pub(super) type Resolved = (String, Result<Vec<IpAddr>, String>);

/// Whether names have addresses; the first one is the machine's own.
pub(super) fn judge_names(names: &[Resolved]) -> Judged {
    let judged = names.iter().enumerate().map(|(at, (name, addresses))| match addresses {
        Ok(addresses) if !addresses.is_empty() => {
            let shown: Vec<String> = addresses.iter().take(4).map(ToString::to_string).collect();
            good(format!("{name} is {}", shown.join(", ")))
        }
        failed => {
            let reason = failed.as_ref().err().map(|why| format!(": {why}")).unwrap_or_default();
            let fix = match at {
                0 => format!("add `{name}` to /etc/hosts or to the name server"),
                _ => "look at /etc/resolv.conf, and whether its name servers answer".to_owned(),
            };
            bad(format!("`{name}` has no address{reason}"), fix)
        }
    });
    worst(&judged.collect::<Vec<_>>())
}

/// What is known of firewalls: the units that are active, and what files tell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Firewalls {
    /// Units of firewalls that are active.
    pub(super) units: Vec<String>,
    /// Whether `/etc/ufw/ufw.conf` says `ENABLED=yes`.
    pub(super) ufw: bool,
}

/// The units that are active, as `systemctl is-active A B …` tells, one line for each.
pub(super) fn active_units(asked: &[&str], said: &str) -> Vec<String> {
    let pairs = asked.iter().zip(said.lines());
    pairs
        .filter(|(_, state)| state.trim() == "active")
        .map(|(unit, _)| (*unit).to_owned())
        .collect()
}

pub(super) fn judge_firewall(found: &Firewalls) -> Judged {
    let mut evidence: Vec<String> = found
        .units
        .iter()
        .filter(|unit| *unit != "ufw")
        .map(|unit| format!("{unit} is active"))
        .collect();
    // The unit of ufw is active everywhere that it is installed.
    if found.ufw {
        evidence.push("ufw is enabled (/etc/ufw/ufw.conf)".to_owned());
    }
    if evidence.is_empty() {
        return good("none is active");
    }
    let fix = "let the ports of the cluster pass between its hosts, or stop the firewall";
    bad(evidence.join("; "), fix)
}

/// Whether a script told an address, and one of those that are expected. `expected` are words as they
/// were configured, each with the addresses that it means.
pub(super) fn judge_address(ran: &Ran, expected: &[(String, Vec<IpAddr>)]) -> Judged {
    let fix = "try the script by hand, with `sh -x`; `monobloc config detect` tries one, too";
    let said = || match ran.errors.trim() {
        "" => String::new(),
        errors => {
            let line: String =
                errors.lines().last().unwrap_or_default().chars().take(200).collect();
            format!(", saying `{}`", line.escape_debug())
        }
    };
    if ran.verdict != Verdict::Passed {
        return bad(format!("the script {}{}", ran.verdict, said()), fix);
    }
    let address = match answer(&ran.output) {
        Ok(address) => address,
        Err(wrong) => {
            let printed: String = ran.output.trim().chars().take(100).collect();
            let found =
                format!("the script printed `{}`, {wrong}{}", printed.escape_debug(), said());
            return bad(found, "let it print one address and nothing else");
        }
    };
    if expected.is_empty() || expected.iter().any(|(_, addresses)| addresses.contains(&address)) {
        return good(address.to_string());
    }
    let words: BTreeSet<&str> = expected.iter().map(|(word, _)| word.as_str()).collect();
    let words: Vec<&str> = words.into_iter().collect();
    let found = format!("the script finds {address}, which is none of {}", words.join(", "));
    if expected.iter().any(|(_, addresses)| addresses.is_empty()) {
        return doubt(found, "some of these names have no address here: look at name resolution");
    }
    bad(found, "put right the list, the script, or the role of this host")
}

/// The one address that a script printed.
fn answer(printed: &str) -> Result<IpAddr, &'static str> {
    let address: IpAddr = printed.trim().parse().map_err(|_| "which is no IP address")?;
    if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
        return Err("at which no other host reaches this one");
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use package::preflight::Severity;

    use super::super::judged::Level;
    use super::*;

    fn told(output: &str) -> Ran {
        Ran { verdict: Verdict::Passed, output: output.to_owned(), errors: String::new() }
    }

    fn level(judged: &Judged) -> Level {
        judged.level(Severity::Error)
    }

    #[test]
    fn an_address_is_one_of_those_that_are_expected() {
        let one = |word: &str, ip: &str| (word.to_owned(), vec![ip.parse().unwrap()]);
        let expected = [one("10.0.0.1", "10.0.0.1"), one("master-2", "10.0.0.2")];
        for good in ["10.0.0.1\n", "10.0.0.2"] {
            assert_eq!(level(&judge_address(&told(good), &expected)), Level::Ok, "{good}");
        }
        let wrong = judge_address(&told("10.0.0.3\n"), &expected);
        assert_eq!(level(&wrong), Level::Error);
        assert_eq!(wrong.found, "the script finds 10.0.0.3, which is none of 10.0.0.1, master-2");
        for bad in ["", "127.0.0.1", "10.0.0.1 10.0.0.2", "10.0.0.1\n10.0.0.2\n", "0.0.0.0", "eth0"]
        {
            assert_eq!(level(&judge_address(&told(bad), &[])), Level::Error, "{bad}");
        }
        let errors = "ip: not found\n".to_owned();
        let failed = Ran { verdict: Verdict::Failed { status: 127 }, errors, ..told("") };
        let found = judge_address(&failed, &[]).found;
        assert_eq!(found, "the script failed with status 127, saying `ip: not found`");
        let unknown = [("master-9".to_owned(), vec![])];
        assert_eq!(level(&judge_address(&told("10.0.0.3"), &unknown)), Level::Warning);
    }

    #[test]
    fn firewalls_are_told_by_name() {
        let asked = ["firewalld", "nftables", "iptables", "ufw"];
        let units = active_units(&asked, "active\ninactive\nunknown\nactive\n");
        assert_eq!(units, ["firewalld", "ufw"]);
        let found = judge_firewall(&Firewalls { units, ufw: false });
        assert_eq!(found.found, "firewalld is active");
        assert_eq!(level(&judge_firewall(&Firewalls::default())), Level::Ok);
        let found = judge_firewall(&Firewalls { units: vec!["ufw".to_owned()], ufw: true });
        assert_eq!(found.found, "ufw is enabled (/etc/ufw/ufw.conf)");
    }

    #[test]
    fn a_name_without_an_address_is_told_with_the_reason() {
        let own = ("node-1".to_owned(), Ok(vec!["10.0.0.1".parse().unwrap()]));
        let other = ("bootstrap".to_owned(), Err("no such name".to_owned()));
        assert_eq!(level(&judge_names(std::slice::from_ref(&own))), Level::Ok);
        let judged = judge_names(&[own, other]);
        assert_eq!(judged.found, "`bootstrap` has no address: no such name");
        assert_eq!(level(&judged), Level::Error);
    }
}
