//! Multicast groups as C programs hold them: fi_cm(3) "fi_join". Path class: setup.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use oxifabric_abi::{FI_CLASS_MC, fi_addr_t, fi_ops, fid, fid_mc};
use oxifabric_types::{Address, PeerId};

use crate::absent;
use crate::handle::{self, Fid, Object, Uses, publish, status};

/// Addresses of groups begin here: no vector has as many entries.
const GROUPS: fi_addr_t = 1 << 61;

/// A group that an endpoint has joined.
#[repr(C)]
pub(crate) struct MulticastGroup {
    fid: Fid<fid_mc>,
    uses: Uses,
    endpoint: NonNull<dyn Host>,
    /// The address that the endpoint listens to, if it does.
    joined: Option<Address>,
}

/// An endpoint, as its groups see it.
pub(crate) trait Host: Sync {
    /// Notes that a group closes: the endpoint need not listen to this address for it any more.
    fn leave_multicast(&self, joined: Option<&Address>);
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for MulticastGroup {
    type Handle = fid_mc;
    const CLASS: usize = FI_CLASS_MC;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl MulticastGroup {
    /// Makes the handle of a group of an endpoint, which calls the group `peer`.
    ///
    /// # Safety
    /// The endpoint stays where it is until the group has closed.
    pub(crate) unsafe fn open(
        endpoint: NonNull<dyn Host>,
        peer: PeerId,
        joined: Option<Address>,
        context: *mut c_void,
    ) -> *mut fid_mc {
        let fid = fid_mc {
            fid: handle::new_fid::<Self>(context),
            fi_addr: GROUPS | u64::from(peer.0),
        };
        publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            endpoint,
            joined,
        })
    }
}

impl Drop for MulticastGroup {
    fn drop(&mut self) {
        // SAFETY: the endpoint closes after its groups (contract of `open`).
        unsafe { self.endpoint.as_ref() }.leave_multicast(self.joined.as_ref());
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    ..absent::BASE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of groups, and the application gives this one up.
    status(unsafe { handle::close::<MulticastGroup>(fid) })
}

/// Returns what the endpoint calls the group with this address, if it is that of one (fi_mc_addr).
pub(crate) fn group(address: fi_addr_t) -> Option<PeerId> {
    let number = address.checked_sub(GROUPS)?;
    u32::try_from(number).ok().map(PeerId)
}
