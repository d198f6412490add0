//! SSH against servers: OpenSSH's own, and hosts in this process that do what they should not.

mod real_server;
mod support;
