//! What commands make: protection domains, address handles, regions, completion queues and queue pairs.

use std::collections::HashMap;

use crate::event::{AsyncEvents, CompletionEvents};
use crate::io::{CQE_FLAGS, Completion, Piece, RX_DESC_LEN, RxDesc, WQE_LEN, Wqe};
use crate::memory::{DeviceFile, Mapping};
use crate::slab::Slab;

/// An open device.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) nic: u8,
    pub(crate) file: DeviceFile,
    pub(crate) events: Option<AsyncEvents>,
}

/// A protection domain.
#[derive(Debug)]
pub(crate) struct Pd {
    pub(crate) context: u32,
}

/// An address handle. Handles of a domain with the same destination share their number.
#[derive(Debug)]
pub(crate) struct Ah {
    pub(crate) context: u32,
    pub(crate) pd: u32,
    pub(crate) gid: [u8; 16],
}

/// A completion channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) events: CompletionEvents,
}

/// Access rights of `enum ibv_access_flags`.
pub(crate) mod access {
    pub(crate) const LOCAL_WRITE: u32 = 1;
    pub(crate) const REMOTE_WRITE: u32 = 1 << 1;
    pub(crate) const REMOTE_READ: u32 = 1 << 2;
    /// Those that a device may ignore.
    pub(crate) const OPTIONAL: u32 = 0x3ff << 20;
}

/// A registered region.
#[derive(Debug)]
pub(crate) struct Mr {
    pub(crate) context: u32,
    pub(crate) pd: u32,
    pub(crate) key: u32,
    /// The address by which requests name its first byte, and where that is.
    pub(crate) iova: u64,
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) access: u32,
}

impl Mr {
    /// Returns where the bytes are in this process, if the region covers them, belongs to the domain and has the rights.
    pub(crate) fn locate(&self, pd: u32, addr: u64, len: u32, access: u32) -> Option<u64> {
        let offset = addr.checked_sub(self.iova)?;
        let is_within = offset.checked_add(len.into())? <= self.len;
        let is_allowed = self.pd == pd && self.access & access == access;
        (is_within && is_allowed).then(|| self.start + offset)
    }
}

/// All regions, also by key.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) by_handle: Slab<Mr>,
    by_key: HashMap<u32, u32>,
}

impl Regions {
    /// Adds a region, and returns its handle.
    pub(crate) fn insert(&mut self, mr: Mr) -> u32 {
        let key = mr.key;
        let handle = self.by_handle.insert(mr);
        self.by_key.insert(key, handle);
        handle
    }

    /// Removes a region.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<Mr> {
        let mr = self.by_handle.remove(handle)?;
        self.by_key.remove(&mr.key);
        Some(mr)
    }

    /// Whether a region has this key.
    pub(crate) fn has_key(&self, key: u32) -> bool {
        self.by_key.contains_key(&key)
    }

    /// Returns where a piece of registered memory is in this process, if its key allows the access.
    pub(crate) fn locate(&self, pd: u32, piece: Piece, access: u32) -> Option<u64> {
        let mr = self.by_handle.get(*self.by_key.get(&piece.key)?)?;
        mr.locate(pd, piece.addr, piece.len, access)
    }
}

/// Which address handles there are: by domain and number, and by domain and destination.
#[derive(Debug, Default)]
pub(crate) struct Destinations {
    by_number: HashMap<(u32, u16), [u8; 16]>,
    by_gid: HashMap<(u32, [u8; 16]), (u16, u32)>,
    last: u16,
}

impl Destinations {
    /// Returns the number of a destination within a domain, and counts one more handle of it.
    pub(crate) fn add(&mut self, pd: u32, gid: [u8; 16]) -> Option<u16> {
        if let Some((number, users)) = self.by_gid.get_mut(&(pd, gid)) {
            *users += 1;
            return Some(*number);
        }
        let is_free = |number: &u16| {
            let mut numbers = self.by_number.keys();
            numbers.all(|(_, used)| used != number)
        };
        let number = (1..=MAX_AH).map(|step| (self.last + step) % MAX_AH);
        let number = number.into_iter().find(is_free)?;
        self.last = number;
        self.by_number.insert((pd, number), gid);
        self.by_gid.insert((pd, gid), (number, 1));
        Some(number)
    }

    /// Counts one handle less, and forgets the destination with the last one.
    pub(crate) fn remove(&mut self, pd: u32, gid: [u8; 16]) {
        let Some((number, users)) = self.by_gid.get_mut(&(pd, gid)) else {
            return;
        };
        *users -= 1;
        if *users == 0 {
            self.by_number.remove(&(pd, *number));
            self.by_gid.remove(&(pd, gid));
        }
    }

    /// Returns the destination with this number.
    pub(crate) fn gid(&self, pd: u32, number: u16) -> Option<[u8; 16]> {
        self.by_number.get(&(pd, number)).copied()
    }

    /// Returns the number of a destination.
    pub(crate) fn number(&self, pd: u32, gid: [u8; 16]) -> Option<u16> {
        self.by_gid.get(&(pd, gid)).map(|(number, _)| *number)
    }
}

/// How many destinations a process may have.
pub(crate) const MAX_AH: u16 = 4096;

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
    /// Entries were lost: nothing comes any more.
    pub(crate) is_overrun: bool,
    /// How often an event was reported, and the serial number that the doorbell had then.
    pub(crate) events: u32,
    pub(crate) fired: Option<u32>,
}

impl Cq {
    /// Returns how many entries the application has not polled. It says how far it is at every poll.
    fn unread(&self) -> u32 {
        let consumed = self.doorbell.load(0) & 0xffff;
        self.produced.wrapping_sub(consumed) & 0xffff
    }

    /// Adds an entry. Returns false if there was no room, which ends the queue.
    pub(crate) fn push(&mut self, completion: &Completion) -> bool {
        if self.unread() >= self.entries {
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

/// States of `enum ibv_qp_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Reset,
    Init,
    Rtr,
    Rts,
    Sqd,
    Sqe,
    Err,
}

impl State {
    const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];

    /// Returns the state with this number.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether messages are received in it.
    pub(crate) fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }
}

/// The capacities that a queue pair was made with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capacity {
    pub(crate) send_wr: u32,
    pub(crate) recv_wr: u32,
    pub(crate) send_sge: u32,
    pub(crate) recv_sge: u32,
    pub(crate) inline: u32,
}

/// What modify_qp sets besides the state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) qkey: u32,
    pub(crate) sq_psn: u32,
    pub(crate) pkey_index: u16,
    pub(crate) port: u8,
    pub(crate) rnr_retry: u8,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) context: u32,
    pub(crate) nic: u8,
    pub(crate) pd: u32,
    pub(crate) number: u16,
    /// Scalable reliable datagrams, else datagrams without reliability.
    pub(crate) is_reliable: bool,
    /// Writes with immediate data need no receive.
    pub(crate) is_unsolicited: bool,
    pub(crate) state: State,
    pub(crate) attributes: Attributes,
    pub(crate) capacity: Capacity,
    pub(crate) sq_sig_all: u8,
    pub(crate) send_cq: u32,
    pub(crate) recv_cq: u32,
    /// Of the send queue at 0, of the receive queue at 8.
    pub(crate) doorbells: Mapping,
    pub(crate) send_ring: Option<Mapping>,
    pub(crate) recv_ring: Option<Mapping>,
    pub(crate) send_mask: u16,
    pub(crate) recv_mask: u16,
    pub(crate) send_head: u16,
    pub(crate) recv_head: u16,
}

/// Where the doorbell of the receive queue is.
pub(crate) const RECV_DOORBELL: usize = 8;

impl Qp {
    /// Takes the next send request, if the application has rung for one.
    pub(crate) fn next_send(&mut self) -> Option<Wqe> {
        let posted = self.doorbells.load(0) as u16;
        let ring = self.send_ring.as_ref()?;
        if posted == self.send_head {
            return None;
        }
        let place = usize::from(self.send_head & self.send_mask) * WQE_LEN;
        self.send_head = self.send_head.wrapping_add(1);
        Some(Wqe(ring.read(place)))
    }

    /// Returns the pieces of the next receive, if the application has posted one.
    pub(crate) fn peek_receive(&self) -> Option<Vec<RxDesc>> {
        let posted = self.doorbells.load(RECV_DOORBELL) as u16;
        let ring = self.recv_ring.as_ref()?;
        let mut pieces = Vec::new();
        let mut at = self.recv_head;
        while at != posted {
            let place = usize::from(at & self.recv_mask) * RX_DESC_LEN;
            let piece = RxDesc::parse(ring.read(place));
            at = at.wrapping_add(1);
            if piece.is_first != pieces.is_empty() {
                return None;
            }
            pieces.push(piece);
            if piece.is_last {
                return Some(pieces);
            }
        }
        None
    }

    /// Uses up a receive of so many pieces.
    pub(crate) fn consume_receive(&mut self, pieces: usize) {
        self.recv_head = self.recv_head.wrapping_add(pieces as u16);
    }

    /// Forgets what is posted, as the library does when it resets a queue pair.
    pub(crate) fn reset(&mut self) {
        self.send_head = 0;
        self.recv_head = 0;
        self.doorbells.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_left_by_no_access() {
        let mr = Mr {
            context: 0,
            pd: 3,
            key: 1,
            iova: 0x1000,
            start: 0x9000,
            len: 16,
            access: access::LOCAL_WRITE | access::REMOTE_READ,
        };
        assert_eq!(mr.locate(3, 0x1008, 8, access::REMOTE_READ), Some(0x9008));
        assert_eq!(mr.locate(3, 0x1010, 0, 0), Some(0x9010));
        for (pd, addr, len, rights) in [
            (3, 0x1008, 9, 0),
            (3, 0xfff, 1, 0),
            (2, 0x1000, 1, 0),
            (3, 0x1000, 1, access::REMOTE_WRITE),
            (3, u64::MAX, 2, 0),
        ] {
            assert_eq!(mr.locate(pd, addr, len, rights), None);
        }
    }

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
            is_overrun: false,
            events: 0,
            fired: None,
        }
    }

    #[test]
    fn a_queue_that_is_not_polled_is_overrun() {
        let (mut file, _theirs) = DeviceFile::create().expect("a file");
        let mut cq = cq(2, &mut file);
        assert!(cq.push(&Completion::default()) && cq.push(&Completion::default()));
        cq.doorbell.publish(0, &2_u32.to_le_bytes(), 0);
        assert!(cq.push(&Completion::default()) && cq.push(&Completion::default()));
        assert!(!cq.push(&Completion::default()));
        cq.doorbell.publish(0, &4_u32.to_le_bytes(), 0);
        assert!(!cq.push(&Completion::default()), "it stays overrun");
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
