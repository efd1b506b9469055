//! Devices whose own queues carry out operations: no engine stands between them and the application.
//!
//! Such a device takes a send, a receive or an access as the application describes it, and reports its end later, by the number that the
//! operation was given with. The [`WorkLedger`] gives those numbers and knows the operations behind them.

mod ledger;
mod table;

use oxifabric_engine::{AtomicOp, RmaOp, RxOp, TxOp};
use oxifabric_types::{Errno, Instant, PeerId};

pub use ledger::WorkLedger;
pub use table::WorkId;

/// The queues of a device.
///
/// The device uses the memory of an operation until it reports the end, through the registration that the descriptor names
/// ([`oxifabric_mem::Iov::registration`]); that of an operation with `INJECT` during the call only, and without registration.
pub trait HardwareQueues {
    /// Queues a send.
    ///
    /// # Errors
    /// `AGAIN` when the queue is full, `NOTCONN` or another error when the peer cannot be reached. The device did not take the send then.
    fn post_send(&mut self, send: &TxOp, id: WorkId) -> Result<(), Errno>;

    /// Queues a receive. Hardware that does not match messages ignores its tag, source and flags.
    ///
    /// # Errors
    /// As [`HardwareQueues::post_send`].
    fn post_receive(&mut self, receive: &RxOp, id: WorkId) -> Result<(), Errno>;

    /// Queues a read or write of memory of a peer, which it names by keys of the peer's device.
    ///
    /// # Errors
    /// As [`HardwareQueues::post_send`]; `OPNOTSUPP` where the device does not reach memory of peers.
    fn post_access(&mut self, access: &RmaOp<'_>, id: WorkId) -> Result<(), Errno> {
        let _ = (access, id);
        Err(Errno::OPNOTSUPP)
    }

    /// Queues an atomic update of memory of a peer.
    ///
    /// # Errors
    /// As [`HardwareQueues::post_send`]; `OPNOTSUPP` for an update that the device does not know.
    fn post_atomic(&mut self, atomic: &AtomicOp, id: WorkId) -> Result<(), Errno> {
        let _ = (atomic, id);
        Err(Errno::OPNOTSUPP)
    }

    /// Takes a receive off its queue: a later poll reports its end with `CANCELED`.
    ///
    /// # Errors
    /// `NOENT` when it is not there any more, `NOSYS` where a queue does not give back what it was given.
    fn cancel_receive(&mut self, id: WorkId) -> Result<(), Errno> {
        let _ = id;
        Err(Errno::NOSYS)
    }

    /// Ends all receives on the queue: the next polls report each with `CANCELED`.
    fn flush_receives(&mut self);

    /// Polls the queues without waiting: calls `ended` for each operation that has ended, in order.
    fn poll_queues(&mut self, now: Instant, ended: &mut impl FnMut(WorkEnd));
}

/// The end of an operation in a hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkEnd {
    /// A send, an access or an atomic ended.
    Sent {
        /// The number of the operation.
        id: WorkId,
        /// The result: the memory is the application's again in any case.
        result: Result<(), WorkError>,
    },
    /// A receive ended.
    Received {
        /// The number of the receive.
        id: WorkId,
        /// The message, or an error; `TRUNC` when the message was longer than the buffer.
        result: Result<ReceivedMessage, WorkError>,
    },
    /// A peer wrote memory of this end and sent data along.
    Written {
        /// The receive that the write consumed, on devices where it takes one (FI_RX_CQ_DATA).
        receive: Option<WorkId>,
        /// The peer.
        from: PeerId,
        /// How many bytes it wrote.
        len: usize,
        /// The data.
        data: u64,
    },
}

/// The error of an operation in a hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkError {
    /// The error.
    pub errno: Errno,
    /// The device's own number of the cause, if it has one; zero otherwise. The application reads it as `prov_errno`, and
    /// [`Device::explain`](crate::device::Device::explain) says what it means.
    pub code: u32,
}

impl From<Errno> for WorkError {
    fn from(errno: Errno) -> Self {
        Self { errno, code: 0 }
    }
}

/// A message in the buffer of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Its source.
    pub from: PeerId,
    /// Its length.
    pub len: usize,
    /// Remote completion data, if it has some.
    pub data: Option<u64>,
}
