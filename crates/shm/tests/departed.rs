//! What a process that ends leaves at its peers: messages that are complete, and nothing else for long.
//!
//! The other process is this test program again, told by an environment variable what to be. Tests take turns, because they count
//! this process's descriptors.

mod other;
mod recorder;

use std::env;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant as Clock;

use other::{Other, ROLE, TARGET};
use oxifabric_engine::{Kind, Link, Posted};
use oxifabric_mem::Iov;
use oxifabric_provider::device::Device;
use oxifabric_types::{Address, Errno, PeerId};
use recorder::{Port, WATCHDOG, header, lend, params, pattern};

const LONG: usize = 1 << 20;

/// Runs the other process; returns at once when the tests are run as usual.
#[test]
fn other_process() {
    let (Ok(role), Ok(target)) = (env::var(ROLE), env::var(TARGET)) else {
        return;
    };
    let mut port = Port::open(&params());
    let target = Address::Name(target.into());
    let peer = port.link.peer(&target).expect("a name");
    post(&mut port, peer, header(Kind::Tagged, 1, 5), &lend(b"whole"));
    let long = pattern(LONG, 1);
    match role.as_str() {
        "offer" => post(
            &mut port,
            peer,
            header(Kind::TaggedRts, 2, LONG),
            &lend(&long),
        ),
        // The first half of a message that is sent in two.
        "half" => post(
            &mut port,
            peer,
            header(Kind::Tagged, 2, 8000),
            &lend(&long[..4000]),
        ),
        "two" => post(
            &mut port,
            peer,
            header(Kind::Tagged, 2, 4000),
            &lend(&long[..4000]),
        ),
        "family" => println!("child {}", leave_child()),
        _ => panic!("an unknown role: {role}"),
    }
    println!("sent");
    let start = Clock::now();
    while start.elapsed() < WATCHDOG {
        port.poll();
    }
}

/// Forks a child that has all that is open here, and lives until it is ended, or for a minute.
fn leave_child() -> i32 {
    // SAFETY: the child only waits and leaves by a signal.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain system calls.
        unsafe {
            libc::alarm(60);
            loop {
                libc::pause();
            }
        }
    }
    child
}

fn post(port: &mut Port, peer: PeerId, header: oxifabric_engine::Header, body: &Iov) {
    let start = Clock::now();
    while port.try_post(peer, header, body) != Ok(Posted::Done) {
        port.poll();
        assert!(start.elapsed() < WATCHDOG, "cannot post: {port:?}");
    }
}

fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of descriptors and mappings of this process.
fn taken() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let shared = maps.lines().filter(|line| line.contains("oxifabric-shm"));
    (descriptors, shared.count())
}

/// Returns a port whose sink has room for `room` messages, and a peer that has sent all that its role requires.
fn meet(role: &str, room: usize) -> (Port, Other, (usize, usize)) {
    let mut a = Port::open(&params());
    let before = taken();
    a.sink.room = Some(room);
    let mut other = Other::start(role, &a.link.name(), None);
    a.until("a message has no room", |sink| sink.stalls > 0);
    other.line("sent");
    (a, other, before)
}

/// Checks that what a peer left beside the messages that its sink took is gone once the peer is.
fn leaves_nothing(role: &str) {
    let _turn = alone();
    let (mut a, mut other, before) = meet(role, 1);
    other.kill();
    drop(other);
    a.until("it is down", |sink| !sink.down.is_empty());
    assert_eq!(a.sink.arrived.len(), 1, "what was whole has arrived");
    assert_eq!(taken(), before);
}

#[test]
fn a_peer_killed_while_its_rts_finds_no_room_leaves_nothing() {
    leaves_nothing("offer");
}

#[test]
fn a_peer_killed_in_the_middle_of_a_message_that_finds_no_room_leaves_nothing() {
    leaves_nothing("half");
}

#[test]
fn what_a_killed_peer_has_sent_whole_waits_for_room_without_descriptors() {
    let _turn = alone();
    let (mut a, mut other, (descriptors, _)) = meet("two", 1);
    other.kill();
    drop(other);
    let start = Clock::now();
    while taken().0 > descriptors {
        a.poll();
        assert!(start.elapsed() < WATCHDOG, "{} descriptors", taken().0);
    }
    assert_eq!(a.sink.down, []);
    assert!(a.link.arm(), "nothing is to be done before there is room");
    let from = a.sink.arrived[0].from;
    a.sink.room = None;
    a.link.resume(from);
    a.until("it is down", |sink| !sink.down.is_empty());
    assert_eq!(a.sink.arrived.len(), 2);
    assert_eq!(a.sink.down, [(from, Errno::CONNRESET)]);
}

#[test]
fn a_peer_whose_child_has_its_sockets_is_down_when_it_has_ended() {
    let _turn = alone();
    let mut a = Port::open(&params());
    let mut other = Other::start("family", &a.link.name(), None);
    a.until("it has sent", |sink| !sink.arrived.is_empty());
    let child: i32 = other.line("child ").parse().expect("a number");
    other.line("sent");
    other.kill();
    drop(other);
    let start = Clock::now();
    while a.sink.down.is_empty() && start.elapsed() < WATCHDOG {
        a.poll();
    }
    // SAFETY: a plain system call; the child is there, since it waits for this or a minute.
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert_eq!(
        a.sink.down.len(),
        1,
        "it has ended, whatever its child has open"
    );
}
