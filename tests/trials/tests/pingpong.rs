//! Debian's `fi_pingpong` between two processes on the library under test, with its check of the data.

#[macro_use]
extern crate oxifabric_trials;

use oxifabric_trials::pingpong::{PingPong, rows};
use oxifabric_trials::{Library, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Runs every size; the payload of every message is checked by the program itself.
macro_rules! every_size {
    ($($name:ident: $provider:literal, $options:literal;)*) => {$(
        #[test]
        fn $name() {
            let library = require!(Library::under_test());
            let run = PingPong::new(&library, $provider, concat!("-S all -c ", $options));
            let both = require!(run.pair()).run();
            let client = both.expect_success();
            let played = rows(&client.stdout);
            assert!(played.iter().any(|row| row.bytes == 0), "{client}");
            assert!(played.iter().any(|row| row.bytes == 6 << 20), "{client}");
        }
    )*};
}

every_size! {
    messages_of_every_size_over_tcp: "tcp", "-e rdm -I 100";
    messages_of_every_size_over_shm: "shm", "-e rdm -I 100";
    tagged_messages_of_every_size_over_tcp: "tcp", "-e rdm -I 10 -m tagged";
    tagged_messages_of_every_size_over_shm: "shm", "-e rdm -I 10 -m tagged";
    messages_of_every_size_over_a_connection: "tcp", "-e msg -I 100";
    tagged_messages_of_every_size_over_a_connection: "tcp", "-e msg -I 10 -m tagged";
}

/// Datagrams are short, and a loaded machine may drop some: the program ends in an error then, so that few are under way.
#[test]
fn datagrams_of_every_size_over_udp() {
    let library = require!(Library::under_test());
    let run = PingPong::new(&library, "udp", "-e dgram -I 100 -S 1024 -c");
    let both = require!(run.pair()).run();
    let client = both.expect_success();
    assert!(
        rows(&client.stdout).iter().any(|row| row.bytes == 1024),
        "{client}"
    );
}
