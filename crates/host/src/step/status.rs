//! What is on this host, and what the machine is.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use camino::Utf8Path;
use package::digest::Hasher;
use package::pkginfo::Occasion;
use package::{Cancel, PackageId, Sha256};

use crate::check::{self, Check};
use crate::generation::Generation;
use crate::host::{Host, HostError, Job};
use crate::install::Pinned;
use crate::machine::State;
use crate::observe::ObserveError;
use crate::preflight::Facts;
use crate::store::Store;
use crate::wire::{Action, Status};
use crate::{generation, platform, roles};

/// What the digest of a machine's id begins with: nobody who knows ids guesses them from it by a list
/// that was made for something else.
const MACHINE: &[u8] = b"monobloc machine\0";
/// How long the script that tells the machine's address may take.
const DETECT_MAX: Duration = Duration::from_secs(10);

/// A program of a live package that can be run for the cluster.
pub(super) struct Runnable {
    pub(super) action: Action,
    pub(super) check: Check,
}

impl Host {
    /// What is on the host, and what the machine is.
    pub(super) fn status(&self, facts: &Facts, job: &Job<'_>) -> Result<Status, HostError> {
        let live = match generation::live(&self.paths)? {
            Some(number) => Some(Generation::read(&self.paths, number)?),
            None => None,
        };
        let packages = match &live {
            Some(live) => live.packages.keys().cloned().collect(),
            None => self.foreign().map_err(ObserveError::from)?.unwrap_or_default(),
        };
        let failed_units = match (&live, self.services()) {
            (Some(live), Some(services)) => {
                let states = services.states(&live.running.startable());
                let states = states.map_err(HostError::Services)?.into_iter();
                let failed = states.filter(|(_, unit)| unit.state == State::Failed);
                failed.map(|(name, _)| name).collect()
            }
            _ => Vec::new(),
        };
        let actions = match live {
            Some(_) => self.actions()?.into_iter().map(|found| found.action).collect(),
            None => Vec::new(),
        };
        Ok(Status {
            roles: roles::read(&self.paths.roles()).map_err(ObserveError::from)?,
            live: live.map(|live| live.number),
            generations: self.generations()?.into_iter().map(|found| found.number).collect(),
            distribution_version: self.installed_version()?,
            bundle: Pinned::read(&self.paths)?.map(|pinned| pinned.seen.bundle),
            packages,
            failed_units,
            time: Some(job.clock.now()),
            machine: machine(facts),
            boot: Some(platform::boot_id()).filter(|boot| !boot.is_empty()),
            detected_address: self.detected_address(job.cancel),
            addresses: addresses(facts),
            free_bytes: self.free_bytes(),
            actions,
        })
    }

    /// Bytes that are free where packages lie, or will.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let mut folders = self.paths.repository.ancestors();
        folders.find_map(|folder| platform::space(folder).ok()).map(|space| space.free_bytes)
    }

    /// What can be done to the cluster with the packages that are live.
    pub(super) fn actions(&self) -> Result<Vec<Runnable>, HostError> {
        let (store, packages, _) = self.active_packages()?;
        let mut found = Vec::new();
        for package in &packages {
            for (name, info) in &package.info.actions {
                let timeout = Duration::from_secs(info.timeout_seconds.into());
                let action = Action {
                    package: package.id.clone(),
                    name: name.clone(),
                    on: match info.on {
                        Occasion::Add => "add".to_owned(),
                        Occasion::Remove => "remove".to_owned(),
                    },
                    of: info.of.clone(),
                    from: info.from.clone(),
                    description: info.description.clone(),
                    timeout_seconds: info.timeout_seconds.into(),
                };
                let check = runnable(&store, &package.id, name, info.program.as_str(), timeout);
                found.push(Runnable { action, check });
            }
        }
        Ok(found)
    }

    /// What the live script says that the machine's address is.
    fn detected_address(&self, cancel: &Cancel) -> Option<String> {
        let program = self.paths.root.join("bin/detect_ip");
        if !fs_err::exists(&program).unwrap_or_default() {
            return None;
        }
        let script = Check {
            package: "detect--own".parse().ok()?,
            name: "detect_ip".to_owned(),
            program,
            arguments: Vec::new(),
            timeout: DETECT_MAX,
            within: Duration::ZERO,
        };
        let environment = self.check_environment().unwrap_or_default();
        let (outcome, _) = check::run_apart(&script, &environment, cancel).ok()?;
        let address: IpAddr = outcome.output.trim().parse().ok()?;
        outcome.verdict.passed().then(|| address.to_string())
    }
}

fn runnable(
    store: &Store,
    package: &PackageId,
    name: &str,
    program: &str,
    timeout: Duration,
) -> Check {
    Check {
        package: package.clone(),
        name: name.to_owned(),
        program: store.path(package).join(program),
        arguments: Vec::new(),
        timeout,
        within: Duration::ZERO,
    }
}

/// Which machine it is, for who compares machines, and nothing else.
fn machine(facts: &Facts) -> Option<Sha256> {
    let id = facts.line("/etc/machine-id").filter(|id| !id.is_empty())?;
    let mut digest = Hasher::new();
    digest.update(MACHINE);
    digest.update(id.as_bytes());
    Some(digest.finish())
}

/// All addresses of the machine but loopback's, and those of one link only.
fn addresses(facts: &Facts) -> BTreeSet<String> {
    let of_four = facts.text(Utf8Path::new("/proc/net/fib_trie")).unwrap_or_default();
    let of_six = facts.text(Utf8Path::new("/proc/net/if_inet6")).unwrap_or_default();
    let found = four(&of_four).into_iter().chain(six(&of_six));
    let found = found.filter(|address| match address {
        IpAddr::V4(address) => !address.is_loopback(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    });
    found.map(|address| address.to_string()).collect()
}

/// The leaves of the kernel's table of ways that lead to the machine itself.
fn four(table: &str) -> Vec<IpAddr> {
    let mut found = BTreeSet::new();
    let mut leaf = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if line.starts_with("/32 host LOCAL")
            && let Some(address) = leaf
        {
            found.insert(address);
        }
    }
    found.into_iter().collect()
}

/// One address a line, as digits without colons.
fn six(table: &str) -> Vec<IpAddr> {
    let digits = table.lines().filter_map(|line| line.split_whitespace().next());
    let numbers = digits.filter(|digits| digits.len() == 32);
    let numbers = numbers.filter_map(|digits| u128::from_str_radix(digits, 16).ok());
    numbers.map(|number| IpAddr::from(number.to_be_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_at_which_others_reach_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::create_dir_all(root.join("proc/net")).unwrap();
        fs_err::create_dir_all(root.join("etc")).unwrap();
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
                    Local:\n     |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 10.0.0.255\n        \
                    /32 link BROADCAST\n        |-- 127.0.0.1\n           /32 host LOCAL\n";
        fs_err::write(root.join("proc/net/fib_trie"), trie).unwrap();
        let six = "00000000000000000000000000000001 01 80 10 80       lo\n\
                   fe80000000000000021122fffe334455 02 40 20 80     eth0\n\
                   fd000000000000000000000000000007 02 40 00 80     eth0\n";
        fs_err::write(root.join("proc/net/if_inet6"), six).unwrap();
        let facts = Facts::of_folder(root.to_owned(), "");
        let found: Vec<String> = addresses(&facts).into_iter().collect();
        assert_eq!(found, ["10.0.0.7", "fd00::7"]);
        assert_eq!(machine(&facts), None);
        fs_err::write(root.join("etc/machine-id"), "0123456789abcdef\n").unwrap();
        let digest = machine(&facts).unwrap();
        assert_ne!(digest, Sha256::of(b"0123456789abcdef"));
    }
}
