//! Handshake messages and cells of shm. What is accepted is written back as it was read.

use oxifabric_wire::shm::cell::{self, Cell, MAX_PIECES, MAX_TARGETS};
use oxifabric_wire::shm::handshake::{
    Ability, Accept, Cause, Handshake, HandshakeError, Hello, MAX_SIZE, Refuse,
};

/// The first byte says whether the others are a handshake message or a cell.
pub(super) fn run(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, bytes)) => handshake(bytes),
        Some((_, bytes)) => cell(bytes),
        None => {}
    }
}

fn handshake(bytes: &[u8]) {
    match Handshake::parse(bytes) {
        Ok(handshake) => {
            let again = handshake.emit();
            assert!(again.len() <= MAX_SIZE);
            assert_eq!(Handshake::parse(&again), Ok(handshake));
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let is_short = error == HandshakeError::Short;
            assert!(is_short || bytes.len() >= 8, "too early to say {error}");
        }
    }
}

fn cell(bytes: &[u8]) {
    let Some((meta, rest)) = bytes.split_first_chunk() else {
        return;
    };
    let mut words = [0; 7];
    for (word, bytes) in words.iter_mut().zip(rest.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let parsed = match Cell::parse(u32::from_le_bytes(*meta), &words) {
        Ok(parsed) => parsed,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    match parsed.body {
        cell::Body::Inline { len, .. } => assert!(usize::from(len) <= cell::INLINE),
        cell::Body::Access { len, .. } => assert!(usize::from(len) <= cell::INLINE_ACCESS),
        cell::Body::RemoteRing { count } => assert!(usize::from(count) <= MAX_PIECES),
        cell::Body::Targeted {
            ring_len, targets, ..
        } => {
            assert!(usize::from(targets) <= MAX_TARGETS);
            assert!(ring_len as usize >= usize::from(targets) * cell::TARGET);
        }
        _ => {}
    }
    let (meta, words) = parsed.emit();
    assert_eq!(Cell::parse(meta, &words), Ok(parsed));
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let hello = Handshake::Hello(Hello {
        ability: Ability::SLEEPS,
        incarnation: 1,
        probe: 2,
        cells: 256,
        bytes: 131_072,
        from: "fi_shm://1".into(),
        to: "fi_shm://2".into(),
    });
    let accept = Handshake::Accept(Accept {
        ability: Ability::READS,
        incarnation: 3,
        probe: 4,
    });
    let refuse = Handshake::Refuse(Refuse {
        cause: Cause::Name,
        text: "no".into(),
    });
    let handshakes = [hello, accept, refuse, Handshake::Ready(Ability::all())];
    let mut seeds: Vec<Vec<u8>> = handshakes
        .iter()
        .map(|handshake| [&[0], handshake.emit().as_slice()].concat())
        .collect();
    let bodies = [
        cell::Body::Bare,
        cell::Body::Inline {
            words: [1; 4],
            len: 9,
        },
        cell::Body::Ring { len: 100 },
        cell::Body::Remote {
            address: 4096,
            len: 64,
        },
        cell::Body::RemoteRing { count: 2 },
        cell::Body::Link { words: [1, 2] },
        cell::Body::Access {
            key: 1,
            words: [2; 3],
            len: 8,
        },
        cell::Body::OneTarget {
            key: 1,
            ring_len: 100,
        },
        cell::Body::Targeted {
            ring_len: 60,
            targets: 2,
            rest: cell::Rest::Body,
        },
    ];
    seeds.extend(bodies.map(|body| {
        let cell = Cell {
            kind: 8,
            flags: 1,
            id: 7,
            tag: 0,
            data: 5,
            len: 100,
            body,
        };
        let (meta, words) = cell.emit();
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        [&[1], meta.to_le_bytes().as_slice()]
            .concat()
            .into_iter()
            .chain(words)
            .collect()
    }));
    seeds
}
