//! How a host finds out its own addresses and its fault domain: scripts that are put on every host,
//! built in or the operator's own, and a way to try one on this machine.
//!
//! A detection must give the same answer for the life of a host. So a script says exactly one thing,
//! or fails with a reason: an answer that is only nearly right has destroyed clusters.

mod answer;
mod platform;
mod run;
mod script;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

pub use answer::{Answer, WrongAnswer};
pub use run::{DetectError, Limits, check, run};

/// The kernel's limit for the name of an interface.
const INTERFACE_MAX_BYTES: usize = 15;

/// What a script detects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The IPv4 address by which the hosts of a cluster know each other.
    Ip,
    /// The IPv4 address by which others reach the host.
    PublicIp,
    /// The IPv6 address.
    Ip6,
    /// The region and the zone.
    FaultDomain,
}

impl FromStr for Kind {
    type Err = DetectorError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "ip" => Ok(Self::Ip),
            "public-ip" => Ok(Self::PublicIp),
            "ip6" => Ok(Self::Ip6),
            "fault-domain" => Ok(Self::FaultDomain),
            _ => Err(DetectorError::Kind(name.to_owned())),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip => "IPv4 address",
            Self::PublicIp => "public IPv4 address",
            Self::Ip6 => "IPv6 address",
            Self::FaultDomain => "fault domain",
        })
    }
}

/// A built-in detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detector {
    /// The address of an interface.
    Interface(InterfaceName),
    /// The address from which this host would talk to another.
    RouteTo(IpAddr),
    /// What a cloud says of the host.
    Cloud(Cloud),
}

/// A cloud that tells hosts about themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cloud {
    /// Amazon's.
    Aws,
    /// Microsoft's.
    Azure,
    /// Google's.
    Gcp,
}

/// The name of a network interface, fit to stand in a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceName(String);

/// Why there is no such built-in detection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DetectorError {
    /// Nothing that is detected is called this.
    #[error("`{0}` is nothing that a host detects")]
    Kind(String),
    /// It has another name or another form.
    #[error("`{0}` is no built-in detection")]
    Unknown(String),
    /// No interface is called this.
    #[error("`{0}` is no name of a network interface")]
    Interface(String),
    /// There is no route to this.
    #[error("`{0}` is no address of a host")]
    Address(String),
    /// It cannot tell this.
    #[error("`{detector}` cannot tell the {kind}")]
    CannotTell {
        /// The detection.
        detector: Detector,
        /// What was asked for.
        kind: Kind,
    },
}

impl DetectorError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Kind(_) => "there are `ip`, `public-ip`, `ip6` and `fault-domain`",
            Self::Unknown(_) => {
                "there are `interface NAME`, `route-to ADDRESS`, `aws`, `azure` and `gcp`"
            }
            Self::Interface(_) => "expected up to 15 letters, digits and `._-`, such as `eth0`",
            Self::Address(_) => "expected an IP address such as `10.0.0.1`, not a name",
            Self::CannotTell { kind: Kind::FaultDomain, .. } => {
                "use `aws`, `azure` or `gcp`, or a script of your own"
            }
            Self::CannotTell { kind: Kind::Ip6, .. } => "name an IPv6 address",
            Self::CannotTell { .. } => "name an IPv4 address",
        }
    }
}

impl FromStr for InterfaceName {
    type Err = DetectorError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let fits = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
        let is_name = !name.is_empty()
            && name.len() <= INTERFACE_MAX_BYTES
            && name.chars().all(fits)
            && !name.starts_with(['-', '.']);
        if is_name {
            Ok(Self(name.to_owned()))
        } else {
            Err(DetectorError::Interface(name.to_owned()))
        }
    }
}

impl FromStr for Detector {
    type Err = DetectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["interface", name] => Ok(Self::Interface(name.parse()?)),
            ["route-to", address] => match address.parse::<IpAddr>() {
                Ok(address) if answer::is_of_a_host(address) => Ok(Self::RouteTo(address)),
                _ => Err(DetectorError::Address(address.to_owned())),
            },
            ["aws"] => Ok(Self::Cloud(Cloud::Aws)),
            ["azure"] => Ok(Self::Cloud(Cloud::Azure)),
            ["gcp"] => Ok(Self::Cloud(Cloud::Gcp)),
            _ => Err(DetectorError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(InterfaceName(name)) => write!(f, "interface {name}"),
            Self::RouteTo(address) => write!(f, "route-to {address}"),
            Self::Cloud(Cloud::Aws) => write!(f, "aws"),
            Self::Cloud(Cloud::Azure) => write!(f, "azure"),
            Self::Cloud(Cloud::Gcp) => write!(f, "gcp"),
        }
    }
}
