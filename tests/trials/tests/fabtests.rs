//! Programs of fabtests, libfabric's own test suite, where `FABTESTS_BIN` names the folder they are in.
//!
//! The programs come with libfabric's sources and are not packaged by Debian, so that most machines skip
//! them. Each case runs on every provider.

#[macro_use]
extern crate oxifabric_trials;

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oxifabric_trials::{Library, Missing, Namespace, Pair, Program, port, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Longer than any of these programs takes where all goes well.
const LIMIT: Duration = Duration::from_secs(300);

fn program(library: &Library, provider: &str, line: &str) -> Result<Program, Missing> {
    let folder = env::var_os("FABTESTS_BIN")
        .map(PathBuf::from)
        .ok_or_else(|| Missing("FABTESTS_BIN names no folder with fabtests".into()))?;
    let (name, options) = line.split_once(' ').unwrap_or((line, ""));
    let file = folder.join(name);
    assert!(file.exists(), "FABTESTS_BIN holds no {name}");
    // Some programs start others of the suite.
    let path = env::join_paths([folder.as_path(), Path::new("/usr/bin"), Path::new("/bin")]);
    Ok(Program::new(file)
        .env("PATH", path.expect("the folder's name holds no colon"))
        .library(library)
        .line(options)
        .args(["-p", provider])
        .limit(LIMIT))
}

/// Runs a program that needs no partner.
fn alone(provider: &str, line: &str) -> Result<(), Missing> {
    let library = Library::under_test()?;
    program(&library, provider, line)?.run().expect_success();
    Ok(())
}

/// Runs a server and its client with the same options.
fn pair(provider: &str, line: &str) -> Result<(), Missing> {
    run_pair(provider, line, port::is_reachable)
}

/// Runs a server and its client over datagrams.
fn datagram_pair(provider: &str, line: &str) -> Result<(), Missing> {
    run_pair(provider, line, port::is_bound)
}

/// Runs a server and its client that also meet outside the fabric, always at TCP port 3000: in a network of their own.
fn meeting(provider: &str, line: &str) -> Result<(), Missing> {
    let pair = both(provider, line, port::is_listening)?;
    let own = Namespace::new()?;
    let pair = Pair {
        server: own.around(pair.server),
        client: own.around(pair.client),
        ..pair
    };
    pair.run().expect_success();
    Ok(())
}

fn run_pair(provider: &str, line: &str, is_ready: fn(u32) -> bool) -> Result<(), Missing> {
    both(provider, line, is_ready)?.run().expect_success();
    Ok(())
}

fn both(provider: &str, line: &str, is_ready: fn(u32) -> bool) -> Result<Pair, Missing> {
    let library = Library::under_test()?;
    let service = port::free();
    let side = |options: String| Ok(program(&library, provider, line)?.line(&options));
    Ok(Pair {
        server: side(format!("-s 127.0.0.1 -B {service}"))?,
        client: side(format!("-s 127.0.0.1 -P {service} 127.0.0.1"))?,
        is_ready,
    })
}

/// Runs three processes with the same options, which meet outside the fabric, always at TCP port 8228: in a network of their own.
fn trio(provider: &str, line: &str) -> Result<(), Missing> {
    let library = Library::under_test()?;
    let mine = program(&library, provider, line)?;
    let own = Namespace::new()?;
    let mut first = own.around(mine).start();
    let one = || Ok::<_, Missing>(own.around(program(&library, provider, line)?).start());
    let listens = first.until(|first| port::is_listening(first.id()));
    let others = [one()?, one()?];
    first.wait().expect_success();
    assert_eq!(listens, Ok(()));
    for other in others {
        other.wait().expect_success();
    }
    Ok(())
}

/// Cases of a provider, in a module of their own.
macro_rules! on {
    ($module:ident $provider:literal $($name:ident: $kind:ident $line:literal;)*) => {
        mod $module {
            $(#[test] fn $name() { oxifabric_trials::require!(super::$kind($provider, $line)); })*
        }
    };
}

macro_rules! cases {
    ($($case:tt)*) => {
        on! { tcp "tcp" $($case)* }
        on! { shm "shm" $($case)* }
    };
}

cases! {
    getinfo: alone "fi_getinfo_test -s 127.0.0.1 127.0.0.1";
    dom: alone "fi_dom_test -n 2";
    eq: alone "fi_eq_test";
    cq: alone "fi_cq_test";
    cntr: alone "fi_cntr_test";
    rdm: pair "fi_rdm";
    rdm_delivery_complete: pair "fi_rdm -U";
    scalable_endpoint: pair "fi_scalable_ep";
    shared_vector: pair "fi_rdm_shared_av";
    rdm_pingpong: pair "fi_rdm_pingpong -I 5";
    rdm_pingpong_checked: pair "fi_rdm_pingpong -I 5 -v";
    rdm_pingpong_sleeping: pair "fi_rdm_pingpong -I 5 -c sread";
    rdm_pingpong_on_descriptors: pair "fi_rdm_pingpong -I 5 -c fd";
    rdm_pingpong_yielding: pair "fi_rdm_pingpong -I 5 -c yield";
    rdm_pingpong_counting: pair "fi_rdm_pingpong -I 5 -t counter";
    rdm_cntr_pingpong: pair "fi_rdm_cntr_pingpong -I 5";
    rdm_cntr_pingpong_short: pair "fi_rdm_cntr_pingpong -I 200 -S 64";
    rdm_bw_by_threads: meeting "fi_rdm_bw_mt -n 4";
    rdm_tagged_pingpong: pair "fi_rdm_tagged_pingpong -I 5";
    rdm_tagged_pingpong_checked: pair "fi_rdm_tagged_pingpong -I 5 -v";
    rdm_tagged_pingpong_delivered: pair "fi_rdm_tagged_pingpong -I 5 -v -U";
    rdm_tagged_bw: pair "fi_rdm_tagged_bw -I 5";
    rdm_tagged_bw_checked: pair "fi_rdm_tagged_bw -I 5 -v";
    rdm_tagged_bw_delivered: pair "fi_rdm_tagged_bw -I 5 -v -U";
    rdm_bw: pair "fi_rdm_bw -I 5";
    rdm_bw_checked: pair "fi_rdm_bw -I 5 -v";
    rdm_atomic: pair "fi_rdm_atomic -I 5 -o all";
    rdm_atomic_checked: pair "fi_rdm_atomic -I 5 -o all -v";
    rdm_atomic_delivered: pair "fi_rdm_atomic -I 5 -o all -U";
    rdm_atomic_delivered_checked: pair "fi_rdm_atomic -I 5 -o all -U -v";
    rdm_tagged_peek: meeting "fi_rdm_tagged_peek";
    multi_recv: meeting "fi_multi_recv -e rdm -I 5";
    cq_data: pair "fi_cq_data -e rdm -o senddata";
    inject: pair "fi_inject_test -A inject -v";
    inject_by_call: pair "fi_inject_test -N -A inject -v";
    inject_complete: pair "fi_inject_test -A inj_complete -v";
    inject_complete_by_call: pair "fi_inject_test -N -A inj_complete -v";
    recv_cancel: pair "fi_recv_cancel -e rdm -V";
    unexpected_msg: meeting "fi_unexpected_msg -e rdm -I 10 -v";
    flood: pair "fi_flood -e rdm -v -T 1";
    flood_delivered: pair "fi_flood -e rdm -v -T 1 -U";
    rdm_multi_client: pair "fi_rdm_multi_client -C 10 -I 5";
    rdm_multi_client_delivered: pair "fi_rdm_multi_client -C 10 -I 5 -U";
    multi_ep_shared_av: meeting "fi_multi_ep -e rdm -v -A";
    multi_ep_shared_cq: meeting "fi_multi_ep -e rdm -v -Q";
    multi_ep_all_shared: meeting "fi_multi_ep -e rdm -v -A -Q";
    multi_ep_threading_completion: meeting "fi_multi_ep -e rdm -v --threading completion";
    av_xfer: meeting "fi_av_xfer -e rdm";
    shared_ctx: pair "fi_shared_ctx";
    shared_rx_ctx: pair "fi_shared_ctx --no-tx-shared-ctx";
    shared_tx_ctx: pair "fi_shared_ctx --no-rx-shared-ctx";
    multinode_coll: trio "fi_multinode_coll -n 3 -s 127.0.0.1";
}

// Connected endpoints, which only tcp has.
on! { connected "tcp"
    msg: pair "fi_msg";
    epoll: pair "fi_msg_epoll";
    sockets: pair "fi_msg_sockets";
    cm_data: meeting "fi_cm_data";
    cq_data: pair "fi_cq_data -e msg -o senddata";
    cq_data_of_writes: pair "fi_cq_data -e msg -o writedata";
    pingpong_checked: pair "fi_msg_pingpong -I 5 -v";
    pingpong_sleeping: pair "fi_msg_pingpong -I 5 -c sread";
    bw_checked: pair "fi_msg_bw -I 5 -v";
    rma_writes: pair "fi_rma_bw -e msg -o write -I 5";
    rma_reads: pair "fi_rma_bw -e msg -o read -I 5";
    multi_recv: meeting "fi_multi_recv -e msg -I 5";
    unexpected_msg: meeting "fi_unexpected_msg -e msg -I 10 -v";
    flood: pair "fi_flood -e msg -v -T 1";
    multi_ep: meeting "fi_multi_ep -e msg -v -A -Q";
}

// Datagram endpoints, which only udp has.
on! { datagrams "udp"
    getinfo: alone "fi_getinfo_test -s 127.0.0.1 127.0.0.1";
    av: alone "fi_av_test -g 127.0.0.1 -n 1 -s 127.0.0.1 -e dgram";
    dom: alone "fi_dom_test -n 2";
    eq: alone "fi_eq_test";
    cq: alone "fi_cq_test";
    mr: alone "fi_mr_test";
    cntr: alone "fi_cntr_test";
    setopt: alone "fi_setopt_test";
    dgram: datagram_pair "fi_dgram";
    pingpong: meeting "fi_dgram_pingpong -I 5";
    pingpong_sleeping: meeting "fi_dgram_pingpong -I 5 -c sread";
    pingpong_on_descriptors: meeting "fi_dgram_pingpong -I 5 -c fd";
    pingpong_with_prefix: meeting "fi_dgram_pingpong -I 5 -k";
    av_xfer: meeting "fi_av_xfer -e dgram";
}

// Reliable endpoints over datagrams.
on! { reliable_over_datagrams "udp;ofi_rxd"
    getinfo: alone "fi_getinfo_test -s 127.0.0.1 127.0.0.1";
    dom: alone "fi_dom_test -n 2";
    eq: alone "fi_eq_test";
    cq: alone "fi_cq_test";
    mr: alone "fi_mr_test";
    cntr: alone "fi_cntr_test";
    setopt: alone "fi_setopt_test";
    sighandler: alone "sighandler_test";
    rdm: datagram_pair "fi_rdm";
    rdm_tagged_peek: meeting "fi_rdm_tagged_peek";
    recv_cancel: datagram_pair "fi_recv_cancel -e rdm -V";
    unexpected_msg: meeting "fi_unexpected_msg -e rdm -I 10 -v";
    rma_writes: datagram_pair "fi_rma_bw -e rdm -o write -I 5";
    rma_reads: datagram_pair "fi_rma_bw -e rdm -o read -I 5";
    atomics_checked: datagram_pair "fi_rdm_atomic -I 5 -o all -v";
    multi_recv: meeting "fi_multi_recv -e rdm -I 5";
    pingpong_checked: datagram_pair "fi_rdm_pingpong -I 5 -v";
    tagged_bw_checked: datagram_pair "fi_rdm_tagged_bw -I 5 -v -U";
    av_xfer: meeting "fi_av_xfer -e rdm";
}

/// The program inserts names and IP addresses, which shm has none of.
const AV_TEST: &str = "fi_av_test -g 127.0.0.1 -n 1 -s 127.0.0.1 -e rdm";

#[test]
fn addresses_are_inserted_over_tcp() {
    require!(alone("tcp", AV_TEST));
}

#[test]
fn shm_does_not_pretend_to_have_ip_addresses() {
    let library = require!(Library::under_test());
    let outcome = require!(program(&library, "shm", AV_TEST)).run();
    outcome.expect_code(61);
}
