//! Shared transmit contexts: fi_stx_context(3).
//!
//! What endpoints could share here, room for outstanding sends, each has of its own, so that a context is a handle that may be
//! bound and nothing else. It may be closed before the endpoints that it is bound to, as Sandia OpenSHMEM does; they go on.

use core::ffi::{c_int, c_void};

use oxifabric_abi::{FI_CLASS_STX_CTX, fi_ops, fi_ops_ep, fid, fid_stx};

use crate::absent::{self, no1, no2, no3, no5};
use crate::domain::Domain;
use crate::handle::{self, Fid, Object, Ref, Uses, publish, status, table};

/// A shared transmit context.
#[repr(C)]
pub(crate) struct Stx {
    fid: Fid<fid_stx>,
    uses: Uses,
    domain: Ref<Domain>,
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Stx {
    type Handle = fid_stx;
    const CLASS: usize = FI_CLASS_STX_CTX;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Stx {
    /// Opens a context of a domain.
    pub(crate) fn open(domain: &Domain, context: *mut c_void) -> *mut fid_stx {
        let fid = fid_stx {
            fid: handle::new_fid::<Self>(context),
            ops: table(&EP),
        };
        publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            domain: Ref::to(domain),
        })
    }

    /// Returns the domain.
    pub(super) fn domain(&self) -> &Domain {
        &self.domain
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    ..absent::BASE
};

static EP: fi_ops_ep = fi_ops_ep {
    cancel: Some(no2),
    getopt: Some(no5),
    setopt: Some(no5),
    tx_ctx: Some(no5),
    rx_ctx: Some(no5),
    rx_size_left: Some(no1),
    tx_size_left: Some(no1),
    export_xpu: Some(no3),
    ..fi_ops_ep::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of contexts, and the application gives this one up.
    status(unsafe { handle::close::<Stx>(fid) })
}
