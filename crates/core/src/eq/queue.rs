//! The events of a queue, of any length, in order, errors included.

use std::collections::VecDeque;

use oxifabric_types::Errno;

/// How many events wait at most, if the application did not ask for more.
const LIMIT: usize = 1 << 16;

/// What a control operation that failed leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The object, as the address of its `fid`.
    pub(crate) fid: usize,
    /// The context of the operation.
    pub(crate) context: usize,
    /// What it says depends on the operation, as with events.
    pub(crate) data: u64,
    /// Why it failed.
    pub(crate) errno: Errno,
}

#[derive(Debug)]
enum Event {
    Ended { event: u32, bytes: Box<[u8]> },
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
    /// An empty queue that takes at least `size` events.
    pub(super) fn new(size: usize) -> Self {
        Self {
            list: VecDeque::new(),
            limit: size.max(LIMIT),
            overrun: false,
        }
    }

    /// Tells whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.overrun
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
    /// `AGAIN` when there is none, `AVAIL` when it is an error, `OVERRUN` when events were lost after it.
    pub(super) fn read(
        &mut self,
        event_out: Option<&mut u32>,
        into: &mut [u8],
        peek: bool,
    ) -> Result<usize, Errno> {
        let (event, bytes) = match self.list.front() {
            Some(Event::Ended { event, bytes }) => (event, bytes),
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

    /// Returns the error at the front and takes it unless `peek`.
    ///
    /// # Errors
    /// `AGAIN` when there is none.
    pub(super) fn read_failure(&mut self, peek: bool) -> Result<Failed, Errno> {
        let Some(Event::Failed(failed)) = self.list.front() else {
            return Err(Errno::AGAIN);
        };
        let failed = *failed;
        if !peek {
            self.list.pop_front();
        }
        Ok(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: Failed = Failed {
        fid: 1,
        context: 2,
        data: 3,
        errno: Errno::ADDRNOTAVAIL,
    };

    #[test]
    fn events_and_errors_keep_their_order() {
        let mut events = Events::new(4);
        let mut into = [0u8; 2];
        let mut event = 0;
        assert_eq!(events.push(5, b"abc"), Ok(()));
        assert_eq!(events.push_failure(FAILED), Ok(()));
        assert_eq!(events.read_failure(false), Err(Errno::AGAIN));
        assert_eq!(events.read(Some(&mut event), &mut into, true), Ok(2));
        assert_eq!(events.read(None, &mut into, false), Ok(2));
        assert_eq!((event, &into), (5, b"ab"));
        assert_eq!(events.read(None, &mut into, false), Err(Errno::AVAIL));
        assert_eq!(events.read_failure(false), Ok(FAILED));
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
