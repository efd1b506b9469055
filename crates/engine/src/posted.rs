//! The posted queue: receives that wait for a message, in the order of posting.
//!
//! A receive found by [`PostedQueue::take`] leaves the queue and becomes a [`Landing`], which says where one
//! message goes and what to report. A multi-receive buffer stays and hands out landings until it is used up.
//! Finding walks the list of one class; leaving it is a constant-time step, whichever way the receive is found.

use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::list::{Linked, Links, List};
use crate::matching::{Arrival, Class, Pattern};
use crate::slab::{Key, Slab};
use crate::{Completion, Completions, Failure, RxOp};

/// Receives that wait for messages.
#[derive(Debug)]
pub(crate) struct PostedQueue {
    receives: Slab<Receive>,
    lists: [List; 2],
}

/// A posted receive.
#[derive(Debug)]
struct Receive {
    links: Links,
    pattern: Pattern,
    body: Iov,
    flags: Flags,
    context: usize,
    shared: Option<Shared>,
}

/// What a multi-receive buffer remembers.
#[derive(Clone, Copy, Debug)]
struct Shared {
    /// Bytes handed out so far.
    used: usize,
    /// With less room than this it is released.
    min: usize,
    /// Landings whose messages are still arriving.
    in_flight: u32,
    state: SharedState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SharedState {
    /// On the list.
    Posted,
    /// Off the list; the last completion says that the buffer is released.
    Released,
    /// Off the list; a failure is reported once nothing arrives in the buffer any more.
    Ended(Errno),
}

/// Where a matched message goes, and what to report when it is there.
#[derive(Debug)]
pub(crate) struct Landing {
    pub(crate) body: Iov,
    /// Where in `body` the message begins.
    pub(crate) offset: usize,
    /// How many bytes of it may be placed.
    pub(crate) room: usize,
    flags: Flags,
    context: usize,
    /// The multi-receive buffer that this is a part of, or [`Key::NONE`].
    shared: Key,
}

impl PostedQueue {
    /// Makes a queue with room for `capacity` receives before it grows.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            receives: Slab::with_capacity(capacity),
            lists: [List::new(); 2],
        }
    }

    /// Returns how many receives are posted.
    pub(crate) fn len(&self) -> usize {
        self.lists.iter().map(List::len).sum()
    }

    /// Appends a receive. `min` is the room below which a multi-receive buffer is released.
    #[inline]
    pub(crate) fn push(&mut self, pattern: Pattern, op: RxOp, min: usize) -> Result<Key, Errno> {
        let shared = op.flags.contains(Flags::MULTI_RECV).then_some(Shared {
            used: 0,
            min,
            in_flight: 0,
            state: SharedState::Posted,
        });
        let receive = Receive {
            links: Links::NONE,
            pattern,
            body: op.body,
            flags: op.flags,
            context: op.context,
            shared,
        };
        let key = self.receives.insert(receive).map_err(|_| Errno::AGAIN)?;
        self.lists[pattern.class.index()].push_back(&mut self.receives, key);
        Ok(key)
    }

    /// Finds the first receive for a message and takes it, fi_msg(3): "Posted receives are searched in the
    /// order in which they were posted".
    #[inline]
    pub(crate) fn take(
        &mut self,
        arrival: &Arrival,
        out: &mut impl Completions,
    ) -> Option<Landing> {
        let mut key = self.lists[arrival.class.index()].head();
        loop {
            let receive = self.receives.get(key)?;
            let next = receive.links.next();
            if receive.pattern.accepts(arrival) {
                if receive.shared.is_none() {
                    return self.take_whole(key, arrival.class);
                }
                if let Some(landing) = self.share(key, arrival.len, out) {
                    return Some(landing);
                }
            }
            key = next;
        }
    }

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
    ) -> Option<Landing> {
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
        let landing = Landing {
            body: receive.body.clone(),
            offset: shared.used,
            room: len.min(left),
            flags: receive.flags,
            context: receive.context,
            shared: key,
        };
        shared.used += landing.room;
        shared.in_flight += 1;
        let left = left - landing.room;
        if left == 0 || left < shared.min {
            self.release(key);
        }
        Some(landing)
    }

    /// Reports that a message has landed, or failed to.
    #[inline]
    pub(crate) fn land(
        &mut self,
        landing: Landing,
        arrival: &Arrival,
        result: Result<(), Errno>,
        out: &mut impl Completions,
    ) {
        let mut completion = landing.completion(arrival);
        let ended = match landing.shared {
            Key::NONE => None,
            key => self.end_share(key, &mut completion),
        };
        let result = match result {
            Ok(()) if arrival.len > landing.room => Err(Errno::TRUNC),
            other => other,
        };
        match result {
            Ok(()) => out.complete(completion),
            Err(errno) => out.fail(landing.failure(completion, arrival, errno)),
        }
        if let Some(failure) = ended {
            out.fail(failure);
        }
    }

    /// Takes the first receive with this context off the queue and reports it as cancelled, fi_endpoint(3)
    /// "fi_cancel".
    pub(crate) fn cancel(
        &mut self,
        context: usize,
        out: &mut impl Completions,
    ) -> Result<(), Errno> {
        let found = self
            .lists
            .iter()
            .flat_map(|list| list.iter(&self.receives))
            .find(|(_, receive)| receive.context == context);
        let (key, _) = found.ok_or(Errno::NOENT)?;
        self.end(key, Errno::CANCELED, out);
        Ok(())
    }

    /// Fails all receives that only `peer` could have satisfied.
    pub(crate) fn fail_from(&mut self, peer: PeerId, why: Errno, out: &mut impl Completions) {
        for class in [Class::Msg, Class::Tagged] {
            let mut key = self.lists[class.index()].head();
            while let Some(receive) = self.receives.get(key) {
                let (here, next) = (key, receive.links.next());
                if receive.pattern.is_only_from(peer) {
                    self.end(here, why, out);
                }
                key = next;
            }
        }
    }

    /// Tells whether a receive for one message waits that `peer` could satisfy. Multi-receive buffers do not
    /// count: they stand ready all the time and are no sign that the application waits.
    pub(crate) fn waits_for(&self, peer: PeerId) -> bool {
        self.lists
            .iter()
            .flat_map(|list| list.iter(&self.receives))
            .any(|(_, receive)| receive.shared.is_none() && receive.pattern.takes_from(peer))
    }

    /// Drops all receives.
    pub(crate) fn clear(&mut self) {
        self.receives.clear();
        self.lists = [List::new(); 2];
    }

    #[inline]
    fn take_whole(&mut self, key: Key, class: Class) -> Option<Landing> {
        self.lists[class.index()].unlink(&mut self.receives, key);
        let receive = self.receives.remove(key)?;
        Some(Landing {
            offset: 0,
            room: receive.body.len(),
            body: receive.body,
            flags: receive.flags,
            context: receive.context,
            shared: Key::NONE,
        })
    }

    /// Takes a multi-receive buffer off the list; its last completion will say so.
    fn release(&mut self, key: Key) {
        self.leave(key, SharedState::Released);
    }

    /// Takes a receive off the list and fails it, now or once nothing arrives in its buffer any more.
    fn end(&mut self, key: Key, why: Errno, out: &mut impl Completions) {
        self.leave(key, SharedState::Ended(why));
        let in_use = self
            .receives
            .get(key)
            .and_then(|receive| receive.shared)
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
            self.lists[class.index()].unlink(&mut self.receives, key);
        }
    }

    /// Reports the release of a buffer that nothing arrives in, fi_cq(3) "FI_MULTI_RECV": alone, the flag
    /// says that the entry is not associated with a message.
    fn finish_released(&mut self, key: Key, out: &mut impl Completions) {
        let in_use = self
            .receives
            .get(key)
            .and_then(|receive| receive.shared)
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
    fn end_share(&mut self, key: Key, completion: &mut Completion) -> Option<Failure> {
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

impl Receive {
    /// What is known of a receive without a message.
    fn completion(&self) -> Completion {
        Completion {
            context: self.context,
            flags: Flags::RECV | self.pattern.class.flag(),
            len: 0,
            buf: self.body.base() as usize,
            data: 0,
            tag: self.pattern.tag(),
            from: PeerId::ANY,
            wanted: self.flags.contains(Flags::COMPLETION),
        }
    }

    fn failure(&self, errno: Errno) -> Failure {
        let mut op = self.completion();
        if self.shared.is_some() {
            op.flags |= Flags::MULTI_RECV;
        }
        Failure {
            op,
            errno,
            overflow: 0,
        }
    }
}

impl Linked for Receive {
    #[inline]
    fn links(&self) -> &Links {
        &self.links
    }
    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Landing {
    /// Makes the landing of a receive that found its message waiting.
    pub(crate) fn new(op: RxOp) -> Self {
        Self {
            offset: 0,
            room: op.body.len(),
            body: op.body,
            flags: op.flags,
            context: op.context,
            shared: Key::NONE,
        }
    }

    /// Places the part of the message that begins at `at`; what does not fit is dropped.
    #[inline]
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        let fits = self.room.saturating_sub(at).min(bytes.len());
        self.body.write(self.offset + at, &bytes[..fits]);
    }

    /// Describes where the part of the message that begins at `at` goes; it may be shorter than `len`.
    pub(crate) fn part(&self, at: usize, len: usize) -> Iov {
        let fits = self.room.saturating_sub(at).min(len);
        self.body.slice(self.offset.saturating_add(at), fits)
    }

    /// Places a message that lies in other memory.
    pub(crate) fn copy_from(&self, from: &Iov, len: usize) {
        let fits = self.room.min(len);
        self.part(0, fits).copy_from(0, &from.slice(0, fits));
    }

    #[inline]
    fn completion(&self, arrival: &Arrival) -> Completion {
        let buf = match self.shared {
            Key::NONE => self.body.base() as usize,
            _ => self.body.address(self.offset),
        };
        Completion {
            context: self.context,
            flags: arrival.completion_flags(),
            len: arrival.len.min(self.room) as u64,
            buf,
            data: arrival.data,
            tag: arrival.tag,
            from: arrival.from,
            wanted: self.flags.contains(Flags::COMPLETION),
        }
    }

    fn failure(&self, op: Completion, arrival: &Arrival, errno: Errno) -> Failure {
        let truncated = errno == Errno::TRUNC;
        Failure {
            op: Completion {
                len: if truncated { op.len } else { 0 },
                ..op
            },
            errno,
            overflow: if truncated {
                (arrival.len - self.room.min(arrival.len)) as u64
            } else {
                0
            },
        }
    }
}
