//! The command line as a user meets it: exit code, standard output and standard error.

mod build;
mod mistakes;
mod mkpanda;
mod package;
mod signing;
mod streams;
mod test_env;
mod usage;
