//! The receives of a shared context that no message has taken, and the multi-receive buffers whose pieces messages took.
//!
//! Invariant: a multi-receive buffer is known until the last piece of it was reported, and that report says that the buffer
//! is released (fi_msg(3) "FI_MULTI_RECV"). Pieces may be with several endpoints at once.

use std::collections::{HashMap, VecDeque};

use oxifabric_abi::{FI_ADDR_UNSPEC, fi_addr_t};
use oxifabric_engine::{Completion, Failure, PIECE, RxOp};
use oxifabric_types::{Errno, Flags, PeerId};

use super::super::config::MAX_OPERATIONS;

/// The receives that no message has taken.
#[derive(Default)]
pub(super) struct SharedReceives {
    untagged: VecDeque<PostedReceive>,
    tagged: VecDeque<PostedReceive>,
    /// An endpoint has messages for which it found nothing here.
    starved: bool,
    buffers: HashMap<usize, Buffer>,
    /// The name of the next buffer.
    next: usize,
}

/// A receive, and the source that it names.
pub(super) struct PostedReceive {
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

impl SharedReceives {
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
        list.push_back(PostedReceive { op, source, buffer });
        Ok(core::mem::take(&mut self.starved))
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
        let fits = |PostedReceive { op, source, .. }: &PostedReceive| {
            (!tagged || (op.tag ^ tag) & !op.ignore == 0) && accepts(*source)
        };
        let Some(at) = list.iter().position(fits) else {
            self.starved = true;
            return Found::Nothing;
        };
        let known = list[at]
            .buffer
            .and_then(|name| Some((name, self.buffers.get_mut(&name)?)));
        let Some((name, buffer)) = known else {
            let taken = list.remove(at).map(|posted| posted.op);
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
        let named = all.map(|posted| posted.source);
        named.filter(|&source| source != FI_ADDR_UNSPEC).collect()
    }

    /// Takes a receive off the list. Its failure comes later while messages arrive in its buffer.
    ///
    /// # Errors
    /// `NOENT`.
    pub(super) fn cancel(&mut self, context: usize) -> Result<Option<Failure>, Errno> {
        let posted = self.remove(context).ok_or(Errno::NOENT)?;
        let Some(name) = posted.buffer else {
            return Ok(Some(cancelled(unfinished(&posted.op))));
        };
        let mut result = unfinished(&posted.op);
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

    fn remove(&mut self, context: usize) -> Option<PostedReceive> {
        for list in [&mut self.untagged, &mut self.tagged] {
            let is_meant = |posted: &PostedReceive| posted.op.context == context;
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
        code: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use oxifabric_mem::Iov;

    use super::*;

    /// The memory of all receives, which `SharedReceives` only divides.
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

    fn take(receives: &mut SharedReceives, len: usize) -> Found {
        receives.take(Flags::MSG, 0, len, |_| true)
    }

    fn piece(receives: &mut SharedReceives, len: usize) -> RxOp {
        match take(receives, len) {
            Found::Receive(op) => op,
            Found::Released(_) | Found::Nothing => panic!("there is room"),
        }
    }

    fn end(receives: &mut SharedReceives, op: &RxOp) -> (Completion, Option<Failure>) {
        let mut result = unfinished(op);
        result.len = op.body.len() as u64;
        result.flags |= PIECE;
        let failure = receives.ended(&mut result);
        (result, failure)
    }

    #[test]
    fn the_last_report_says_that_a_buffer_is_released() {
        let mut receives = SharedReceives::default();
        let many = receive(10, Flags::MULTI_RECV, 7);
        let base = many.body.base() as usize;
        assert_eq!(receives.add(many, FI_ADDR_UNSPEC, 4), Ok(false));
        let (first, second) = (piece(&mut receives, 3), piece(&mut receives, 4));
        assert_eq!(second.body.base() as usize, base + 3);
        assert!(
            matches!(take(&mut receives, 1), Found::Nothing),
            "less than 4 is left"
        );
        let (late, failure) = end(&mut receives, &second);
        assert_eq!((late.context, failure), (7, None));
        assert!(!late.flags.intersects(Flags::MULTI_RECV | PIECE));
        let (last, failure) = end(&mut receives, &first);
        assert_eq!((last.context, last.wanted, failure), (7, true, None));
        assert!(last.flags.contains(Flags::MULTI_RECV));
        assert!(receives.buffers.is_empty());
    }

    #[test]
    fn what_does_not_fit_releases_a_buffer_and_takes_the_next_receive() {
        let mut receives = SharedReceives::default();
        for context in [1, 2] {
            let many = receive(10, Flags::MULTI_RECV, context);
            assert!(receives.add(many, FI_ADDR_UNSPEC, 1).is_ok());
        }
        let first = piece(&mut receives, 8);
        let second = piece(&mut receives, 3);
        assert_eq!(end(&mut receives, &second).0.context, 2);
        assert!(
            end(&mut receives, &first)
                .0
                .flags
                .contains(Flags::MULTI_RECV)
        );
        // Nothing is under way in the second: its release is reported at once, and then there is nothing.
        match take(&mut receives, 9) {
            Found::Released(buffer) => {
                assert_eq!((buffer.context, buffer.flags), (2, Flags::MULTI_RECV));
            }
            Found::Receive(_) | Found::Nothing => panic!("it is too short now"),
        }
        assert!(matches!(take(&mut receives, 9), Found::Nothing));
        let long = receive(4, Flags::MULTI_RECV, 3);
        assert_eq!(
            receives.add(long, FI_ADDR_UNSPEC, 1),
            Ok(true),
            "a message waits"
        );
        assert_eq!(
            piece(&mut receives, 9).body.len(),
            4,
            "an untouched buffer cuts"
        );
    }

    #[test]
    fn a_cancelled_buffer_fails_behind_its_last_message() {
        let mut receives = SharedReceives::default();
        let flags = Flags::MULTI_RECV | Flags::COMPLETION;
        assert!(
            receives
                .add(receive(10, flags, 5), FI_ADDR_UNSPEC, 1)
                .is_ok()
        );
        let (first, second) = (piece(&mut receives, 2), piece(&mut receives, 0));
        assert_eq!(receives.cancel(5), Ok(None));
        assert_eq!(receives.cancel(5), Err(Errno::NOENT));
        assert_eq!(end(&mut receives, &first).1, None);
        let (_, failure) = end(&mut receives, &second);
        let failure = failure.expect("the buffer was cancelled");
        assert_eq!((failure.op.context, failure.errno), (5, Errno::CANCELED));
        assert!(failure.op.flags.contains(Flags::MULTI_RECV));
        assert!(
            receives
                .add(receive(10, flags, 6), FI_ADDR_UNSPEC, 1)
                .is_ok()
        );
        let failure = receives.cancel(6).expect("it is posted");
        assert_eq!(failure.map(|failure| failure.op.context), Some(6));
        assert!(receives.buffers.is_empty());
    }
}
