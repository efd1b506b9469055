//! What listens for a passive endpoint, and the requests that come.

use alloc::sync::Arc;
use core::fmt;

use oxifabric_kernel_objects::{Arrival, Listener};
use oxifabric_kernel_sync::Work;
use oxifabric_types::{Address, Errno, Info};

use crate::device::{VerbsDevice, bound};
use crate::domain::VerbsDomain;
use crate::parts::RawEvent;
use crate::private::{LONGEST, Private, unpack};
use crate::system::RawLink;
use crate::{address, place};

/// Requests that rdma_cm keeps for a listener.
const BACKLOG: i32 = 64;

/// What listens for a passive endpoint.
pub struct VerbsListener {
    /// Before the work that it names.
    link: RawLink,
    work: Arc<Work>,
    is_listening: bool,
}

/// A request for a connection. Dropping it refuses it.
pub struct VerbsArrival {
    link: RawLink,
    data: [u8; LONGEST],
    len: usize,
}

impl fmt::Debug for VerbsListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VerbsListener")
            .field(&self.link.ends().own)
            .finish()
    }
}

impl fmt::Debug for VerbsArrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VerbsArrival")
            .field(&self.link.ends().peer)
            .finish()
    }
}

impl VerbsListener {
    pub(crate) fn new(info: &Info, work: &Arc<Work>) -> Result<Self, Errno> {
        Ok(Self {
            link: bound(info, work)?,
            work: Arc::clone(work),
            is_listening: false,
        })
    }
}

impl Listener for VerbsListener {
    type Arrival = VerbsArrival;

    fn address(&self) -> Address {
        address(self.link.ends().own)
    }

    fn set_address(&mut self, at: &Address) -> Result<(), Errno> {
        if self.is_listening {
            return Err(Errno::OPBADSTATE);
        }
        // SAFETY: the listener keeps its work.
        let link = unsafe { RawLink::open(Arc::as_ptr(&self.work)) }?;
        link.bind(place(at)?)?;
        self.link = link;
        Ok(())
    }

    fn listen(&mut self) -> Result<(), Errno> {
        self.link.listen(BACKLOG)?;
        self.is_listening = true;
        Ok(())
    }

    fn next(&mut self) -> Option<VerbsArrival> {
        let mut event = RawEvent::NONE;
        let link = self.link.arrival(&mut event)?;
        let sent = unpack(event.data());
        let len = sent.len().min(LONGEST);
        let mut data = [0; LONGEST];
        data[..len].copy_from_slice(&sent[..len]);
        Some(VerbsArrival { link, data, len })
    }
}

impl Arrival for VerbsArrival {
    type Device = VerbsDevice;
    type Domain = VerbsDomain;

    fn from(&self) -> Address {
        address(self.link.ends().peer)
    }

    fn data(&self) -> &[u8] {
        &self.data[..self.len]
    }

    fn reject(self, data: &[u8]) {
        if let Ok(private) = Private::pack(data) {
            self.link.reject(private.bytes());
        }
    }

    fn into_device(
        self,
        domain: &Arc<VerbsDomain>,
        work: &Arc<Work>,
    ) -> Result<VerbsDevice, Errno> {
        VerbsDevice::invited(self.link, domain, work)
    }
}
