//! Passive endpoints, which listen for connections. Source: fi_endpoint(3), fi_cm(3).

use core::ptr;
use std::sync::Arc;

use oxifabric_abi::{fi_listen, fi_passive_ep, fi_pep_bind, fi_reject, fid, fid_pep};
use oxifabric_types::Errno;

use super::endpoint::name_of;
use super::handle::Handle;
use super::{Events, InfoHandle, check};

/// A listening passive endpoint.
pub(crate) struct Listener {
    handle: Handle<fid_pep>,
    events: Arc<Events>,
}

impl Listener {
    /// Opens a passive endpoint of an offer and listens; requests appear in the queue.
    pub(crate) fn open(
        info: &InfoHandle,
        events: Arc<Events>,
    ) -> Result<Arc<Self>, (&'static str, Errno)> {
        let fabric = events.fabric();
        if !ptr::eq(fabric.library(), info.library()) {
            return Err(("fi_passive_ep", Errno::INVAL));
        }
        let (parent, attr) = (fabric.as_ptr(), info.as_ptr());
        // SAFETY: the fabric is open, and the offer is one of its library.
        let handle =
            unsafe { Handle::open(|pep| fi_passive_ep(parent, attr, pep, ptr::null_mut())) }
                .map_err(|errno| ("fi_passive_ep", errno))?;
        let listener = Arc::new(Self { handle, events });
        listener.events.register_listener(&listener);
        let pep = listener.handle.as_ptr();
        // SAFETY: both are open, and the listener keeps the queue open.
        check(unsafe { fi_pep_bind(pep, listener.events.fid(), 0) })
            .map_err(|errno| ("fi_pep_bind", errno))?;
        // SAFETY: the endpoint is open.
        check(unsafe { fi_listen(pep) }).map_err(|errno| ("fi_listen", errno))?;
        Ok(listener)
    }

    pub(super) fn fid(&self) -> *mut fid {
        self.handle.fid()
    }

    /// Returns the address to which peers connect.
    pub(crate) fn name(&self) -> Result<Vec<u8>, Errno> {
        name_of(&self.handle)
    }

    /// Refuses a request; the peer receives the data.
    pub(crate) fn reject(&self, request: &InfoHandle, data: &[u8]) -> Result<(), Errno> {
        let (pep, handle) = (self.handle.as_ptr(), request.request());
        // SAFETY: the endpoint is open, the request was not used before, and the data outlive the call.
        check(unsafe { fi_reject(pep, handle, data.as_ptr().cast(), data.len()) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.events.unregister_listener(self.fid());
    }
}
