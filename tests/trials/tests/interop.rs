//! One process on the library under test, the other on a C library: they speak the same protocol over tcp.
//!
//! C libfabric 2.x offers it as the provider `tcp`. In 1.17 the same protocol (FI_PROTO_XNET, version 1) is
//! the provider `net`; its `tcp` is another protocol, which no later C library answers either. Over udp there is no protocol
//! but the datagram.

#[macro_use]
extern crate oxifabric_trials;

use std::time::Duration;

use oxifabric_trials::pingpong::{PingPong, rows};
use oxifabric_trials::{Library, Missing, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Runs every size between the two, with the check of the data.
fn play(server: (&Library, &str), client: (&Library, &str), options: &str) -> Result<(), Missing> {
    let options = format!("-S all -c {options}");
    let run = PingPong {
        options: &options,
        server,
        client,
        limit: Duration::from_secs(300),
    };
    let both = run.pair()?.run();
    let client = both.expect_success();
    assert!(
        rows(&client.stdout).iter().any(|row| row.bytes == 6 << 20),
        "{client}"
    );
    Ok(())
}

macro_rules! both_ways {
    ($($name:ident: $peer:ident as $provider:literal, $options:literal;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn the_peer_serves() {
                let peer = require!(Library::$peer());
                let ours = require!(Library::under_test());
                require!(play((&peer, $provider), (&ours, "tcp"), $options));
            }

            #[test]
            fn the_peer_asks() {
                let peer = require!(Library::$peer());
                let ours = require!(Library::under_test());
                require!(play((&ours, "tcp"), (&peer, $provider), $options));
            }
        }
    )*};
}

both_ways! {
    c_2_5_messages: mpich_wheel as "tcp", "-e rdm -I 20 -m msg";
    c_2_5_tagged: mpich_wheel as "tcp", "-e rdm -I 20 -m tagged";
    c_2_5_connected: mpich_wheel as "tcp", "-e msg -I 20 -m msg";
    c_1_17_messages: debian as "net", "-e rdm -I 20 -m msg";
    c_1_17_tagged: debian as "net", "-e rdm -I 20 -m tagged";
}

/// Sends datagrams between the two, with the check of the data.
fn play_datagrams(server: &Library, client: &Library) -> Result<(), Missing> {
    for options in ["-e dgram -I 100 -S 64 -c", "-e dgram -I 100 -S 1024 -c"] {
        let run = PingPong {
            options,
            server: (server, "udp"),
            client: (client, "udp"),
            limit: Duration::from_secs(300),
        };
        let both = run.pair()?.run();
        let client = both.expect_success();
        assert!(!rows(&client.stdout).is_empty(), "{client}");
    }
    Ok(())
}

macro_rules! datagrams_both_ways {
    ($($name:ident: $peer:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn the_peer_serves() {
                let (peer, ours) = (require!(Library::$peer()), require!(Library::under_test()));
                require!(play_datagrams(&peer, &ours));
            }

            #[test]
            fn the_peer_asks() {
                let (peer, ours) = (require!(Library::$peer()), require!(Library::under_test()));
                require!(play_datagrams(&ours, &peer));
            }
        }
    )*};
}

datagrams_both_ways! {
    c_1_17_datagrams: debian;
}
