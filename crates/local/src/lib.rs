//! Hosts on one machine, to try and to test with: real systemd, real sshd, an address and a root file
//! system each; made, killed, started and removed in seconds.
//!
//! A host is a systemd-nspawn container: it shares the kernel and the clock of the machine and nothing
//! else. Its root is an overlay over a base image that all hosts share; its network is a cable into a
//! switch that leads nowhere else. What is installed on hosts is not this crate's business.
//!
//! ```no_run
//! use local::{Cluster, HostSpec, Job, Machine, Options, Suite};
//!
//! let machine = Machine::default();
//! let hosts = vec![HostSpec::new("h1", Suite::Bookworm), HostSpec::new("h2", Suite::Trixie)];
//! let options = Options::new("try", hosts, "/usr/bin/monobloc".into());
//! let cluster = Cluster::up(&machine, &options, &Job::default())?.guard();
//! let host = cluster.host("h1")?;
//! assert!(host.exec(&["ping", "-c1", "h2"])?.status.success());
//! host.kill()?; // the power is gone
//! host.start()?;
//! host.wait_booted(local::BOOT_MAX)?;
//! # Ok::<(), local::LocalError>(())
//! ```

mod access;
mod cgroup;
mod cluster;
mod error;
mod event;
mod fault;
mod host;
mod image;
mod inventory;
mod machine;
mod name;
mod needs;
mod network;
mod platform;
mod record;
mod settings;
mod supervise;
mod tool;

pub use cluster::{Cluster, Guard, HOSTS_MAX, Options};
pub use error::LocalError;
pub use event::{Event, Job, Observer, Silent};
pub use host::{BOOT_MAX, EXEC_MAX, Host, Power, STOP_MAX, Status};
pub use image::{Image, Suite};
pub use machine::Machine;
pub use name::{ClusterName, HostName};
pub use network::Subnet;
pub use platform::replace_process;
pub use record::{Bind, HostSpec, Role};
pub use supervise::{boot, supervise};
pub use tool::ToolError;
