//! Hosts that are reached over SSH.

use std::sync::Arc;

use super::Transport;
use super::remote::{Remote, Shared};
use super::ssh::{Connection, Ssh};
use crate::fault::Fault;
use crate::inventory::Host;

/// Reaches hosts over SSH.
#[derive(Debug)]
pub struct OverSsh {
    ssh: Ssh,
    shared: Arc<Shared>,
}

impl OverSsh {
    /// Hosts that get what `shared` has.
    pub fn new(ssh: Ssh, shared: Arc<Shared>) -> Self {
        Self { ssh, shared }
    }
}

impl Transport for OverSsh {
    type Session = Remote<Connection>;

    async fn connect(&self, host: &Host) -> Result<Remote<Connection>, Fault> {
        let connection = self.ssh.connect(host).await?;
        Ok(Remote::new(connection, host.clone(), Arc::clone(&self.shared)))
    }

    async fn settle(&self) {
        self.ssh.settle().await;
    }
}
