//! Sources: every kind is fetched into a cache of its own and laid out from it, from repositories
//! and servers on this machine, and by client programs that are scripts.

mod bench;
mod cargo;
mod deb;
mod git;
mod git_local;
mod npm;
mod pypi;
mod url;
