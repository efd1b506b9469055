//! Devices whose own queues carry out operations: no engine stands between them and the application.
//!
//! Such a device takes a send, a receive or an access as the application describes it, and tells later what became of it, by the number
//! that came along. The [`WorkLedger`] gives those numbers and knows the operations behind them.

mod ledger;
mod table;

use oxifabric_engine::{AtomicOp, RmaOp, RxOp, TxOp};
use oxifabric_types::{Errno, Instant, PeerId};

pub use ledger::WorkLedger;
pub use table::WorkId;

/// The queues of a device.
///
/// Memory of operations is used until their end is told, as their descriptors say ([`oxifabric_mem::Iov::registration`]); that of
/// what has `INJECT` during the call only, and without registration.
pub trait HardwareQueues {
    /// Queues a send.
    ///
    /// # Errors
    /// `AGAIN` when the queue is full, `NOTCONN` and the like when there is no way to the peer. The device did not take it then.
    fn post_send(&mut self, send: &TxOp, id: WorkId) -> Result<(), Errno>;

    /// Queues a receive. Its tag, its source and its flags say nothing to hardware that does not match.
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

    /// Takes a receive off its queue, whose end is told with `CANCELED` then.
    ///
    /// # Errors
    /// `NOENT` when it is not there any more, `NOSYS` where a queue does not give back what it was given.
    fn cancel_receive(&mut self, id: WorkId) -> Result<(), Errno> {
        let _ = id;
        Err(Errno::NOSYS)
    }

    /// Ends all receives on the queue: the next polls tell of each, with `CANCELED`.
    fn flush_receives(&mut self);

    /// Tells `ended` what has ended, in order, without waiting.
    fn poll_queues(&mut self, now: Instant, ended: &mut impl FnMut(WorkEnd));
}

/// The end of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkEnd {
    /// A send, an access or an atomic ended.
    Sent {
        /// Which.
        id: WorkId,
        /// How: its memory is the application's again in any case.
        result: Result<(), WorkError>,
    },
    /// A receive ended.
    Received {
        /// Which.
        id: WorkId,
        /// How; `TRUNC` when the message was longer than the buffer.
        result: Result<ReceivedMessage, WorkError>,
    },
    /// A peer wrote memory of this end and sent data along.
    Written {
        /// The receive that this used up, on devices where it costs one (FI_RX_CQ_DATA).
        receive: Option<WorkId>,
        /// The peer.
        from: PeerId,
        /// How many bytes it wrote.
        len: usize,
        /// The data.
        data: u64,
    },
}

/// Why work failed.
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
