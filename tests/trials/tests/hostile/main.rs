//! Untrusted peers attack a process that serves honest peers: through real sockets and shared memory, and with another
//! user's rights where that matters. One file for each kind of access; docs/threats.md names the bound of each.

#[macro_use]
extern crate oxifabric_trials;

mod budgets;
mod busy;
mod callers;
mod calls;
mod datagrams;
mod doors;
mod growth;
mod identity;
mod idle;
mod keys;
mod pace;
mod packets;
mod players;
mod privileges;
mod processor;
mod siege;
mod soak;
mod streams;

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}
