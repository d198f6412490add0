//! The text of a built-in detection: parts in `scripts/`, put together. They need `sh`, and `ip`, or
//! `curl` or `wget`.

use std::net::IpAddr;

use super::{Cloud, Detector, DetectorError, InterfaceName, Kind};

impl Detector {
    /// The script that detects this, as it is put on hosts.
    pub fn script(&self, kind: Kind) -> Result<String, DetectorError> {
        let body = match (self, kind) {
            (Self::Cloud(cloud), _) => cloud.body(kind),
            (Self::Interface(InterfaceName(name)), Kind::Ip | Kind::PublicIp | Kind::Ip6) => {
                include_str!("scripts/interface.sh").replace("@interface@", name)
            }
            (Self::RouteTo(address @ IpAddr::V4(_)), Kind::Ip | Kind::PublicIp)
            | (Self::RouteTo(address @ IpAddr::V6(_)), Kind::Ip6) => {
                include_str!("scripts/route_to.sh").replace("@address@", &address.to_string())
            }
            _ => return Err(DetectorError::CannotTell { detector: self.clone(), kind }),
        };
        let (print, family) = match kind {
            Kind::Ip | Kind::PublicIp => (include_str!("scripts/ip4.sh"), "4"),
            Kind::Ip6 => (include_str!("scripts/ip6.sh"), "6"),
            Kind::FaultDomain => (include_str!("scripts/fault_domain.sh"), ""),
        };
        let title =
            format!("#!/bin/sh\n# Prints the {kind} of this host, detected with `{self}`.\n");
        let body = body.replace("@family@", family);
        Ok([&title, include_str!("scripts/start.sh"), print, &body].concat())
    }
}

impl Cloud {
    fn body(self, kind: Kind) -> String {
        let metadata = match self {
            Self::Aws => include_str!("scripts/aws.sh"),
            Self::Azure => include_str!("scripts/azure.sh"),
            Self::Gcp => include_str!("scripts/gcp.sh"),
        };
        let address = |path| include_str!("scripts/cloud_address.sh").replace("@path@", path);
        let end = match (self, kind) {
            (Self::Aws, Kind::Ip) => address("local-ipv4"),
            (Self::Aws, Kind::PublicIp) => address("public-ipv4"),
            (Self::Aws, Kind::Ip6) => address("ipv6"),
            (Self::Aws, Kind::FaultDomain) => include_str!("scripts/aws_fault_domain.sh").into(),
            (Self::Azure, Kind::Ip) => {
                address("network/interface/0/ipv4/ipAddress/0/privateIpAddress")
            }
            (Self::Azure, Kind::PublicIp) => {
                address("network/interface/0/ipv4/ipAddress/0/publicIpAddress")
            }
            (Self::Azure, Kind::Ip6) => {
                address("network/interface/0/ipv6/ipAddress/0/privateIpAddress")
            }
            (Self::Azure, Kind::FaultDomain) => {
                include_str!("scripts/azure_fault_domain.sh").into()
            }
            (Self::Gcp, Kind::Ip) => address("network-interfaces/0/ip"),
            (Self::Gcp, Kind::PublicIp) => {
                address("network-interfaces/0/access-configs/0/external-ip")
            }
            (Self::Gcp, Kind::Ip6) => address("network-interfaces/0/ipv6s"),
            (Self::Gcp, Kind::FaultDomain) => include_str!("scripts/gcp_fault_domain.sh").into(),
        };
        [include_str!("scripts/metadata.sh"), metadata, &end].concat()
    }
}
