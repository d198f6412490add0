//! Faults on purpose: a host that hangs, a cable that is pulled or bad, a disk that is full. All of them are
//! undone by [`Host::heal`]; the power is another matter.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::error::LocalError;
use crate::host::{Host, Power};
use crate::{cgroup, needs, network, platform, record};

/// How long the kernel may take to halt all processes of a host.
const FREEZE_MAX: Duration = Duration::from_secs(30);
/// Beside what the host sees of its disk.
const FILLER: &str = "filler";

/// What is done to the network of a host, also after its next boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    /// Whether its cable is pulled.
    pub(crate) cut: bool,
    /// How many of 100 packets are lost, each way.
    pub(crate) loss: u8,
}

/// What is done to the network of a host, by the file that keeps it.
pub(crate) fn network(file: &Utf8Path) -> Result<Network, LocalError> {
    Ok(record::read(file)?.unwrap_or_default())
}

impl Host {
    /// Halts all of its processes, as if it hung: connections to it stay open and nothing answers.
    pub fn freeze(&self) -> Result<(), LocalError> {
        let _lock = self.lock()?;
        self.need_on()?;
        let frozen = cgroup::freeze(&self.host_group(), true, FREEZE_MAX)?;
        self.in_time(FREEZE_MAX, "still moves", frozen)
    }

    /// Pulls its cable, until [`Self::heal`], also if it is booted in between.
    pub fn cut(&self) -> Result<(), LocalError> {
        let _lock = self.lock()?;
        let before = network(&self.boot.faults)?;
        record::write(&self.boot.faults, &Network { cut: true, ..before })?;
        match network::silence(&self.boot) {
            Err(error) if self.power() == Power::On => Err(error.into()),
            // A host that is off has no cable yet.
            _ => Ok(()),
        }
    }

    /// Loses `percent`, at most 99, of the packets to it and as many of those from it, until [`Self::heal`].
    pub fn lose(&self, percent: u8) -> Result<(), LocalError> {
        let _lock = self.lock()?;
        needs::check_program("nft", "nftables")?;
        let (before, loss) = (network(&self.boot.faults)?, percent.min(99));
        network::lose(&self.boot, loss)?;
        record::write(&self.boot.faults, &Network { loss, ..before })
    }

    /// Fills its disk but for `leave` bytes, out of its sight.
    pub fn fill(&self, leave: u64) -> Result<(), LocalError> {
        let _lock = self.lock()?;
        let Some(filler) = self.filler() else {
            return Err(LocalError::NoDisk(self.name().to_owned()));
        };
        Ok(platform::fill(&filler, leave)?)
    }

    /// Undoes every fault: its processes go on, its cable is good, its disk has room.
    pub fn heal(&self) -> Result<(), LocalError> {
        let _lock = self.lock()?;
        // One that cannot be undone keeps no other from it.
        self.empty_disk().and(self.heal_network()).and(self.thaw())
    }

    fn empty_disk(&self) -> Result<(), LocalError> {
        match self.filler() {
            Some(filler) if filler.exists() => Ok(fs_err::remove_file(filler)?),
            _ => Ok(()),
        }
    }

    fn heal_network(&self) -> Result<(), LocalError> {
        let before = network(&self.boot.faults)?;
        if before.cut && self.power() == Power::On {
            network::unsilence(&self.boot)?;
        }
        record::write(&self.boot.faults, &Network { cut: false, ..before })?;
        if before.loss > 0 {
            network::lose(&self.boot, 0)?;
        }
        record::write(&self.boot.faults, &Network::default())
    }

    fn thaw(&self) -> Result<(), LocalError> {
        if self.power() == Power::Off {
            return Ok(());
        }
        let moves = cgroup::freeze(&self.host_group(), false, FREEZE_MAX)?;
        self.in_time(FREEZE_MAX, "is still frozen", moves)
    }

    /// What is wrong with it on purpose, in words.
    pub fn faults(&self) -> Vec<String> {
        let network = network(&self.boot.faults).unwrap_or_default();
        let mut faults = Vec::new();
        if cgroup::is_frozen(&self.host_group()) {
            faults.push("frozen".to_owned());
        }
        if network.cut {
            faults.push("cut off".to_owned());
        }
        if network.loss > 0 {
            faults.push(format!("loses {} %", network.loss));
        }
        if self.filler().is_some_and(|filler| filler.exists()) {
            faults.push("disk filled".to_owned());
        }
        faults
    }

    /// What takes the room on its disk, if it has a disk of its own.
    fn filler(&self) -> Option<Utf8PathBuf> {
        self.disk.map(|_| self.folder.join("disk").join(FILLER))
    }
}
