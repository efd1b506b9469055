//! Reads and writes that their initiator carries out by itself, between two links in one process.

mod recorder;

use oxifabric_engine::{Header, Kind, Link, OpenRegion, RmaOp, Target};
use oxifabric_provider::device::Device;
use oxifabric_shm::Params;
use oxifabric_types::{Flags, PeerId};
use recorder::{Port, header, lend, pair, params, pattern};

const KEY: u64 = 7;
/// The address by which peers name the first byte of the region.
const START: u64 = 1 << 20;
const LEN: usize = 16_000;

/// Two connected links, and memory of the second one that is registered.
struct World {
    a: Port,
    b: Port,
    to_b: PeerId,
    to_a: PeerId,
    memory: Box<[u8]>,
}

impl World {
    /// Returns a world in which the first link has accessed the memory by a frame; `None` where processes may not reach each other's memory.
    fn granted(params: &Params, access: Flags) -> Option<Self> {
        let (a, b, to_b, to_a) = pair(params);
        let mut memory = vec![0; 4 * LEN].into_boxed_slice();
        let region = OpenRegion {
            addr: START,
            base: memory.as_mut_ptr() as u64,
            len: memory.len() as u64,
            access,
        };
        let mut world = Self {
            a,
            b,
            to_b,
            to_a,
            memory,
        };
        world.b.sink.open = Some((KEY, region));
        if !world.a.link.limits(to_b).pull {
            println!("SKIP: process_vm_readv is forbidden here");
            return None;
        }
        world.announce(1);
        Some(world)
    }

    /// Announces a long write by a frame, which is answered.
    fn announce(&mut self, id: u32) {
        let bytes = pattern(LEN, 1);
        let sent = header(Kind::WriteRts, id, LEN);
        let targets = [target(0, LEN)];
        let posted = self.a.try_access(self.to_b, sent, &targets, &lend(&bytes));
        posted.expect("the lane has space");
        self.b.until("it arrives", |sink| !sink.arrived.is_empty());
        self.b.sink.arrived.clear();
        let answer = self
            .b
            .try_post(self.to_a, header(Kind::Fin, id, 0), &lend(&[]));
        answer.expect("the lane has space");
        self.a
            .until("it is answered", |sink| !sink.arrived.is_empty());
        self.a.sink.arrived.clear();
    }

    fn access(&mut self, bytes: &mut [u8], target: Target, flags: Flags) -> bool {
        // The access is over, or was not begun, when the call returns.
        let body = recorder::lend_for_writing(bytes);
        self.a.link.carry_out(&RmaOp {
            peer: self.to_b,
            targets: &[target],
            body,
            data: 0,
            flags: Flags::RMA | flags,
            context: 0,
        })
    }

    fn writes(&mut self) -> bool {
        self.access(&mut pattern(LEN, 3), target(0, LEN), Flags::WRITE)
    }
}

fn target(offset: usize, len: usize) -> Target {
    Target {
        addr: START + offset as u64,
        len: len as u64,
        key: KEY,
    }
}

const BOTH: Flags = Flags::REMOTE_READ.union(Flags::REMOTE_WRITE);

#[test]
fn a_granted_region_is_written_and_read_without_its_process() {
    let Some(mut world) = World::granted(&params(), BOTH) else {
        return;
    };
    let mut bytes = pattern(LEN, 9);
    assert!(world.access(&mut bytes, target(5, LEN), Flags::WRITE));
    assert!(world.memory[5..5 + LEN] == bytes[..]);
    assert!(world.memory[..5] == [0; 5] && world.memory[5 + LEN] == 0);
    let mut read = vec![0; LEN];
    assert!(world.access(&mut read, target(5, LEN), Flags::READ));
    assert!(read == bytes);
    world.b.poll();
    assert!(world.b.sink.arrived.is_empty(), "nothing was sent");
}

#[test]
fn an_access_overtakes_answers_and_nothing_else() {
    let Some(mut world) = World::granted(&params(), BOTH) else {
        return;
    };
    let bytes = pattern(5_000, 2);
    for (kind, body) in [
        (Kind::Fin, &[][..]),
        (Kind::Ack, &[]),
        (Kind::Cts, &[]),
        (Kind::Response, &bytes),
        (Kind::ResponseRts, &bytes),
    ] {
        let answer = header(kind, 5, body.len());
        let posted = world.a.try_post(world.to_b, answer, &lend(body));
        posted.expect("the lane has space");
        assert!(world.writes(), "{kind:?}");
    }
    let part = header(Kind::Segment, 6, 2 * bytes.len());
    let posted = world.a.try_post(world.to_b, part, &lend(&bytes));
    posted.expect("the lane has space");
    assert!(!world.writes(), "a part of a message or of a write");
    let answer = world
        .a
        .try_post(world.to_b, header(Kind::Fin, 7, 0), &lend(&[]));
    answer.expect("the lane has space");
    assert!(!world.writes(), "a part before an answer");
}

#[test]
fn what_is_not_granted_goes_by_frames() {
    let Some(mut world) = World::granted(&params(), Flags::REMOTE_READ) else {
        return;
    };
    let mut bytes = pattern(LEN, 9);
    assert!(!world.access(&mut bytes, target(0, LEN), Flags::WRITE));
    for (offset, len) in [(3 * LEN + 1, LEN), (4 * LEN, LEN), (usize::MAX >> 1, LEN)] {
        assert!(!world.access(&mut bytes, target(offset, len), Flags::READ));
    }
    let other = Target {
        key: KEY + 1,
        ..target(0, LEN)
    };
    assert!(!world.access(&mut bytes, other, Flags::READ));
    let before = Target {
        addr: START - 1,
        ..target(0, LEN)
    };
    assert!(!world.access(&mut bytes, before, Flags::READ));
    assert!(world.access(&mut bytes, target(3 * LEN, LEN), Flags::READ));
}

#[test]
fn a_region_that_is_taken_back_is_not_accessed_before_it_is_granted_anew() {
    let Some(mut world) = World::granted(&params(), BOTH) else {
        return;
    };
    assert!(world.writes());
    world.b.link.revoke_access();
    assert!(!world.b.link.is_accessed(), "no access is under way");
    world.memory.fill(0);
    assert!(!world.writes());
    assert!(world.memory.iter().all(|&byte| byte == 0));
    world.announce(2);
    assert!(world.writes());
}

#[test]
fn what_both_sides_could_copy_is_direct_only_while_the_peer_makes_accesses() {
    let shared = Params {
        assist_size: LEN,
        ..params()
    };
    let Some(mut world) = World::granted(&shared, BOTH) else {
        return;
    };
    assert!(!world.writes(), "the peer has time to copy a part");
    let bytes = pattern(LEN, 2);
    let targets = [target(0, LEN)];
    let sent = header(Kind::WriteRts, 9, LEN);
    let posted = (world.b).try_access(world.to_a, sent, &targets, &lend(&bytes));
    posted.expect("the lane has space");
    world.a.until("it arrives", |sink| !sink.arrived.is_empty());
    world.a.sink.arrived.clear();
    assert!(world.writes());
    let direct = (0..1_000).filter(|_| world.writes()).count();
    assert_eq!(direct, 255, "then the peer is idle again");
}

#[test]
fn a_region_is_not_granted_when_accesses_are_to_be_noticed() {
    let Some(mut world) = World::granted(&params(), BOTH) else {
        return;
    };
    world.b.link.revoke_access();
    world.b.sink.open = None;
    world.announce(2);
    assert!(!world.writes());
}

#[test]
fn an_access_does_not_overtake_a_message() {
    let Some(mut world) = World::granted(&params(), BOTH) else {
        return;
    };
    assert!(world.writes());
    world
        .a
        .send(world.to_b, 2, b"before")
        .expect("there is space");
    assert!(!world.writes(), "the message has not been taken");
    let taken = |sink: &recorder::Recorder| !sink.arrived.is_empty();
    world.b.until("the message arrives", taken);
    assert!(
        world.writes(),
        "that side has granted memory, and says what it has taken"
    );
}

#[test]
fn grants_beyond_the_bound_replace_the_oldest() {
    let Some(mut world) = World::granted(&params(), BOTH) else {
        return;
    };
    let (_, region) = world.b.sink.open.expect("a region");
    for key in KEY + 1..=KEY + 64 {
        world.b.sink.open = Some((key, region));
        let sent = Header {
            tag: 0,
            ..header(Kind::Read, key as u32, LEN)
        };
        let read = Target {
            key,
            ..target(0, LEN)
        };
        let posted = world.a.try_access(world.to_b, sent, &[read], &lend(&[]));
        posted.expect("there is space");
        world.b.until("it arrives", |sink| !sink.arrived.is_empty());
        world.b.sink.arrived.clear();
        world.a.poll();
    }
    let mut bytes = vec![0; LEN];
    assert!(!world.access(&mut bytes, target(0, LEN), Flags::READ));
    for key in KEY + 1..=KEY + 64 {
        let kept = Target {
            key,
            ..target(0, LEN)
        };
        assert!(world.access(&mut bytes, kept, Flags::READ), "{key}");
    }
}

#[test]
fn nothing_is_accessed_after_the_peer_has_closed() {
    let Some(mut world) = World::granted(&params(), BOTH) else {
        return;
    };
    let gone = std::mem::replace(&mut world.b, Port::open(&params()));
    drop(gone);
    // This side looks again a millisecond after it saw the peer last.
    let start = std::time::Instant::now();
    while world.writes() {
        assert!(start.elapsed() < recorder::WATCHDOG);
    }
    world.memory.fill(0);
    assert!(!world.writes());
    assert!(world.memory.iter().all(|&byte| byte == 0));
}
