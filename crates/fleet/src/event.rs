//! What happens in a run, in order, for whoever shows it: a terminal, a file of JSON, a browser. None of
//! them decides anything, and all of them see the same.

use host::wire::Finding;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::run::{HostState, Operation, RunId, Stopped, WaveKind};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the journal, from 1 in each run. None: it is told to whoever watches, and not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A run began.
    Began {
        /// Which.
        run: RunId,
        /// What it is.
        operation: Operation,
        /// How many hosts something is done to.
        hosts: usize,
    },
    /// It goes on after an interruption.
    Resumed,
    /// Somebody asked to stop, and hosts that are changing are waited for.
    Finishing {
        /// How many.
        hosts: usize,
    },
    /// A phase began.
    Phase {
        /// Its place, from 0.
        phase: usize,
        /// Its name.
        name: String,
        /// How many hosts take part.
        hosts: usize,
    },
    /// What will change what is live, in order, now that enough is known.
    Waves {
        /// How many hosts are in each.
        sizes: Vec<usize>,
    },
    /// A wave began.
    Wave {
        /// Its number, from 1.
        wave: usize,
        /// How many there are.
        waves: usize,
        /// Who is in it.
        kind: WaveKind,
        /// Their names.
        hosts: Vec<String>,
    },
    /// A wave is over.
    WaveEnded {
        /// Its number, from 1.
        wave: usize,
        /// Whether it is kept.
        well: bool,
    },
    /// Masters were asked how the cluster is.
    Gate {
        /// The number of the wave, from 1.
        wave: usize,
        /// Before the wave, or after it.
        before: bool,
        /// How often they were asked.
        attempt: u32,
        /// Whether that is enough.
        well: bool,
        /// What they found that is not well.
        evidence: Vec<Evidence>,
    },
    /// Something was done to the cluster for a host that comes or goes.
    Acted {
        /// The name of the host.
        host: String,
        /// The name of the one that did it.
        on: String,
        /// What.
        action: String,
        /// What it said last.
        output: String,
    },
    /// Hosts of a wave go back.
    Undoing {
        /// The number of the wave, from 1.
        wave: usize,
        /// How many of its hosts.
        hosts: usize,
    },
    /// The run stops by itself.
    Stopping {
        /// Why.
        why: Stopped,
    },
    /// A host is in another state.
    Host {
        /// Its name.
        host: String,
        /// The state.
        #[serde(flatten)]
        state: HostState,
    },
    /// Something that changes no state failed: an ask of a gate, getting something from another host, or
    /// cleaning up.
    Aside {
        /// The name of the host.
        host: String,
        /// What was being done.
        during: String,
        /// Why it failed.
        cause: String,
    },
    /// A host has the packages that it lacked, which came from here or from another host.
    Supplied {
        /// The name of the host.
        host: String,
        /// The name of the host that it got them from; none: they were sent from here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// Their bytes.
        bytes: u64,
    },
    /// Somebody must say go on.
    Paused {
        /// After which wave; 0: before the first one.
        wave: usize,
    },
    /// Somebody said it.
    Continued,
    /// The run is over.
    Ended {
        /// Whether and why it stopped early.
        stopped: Option<Stopped>,
        /// How many hosts are in which state.
        counts: Counts,
    },
    /// A host is told to do something. Not kept: its intent is.
    Told {
        /// The name of the host.
        host: String,
        /// What.
        step: String,
    },
    /// A connection is being made. Not kept.
    Connecting {
        /// The name of the host.
        host: String,
    },
    /// It will be tried again.
    Retrying {
        /// The name of the host.
        host: String,
        /// What was being done.
        step: String,
        /// What went wrong.
        fault: Fault,
        /// The try that comes next, from 2.
        attempt: u32,
        /// After so many milliseconds.
        wait_ms: u64,
    },
    /// A host says something. Kept as output.
    Line {
        /// The name of the host.
        host: String,
        /// The words.
        text: String,
    },
    /// How far a host is. Not kept.
    Progress {
        /// The name of the host.
        host: String,
        /// Bytes that are done.
        done_bytes: u64,
        /// Bytes of all.
        total_bytes: u64,
    },
}

/// Why a master is not well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The name of the master.
    pub host: String,
    /// What it, or the way to it, says.
    pub cause: String,
    /// Its checks that are not well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// How many hosts are in which state, without witnesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// They did what was asked.
    pub done: usize,
    /// They had nothing to do.
    pub unchanged: usize,
    /// They went back with their wave.
    pub rolled_back: usize,
    /// They did not do it.
    pub failed: usize,
    /// Nobody reached them.
    pub unreachable: usize,
    /// Nobody knows.
    pub in_doubt: usize,
    /// It was never their turn.
    pub skipped: usize,
    /// They switched, and nobody found the cluster well since: in a run that is over, their wave failed, and
    /// there was nothing to go back to.
    #[serde(default)]
    pub switched: usize,
    /// They are not at an end.
    pub open: usize,
}

impl Counts {
    /// Counts one more. In a run that is going on, who has answered or staged is not through with it.
    pub fn add(&mut self, state: &HostState, is_going_on: bool) {
        *match state {
            state if is_going_on && state.can_go_on() => &mut self.open,
            HostState::Done | HostState::Answered | HostState::Staged => &mut self.done,
            HostState::Unchanged => &mut self.unchanged,
            HostState::RolledBack => &mut self.rolled_back,
            HostState::Failed(_) => &mut self.failed,
            HostState::Unreachable(_) => &mut self.unreachable,
            HostState::InDoubt(_) => &mut self.in_doubt,
            HostState::Skipped => &mut self.skipped,
            HostState::Switched => &mut self.switched,
            HostState::Pending
            | HostState::Asking
            | HostState::Staging
            | HostState::Switching
            | HostState::Undoing => &mut self.open,
        } += 1;
    }
}
