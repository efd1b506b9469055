//! The receives of a shared context that no message has taken, and the multi-receive buffers whose pieces messages took.
//!
//! Invariant: a multi-receive buffer is known until the last piece of it was reported, and that report says that the buffer
//! is released (fi_msg(3) "FI_MULTI_RECV"). Pieces may be with several endpoints at once.

use std::collections::{HashMap, VecDeque};

use oxifabric_abi::{FI_ADDR_UNSPEC, fi_addr_t};
use oxifabric_engine::{Completion, Failure, PIECE, RxOp};
use oxifabric_types::{Errno, Flags, PeerId};

use super::super::MAX_OPERATIONS;

/// The receives that no message has taken.
#[derive(Default)]
pub(super) struct Shelf {
    untagged: VecDeque<Offered>,
    tagged: VecDeque<Offered>,
    /// An endpoint has messages for which it found nothing here.
    hungry: bool,
    buffers: HashMap<usize, Buffer>,
    /// The name of the next buffer.
    next: usize,
}

/// A receive, and the source that it names.
pub(super) struct Offered {
    pub(super) op: RxOp,
    pub(super) source: fi_addr_t,
    /// The buffer that it is, for many messages.
    pub(super) buffer: Option<usize>,
}

/// A multi-receive buffer.
struct Buffer {
    /// What its release, or its end without one, is reported as.
    result: Completion,
    used: usize,
    min: usize,
    in_flight: usize,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Posted,
    /// Off the list; the last report says that it is released.
    Released,
    /// Off the list; its failure follows the last report.
    Cancelled,
}

/// What a message finds.
pub(in crate::endpoint) enum Found {
    Receive(RxOp),
    /// A buffer that is too short now, and is released by this. There may be more.
    Released(Completion),
    Nothing,
}

impl Shelf {
    /// Adds a receive; returns whether a message may wait for it. A multi-receive buffer with less room than `min` is released.
    pub(super) fn add(&mut self, op: RxOp, source: fi_addr_t, min: usize) -> Result<bool, Errno> {
        if self.untagged.len() + self.tagged.len() >= MAX_OPERATIONS {
            return Err(Errno::AGAIN);
        }
        let many = op.flags.contains(Flags::MULTI_RECV);
        let buffer = many.then(|| self.add_buffer(&op, min));
        let list = match op.flags.contains(Flags::TAGGED) {
            true => &mut self.tagged,
            false => &mut self.untagged,
        };
        list.push_back(Offered { op, source, buffer });
        Ok(core::mem::take(&mut self.hungry))
    }

    fn add_buffer(&mut self, op: &RxOp, min: usize) -> usize {
        let name = self.next;
        self.next = self.next.wrapping_add(1);
        let buffer = Buffer {
            result: Completion {
                flags: Flags::MULTI_RECV,
                ..unfinished(op)
            },
            used: 0,
            min,
            in_flight: 0,
            state: State::Posted,
        };
        self.buffers.insert(name, buffer);
        name
    }

    /// Takes the first receive for a message; an endpoint that gets none is fed later.
    pub(super) fn take(
        &mut self,
        class: Flags,
        tag: u64,
        len: usize,
        accepts: impl Fn(fi_addr_t) -> bool,
    ) -> Found {
        let tagged = class.contains(Flags::TAGGED);
        let list = match tagged {
            true => &mut self.tagged,
            false => &mut self.untagged,
        };
        let fits = |Offered { op, source, .. }: &Offered| {
            (!tagged || (op.tag ^ tag) & !op.ignore == 0) && accepts(*source)
        };
        let Some(at) = list.iter().position(fits) else {
            self.hungry = true;
            return Found::Nothing;
        };
        let known = list[at]
            .buffer
            .and_then(|name| Some((name, self.buffers.get_mut(&name)?)));
        let Some((name, buffer)) = known else {
            let taken = list.remove(at).map(|offered| offered.op);
            return taken.map_or(Found::Nothing, Found::Receive);
        };
        let found = buffer.share(&list[at].op, name, len);
        let gone = buffer.state != State::Posted && buffer.in_flight == 0;
        if buffer.state != State::Posted {
            list.remove(at);
        }
        match found {
            Some(op) => Found::Receive(op),
            None if gone => match self.buffers.remove(&name) {
                Some(buffer) => Found::Released(buffer.result),
                None => Found::Nothing,
            },
            // The last of its pieces will say so.
            None => self.take(class, tag, len, accepts),
        }
    }

    /// Takes note that a piece of a buffer was reported by `piece`, which is changed into what the application sees; returns
    /// a failure of the buffer that follows.
    pub(super) fn ended(&mut self, piece: &mut Completion) -> Option<Failure> {
        let name = piece.context;
        piece.flags.remove(PIECE);
        let buffer = self.buffers.get_mut(&name)?;
        piece.context = buffer.result.context;
        // A message without data has no place of its own.
        if piece.len == 0 {
            piece.buf = buffer.result.buf;
        }
        buffer.in_flight -= 1;
        if buffer.in_flight > 0 || buffer.state == State::Posted {
            return None;
        }
        let buffer = self.buffers.remove(&name)?;
        if buffer.state == State::Released {
            piece.flags |= Flags::MULTI_RECV;
            piece.wanted = true;
            return None;
        }
        Some(cancelled(buffer.result))
    }

    /// Lists the sources that receives name.
    pub(super) fn sources(&self) -> Vec<fi_addr_t> {
        let all = self.untagged.iter().chain(&self.tagged);
        let named = all.map(|offered| offered.source);
        named.filter(|&source| source != FI_ADDR_UNSPEC).collect()
    }

    /// Takes a receive off the list. Its failure comes later while messages arrive in its buffer.
    ///
    /// # Errors
    /// `NOENT`.
    pub(super) fn cancel(&mut self, context: usize) -> Result<Option<Failure>, Errno> {
        let offered = self.remove(context).ok_or(Errno::NOENT)?;
        let Some(name) = offered.buffer else {
            return Ok(Some(cancelled(unfinished(&offered.op))));
        };
        let mut result = unfinished(&offered.op);
        result.flags |= Flags::MULTI_RECV;
        match self.buffers.get_mut(&name) {
            Some(buffer) if buffer.in_flight > 0 => {
                buffer.state = State::Cancelled;
                buffer.result = result;
                Ok(None)
            }
            _ => {
                self.buffers.remove(&name);
                Ok(Some(cancelled(result)))
            }
        }
    }

    fn remove(&mut self, context: usize) -> Option<Offered> {
        for list in [&mut self.untagged, &mut self.tagged] {
            let is_meant = |offered: &Offered| offered.op.context == context;
            if let Some(at) = list.iter().position(is_meant) {
                return list.remove(at);
            }
        }
        None
    }
}

impl Buffer {
    /// Takes room for a message; none if it does not fit in what is left. Only a message that not even the untouched buffer
    /// can hold is cut.
    fn share(&mut self, whole: &RxOp, name: usize, len: usize) -> Option<RxOp> {
        let left = whole.body.len() - self.used;
        if len > left && self.used > 0 {
            self.state = State::Released;
            return None;
        }
        let room = len.min(left);
        let piece = RxOp {
            body: whole.body.slice(self.used, room),
            flags: whole.flags.difference(Flags::MULTI_RECV) | PIECE,
            context: name,
            ..*whole
        };
        self.used += room;
        self.in_flight += 1;
        if left == room || left - room < self.min {
            self.state = State::Released;
        }
        Some(piece)
    }
}

/// Describes a receive that got nothing.
fn unfinished(op: &RxOp) -> Completion {
    Completion {
        context: op.context,
        flags: op.flags & (Flags::MSG | Flags::TAGGED) | Flags::RECV,
        len: 0,
        buf: op.body.base() as usize,
        data: 0,
        tag: op.tag,
        from: PeerId::ANY,
        wanted: true,
    }
}

fn cancelled(op: Completion) -> Failure {
    Failure {
        op,
        errno: Errno::CANCELED,
        overflow: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use oxifabric_mem::Iov;

    use super::*;

    /// The memory of all receives: the shelf only divides it.
    static PLACE: [AtomicU8; 64] = [const { AtomicU8::new(0) }; 64];

    fn receive(len: usize, flags: Flags, context: usize) -> RxOp {
        assert!(len <= PLACE.len());
        RxOp {
            from: PeerId::ANY,
            tag: 0,
            ignore: 0,
            // SAFETY: the memory is that of a static that may be written, and nothing refers to its content.
            body: unsafe { Iov::contiguous(PLACE.as_ptr().cast_mut().cast(), len) },
            flags: flags | Flags::MSG,
            context,
        }
    }

    fn take(shelf: &mut Shelf, len: usize) -> Found {
        shelf.take(Flags::MSG, 0, len, |_| true)
    }

    fn piece(shelf: &mut Shelf, len: usize) -> RxOp {
        match take(shelf, len) {
            Found::Receive(op) => op,
            Found::Released(_) | Found::Nothing => panic!("there is room"),
        }
    }

    fn end(shelf: &mut Shelf, op: &RxOp) -> (Completion, Option<Failure>) {
        let mut result = unfinished(op);
        result.len = op.body.len() as u64;
        result.flags |= PIECE;
        let failure = shelf.ended(&mut result);
        (result, failure)
    }

    #[test]
    fn the_last_report_says_that_a_buffer_is_released() {
        let mut shelf = Shelf::default();
        let many = receive(10, Flags::MULTI_RECV, 7);
        let base = many.body.base() as usize;
        assert_eq!(shelf.add(many, FI_ADDR_UNSPEC, 4), Ok(false));
        let (first, second) = (piece(&mut shelf, 3), piece(&mut shelf, 4));
        assert_eq!(second.body.base() as usize, base + 3);
        assert!(
            matches!(take(&mut shelf, 1), Found::Nothing),
            "less than 4 is left"
        );
        let (late, failure) = end(&mut shelf, &second);
        assert_eq!((late.context, failure), (7, None));
        assert!(!late.flags.intersects(Flags::MULTI_RECV | PIECE));
        let (last, failure) = end(&mut shelf, &first);
        assert_eq!((last.context, last.wanted, failure), (7, true, None));
        assert!(last.flags.contains(Flags::MULTI_RECV));
        assert!(shelf.buffers.is_empty());
    }

    #[test]
    fn what_does_not_fit_releases_a_buffer_and_takes_the_next_receive() {
        let mut shelf = Shelf::default();
        for context in [1, 2] {
            let many = receive(10, Flags::MULTI_RECV, context);
            assert!(shelf.add(many, FI_ADDR_UNSPEC, 1).is_ok());
        }
        let first = piece(&mut shelf, 8);
        let second = piece(&mut shelf, 3);
        assert_eq!(end(&mut shelf, &second).0.context, 2);
        assert!(end(&mut shelf, &first).0.flags.contains(Flags::MULTI_RECV));
        // Nothing is under way in the second: its release is told at once, and then there is nothing.
        match take(&mut shelf, 9) {
            Found::Released(buffer) => {
                assert_eq!((buffer.context, buffer.flags), (2, Flags::MULTI_RECV));
            }
            Found::Receive(_) | Found::Nothing => panic!("it is too short now"),
        }
        assert!(matches!(take(&mut shelf, 9), Found::Nothing));
        let long = receive(4, Flags::MULTI_RECV, 3);
        assert_eq!(
            shelf.add(long, FI_ADDR_UNSPEC, 1),
            Ok(true),
            "a message waits"
        );
        assert_eq!(
            piece(&mut shelf, 9).body.len(),
            4,
            "an untouched buffer cuts"
        );
    }

    #[test]
    fn a_cancelled_buffer_fails_behind_its_last_message() {
        let mut shelf = Shelf::default();
        let flags = Flags::MULTI_RECV | Flags::COMPLETION;
        assert!(shelf.add(receive(10, flags, 5), FI_ADDR_UNSPEC, 1).is_ok());
        let (first, second) = (piece(&mut shelf, 2), piece(&mut shelf, 0));
        assert_eq!(shelf.cancel(5), Ok(None));
        assert_eq!(shelf.cancel(5), Err(Errno::NOENT));
        assert_eq!(end(&mut shelf, &first).1, None);
        let (_, failure) = end(&mut shelf, &second);
        let failure = failure.expect("the buffer was cancelled");
        assert_eq!((failure.op.context, failure.errno), (5, Errno::CANCELED));
        assert!(failure.op.flags.contains(Flags::MULTI_RECV));
        assert!(shelf.add(receive(10, flags, 6), FI_ADDR_UNSPEC, 1).is_ok());
        let failure = shelf.cancel(6).expect("it is posted");
        assert_eq!(failure.map(|failure| failure.op.context), Some(6));
        assert!(shelf.buffers.is_empty());
    }
}
