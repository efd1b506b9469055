//! The posted queue: receives that wait for a message, in the order of posting.
//!
//! A receive found by [`PostedQueue::take`] leaves the queue and becomes an [`RxPlacement`], which says where one
//! message goes and what to report. A multi-receive buffer stays and hands out placements until it is used up.
//! Finding walks the list of one class, or the chains of a [`PostedIndex`] when there are many; leaving is a constant-time
//! step, whichever way the receive is found.

mod posted_index;

use alloc::boxed::Box;

use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::index::LONG_WALK;
use crate::list::{Linked, Links, List};
use crate::matching::{Arrival, Class, Pattern};
use crate::multi_recv::Shared;
use crate::rx_placement::{RxPlacement, received, report};
use crate::slab::{Key, Slab};
use crate::{Completion, Completions, Failure, RxOp};
use posted_index::{IndexEntry, PostedIndex};

/// Receives that wait for messages.
#[derive(Debug)]
pub(crate) struct PostedQueue {
    pub(crate) receives: Slab<Receive>,
    lists: [List; Class::WAITING],
    /// Those on the lists above, once a message had to walk past many.
    posted_index: Option<Box<PostedIndex>>,
}

/// A posted receive.
#[derive(Debug)]
pub(crate) struct Receive {
    links: Links,
    index_entry: IndexEntry,
    pub(crate) pattern: Pattern,
    pub(crate) body: Iov,
    pub(crate) flags: Flags,
    pub(crate) context: usize,
    /// Elsewhere, because few have it, and all are written with every receive.
    pub(crate) shared: Option<Box<Shared>>,
}

impl PostedQueue {
    /// Makes a queue with room for `capacity` receives before it grows.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            receives: Slab::with_capacity(capacity),
            lists: [List::new(); Class::WAITING],
            posted_index: None,
        }
    }

    /// Returns how many receives are posted.
    pub(crate) fn len(&self) -> usize {
        self.lists.iter().map(List::len).sum()
    }

    /// Appends a receive. `min` is the room below which a multi-receive buffer is released.
    #[inline(always)]
    pub(crate) fn push(&mut self, pattern: Pattern, op: RxOp, min: usize) -> Result<Key, Errno> {
        let shared = op
            .flags
            .contains(Flags::MULTI_RECV)
            .then(|| Box::new(Shared::new(min)));
        let list = &mut self.lists[pattern.class.index()];
        let receive = Receive {
            links: list.end(),
            index_entry: IndexEntry::NONE,
            pattern,
            body: op.body,
            flags: op.flags,
            context: op.context,
            shared,
        };
        let key = list.insert(&mut self.receives, receive);
        let key = key.ok_or(Errno::AGAIN)?;
        if let Some(posted_index) = &mut self.posted_index {
            posted_index.push(&mut self.receives, key);
        }
        Ok(key)
    }

    /// Finds the first receive for a message and takes it, fi_msg(3): "Posted receives are searched in the
    /// order in which they were posted".
    #[inline]
    pub(crate) fn take(
        &mut self,
        arrival: &Arrival,
        out: &mut impl Completions,
    ) -> Option<RxPlacement> {
        loop {
            let key = self.first(arrival)?;
            if self.receives.get(key)?.shared.is_none() {
                return self.take_whole(key, arrival.class);
            }
            // A multi-receive buffer without room has left the queue.
            if let Some(placement) = self.share(key, arrival.len, out) {
                return Some(placement);
            }
        }
    }

    /// Finds the first receive for a message.
    #[inline]
    fn first(&mut self, arrival: &Arrival) -> Option<Key> {
        let head = self.lists[arrival.class.index()].head();
        if self.receives.get(head)?.pattern.accepts(arrival) {
            return Some(head);
        }
        self.search(arrival)
    }

    /// Finds the first receive for a message that the first one of all does not take.
    #[inline(never)]
    fn search(&mut self, arrival: &Arrival) -> Option<Key> {
        if let Some(posted_index) = &self.posted_index {
            return posted_index.first(&self.receives, arrival);
        }
        let mut passed = 0;
        let list = &self.lists[arrival.class.index()];
        let found = list.iter(&self.receives).find(|(_, receive)| {
            passed += 1;
            receive.pattern.accepts(arrival)
        });
        let found = found.map(|(key, _)| key);
        if passed > LONG_WALK {
            let posted_index = PostedIndex::of(&mut self.receives, &self.lists);
            self.posted_index = Some(Box::new(posted_index));
        }
        found
    }

    /// Takes a receive off its list.
    #[inline]
    pub(crate) fn unlink(&mut self, key: Key, class: Class) {
        self.unindex(key);
        self.lists[class.index()].unlink(&mut self.receives, key);
    }

    /// Takes a receive that was reported off its list, and ends it.
    #[inline]
    fn discard(&mut self, key: Key, class: Class) {
        self.unindex(key);
        self.lists[class.index()].discard(&mut self.receives, key);
    }

    #[inline]
    fn unindex(&mut self, key: Key) {
        if let Some(posted_index) = &mut self.posted_index
            && posted_index.unlink(&mut self.receives, key)
        {
            self.posted_index = None;
        }
    }

    /// Finds the first receive for a message that is here as a whole, places it and reports it; returns whether
    /// there was one.
    #[inline(always)]
    pub(crate) fn deliver(
        &mut self,
        arrival: &Arrival,
        bytes: &[u8],
        out: &mut impl Completions,
    ) -> bool {
        let list = &mut self.lists[arrival.class.index()];
        if self.posted_index.is_none()
            && let Some(first) = self.receives.entry(list.head())
            && let Some(receive) = first.value()
            && receive.shared.is_none()
            && receive.pattern.accepts(arrival)
        {
            receive.end_with(arrival, bytes, out);
            list.discard_first(first);
            return true;
        }
        // A copy, so that nothing else keeps the arrival in memory.
        self.deliver_behind(&{ *arrival }, bytes, out)
    }

    /// Finds the first receive for a message that is elsewhere, has `copy` bring it there if all of it fits, and reports the receive; returns
    /// whether it did. A multi-receive buffer does not count.
    #[inline]
    pub(crate) fn copy(
        &mut self,
        arrival: &Arrival,
        copy: &mut dyn FnMut(&Iov) -> bool,
        out: &mut impl Completions,
    ) -> bool {
        let Some(key) = self.first(arrival) else {
            return false;
        };
        let Some(receive) = self.receives.get(key) else {
            return false;
        };
        if receive.shared.is_some() || receive.body.len() < arrival.len || !copy(&receive.body) {
            return false;
        }
        receive.report(arrival, out);
        self.discard(key, arrival.class);
        true
    }

    /// Delivers a whole message to a receive other than the first of all.
    #[inline(never)]
    fn deliver_behind(
        &mut self,
        arrival: &Arrival,
        bytes: &[u8],
        out: &mut impl Completions,
    ) -> bool {
        let Some(key) = self.first(arrival) else {
            return false;
        };
        let Some(receive) = self.receives.get(key) else {
            return false;
        };
        if receive.shared.is_some() {
            return self.deliver_shared(arrival, bytes, out);
        }
        receive.end_with(arrival, bytes, out);
        self.discard(key, arrival.class);
        true
    }

    /// Delivers a whole message that a multi-receive buffer may take.
    fn deliver_shared(
        &mut self,
        arrival: &Arrival,
        bytes: &[u8],
        out: &mut impl Completions,
    ) -> bool {
        let Some(placement) = self.take(arrival, out) else {
            return false;
        };
        placement.write(0, bytes);
        self.land(placement, arrival, Ok(()), out);
        true
    }

    /// Reports that a message has been placed, or failed to be.
    #[inline]
    pub(crate) fn land(
        &mut self,
        placement: RxPlacement,
        arrival: &Arrival,
        result: Result<(), Errno>,
        out: &mut impl Completions,
    ) {
        let mut completion = placement.completion(arrival);
        let ended = match placement.shared {
            Key::NONE => None,
            key => self.end_share(key, &mut completion),
        };
        report(completion, arrival, result, out);
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

    /// Ends all receives.
    pub(crate) fn end_all(&mut self, why: Errno, out: &mut impl Completions) {
        for class in [Class::Msg, Class::Tagged] {
            while self.lists[class.index()].len() != 0 {
                self.end(self.lists[class.index()].head(), why, out);
            }
        }
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

    /// Names the peers that directed receives wait for.
    #[inline]
    pub(crate) fn each_source(&self, each: &mut dyn FnMut(PeerId)) {
        for list in &self.lists {
            for (_, receive) in list.iter(&self.receives) {
                let source = receive.pattern.source();
                if source != PeerId::ANY {
                    each(source);
                }
            }
        }
    }

    /// Returns whether a receive for one message waits that `peer` could satisfy. Multi-receive buffers do not
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
        self.lists = [List::new(); Class::WAITING];
        self.posted_index = None;
    }

    #[inline]
    fn take_whole(&mut self, key: Key, class: Class) -> Option<RxPlacement> {
        self.unindex(key);
        let receive = self.lists[class.index()].remove(&mut self.receives, key)?;
        Some(RxPlacement {
            offset: 0,
            room: receive.body.len(),
            body: receive.body,
            flags: receive.flags,
            context: receive.context,
            shared: Key::NONE,
        })
    }
}

impl Receive {
    /// Completes the receive with a message that is here as a whole.
    #[inline(always)]
    fn end_with(&self, arrival: &Arrival, bytes: &[u8], out: &mut impl Completions) {
        self.body.write(0, bytes);
        self.report(arrival, out);
    }

    /// Reports the receive, whose message is in its place.
    #[inline(always)]
    fn report(&self, arrival: &Arrival, out: &mut impl Completions) {
        let room = self.body.len();
        let buf = self.body.base() as usize;
        let op = received(arrival, self.flags, self.context, buf, room);
        report(op, arrival, Ok(()), out);
    }

    /// Returns the completion of a receive without a message.
    pub(crate) fn completion(&self) -> Completion {
        Completion {
            context: self.context,
            flags: self.pattern.class.flags() | (self.flags & Flags::DEFERRED),
            len: 0,
            buf: self.body.base() as usize,
            data: 0,
            tag: self.pattern.tag(),
            from: PeerId::ANY,
            wanted: self.flags.contains(Flags::COMPLETION),
        }
    }

    pub(crate) fn failure(&self, errno: Errno) -> Failure {
        let mut op = self.completion();
        if self.shared.is_some() {
            op.flags |= Flags::MULTI_RECV;
        }
        // What only one peer could satisfy fails because of that peer, which says why, unless it was cancelled.
        if errno != Errno::CANCELED {
            op.from = self.pattern.source();
        }
        Failure {
            op,
            errno,
            overflow: 0,
            code: 0,
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
    #[inline(always)]
    fn owns_nothing(&self) -> bool {
        self.shared.is_none() && self.body.owns_nothing()
    }
}
