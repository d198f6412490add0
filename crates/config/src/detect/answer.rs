//! What a detection script printed, taken for an answer or refused with a reason.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;

use super::Kind;

/// What a host knows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An IPv4 address.
    Ip4(Ipv4Addr),
    /// An IPv6 address.
    Ip6(Ipv6Addr),
    /// A place whose hosts may fail together.
    FaultDomain {
        /// Such as `aws/us-west-2`.
        region: String,
        /// Such as `aws/us-west-2a`.
        zone: String,
    },
}

/// Why what was printed is no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongAnswer {
    /// Nothing at all.
    #[error("nothing")]
    Nothing,
    /// Several lines.
    #[error("has {0} lines")]
    Lines(usize),
    /// An address with something around it that cannot be seen.
    #[error("has white space around the address")]
    Space,
    /// An address and the length of its network.
    #[error("has a prefix length")]
    Prefix,
    /// The name of a host.
    #[error("is a host name")]
    HostName,
    /// An address of the other family.
    #[error("is not an {0}")]
    Family(Kind),
    /// An address by which no other host can reach this one.
    #[error("is an address by which no other host can reach this one")]
    Unreachable,
    /// Anything else.
    #[error("is not an address")]
    NoAddress,
    /// Not the JSON document that says a fault domain.
    #[error("is not a fault domain: {0}")]
    NoFaultDomain(String),
}

impl WrongAnswer {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Nothing => "print the answer to standard output, or fail with a message",
            Self::Lines(_) => "print one line: choose one of the addresses, always the same",
            Self::Space => "print the address alone, with one line end",
            Self::Prefix => "cut it off: `${address%/*}`",
            Self::HostName => "print an address: names are never accepted",
            Self::Family(Kind::Ip6) => "print an IPv6 address, or say another kind",
            Self::Family(_) => "print an IPv4 address, or say another kind",
            Self::Unreachable => "print the address by which the other hosts reach this one",
            Self::NoAddress => "print one IP address and nothing else",
            Self::NoFaultDomain(_) => {
                r#"print {"fault_domain":{"region":{"name":"R"},"zone":{"name":"Z"}}}"#
            }
        }
    }
}

impl Answer {
    /// Reads what a script printed.
    pub fn parse(kind: Kind, printed: &str) -> Result<Self, WrongAnswer> {
        if printed.trim().is_empty() {
            return Err(WrongAnswer::Nothing);
        }
        if kind == Kind::FaultDomain {
            return fault_domain(printed);
        }
        let line = printed.strip_suffix('\n').unwrap_or(printed);
        match (line.parse::<IpAddr>(), kind) {
            (Ok(address), _) if !is_of_a_host(address) => Err(WrongAnswer::Unreachable),
            (Ok(IpAddr::V4(address)), Kind::Ip | Kind::PublicIp) => Ok(Self::Ip4(address)),
            (Ok(IpAddr::V6(address)), Kind::Ip6) => Ok(Self::Ip6(address)),
            (Ok(_), _) => Err(WrongAnswer::Family(kind)),
            (Err(_), _) => Err(no_address(line)),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip4(address) => write!(f, "{address}"),
            Self::Ip6(address) => write!(f, "{address}"),
            Self::FaultDomain { region, zone } => write!(f, "region {region}, zone {zone}"),
        }
    }
}

/// Whether a host may have the address for others to reach it.
pub(super) fn is_of_a_host(address: IpAddr) -> bool {
    let is_odd = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(is_odd || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// What a line is that is no address.
fn no_address(line: &str) -> WrongAnswer {
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    let lines = line.lines().filter(|line| !line.trim().is_empty()).count();
    let in_name = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    if lines > 1 {
        WrongAnswer::Lines(lines)
    } else if is_address(line.trim()) {
        WrongAnswer::Space
    } else if line.split_once('/').is_some_and(|(start, _)| is_address(start)) {
        WrongAnswer::Prefix
    } else if line.chars().all(in_name) && line.contains(|char: char| char.is_ascii_alphabetic()) {
        WrongAnswer::HostName
    } else {
        WrongAnswer::NoAddress
    }
}

fn fault_domain(printed: &str) -> Result<Answer, WrongAnswer> {
    #[derive(Deserialize)]
    struct Document {
        fault_domain: Domain,
    }
    #[derive(Deserialize)]
    struct Domain {
        region: Named,
        zone: Named,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let document: Document = serde_json::from_str(printed)
        .map_err(|error| WrongAnswer::NoFaultDomain(error.to_string()))?;
    let Domain { region, zone } = document.fault_domain;
    for (of, name) in [("region", &region.name), ("zone", &zone.name)] {
        if name.is_empty() || name.contains(|char: char| char.is_whitespace() || char.is_control())
        {
            let message = format!("the {of} has the name `{}`", name.escape_debug());
            return Err(WrongAnswer::NoFaultDomain(message));
        }
    }
    Ok(Answer::FaultDomain { region: region.name, zone: zone.name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_with_or_without_a_line_end_is_an_answer() {
        let answer = Ok(Answer::Ip4(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(Answer::parse(Kind::Ip, "10.0.0.1"), answer);
        assert_eq!(Answer::parse(Kind::PublicIp, "10.0.0.1\n"), answer);
        let answer = Answer::parse(Kind::Ip6, "2001:db8::1\n").unwrap();
        assert_eq!(answer.to_string(), "2001:db8::1");
    }

    #[test]
    fn what_is_not_exactly_one_address_is_refused_with_what_it_is() {
        for (printed, wrong) in [
            ("", WrongAnswer::Nothing),
            (" \n", WrongAnswer::Nothing),
            ("10.0.0.1\n10.0.0.2\n", WrongAnswer::Lines(2)),
            ("10.0.0.1\n\n", WrongAnswer::Space),
            (" 10.0.0.1\n", WrongAnswer::Space),
            ("10.0.0.1 \n", WrongAnswer::Space),
            ("10.0.0.1\r\n", WrongAnswer::Space),
            ("10.0.0.1/24\n", WrongAnswer::Prefix),
            ("ip-10-0-0-1.internal\n", WrongAnswer::HostName),
            ("2001:db8::1\n", WrongAnswer::Family(Kind::Ip)),
            ("127.0.0.1\n", WrongAnswer::Unreachable),
            ("0.0.0.0\n", WrongAnswer::Unreachable),
            ("224.0.0.1\n", WrongAnswer::Unreachable),
            ("10.0.0.1 10.0.0.2\n", WrongAnswer::NoAddress),
            ("010.0.0.1\n", WrongAnswer::NoAddress),
            ("10.0.0\n", WrongAnswer::NoAddress),
            ("<html>\n", WrongAnswer::NoAddress),
        ] {
            assert_eq!(Answer::parse(Kind::Ip, printed), Err(wrong), "{printed:?}");
        }
        for (printed, wrong) in
            [("10.0.0.1", WrongAnswer::Family(Kind::Ip6)), ("fe80::1", WrongAnswer::Unreachable)]
        {
            assert_eq!(Answer::parse(Kind::Ip6, printed), Err(wrong), "{printed:?}");
        }
    }

    #[test]
    fn a_fault_domain_has_a_region_and_a_zone_with_names() {
        let parse = |printed: &str| Answer::parse(Kind::FaultDomain, printed);
        let answer =
            parse("{\"fault_domain\":{\"region\":{\"name\":\"r\"},\n\"zone\":{\"name\":\"z\"}}}\n");
        assert_eq!(answer, Ok(Answer::FaultDomain { region: "r".into(), zone: "z".into() }));
        for (printed, message) in [
            ("aws/us-west-2", "expected value at line 1 column 1"),
            (r#"{"fault_domain":{"region":{"name":"r"}}}"#, "missing field `zone`"),
            (
                r#"{"fault_domain":{"region":{"name":""},"zone":{"name":"z"}}}"#,
                "the region has the name ``",
            ),
        ] {
            let error = parse(printed).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
