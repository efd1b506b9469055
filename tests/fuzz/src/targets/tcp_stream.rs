//! What an untrusted peer sends over an established connection, cut anywhere, to an engine with operations under way.

use arbitrary::Unstructured;
use oxifabric_tcp::hostile::Stream;
use oxifabric_types::Instant;
use oxifabric_wire::tcp::frame::{FrameHeader, HEADER_MAX, Op, RmaPiece};
use oxifabric_wire::tcp::{ByteOrder, Dialect};

use crate::world::{Call, KEY, World, peer};

/// The first byte says how the peer speaks, the second how many calls the application makes, the third after how many bytes
/// the stream is cut. Then come the calls, then the stream.
pub(super) fn run(bytes: &[u8]) {
    let &[how, calls, cut, ref bytes @ ..] = bytes else {
        return;
    };
    let Ok(mut link) = Stream::new(peer(0), how) else {
        return;
    };
    let mut world = World::default();
    let mut input = Unstructured::new(bytes);
    for _ in 0..calls % 8 {
        if let Ok(call) = input.arbitrary::<Call>() {
            world.call(&mut link, &call);
        }
    }
    let stream = input.take_rest();
    for part in stream.chunks(usize::from(cut).max(1)) {
        link.send(part);
        progress(&mut world, &mut link);
    }
    link.close();
    // A stalled stream is read no further: only the application can go on.
    for _ in 0..8 {
        progress(&mut world, &mut link);
    }
    if link.is_over() {
        world.close();
    }
}

fn progress(world: &mut World, link: &mut Stream) {
    let now = Instant::from_nanos(1);
    world.engine.progress(link, &mut world.ledger, now);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (how, order, named) in [
        (0, ByteOrder::Little, false),
        (1, ByteOrder::Big, false),
        (0b11110, ByteOrder::Little, true),
    ] {
        let dialect = Dialect {
            order,
            named,
            atomics: named,
        };
        let mut stream = Vec::new();
        for (op, len, pieces) in [
            (Op::Msg, 5, 0),
            (Op::Tagged, 300, 0),
            (Op::Write, 16, 1),
            (Op::Msg, 0, 0),
        ] {
            let mut header = FrameHeader::new(op);
            header.body_len = len;
            header.pieces = pieces;
            let piece = RmaPiece {
                addr: 0,
                len,
                key: KEY,
            };
            let mut out = [0; HEADER_MAX];
            let pieces = &[piece][..usize::from(pieces)];
            if let Some(count) = header.emit(pieces, &mut out, dialect) {
                stream.extend_from_slice(&out[..count]);
                stream.extend(std::iter::repeat_n(0xa1, len as usize));
            }
        }
        for (calls, cut) in [(0, 255), (0, 7), (3, 60)] {
            let filler = vec![1; if calls > 0 { 30 } else { 0 }];
            seeds.push([&[how, calls, cut][..], &filler, &stream].concat());
        }
    }
    seeds
}
