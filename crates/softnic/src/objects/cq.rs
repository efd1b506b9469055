//! Completion queues.

use std::collections::HashMap;

use crate::io::{CQE_FLAGS, Completion};
use crate::memory::Mapping;

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Cq {
    pub(crate) context: u32,
    pub(crate) user_handle: u64,
    pub(crate) channel: Option<u32>,
    pub(crate) entries: u32,
    pub(crate) entry_len: usize,
    pub(crate) ring: Mapping,
    pub(crate) doorbell: Mapping,
    pub(crate) produced: u32,
    /// What is known of polls, beside what the doorbell says.
    pub(crate) polled: Polled,
    /// Entries were lost: nothing comes any more.
    pub(crate) is_overrun: bool,
    /// How often an event was reported, and the serial number that the doorbell had then.
    pub(crate) events: u32,
    pub(crate) fired: Option<u32>,
}

/// How far the application has polled at least. The library tells that by the doorbell only where there is a channel, and not by a poll that
/// empties the queue. But it gives a request the number of another one only after it polled that one's completion.
#[derive(Debug, Default)]
pub(crate) struct Polled {
    /// Behind which entry it is.
    entries: u32,
    /// The last entry of each request: of a queue pair, sent or received, with a number.
    last: HashMap<(u16, bool, u16), u32>,
}

impl Polled {
    /// Notes the entry that comes next.
    fn note(&mut self, completion: &Completion, entry: u32) {
        if completion.is_unsolicited {
            return;
        }
        let request = (completion.qp, completion.is_receive, completion.req_id);
        if let Some(before) = self.last.insert(request, entry) {
            let ahead = before.wrapping_add(1).wrapping_sub(self.entries);
            if ahead.cast_signed() > 0 {
                self.entries = before.wrapping_add(1);
            }
        }
    }
}

impl Cq {
    /// Returns how many entries the application has not polled, at most.
    fn unread_at_most(&self) -> u32 {
        let known = self.produced.wrapping_sub(self.polled.entries);
        self.unread().min(known)
    }

    /// Returns how many entries the application has not polled, as the doorbell says.
    fn unread(&self) -> u32 {
        let consumed = self.doorbell.load(0) & 0xffff;
        self.produced.wrapping_sub(consumed) & 0xffff
    }

    /// Adds an entry. Returns false if there was no room, which ends the queue.
    pub(crate) fn push(&mut self, completion: &Completion) -> bool {
        self.polled.note(completion, self.produced);
        if self.unread_at_most() >= self.entries {
            self.is_overrun = true;
        }
        if self.is_overrun {
            return false;
        }
        let is_even_round = (self.produced / self.entries).is_multiple_of(2);
        let place = (self.produced % self.entries) as usize * self.entry_len;
        let entry = completion.entry(is_even_round);
        self.ring
            .publish(place, &entry[..self.entry_len], CQE_FLAGS);
        self.produced = self.produced.wrapping_add(1);
        true
    }

    /// Whether an event is due: the doorbell was rung with a new serial number, and there is something to poll.
    ///
    /// The doorbell is memory, so a request for an event may be overwritten by a poll before the device looks. Therefore every ring with a serial
    /// number for which no event was reported counts as such a request; a program that asks for none and has a channel sees events all the same.
    pub(crate) fn takes_event(&mut self) -> bool {
        let doorbell = self.doorbell.load(0);
        let serial = doorbell >> 29 & 3;
        if doorbell == 0 || self.fired == Some(serial) || self.unread() == 0 {
            return false;
        }
        self.fired = Some(serial);
        self.events += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::DeviceFile;

    fn cq(entries: u32, file: &mut DeviceFile) -> Cq {
        Cq {
            context: 0,
            user_handle: 0,
            channel: None,
            entries,
            entry_len: 16,
            ring: file.allocate(4096).expect("memory"),
            doorbell: file.allocate(4096).expect("memory"),
            produced: 0,
            polled: Polled::default(),
            is_overrun: false,
            events: 0,
            fired: None,
        }
    }

    #[test]
    fn a_queue_that_is_not_polled_is_overrun() {
        let (mut file, _theirs) = DeviceFile::create().expect("a file");
        let mut cq = cq(2, &mut file);
        assert!(cq.push(&of(0)) && cq.push(&of(1)));
        cq.doorbell.publish(0, &2_u32.to_le_bytes(), 0);
        assert!(cq.push(&of(2)) && cq.push(&of(3)));
        assert!(!cq.push(&of(4)));
        cq.doorbell.publish(0, &4_u32.to_le_bytes(), 0);
        assert!(!cq.push(&of(5)), "it stays overrun");
    }

    /// Returns the completion of the send with a number.
    fn of(req_id: u16) -> Completion {
        Completion {
            req_id,
            ..Completion::default()
        }
    }

    #[test]
    fn a_request_with_a_number_that_was_used_before_shows_that_its_completion_was_polled() {
        let (mut file, _theirs) = DeviceFile::create().expect("a file");
        let mut cq = cq(2, &mut file);
        for round in 0..100_000_u32 {
            assert!(cq.push(&of(1)) && cq.push(&of(2)), "{round}");
        }
        assert!(!cq.push(&of(3)), "of the last two nothing is known");
    }

    #[test]
    fn an_event_is_reported_once_for_each_serial_number() {
        let (mut file, _theirs) = DeviceFile::create().expect("a file");
        let mut cq = cq(4, &mut file);
        let arm = |cq: &Cq, serial: u32, consumed: u32| {
            let doorbell = 1 << 31 | serial << 29 | consumed;
            cq.doorbell.publish(0, &doorbell.to_le_bytes(), 0);
        };
        cq.push(&Completion::default());
        assert!(!cq.takes_event(), "not armed yet");
        arm(&cq, 0, 0);
        assert!(cq.takes_event() && !cq.takes_event());
        arm(&cq, 1, 1);
        assert!(!cq.takes_event(), "all is polled");
        cq.push(&Completion::default());
        assert!(cq.takes_event() && !cq.takes_event());
    }
}
