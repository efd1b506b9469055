//! Requests for connections.

use alloc::sync::Arc;

use oxifabric_kernel_link::Note;
use oxifabric_kernel_objects::{Arrival, Listener};
use oxifabric_kernel_sync::Work;
use oxifabric_types::{Address, Errno, Info};

use crate::device::LoopDevice;
use crate::ports::{self, Incoming};

/// What listens for a passive endpoint.
pub struct LoopListener {
    name: Address,
    work: Arc<Work>,
    is_open: bool,
}

/// A request for a connection; dropped, it is refused, as its end of the link goes.
pub struct LoopArrival {
    to: Address,
    incoming: Incoming,
}

impl LoopListener {
    pub(crate) fn new(info: &Info, work: &Arc<Work>) -> Result<Self, Errno> {
        let name = match &info.src {
            Some(name) => {
                ports::check(name)?;
                name.clone()
            }
            None => ports::lock()?.fresh(),
        };
        Ok(Self {
            name,
            work: Arc::clone(work),
            is_open: false,
        })
    }
}

impl Listener for LoopListener {
    type Arrival = LoopArrival;

    fn address(&self) -> Address {
        self.name.clone()
    }

    fn set_address(&mut self, address: &Address) -> Result<(), Errno> {
        if self.is_open {
            return Err(Errno::OPBADSTATE);
        }
        ports::check(address)?;
        self.name = address.clone();
        Ok(())
    }

    fn listen(&mut self) -> Result<(), Errno> {
        ports::lock()?.open(&self.name, true, &self.work)?;
        self.is_open = true;
        Ok(())
    }

    fn next(&mut self) -> Option<LoopArrival> {
        let mut ports = ports::lock().ok()?;
        let incoming = ports.get(&self.name)?.incoming.pop_front()?;
        Some(LoopArrival {
            to: self.name.clone(),
            incoming,
        })
    }
}

impl Drop for LoopListener {
    fn drop(&mut self) {
        if self.is_open
            && let Ok(mut ports) = ports::lock()
        {
            let port = ports.close(&self.name);
            drop(ports);
            drop(port);
        }
    }
}

impl Arrival for LoopArrival {
    type Device = LoopDevice;
    type Domain = ();

    fn from(&self) -> Address {
        self.incoming.from.clone()
    }

    fn data(&self) -> &[u8] {
        &self.incoming.data
    }

    fn reject(self, data: &[u8]) {
        self.incoming.link.tell(Note::Rejected(data.to_vec()));
    }

    fn into_device(self, _: &Arc<()>, work: &Arc<Work>) -> Result<LoopDevice, Errno> {
        Ok(LoopDevice::of_request(self.to, self.incoming, work))
    }
}
