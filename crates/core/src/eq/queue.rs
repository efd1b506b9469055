//! The events of a queue, of any length, in order, errors included.

use core::mem;
use std::collections::VecDeque;
use std::time::Duration;

use oxifabric_abi::{fi_eq_cm_entry, fi_info, fid};
use oxifabric_types::{Errno, Instant};

use crate::info;

/// How many events wait at most, if the application did not ask for more.
const LIMIT: usize = 1 << 16;

/// How long a request for a connection may be unread where there is no room for others. A program that reads its queue at all reads
/// it in that time.
const UNREAD: Duration = Duration::from_secs(10);

/// What a control operation that failed leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The object, as the address of its `fid`.
    pub(crate) fid: usize,
    /// The context of the operation.
    pub(crate) context: usize,
    /// Its meaning depends on the operation, as with events.
    pub(crate) data: u64,
    /// Why it failed.
    pub(crate) errno: Errno,
    /// What else is known: of a rejected connection, what the peer said.
    pub(crate) detail: Box<[u8]>,
}

/// An event of connection management.
#[derive(Debug)]
pub(crate) struct Cm {
    pub(crate) event: u32,
    /// The object, as the address of its `fid`.
    pub(crate) fid: usize,
    /// The description of the connection that a peer asks for.
    pub(crate) info: Option<UnreadInfo>,
    /// What the peer sent along.
    pub(crate) data: Box<[u8]>,
}

/// The description of a request for a connection that the application has not read yet.
#[derive(Debug)]
pub(crate) struct UnreadInfo {
    info: *mut fi_info,
    /// Refuses the request.
    discard: unsafe fn(*mut fid),
    /// When it came.
    since: Instant,
}

// SAFETY: it owns the description and the request, which `discard` takes on any thread.
unsafe impl Send for UnreadInfo {}

impl UnreadInfo {
    /// Owns `info` and the request that is its handle.
    ///
    /// # Safety
    /// `info` is an entry of our own; `discard` may be called once with its handle, on any thread.
    pub(crate) const unsafe fn new(
        info: *mut fi_info,
        discard: unsafe fn(*mut fid),
        since: Instant,
    ) -> Self {
        Self {
            info,
            discard,
            since,
        }
    }
}

impl Drop for UnreadInfo {
    fn drop(&mut self) {
        // SAFETY: the contract of `new`; an application that has read it owns it (`Events::read_cm`).
        unsafe {
            (self.discard)((*self.info).handle);
            info::free(self.info);
        }
    }
}

#[derive(Debug)]
enum Event {
    Ended { event: u32, bytes: Box<[u8]> },
    Cm(Cm),
    Failed(Failed),
}

/// The events of a queue.
#[derive(Debug)]
pub(super) struct Events {
    list: VecDeque<Event>,
    limit: usize,
    /// An event was lost: fi_eq(3) "overrun".
    overrun: bool,
}

impl Events {
    /// Returns an empty queue that takes at least `size` events.
    pub(super) fn new(size: usize) -> Self {
        Self {
            list: VecDeque::new(),
            limit: size.max(LIMIT),
            overrun: false,
        }
    }

    /// Returns whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.overrun
    }

    /// Returns whether the endpoints of the queue are to be driven before it is read: there is nothing to read, or the first request is
    /// so old that later ones may need its room.
    pub(super) fn asks_for_progress(&self, now: impl FnOnce() -> Instant) -> bool {
        match self.list.front() {
            Some(Event::Cm(Cm {
                info: Some(unread), ..
            })) => now().since(unread.since) > UNREAD,
            Some(_) => false,
            None => !self.overrun,
        }
    }

    /// Queues an event.
    ///
    /// # Errors
    /// `OVERRUN` when the queue is full, and from then on.
    pub(super) fn push(&mut self, event: u32, bytes: &[u8]) -> Result<(), Errno> {
        self.make_room()?;
        let bytes = bytes.into();
        self.list.push_back(Event::Ended { event, bytes });
        Ok(())
    }

    /// Queues an event of connection management; one that is lost takes its request along.
    ///
    /// # Errors
    /// As [`Events::push`].
    pub(super) fn push_cm(&mut self, cm: Cm) -> Result<(), Errno> {
        self.make_room()?;
        self.list.push_back(Event::Cm(cm));
        Ok(())
    }

    /// Drops the events of an object that closes.
    pub(super) fn forget(&mut self, fid: usize) {
        self.list.retain(|event| match event {
            Event::Ended { .. } => true,
            Event::Cm(cm) => cm.fid != fid,
            Event::Failed(failed) => failed.fid != fid,
        });
    }

    /// Drops the requests of an object that have not been read for long.
    pub(super) fn forget_unread(&mut self, fid: usize, now: Instant) {
        let is_old = |unread: &UnreadInfo| now.since(unread.since) > UNREAD;
        self.list.retain(|event| match event {
            Event::Cm(cm) if cm.fid == fid => !cm.info.as_ref().is_some_and(is_old),
            _ => true,
        });
    }

    /// Queues an error.
    ///
    /// # Errors
    /// As [`Events::push`].
    pub(super) fn push_failure(&mut self, failed: Failed) -> Result<(), Errno> {
        self.make_room()?;
        self.list.push_back(Event::Failed(failed));
        Ok(())
    }

    fn make_room(&mut self) -> Result<(), Errno> {
        self.overrun |= self.list.len() >= self.limit;
        if self.overrun {
            return Err(Errno::OVERRUN);
        }
        Ok(())
    }

    /// Copies the event at the front, as much of it as fits, and takes it unless `peek`.
    ///
    /// # Errors
    /// `AGAIN` when there is none, `AVAIL` when it is an error, `OVERRUN` when events were lost after it, `TOOSMALL` when
    /// not even what comes before the data of a connection event fits.
    pub(super) fn read(
        &mut self,
        event_out: Option<&mut u32>,
        into: &mut [u8],
        peek: bool,
    ) -> Result<usize, Errno> {
        let (event, bytes) = match self.list.front() {
            Some(Event::Ended { event, bytes }) => (event, bytes),
            Some(Event::Cm(_)) => return self.read_cm(event_out, into, peek),
            Some(Event::Failed(_)) => return Err(Errno::AVAIL),
            None if self.overrun => return Err(Errno::OVERRUN),
            None => return Err(Errno::AGAIN),
        };
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        if let Some(place) = event_out {
            *place = *event;
        }
        if !peek {
            self.list.pop_front();
        }
        Ok(length)
    }

    /// Reads an event of connection management, as [`Events::read`] does others. The reader owns its description.
    fn read_cm(
        &mut self,
        event_out: Option<&mut u32>,
        into: &mut [u8],
        peek: bool,
    ) -> Result<usize, Errno> {
        let Some(Event::Cm(cm)) = self.list.front_mut() else {
            return Err(Errno::AGAIN);
        };
        let (head, rest) = into
            .split_at_mut_checked(size_of::<fi_eq_cm_entry>())
            .ok_or(Errno::TOOSMALL)?;
        let info = cm.info.as_ref().map_or(0, |unread| unread.info.addr());
        head[..size_of::<usize>()].copy_from_slice(&cm.fid.to_ne_bytes());
        head[size_of::<usize>()..].copy_from_slice(&info.to_ne_bytes());
        let length = cm.data.len().min(rest.len());
        rest[..length].copy_from_slice(&cm.data[..length]);
        if let Some(place) = event_out {
            *place = cm.event;
        }
        if !peek {
            if let Some(unread) = cm.info.take() {
                let _ = unread.info.expose_provenance();
                mem::forget(unread);
            }
            self.list.pop_front();
        }
        Ok(head.len() + length)
    }

    /// Returns the error at the front and takes it unless `peek`.
    ///
    /// # Errors
    /// `AGAIN` when there is none.
    pub(super) fn read_failure(&mut self, peek: bool) -> Result<Failed, Errno> {
        let Some(Event::Failed(failed)) = self.list.front() else {
            return Err(Errno::AGAIN);
        };
        let failed = failed.clone();
        if !peek {
            self.list.pop_front();
        }
        Ok(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failed {
        Failed {
            fid: 1,
            context: 2,
            data: 3,
            errno: Errno::ADDRNOTAVAIL,
            detail: Box::from(*b"why"),
        }
    }

    fn connected(fid: usize, data: &[u8]) -> Cm {
        Cm {
            event: 2,
            fid,
            info: None,
            data: data.into(),
        }
    }

    #[test]
    fn connection_events_bring_data_behind_a_fixed_part() {
        let mut events = Events::new(4);
        assert_eq!(events.push_cm(connected(7, b"hello")), Ok(()));
        let mut into = [9u8; 19];
        assert_eq!(
            events.read(None, &mut into[..15], false),
            Err(Errno::TOOSMALL)
        );
        let mut event = 0;
        assert_eq!(events.read(Some(&mut event), &mut into, true), Ok(19));
        assert_eq!(events.read(None, &mut into[..16], false), Ok(16));
        assert_eq!(event, 2);
        assert_eq!(into[..8], 7usize.to_ne_bytes());
        assert_eq!(into[8..16], [0; 8]);
        assert_eq!(into[16..], *b"hel");
        assert!(events.is_empty());
    }

    #[test]
    fn events_of_an_object_that_closes_are_forgotten() {
        let mut events = Events::new(4);
        let mut into = [0u8; 32];
        assert_eq!(events.push_cm(connected(1, b"")), Ok(()));
        assert_eq!(events.push_failure(failure()), Ok(()));
        assert_eq!(events.push_cm(connected(2, b"")), Ok(()));
        events.forget(1);
        assert_eq!(events.read(None, &mut into, false), Ok(16));
        assert_eq!(into[..8], 2usize.to_ne_bytes());
        assert_eq!(events.read(None, &mut into, false), Err(Errno::AGAIN));
    }

    #[test]
    fn requests_that_were_not_read_for_long_are_dropped() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        unsafe fn discard(_: *mut fid) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        let mut events = Events::new(4);
        for second in 1..=3 {
            let info = crate::info::to_c(&oxifabric_types::Info::default());
            let since = Instant::from_nanos(second * 1_000_000_000);
            // SAFETY: the entry is our own, and `discard` takes anything.
            let unread = unsafe { UnreadInfo::new(info, discard, since) };
            let request = Cm {
                info: Some(unread),
                ..connected(7, b"")
            };
            assert_eq!(events.push_cm(request), Ok(()));
        }
        assert_eq!(events.push_cm(connected(7, b"")), Ok(()));
        let soon = Instant::from_nanos(10_500_000_000);
        let now = Instant::from_nanos(12_500_000_000);
        assert!(!events.asks_for_progress(|| soon));
        assert!(events.asks_for_progress(|| now));
        events.forget_unread(8, now);
        events.forget_unread(7, now);
        assert!(!events.asks_for_progress(|| now));
        assert_eq!((events.list.len(), DROPPED.load(Ordering::Relaxed)), (2, 2));
    }

    #[test]
    fn events_and_errors_keep_their_order() {
        let mut events = Events::new(4);
        let mut into = [0u8; 2];
        let mut event = 0;
        assert_eq!(events.push(5, b"abc"), Ok(()));
        assert_eq!(events.push_failure(failure()), Ok(()));
        assert_eq!(events.read_failure(false), Err(Errno::AGAIN));
        assert_eq!(events.read(Some(&mut event), &mut into, true), Ok(2));
        assert_eq!(events.read(None, &mut into, false), Ok(2));
        assert_eq!((event, &into), (5, b"ab"));
        assert_eq!(events.read(None, &mut into, false), Err(Errno::AVAIL));
        assert_eq!(events.read_failure(false), Ok(failure()));
        assert_eq!(events.read(None, &mut into, false), Err(Errno::AGAIN));
    }

    #[test]
    fn a_full_queue_overruns_and_stays_so() {
        let mut events = Events::new(0);
        while events.push(0, b"").is_ok() {}
        assert_eq!(events.list.len(), LIMIT);
        while events.read(None, &mut [], false).is_ok() {}
        assert_eq!(events.read(None, &mut [], false), Err(Errno::OVERRUN));
        assert_eq!(events.push(0, b""), Err(Errno::OVERRUN));
    }
}
