//! What others may see of the messages that wait for a receive, fi_profile(3). None of it is on the way of a message that
//! finds its receive.

use oxifabric_types::Flags;

use crate::HeaderFlags;
use crate::engine::Engine;
use crate::matching::Arrival;
use crate::op::{Completions, WaitEvent, Waiting};
use crate::slab::Key;

impl Engine {
    /// Lists the messages that wait for a receive: untagged ones, tagged ones, those of collectives, and at last those that
    /// a peek claimed; each in order of arrival.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting> + '_ {
        self.unexpected.all_waiting().map(Waiting::of)
    }

    /// Reports that a message waits, or was just settled and waits no more, if events are watched.
    #[inline]
    pub(crate) fn note_wait(&self, out: &mut impl Completions, event: WaitEvent, key: Key) {
        if out.watches_waiting()
            && let Some(message) = self.unexpected.get(key)
        {
            let count = self.unexpected.waiting();
            out.waiting(event, &Waiting::of(&message.arrival), count);
        }
    }
}

impl Waiting {
    fn of(arrival: &Arrival) -> Self {
        let mut flags = arrival.class.flags();
        if arrival.flags.contains(HeaderFlags::DATA) {
            flags |= Flags::REMOTE_CQ_DATA;
        }
        Self {
            from: arrival.from,
            flags,
            tag: arrival.tag,
            data: arrival.data,
            len: arrival.len,
        }
    }
}
