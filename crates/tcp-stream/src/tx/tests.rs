use alloc::vec;
use core::cell::{Cell, RefCell};

use super::*;

const HEADER: [u8; 24] = [7; 24];
const SEGMENT: usize = 65_483;

/// A socket that keeps what it takes.
struct Kept {
    /// Bytes that it still takes.
    room: Cell<usize>,
    bytes: RefCell<Vec<u8>>,
    /// The lengths of what its calls took.
    calls: RefCell<Vec<usize>>,
}

impl Kept {
    fn with_room(room: usize) -> Self {
        Self {
            room: Cell::new(room),
            bytes: RefCell::default(),
            calls: RefCell::default(),
        }
    }

    fn take(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let count = bytes.len().min(self.room.get());
        if count == 0 && !bytes.is_empty() {
            return Err(Errno::AGAIN);
        }
        self.room.set(self.room.get() - count);
        self.bytes.borrow_mut().extend_from_slice(&bytes[..count]);
        self.calls.borrow_mut().push(count);
        Ok(count)
    }

    fn calls(&self) -> Vec<usize> {
        self.calls.take()
    }
}

impl Socket for Kept {
    const READ_AHEAD: usize = 0;
    const LONG_LEN: usize = 0;
    const NARROW_LEN: usize = 0;
    const HELD_BACK: usize = 64 * 1024;
    const HELD_BODY: usize = 32 * 1024;

    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.take(bytes)
    }

    fn send_gather(
        &self,
        head: &[u8],
        body: &Iov,
        offset: usize,
        len: usize,
    ) -> Result<usize, Errno> {
        let mut bytes = vec![0; head.len() + len];
        bytes[..head.len()].copy_from_slice(head);
        body.read(offset, &mut bytes[head.len()..]);
        self.take(&bytes)
    }

    fn recv(&self, _: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::AGAIN)
    }

    fn recv_scatter(&self, _: &Iov, _: usize, _: usize, _: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::AGAIN)
    }

    fn shut_writing(&self) {}

    fn is_closed_by_peer(&self) -> bool {
        false
    }

    fn unread(&self) -> usize {
        0
    }
}

fn local() -> Tx {
    Tx::new(NonZeroUsize::new(SEGMENT), 0)
}

fn post(tx: &mut Tx, socket: &Kept, len: usize, coalescing: Coalescing) -> Result<Taken, Errno> {
    let iov = Iov::zeroed(len).expect("there is memory");
    let body = Body {
        iov: &iov,
        offset: 0,
        len,
        token: TxToken(1),
        transient: false,
        transmit_complete: false,
    };
    tx.post(socket, &HEADER, body, coalescing)
}

/// Posts so many messages; returns the lengths of the calls that sent something.
fn post_many(tx: &mut Tx, socket: &Kept, count: usize, len: usize) -> Vec<usize> {
    for _ in 0..count {
        let taken = post(tx, socket, len, Coalescing::Medium);
        assert_eq!(taken, Ok(Taken::Done));
    }
    socket.calls()
}

#[test]
fn bodies_of_medium_length_leave_a_segment_at_a_time() {
    let (mut tx, socket) = (local(), Kept::with_room(usize::MAX));
    assert_eq!(post_many(&mut tx, &socket, 3, 16_384), []);
    assert_eq!(post_many(&mut tx, &socket, 1, 16_384), [SEGMENT]);
    assert!(tx.holds_back(), "the end of the last one fills none");
    assert_eq!(tx.flush(&socket), Ok(()));
    assert_eq!(socket.calls(), [4 * (16_384 + HEADER.len()) - SEGMENT]);
    // Where segments are short, many of them leave together.
    let mut tx = Tx::new(NonZeroUsize::new(1448), 0);
    assert_eq!(post_many(&mut tx, &socket, 4, 16_384), [45 * 1448]);
}

#[test]
fn towards_other_hosts_everything_leaves_together() {
    let (mut tx, socket) = (Tx::new(None, 0), Kept::with_room(usize::MAX));
    assert_eq!(post_many(&mut tx, &socket, 3, 16_384), []);
    let all = 4 * (16_384 + HEADER.len());
    assert_eq!(post_many(&mut tx, &socket, 1, 16_384), [all]);
    assert!(!tx.holds_back());
}

#[test]
fn many_short_messages_leave_before_they_fill_a_segment() {
    let (mut tx, socket) = (local(), Kept::with_room(usize::MAX));
    let wire = 500 + HEADER.len();
    let enough = MANY_LEN.div_ceil(wire);
    for _ in 0..2 {
        assert_eq!(post_many(&mut tx, &socket, enough - 1, 500), []);
        assert_eq!(post_many(&mut tx, &socket, 1, 500), [enough * wire]);
    }
    // Fewer long ones wait.
    let wire = 1000 + HEADER.len();
    assert_eq!(post_many(&mut tx, &socket, 31, 1000), []);
    assert_eq!(post_many(&mut tx, &socket, 1, 1000), [32 * wire]);
}

#[test]
fn only_what_is_expected_to_be_followed_is_copied() {
    let (mut tx, socket) = (local(), Kept::with_room(usize::MAX));
    for (len, coalescing, is_held) in [
        (2048, Coalescing::Off, false),
        (2048, Coalescing::Short, true),
        (2049, Coalescing::Short, false),
        (2049, Coalescing::Medium, true),
        (32_768, Coalescing::Medium, true),
        (32_769, Coalescing::Medium, false),
    ] {
        assert_eq!(post(&mut tx, &socket, len, coalescing), Ok(Taken::Done));
        let is_held_now = tx.holds_back();
        let calls = socket.calls();
        assert_eq!(is_held_now, is_held, "{len} B, {coalescing:?}, {calls:?}");
        tx.flush(&socket).expect("there is room");
        socket.calls();
    }
}

#[test]
fn a_socket_without_room_for_a_segment_gets_the_rest_later() {
    let wire = 16_384 + HEADER.len();
    let (mut tx, socket) = (local(), Kept::with_room(40_000));
    assert_eq!(post_many(&mut tx, &socket, 4, 16_384), [40_000]);
    assert!(tx.blocked() && tx.waits());
    let taken = post(&mut tx, &socket, 16_384, Coalescing::Medium);
    assert_eq!(taken, Ok(Taken::Later));
    socket.room.set(usize::MAX);
    assert_eq!(tx.advance(&socket), Ok((true, None)));
    assert_eq!(socket.calls(), [4 * wire - 40_000]);
    assert!(!tx.blocked() && !tx.waits());
    let bytes = socket.bytes.borrow();
    assert!(bytes.chunks(wire).all(|frame| frame[..24] == HEADER));
}
