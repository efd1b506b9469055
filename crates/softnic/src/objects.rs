//! What commands make: protection domains, address handles, regions, completion queues and queue pairs.

mod cq;
mod qp;
mod region;

pub(crate) use self::cq::{Cq, Polled};
pub(crate) use self::qp::{Attributes, Capacity, Qp, RECV_DOORBELL, State};
pub(crate) use self::region::{Destinations, MAX_AH, Mr, Regions, access};

use crate::event::{AsyncEvents, CompletionEvents};
use crate::memory::DeviceFile;

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
