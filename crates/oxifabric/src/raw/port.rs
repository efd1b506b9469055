//! Endpoints. Source: fi_endpoint(3), fi_cm(3).

use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use oxifabric_abi::{
    FI_RECV, FI_TRANSMIT, fi_cancel, fi_enable, fi_endpoint, fi_ep_bind, fi_getname, fi_setname,
    fid_ep,
};
use oxifabric_types::Errno;

use super::handle::Handle;
use super::peers::NAME_LEN;
use super::{DomainObject, Op, Peers, Queue, check, errno};

/// An open endpoint, with everything that is bound to it.
pub(crate) struct Port {
    /// Dropped by hand, because whether it closed decides what happens to the rest.
    handle: ManuallyDrop<Handle<fid_ep>>,
    /// Tells its operations from those of any other endpoint in the process.
    number: u32,
    tx: ManuallyDrop<Arc<Queue>>,
    rx: ManuallyDrop<Arc<Queue>>,
    peers: ManuallyDrop<Arc<Peers>>,
}

static NUMBERS: AtomicU32 = AtomicU32::new(0);

impl Port {
    /// Opens an endpoint, gives it its name if there is one, binds everything and enables it.
    pub(crate) fn open(
        domain: &Arc<DomainObject>,
        (tx, rx): (Arc<Queue>, Arc<Queue>),
        peers: Arc<Peers>,
        name: Option<&[u8]>,
    ) -> Result<Self, (&'static str, Errno)> {
        let parents = [tx.domain(), rx.domain(), peers.domain()];
        if !parents.iter().all(|parent| Arc::ptr_eq(parent, domain)) {
            return Err(("fi_ep_bind", Errno::DOMAIN));
        }
        let (parent, info) = (domain.as_ptr(), domain.info().as_ptr());
        // SAFETY: the domain is open, and the offer is the one that it was opened with.
        let handle = unsafe { Handle::open(|ep| fi_endpoint(parent, info, ep, ptr::null_mut())) }
            .map_err(|errno| ("fi_endpoint", errno))?;
        let port = Self {
            handle: ManuallyDrop::new(handle),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            tx: ManuallyDrop::new(tx),
            rx: ManuallyDrop::new(rx),
            peers: ManuallyDrop::new(peers),
        };
        port.tx.knows(&port.peers);
        port.rx.knows(&port.peers);
        port.bind().map_err(|errno| ("fi_ep_bind", errno))?;
        if let Some(name) = name {
            port.set_name(name).map_err(|errno| ("fi_setname", errno))?;
        }
        // SAFETY: the endpoint is open.
        check(unsafe { fi_enable(port.as_ptr()) }).map_err(|errno| ("fi_enable", errno))?;
        Ok(port)
    }

    fn bind(&self) -> Result<(), Errno> {
        let (ep, tx, rx) = (self.as_ptr(), self.tx.fid(), self.rx.fid());
        // SAFETY: both are open, and `self` keeps the vector open.
        check(unsafe { fi_ep_bind(ep, self.peers.fid(), 0) })?;
        if tx == rx {
            // SAFETY: both are open, and `self` keeps the queue open.
            return check(unsafe { fi_ep_bind(ep, tx, FI_TRANSMIT | FI_RECV) });
        }
        // SAFETY: as above.
        check(unsafe { fi_ep_bind(ep, tx, FI_TRANSMIT) })?;
        // SAFETY: as above.
        check(unsafe { fi_ep_bind(ep, rx, FI_RECV) })
    }

    fn set_name(&self, address: &[u8]) -> Result<(), Errno> {
        let mut address = address.to_vec();
        // SAFETY: the endpoint is open, and the address outlives the call.
        check(unsafe {
            fi_setname(
                self.handle.fid(),
                address.as_mut_ptr().cast(),
                address.len(),
            )
        })
    }

    /// The address that peers use.
    pub(crate) fn name(&self) -> Result<Vec<u8>, Errno> {
        let (mut name, mut len) = ([0_u8; NAME_LEN], NAME_LEN);
        // SAFETY: the endpoint is open, and there is room for `len` bytes.
        check(unsafe { fi_getname(self.handle.fid(), name.as_mut_ptr().cast(), &mut len) })?;
        Ok(name[..len.min(NAME_LEN)].to_vec())
    }

    /// Asks for the end of an operation; `NOENT` if it has completed.
    pub(crate) fn cancel(&self, op: Op) -> Result<(), Errno> {
        let slots = [&self.tx, &self.rx].map(|queue| queue.slots());
        let context = slots
            .into_iter()
            .find_map(|slots| slots.context(op))
            .ok_or(Errno::NOENT)?;
        // SAFETY: the endpoint is open; the context is compared, and slots live as long as their table.
        let ret = unsafe { fi_cancel(self.handle.fid(), context) };
        if ret == 0 { Ok(()) } else { Err(errno(ret)) }
    }

    pub(crate) fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    pub(super) fn as_ptr(&self) -> *mut fid_ep {
        self.handle.as_ptr()
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn tx(&self) -> &Queue {
        &self.tx
    }

    pub(super) fn rx(&self) -> &Queue {
        &self.rx
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: the handle is not used after this.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        if handle.close().is_err() {
            // The endpoint lives on, and may use its buffers, queues and addresses for ever: leave them to it.
            return;
        }
        for queue in [&self.tx, &self.rx] {
            // SAFETY: the endpoint is closed.
            unsafe { queue.slots().abandon(self.number) };
        }
        // SAFETY: the endpoint, the only user, is closed; the fields are not used after this.
        unsafe {
            ManuallyDrop::drop(&mut self.tx);
            ManuallyDrop::drop(&mut self.rx);
            ManuallyDrop::drop(&mut self.peers);
        }
    }
}
