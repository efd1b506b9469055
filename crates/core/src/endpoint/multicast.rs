//! Joining multicast groups: fi_cm(3) "fi_join". Path class: setup.

use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, without_provenance_mut};
use std::sync::atomic::Ordering;

use oxifabric_abi::{FI_JOIN_COMPLETE, FI_RECV, FI_SEND, fi_eq_entry, fid_ep, fid_mc};
use oxifabric_provider::device::{Device, Provider};
use oxifabric_provider::operations::Operations;
use oxifabric_types::{Address, Caps, Errno};

use super::Endpoint;
use super::cm::peer_address;
use crate::handle::hand_out;
use crate::multicast::{Host, MulticastGroup};

impl<P: Provider> Host for Endpoint<P> {
    fn leave_multicast(&self, joined: Option<&Address>) {
        if let Some(group) = joined {
            self.state.lock().device.leave(group);
        }
        self.groups.fetch_sub(1, Ordering::Release);
    }
}

impl<P: Provider> Endpoint<P> {
    /// Joins a multicast group: fi_join. It is done at once, and the event says so.
    ///
    /// # Safety
    /// The address is null or one of the endpoint's format; `mc` is null or a place for the handle.
    pub(super) unsafe fn join_multicast(
        ep: *mut fid_ep,
        addr: *const c_void,
        flags: u64,
        mc: *mut *mut fid_mc,
        context: *mut c_void,
    ) -> c_int {
        if flags & !(FI_SEND | FI_RECV) != 0 {
            return -Errno::BADFLAGS.raw();
        }
        // SAFETY: the caller's contract; the table is only in the handles of this type.
        unsafe {
            let endpoint = Self::of(ep);
            let group = peer_address(addr, endpoint.info.addr_format);
            hand_out(mc, || {
                group.and_then(|group| endpoint.open_group(group, flags, context))
            })
        }
    }

    fn open_group(
        &self,
        group: Address,
        flags: u64,
        context: *mut c_void,
    ) -> Result<*mut fid_mc, Errno> {
        let eq = self.events().ok_or(Errno::NOEQ)?;
        let (peer, joined) = {
            let mut state = self.state.lock();
            if !state.enabled {
                return Err(Errno::OPBADSTATE);
            }
            let peer = state.device.peer(&group)?;
            if let Some(engine) = state.operations.engine_mut() {
                engine.include_in_faults(peer);
            }
            let receives = self.receives(flags);
            if receives {
                state.device.join(&group)?;
            }
            (peer, receives.then_some(group))
        };
        self.groups.fetch_add(1, Ordering::Relaxed);
        let endpoint = NonNull::from(self as &dyn Host);
        // SAFETY: the endpoint is boxed, and does not close as long as it has groups.
        let handle = unsafe { MulticastGroup::open(endpoint, peer, joined, context) };
        eq.post(
            FI_JOIN_COMPLETE,
            &fi_eq_entry {
                fid: handle.cast(),
                context: without_provenance_mut(context.addr()),
                data: 0,
            },
        );
        Ok(handle)
    }

    /// Returns whether a join with these flags is for receiving: an endpoint joins for whatever it can do, unless it is said.
    fn receives(&self, flags: u64) -> bool {
        let can = !self.has(Caps::SEND | Caps::RECV) || self.has(Caps::RECV);
        can && (flags & (FI_SEND | FI_RECV) == 0 || flags & FI_RECV != 0)
    }
}
