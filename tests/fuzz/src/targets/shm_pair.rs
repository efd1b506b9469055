//! The other side of a connection's shared memory: cells, claims and doorbells of an untrusted peer, to an engine with operations under way.

use arbitrary::{Arbitrary, Unstructured};
use oxifabric_engine::HeaderFlags;
use oxifabric_shm::hostile::UntrustedPeer;
use oxifabric_types::Instant;
use oxifabric_wire::shm::cell::{Body, Cell, Rest};

use crate::world::{Call, KEY, World, peer};

/// The kind of link frame that asks for a sender's copy, docs/protocol/shm.md "Pulling".
const SENDER_COPY: u8 = 1;

/// The kind of link frame that grants memory, docs/protocol/shm.md "Direct accesses".
const GRANT: u8 = 2;

#[derive(Arbitrary, Debug)]
enum Step {
    Call(Call),
    /// A cell that keeps the rules of its form.
    Frame(Form),
    /// Any words, with a number of bytes in the ring.
    Cell {
        meta: u32,
        words: [u64; 7],
        len: u8,
    },
    Take(u8),
    /// A request for a sender's copy of the message that was announced last.
    Ask {
        slot: u8,
        turn: u8,
        skip: u16,
        len: u32,
        chunk: u16,
    },
    Scribble {
        index: u16,
        value: u64,
    },
    /// Claims of a slot, as they are packed.
    Claim {
        slot: u8,
        turn: u8,
        front: u8,
        back: u8,
        done: u8,
    },
    /// Up to which length the peer wants messages at once, and how many accesses it has begun and ended.
    Wish {
        len: u64,
        accesses: u64,
    },
    /// A grant of memory, of which so many of the link's cells were taken before.
    Grant {
        addr: u32,
        len: u32,
        taken: u8,
        revocations: u8,
    },
    Leave,
}

#[derive(Arbitrary, Debug)]
struct Form {
    kind: u8,
    flags: u8,
    id: u8,
    tag: u8,
    len: u32,
    body: u8,
    size: u16,
}

pub(super) fn run(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let pull = input.arbitrary().unwrap_or(true);
    let Some(mut link) = UntrustedPeer::new(peer(0), pull) else {
        return;
    };
    let mut exposed = 0;
    // Only for messages of some length is a sender's copy worth while.
    let mut world = World::stretched(4);
    for _ in 0..100 {
        let Ok(step) = input.arbitrary() else {
            break;
        };
        match step {
            Step::Call(call) => world.call(&mut link, &call),
            step => act(&mut link, &step, &mut exposed),
        }
        progress(&mut world, &mut link);
        if input.is_empty() {
            break;
        }
    }
    link.leave();
    for _ in 0..64 {
        progress(&mut world, &mut link);
    }
    if link.is_over() {
        world.close();
    }
}

/// Acts as the untrusted peer; `exposed` is the address of the message that was announced to it last.
fn act(link: &mut UntrustedPeer, step: &Step, exposed: &mut u64) {
    match *step {
        Step::Frame(ref form) => {
            let (cell, ring) = framed(form);
            let (meta, words) = cell.emit();
            link.push(meta, words, &ring);
        }
        Step::Cell { meta, words, len } => link.push(meta, words, &vec![0x33; len.into()]),
        Step::Take(len) => {
            let cell = link.take(len.into());
            let body = cell.and_then(|(meta, words)| Some(Cell::parse(meta, &words).ok()?.body));
            if let Some(Body::Remote { address, .. }) = body {
                *exposed = address;
            }
        }
        Step::Ask {
            slot,
            turn,
            skip,
            len,
            chunk,
        } => {
            let at = (*exposed + u64::from(skip), u64::from(len) % (1 << 20));
            let words = [turn.into(), u64::from(chunk) << 4];
            push_of_link(link, SENDER_COPY, u32::from(slot) % 16, at, words);
        }
        Step::Scribble { index, value } => link.scribble(index, value),
        Step::Claim {
            slot,
            turn,
            front,
            back,
            done,
        } => {
            let at = 64 + u16::from(slot % 16) * 32;
            let packed = u64::from(turn) << 40 | u64::from(front) << 20 | u64::from(back);
            link.scribble(at, packed);
            link.scribble(at + 16, done.into());
        }
        Step::Wish { len, accesses } => {
            // Of both sides: the link's own are those that it writes.
            for (index, value) in [(32, len), (48, len), (352, accesses), (368, accesses)] {
                link.scribble(index, value);
            }
        }
        Step::Grant {
            addr,
            len,
            taken,
            revocations,
        } => {
            let at = (addr.into(), len.into());
            let words = [KEY, revocations.into()];
            push_of_link(link, GRANT, 3 | u32::from(taken) << 2, at, words);
        }
        Step::Leave => link.leave(),
        Step::Call(_) => {}
    }
}

/// Publishes a frame of the link about memory at an address and of a length.
fn push_of_link(
    link: &mut UntrustedPeer,
    kind: u8,
    id: u32,
    (tag, len): (u64, u64),
    words: [u64; 2],
) {
    let cell = Cell {
        kind,
        flags: 0,
        id,
        tag,
        data: 4096,
        len,
        body: Body::Link { words },
    };
    let (meta, words) = cell.emit();
    link.push(meta, words, &[]);
}

/// Writes a frame, with its bytes in the ring.
fn framed(form: &Form) -> (Cell, Vec<u8>) {
    let size = usize::from(form.size) % 5000;
    let ring = |len: usize| vec![0x44; len];
    let (body, ring) = match form.body % 7 {
        0 => (Body::Bare, ring(0)),
        1 => (Body::Ring { len: size as u32 }, ring(size)),
        2 => (
            Body::Remote {
                address: 4096,
                len: form.len.into(),
            },
            ring(0),
        ),
        3 => {
            let target = oxifabric_wire::shm::cell::emit_target(0, form.len.into(), KEY);
            let whole = [&target[..], &ring(size)].concat();
            let body = Body::Targeted {
                ring_len: whole.len() as u32,
                targets: 1,
                rest: Rest::Body,
            };
            (body, whole)
        }
        4 => {
            let body = Body::OneTarget {
                key: KEY,
                ring_len: size as u32,
            };
            (body, ring(size))
        }
        5 => (
            Body::Link {
                words: [u64::from(form.tag), u64::from(form.size)],
            },
            ring(0),
        ),
        _ => (Body::RemoteRing { count: 2 }, ring(32)),
    };
    let cell = Cell {
        kind: form.kind % 20,
        flags: form.flags & HeaderFlags::all().bits(),
        id: form.id.into(),
        tag: form.tag.into(),
        data: 0,
        len: form.len.into(),
        body,
    };
    (cell, ring)
}

fn progress(world: &mut World, link: &mut UntrustedPeer) {
    let now = Instant::from_nanos(1);
    world.engine.progress(link, &mut world.ledger, now);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let fill = |len: usize, step: usize| (0..len).map(|at| (at * step) as u8).collect();
    vec![
        vec![1; 64],
        fill(128, 3),
        fill(300, 29),
        fill(600, 101),
        fill(900, 211),
    ]
}
