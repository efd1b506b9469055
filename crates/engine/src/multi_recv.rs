//! Multi-receive buffers: one posted receive that takes many messages, fi_msg(3) "FI_MULTI_RECV".
//!
//! A buffer stays in the posted queue until less than the minimum is left of it. Several messages may be on their
//! way into it at once; whatever ends it (its release, a cancellation, the loss of its only source) is reported
//! with or after the last of them.

use oxifabric_types::{Errno, Flags};

use crate::posted::PostedQueue;
use crate::rx_placement::RxPlacement;
use crate::slab::Key;
use crate::{Completion, Completions, Failure};

/// What a multi-receive buffer remembers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    /// Bytes handed out so far.
    used: usize,
    /// With less room than this it is released.
    min: usize,
    /// Placements whose messages are still arriving.
    pub(crate) in_flight: u32,
    pub(crate) state: SharedState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedState {
    /// On the list.
    Posted,
    /// Off the list; the last completion reports the release of the buffer.
    Released,
    /// Off the list; a failure is reported once nothing arrives in the buffer any more.
    Ended(Errno),
}

impl Shared {
    /// Makes the state of an untouched buffer.
    pub(crate) const fn new(min: usize) -> Self {
        Self {
            used: 0,
            min,
            in_flight: 0,
            state: SharedState::Posted,
        }
    }
}

impl PostedQueue {
    /// Takes room for a message of `len` bytes from the multi-receive buffer `key`, if it is still posted and
    /// has that room.
    ///
    /// What does not fit in the rest of a buffer is not cut off: the buffer counts as consumed and is
    /// released, so that the application can post a new one and messages still match in order. Only a message
    /// that not even the untouched buffer can hold is truncated.
    pub(crate) fn share(
        &mut self,
        key: Key,
        len: usize,
        out: &mut impl Completions,
    ) -> Option<RxPlacement> {
        let receive = self.receives.get_mut(key)?;
        let shared = receive.shared.as_mut()?;
        if shared.state != SharedState::Posted {
            return None;
        }
        let left = receive.body.len() - shared.used;
        if len > left && shared.used > 0 {
            self.release(key);
            self.finish_released(key, out);
            return None;
        }
        let placement = RxPlacement {
            body: receive.body.clone(),
            offset: shared.used,
            room: len.min(left),
            flags: receive.flags,
            context: receive.context,
            shared: key,
        };
        shared.used += placement.room;
        shared.in_flight += 1;
        let left = left - placement.room;
        if left == 0 || left < shared.min {
            self.release(key);
        }
        Some(placement)
    }

    /// Takes a multi-receive buffer off the list; its last completion will report the release.
    fn release(&mut self, key: Key) {
        self.leave(key, SharedState::Released);
    }

    /// Takes a receive off the list and fails it, now or once nothing arrives in its buffer any more.
    pub(crate) fn end(&mut self, key: Key, why: Errno, out: &mut impl Completions) {
        self.leave(key, SharedState::Ended(why));
        let in_use = self
            .receives
            .get(key)
            .and_then(|receive| receive.shared.as_ref())
            .is_some_and(|shared| shared.in_flight > 0);
        if !in_use && let Some(receive) = self.receives.remove(key) {
            out.fail(receive.failure(why));
        }
    }

    fn leave(&mut self, key: Key, state: SharedState) {
        if let Some(receive) = self.receives.get_mut(key) {
            let class = receive.pattern.class;
            if let Some(shared) = &mut receive.shared {
                shared.state = state;
            }
            self.unlink(key, class);
        }
    }

    /// Reports the release of a buffer that nothing arrives in, fi_cq(3) "FI_MULTI_RECV": alone, the flag
    /// says that the entry is not associated with a message.
    fn finish_released(&mut self, key: Key, out: &mut impl Completions) {
        let in_use = self
            .receives
            .get(key)
            .and_then(|receive| receive.shared.as_ref())
            .is_none_or(|shared| shared.in_flight > 0);
        if !in_use && let Some(receive) = self.receives.remove(key) {
            out.complete(Completion {
                flags: Flags::MULTI_RECV,
                wanted: true,
                ..receive.completion()
            });
        }
    }

    /// Ends one message of a multi-receive buffer. The last one of a released buffer says so and is always
    /// wanted, fi_msg(3); the last one of a cancelled buffer is followed by the buffer's own failure.
    pub(crate) fn end_share(&mut self, key: Key, completion: &mut Completion) -> Option<Failure> {
        let receive = self.receives.get_mut(key)?;
        let shared = receive.shared.as_mut()?;
        shared.in_flight -= 1;
        let (last, state) = (shared.in_flight == 0, shared.state);
        match state {
            SharedState::Released if last => {
                completion.flags |= Flags::MULTI_RECV;
                completion.wanted = true;
                self.receives.remove(key);
                None
            }
            SharedState::Ended(why) if last => {
                let receive = self.receives.remove(key)?;
                Some(receive.failure(why))
            }
            _ => None,
        }
    }
}
