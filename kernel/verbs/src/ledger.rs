//! The operations of one queue that have not ended, by numbers that go stale: an end that is told twice finds nothing.

use alloc::boxed::Box;
use alloc::vec::Vec;

use oxifabric_engine::{Completion, Failure};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::parts::{Done, HAS_DATA, IS_WRITE, Piece};

/// Set in the numbers of receives.
const RECEIVE: u64 = 1 << 63;
/// The peer of a connection.
const PEER: PeerId = PeerId(0);
/// The flags of an operation that its completion repeats.
const KIND: Flags = Flags::MSG
    .union(Flags::RMA)
    .union(Flags::READ)
    .union(Flags::WRITE)
    .union(Flags::SEND)
    .union(Flags::RECV);

/// An operation that was given to the device.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) context: usize,
    pub(crate) flags: Flags,
    pub(crate) len: usize,
    pub(crate) buf: usize,
    /// It has been reported to the application, which is told of it no more.
    pub(crate) is_told: bool,
    /// How many sends before it the device does not report.
    pub(crate) unsignaled: u64,
    /// Its memory as the device has it.
    pub(crate) held: Held,
}

/// Memory that a device has.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) pieces: Pieces,
    /// The device writes to it.
    pub(crate) is_written: bool,
    /// What an injected operation was copied to.
    pub(crate) _copy: Option<Box<[u8]>>,
}

/// The pieces of an operation: mostly one.
#[derive(Debug)]
pub(crate) enum Pieces {
    One([Piece; 1]),
    Several(Box<[Piece]>),
}

impl Pieces {
    pub(crate) fn list(&self) -> &[Piece] {
        match self {
            Self::One(piece) => piece,
            Self::Several(pieces) => pieces,
        }
    }
}

/// The operations of a queue.
#[derive(Debug)]
pub(crate) struct Ledger {
    rows: Vec<Row>,
    free: Vec<u32>,
    is_receives: bool,
}

#[derive(Debug)]
struct Row {
    generation: u32,
    held: Option<Operation>,
}

impl Row {
    /// Returns whether a number was given for what the row holds now.
    const fn is_of(&self, number: u64) -> bool {
        self.generation as u64 == (number & !RECEIVE) >> 32
    }
}

impl Ledger {
    /// Makes one with room for as many operations as the queue has.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(crate) fn new(depth: usize, is_receives: bool) -> Result<Self, Errno> {
        let (mut rows, mut free) = (Vec::new(), Vec::new());
        rows.try_reserve_exact(depth).map_err(|_| Errno::NOMEM)?;
        free.try_reserve_exact(depth).map_err(|_| Errno::NOMEM)?;
        for place in (0..depth as u32).rev() {
            rows.push(Row {
                generation: 0,
                held: None,
            });
            free.push(place);
        }
        Ok(Self {
            rows,
            free,
            is_receives,
        })
    }

    /// Returns how many operations there are.
    pub(crate) const fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Returns whether there is no room.
    pub(crate) const fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Keeps an operation and returns its number; gives it back when there is no room.
    pub(crate) fn insert(&mut self, operation: Operation) -> Result<u64, Operation> {
        let Some(place) = self.free.pop() else {
            return Err(operation);
        };
        let Some(row) = self.rows.get_mut(place as usize) else {
            return Err(operation);
        };
        row.held = Some(operation);
        let number = u64::from(place) | u64::from(row.generation) << 32;
        Ok(if self.is_receives {
            number | RECEIVE
        } else {
            number
        })
    }

    /// Returns an operation, if its number is not stale.
    pub(crate) fn get(&self, number: u64) -> Option<&Operation> {
        let row = self.rows.get((number & u64::from(u32::MAX)) as usize)?;
        row.held.as_ref().filter(|_| row.is_of(number))
    }

    /// Takes an operation out, if its number is not stale.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Operation> {
        let place = (number & u64::from(u32::MAX)) as usize;
        let row = self.rows.get_mut(place).filter(|row| row.is_of(number))?;
        let operation = row.held.take()?;
        row.generation = (row.generation + 1) & (u32::MAX >> 1);
        self.free.push(place as u32);
        Some(operation)
    }

    /// Takes all operations out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Operation> + '_ {
        self.rows.iter_mut().filter_map(|row| row.held.take())
    }
}

/// Returns whether a number is that of a receive.
pub(crate) const fn is_receive(number: u64) -> bool {
    number & RECEIVE != 0
}

impl Operation {
    /// Describes one of which the application has not been told.
    pub(crate) fn new(body: &Iov, flags: Flags, context: usize, held: Held) -> Self {
        Self {
            context,
            flags,
            len: body.len(),
            buf: body.base().addr(),
            is_told: false,
            unsignaled: 0,
            held,
        }
    }

    /// Returns what is told of it when it has ended.
    pub(crate) fn ended(&self, done: &Done) -> Result<Completion, Failure> {
        let is_receive = self.flags.contains(Flags::RECV);
        let op = Completion {
            context: self.context,
            flags: self.flags & KIND,
            len: self.len as u64,
            buf: self.buf,
            data: 0,
            tag: 0,
            from: PeerId::ANY,
            wanted: self.flags.contains(Flags::COMPLETION),
        };
        if done.status != 0 {
            let op = Completion {
                len: 0,
                from: PEER,
                ..op
            };
            return Err(Failure {
                op,
                errno: errno(done.status, is_receive),
                overflow: 0,
                code: done.status,
            });
        }
        if !is_receive {
            return Ok(op);
        }
        let mut op = Completion {
            len: u64::from(done.len),
            from: PEER,
            ..op
        };
        if done.flags & HAS_DATA != 0 {
            op.flags |= Flags::REMOTE_CQ_DATA;
            op.data = u64::from(done.data);
        }
        if done.flags & IS_WRITE != 0 {
            op.flags = Flags::RECV | Flags::RMA | Flags::REMOTE_WRITE | Flags::REMOTE_CQ_DATA;
            op.wanted = true;
        }
        Ok(op)
    }
}

/// Returns the error of an `ib_wc_status`.
const fn errno(status: u32, is_receive: bool) -> Errno {
    match status {
        // IB_WC_LOC_LEN_ERR: the message is longer than the buffer, or than any may be.
        1 if is_receive => Errno::TRUNC,
        1 => Errno::MSGSIZE,
        // IB_WC_LOC_PROT_ERR, IB_WC_LOC_ACCESS_ERR, IB_WC_REM_ACCESS_ERR
        4 | 8 | 10 => Errno::ACCES,
        // IB_WC_WR_FLUSH_ERR: the connection had ended before it began.
        5 => Errno::CANCELED,
        // IB_WC_REM_INV_REQ_ERR, IB_WC_REM_OP_ERR: the peer could not take it.
        9 | 11 => Errno::REMOTEIO,
        // IB_WC_RETRY_EXC_ERR, IB_WC_RNR_RETRY_EXC_ERR, IB_WC_RESP_TIMEOUT_ERR: the peer does not answer.
        12 | 13 | 22 => Errno::TIMEDOUT,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{HAS_TAKEN_KEY, IS_MESSAGE};

    fn operation(context: usize, flags: Flags) -> Operation {
        Operation {
            context,
            flags,
            len: 8,
            buf: 1,
            is_told: false,
            unsignaled: 0,
            held: Held {
                pieces: Pieces::One([Piece::default()]),
                is_written: false,
                _copy: None,
            },
        }
    }

    fn context(operation: Option<Operation>) -> Option<usize> {
        operation.map(|operation| operation.context)
    }

    #[test]
    fn a_number_finds_its_operation_once() {
        let mut ledger = Ledger::new(2, true).unwrap();
        let a = ledger.insert(operation(1, Flags::RECV)).unwrap();
        let b = ledger.insert(operation(2, Flags::RECV)).unwrap();
        assert!(is_receive(a) && ledger.is_full());
        assert!(ledger.insert(operation(3, Flags::RECV)).is_err());
        assert_eq!(context(ledger.remove(a)), Some(1));
        assert_eq!(context(ledger.remove(a)), None);
        let c = ledger.insert(operation(4, Flags::RECV)).unwrap();
        assert_ne!(a, c);
        assert_eq!(context(ledger.remove(a)), None);
        assert_eq!(context(ledger.remove(u64::MAX)), None);
        assert_eq!(context(ledger.remove(b)), Some(2));
        assert_eq!((ledger.len(), ledger.drain().count()), (1, 1));
    }

    #[test]
    fn a_write_with_data_that_took_a_receive_is_told_as_one() {
        let receive = operation(7, Flags::MSG | Flags::RECV);
        let done = Done {
            len: 5,
            data: 9,
            flags: IS_WRITE | HAS_DATA,
            ..Done::default()
        };
        let told = receive.ended(&done).unwrap();
        assert_eq!(
            (told.context, told.len, told.data, told.wanted),
            (7, 5, 9, true)
        );
        assert!(told.flags.contains(Flags::RECV | Flags::REMOTE_WRITE));
        assert!(!told.flags.contains(Flags::MSG));
    }

    #[test]
    fn a_message_that_takes_a_key_back_has_failed() {
        let done = Done {
            len: 5,
            flags: IS_MESSAGE | HAS_TAKEN_KEY,
            ..Done::default()
        };
        let failure = operation(7, Flags::RECV).ended(&done.judged()).unwrap_err();
        assert_eq!(failure.errno, Errno::ACCES);
    }

    #[test]
    fn errors_are_told_with_their_cause() {
        for (status, expected) in [(1, Errno::TRUNC), (5, Errno::CANCELED), (77, Errno::IO)] {
            let done = Done {
                status,
                ..Done::default()
            };
            let failure = operation(7, Flags::RECV).ended(&done).unwrap_err();
            assert_eq!((failure.errno, failure.code), (expected, status));
        }
    }
}
