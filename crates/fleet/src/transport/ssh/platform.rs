//! Where operating systems differ: who somebody is, where SSH has its files, how an agent is reached.

use camino::Utf8PathBuf;
use russh::keys::agent::client::{AgentClient, AgentStream};

/// A connection to an agent.
pub(super) type Agent = AgentClient<Box<dyn AgentStream + Send + Unpin>>;

/// The folder of who runs this.
pub(super) fn home() -> Utf8PathBuf {
    let home = std::env::home_dir().and_then(|home| Utf8PathBuf::try_from(home).ok());
    home.unwrap_or_else(|| Utf8PathBuf::from("."))
}

/// Who runs this.
pub(super) fn user() -> String {
    let name = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|key| std::env::var(key).ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "root".to_owned())
}

/// What `ssh` reads, the user's first.
#[cfg(unix)]
pub(super) fn config_files() -> Vec<Utf8PathBuf> {
    vec![home().join(".ssh/config"), "/etc/ssh/ssh_config".into()]
}

/// What `ssh` reads, the user's first.
#[cfg(windows)]
pub(super) fn config_files() -> Vec<Utf8PathBuf> {
    vec![home().join(".ssh/config")]
}

/// Where hosts are known to all users.
#[cfg(unix)]
pub(super) fn system_known_hosts() -> [Utf8PathBuf; 1] {
    ["/etc/ssh/ssh_known_hosts".into()]
}

/// Where hosts are known to all users: nowhere.
#[cfg(windows)]
pub(super) fn system_known_hosts() -> [Utf8PathBuf; 0] {
    []
}

/// Connects to the agent at a socket.
#[cfg(unix)]
pub(super) async fn connect_agent(socket: &camino::Utf8Path) -> Result<Agent, russh::keys::Error> {
    Ok(AgentClient::connect_uds(socket).await?.dynamic())
}

/// Connects to the agent at a pipe.
#[cfg(windows)]
pub(super) async fn connect_agent(pipe: &camino::Utf8Path) -> Result<Agent, russh::keys::Error> {
    Ok(AgentClient::connect_named_pipe(pipe).await?.dynamic())
}
