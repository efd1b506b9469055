//! What becomes of long messages, and of what was published, when a peer ends or breaks the rules.

use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant as Clock;

use oxifabric_engine::{Body, Header, OpenRegion, Placement, Target};
use oxifabric_sync::spsc::Cell as LaneCell;
use oxifabric_types::Info;
use oxifabric_wire::shm::cell::{self, Cell};
use oxifabric_wire::shm::kind;

use super::*;
use crate::hostile::untrusted_conn;
use crate::region::Region;
use crate::sys::identity::Identity;
use crate::sys::socket::Credentials;

/// Where the claims of the initiator's first slot are, and the count of chunks that the sender has copied:
/// docs/protocol/shm.md 6.4.
const CLAIMS: usize = 64;
const DONE: usize = 65;
/// Three chunks.
const LONG: usize = 300_000;

#[derive(Default)]
struct Ends {
    pulled: Vec<Result<(), Errno>>,
    down: Vec<PeerId>,
    /// Whether the sink has room for what arrives.
    takes: bool,
}

impl Sink for Ends {
    fn arrival(&mut self, _: PeerId, _: &Header, _: Body<'_>) -> Placement {
        match self.takes {
            true => Placement::Done,
            false => Placement::Stall,
        }
    }
    fn placed(&mut self, _: RxToken, _: Result<(), Errno>) {}
    fn sent(&mut self, _: TxToken, _: Result<(), Errno>) {}
    fn pulled(&mut self, _: RxToken, result: Result<(), Errno>) {
        self.pulled.push(result);
    }
    fn writable(&mut self, _: PeerId) {}
    fn peer_down(&mut self, peer: PeerId, _: Errno) {
        self.down.push(peer);
    }
}

fn open() -> ShmLink {
    ShmLink::open_with(&Info::default(), Params::of_environment()).expect("an endpoint")
}

fn poll(link: &mut ShmLink, milliseconds: u64) -> Ends {
    let mut ends = Ends::default();
    link.poll(
        Instant::default().after(Duration::from_millis(milliseconds)),
        &mut ends,
    );
    ends
}

fn this_process() -> Credentials {
    let pid = std::process::id() as i32;
    Credentials { pid, uid: 0 }
}

/// Opens a connection with a peer that is this process, too.
fn meet(link: &mut ShmLink, name: &str) -> (PeerId, Region, UnixDatagram) {
    let peer = peer::number(&mut link.peers, name, &link.expected).expect("a name");
    let (mut conn, theirs, socket) = untrusted_conn(peer, true).expect("a connection");
    conn.process = Identity::of(this_process());
    link.conns.add(conn, &mut link.peers);
    (peer, theirs, socket)
}

fn pull(link: &mut ShmLink, peer: PeerId, source: &[u8], target: &mut [u8]) {
    let remote = RemoteIov::new(&[Target::unkeyed(source.as_ptr() as u64, source.len() as u64)]);
    // The tests keep the target until the pull has ended.
    let into = crate::sys::memory::lend(target);
    let begun = link.pull(peer, &remote.expect("one piece"), into, RxToken(1));
    begun.expect("an open connection");
}

/// Claims the last chunk as the sender.
fn claim(theirs: &Region) {
    let word = theirs.head.word(CLAIMS);
    assert_ne!(
        word.load(Ordering::Relaxed),
        0,
        "a sender's copy was requested"
    );
    word.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_buffer_is_given_back_when_a_live_sender_has_done_its_chunk() {
    let (source, mut target) = (vec![7; LONG], vec![0; LONG]);
    let mut link = open();
    let (peer, theirs, _socket) = meet(&mut link, "late");
    pull(&mut link, peer, &source, &mut target);
    claim(&theirs);
    link.conn_of(peer).expect("it is open").fail(Errno::PROTO);
    for milliseconds in [0, 4_999] {
        let ends = poll(&mut link, milliseconds);
        assert_eq!((ends.pulled.len(), ends.down.len()), (0, 0));
    }
    theirs.head.word(DONE).store(1, Ordering::Release);
    let ends = poll(&mut link, 4_999);
    assert_eq!(
        (ends.pulled, ends.down),
        (vec![Err(Errno::PROTO)], vec![peer])
    );
}

#[test]
fn a_sender_that_never_does_its_chunk_is_not_waited_for_without_end() {
    let (source, mut target) = (vec![7; LONG], vec![0; LONG]);
    let mut link = open();
    let (peer, theirs, _socket) = meet(&mut link, "stopped");
    pull(&mut link, peer, &source, &mut target);
    claim(&theirs);
    link.conn_of(peer).expect("it is open").fail(Errno::PROTO);
    assert_eq!(poll(&mut link, 0).pulled, []);
    let ends = poll(&mut link, 5_000);
    assert_eq!(
        (ends.pulled, ends.down),
        (vec![Err(Errno::PROTO)], vec![peer])
    );
}

#[test]
fn an_endpoint_that_closes_waits_for_a_chunk_that_is_being_copied() {
    let (source, mut target) = (vec![7; LONG], vec![0; LONG]);
    let mut link = open();
    let (peer, theirs, _socket) = meet(&mut link, "late");
    pull(&mut link, peer, &source, &mut target);
    claim(&theirs);
    let copied = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // As a sender that has lost the processor in the middle.
            let start = Clock::now();
            while start.elapsed() < Duration::from_millis(300) {
                thread::yield_now();
            }
            copied.store(true, Ordering::Relaxed);
            theirs.head.word(DONE).store(1, Ordering::Release);
        });
        drop(link);
        assert!(
            copied.load(Ordering::Relaxed),
            "it would have been written late"
        );
    });
}

#[test]
fn memory_of_the_next_process_of_a_number_is_not_read() {
    let (source, mut target) = (vec![7; LONG], vec![0; LONG]);
    let mut link = open();
    let (peer, _theirs, _socket) = meet(&mut link, "replaced");
    assert_eq!(
        peer::name(&mut link.peers, "replaced", &link.expected),
        Ok(peer)
    );
    link.conn_of(peer).expect("it is open").process = Identity::of_predecessor(this_process());
    pull(&mut link, peer, &source, &mut target);
    let mut ends = poll(&mut link, 0);
    let rest = poll(&mut link, 1);
    ends.pulled.extend(rest.pulled);
    ends.down.extend(rest.down);
    assert_eq!(ends.pulled, [Err(Errno::CONNRESET)]);
    assert_eq!(ends.down, [peer]);
    assert!(target.iter().all(|&byte| byte == 0));
}

#[test]
fn a_process_that_has_hung_up_and_goes_on_to_publish_ends_all_the_same() {
    let mut link = open();
    let (peer, mut theirs, _socket) = meet(&mut link, "endless");
    assert_eq!(
        peer::name(&mut link.peers, "endless", &link.expected),
        Ok(peer)
    );
    link.end_conn(peer);
    let (meta, words) = Cell {
        kind: kind::MSG,
        flags: 0,
        id: 0,
        tag: 0,
        data: 0,
        len: 0,
        body: cell::Body::Bare,
    }
    .emit();
    let mut ends = Ends {
        takes: true,
        ..Ends::default()
    };
    let mut published = 0;
    while ends.down.is_empty() {
        assert!(
            published <= 2 * theirs.layout.cells(),
            "it has had its lane"
        );
        while let Ok(Some(_)) = theirs.tx.reserve(0) {
            theirs.tx.push(&LaneCell { meta, words }, 0, false);
            published += 1;
        }
        link.poll(Instant::default(), &mut ends);
    }
}

#[test]
fn messages_of_departed_peers_wait_for_room_in_a_bounded_number() {
    let mut link = open();
    let mut meet_and_leave = |number: usize, named: bool| {
        let name = format!("peer {number}");
        let (peer, mut theirs, socket) = meet(&mut link, &name);
        if named {
            peer::name(&mut link.peers, &name, &link.expected).expect("a name");
        }
        assert_eq!(theirs.tx.reserve(0), Ok(Some(0)));
        theirs.tx.push(&Default::default(), 0, false);
        link.conn_of(peer).expect("it is open").stalled = true;
        link.end_conn(peer);
        drop(socket);
        poll(&mut link, 0).down
    };
    for number in 0..50 {
        assert_eq!(meet_and_leave(number, true), []);
    }
    let dropped: Vec<_> = (50..250)
        .flat_map(|number| meet_and_leave(number, false))
        .collect();
    let first: Vec<_> = (50..250 - 64).map(PeerId).collect();
    assert_eq!(
        dropped, first,
        "the first to go are dropped, and none that was named"
    );
}

#[test]
fn an_endpoint_that_closes_waits_for_a_direct_access() {
    let memory = vec![7; LONG];
    let mut link = open();
    let (peer, theirs, _socket) = meet(&mut link, "late");
    let region = OpenRegion {
        addr: 0,
        base: memory.as_ptr() as u64,
        len: LONG as u64,
        access: oxifabric_types::Flags::REMOTE_WRITE,
    };
    let conn = link.conn_of(peer).expect("it is open");
    let _cell = conn.direct.grant(1, &region, 0);
    // The acceptor's word, docs/protocol/shm.md 6.11.
    let accesses = theirs.head.word(368);
    accesses.store(1, Ordering::Relaxed);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // As a peer that has lost the processor in the middle.
            let start = Clock::now();
            while start.elapsed() < Duration::from_millis(300) {
                thread::yield_now();
            }
            over.store(true, Ordering::Relaxed);
            accesses.store(2, Ordering::Release);
        });
        drop(link);
        assert!(over.load(Ordering::Relaxed), "it would be written late");
    });
}

#[test]
fn messages_that_a_peer_wants_through_the_ring_are_one_frame_where_they_fit() {
    let mut link = open();
    let (peer, theirs, _socket) = meet(&mut link, "receiver");
    let frame = link.conn_of(peer).expect("it is open").longest_eager();
    for (asked, eager) in [(7_000, 7_000), (1 << 20, frame), (0, 6_144)] {
        let word = theirs
            .side
            .word(&theirs.head, rndv_threshold::THRESHOLD_WORD);
        word.store(asked, Ordering::Relaxed);
        link.adjust_limits(peer);
        let limits = link.limits(peer);
        assert_eq!((limits.eager, link.eager_write(limits)), (eager, 6_144));
        assert!(limits.segmented >= limits.eager);
    }
}
