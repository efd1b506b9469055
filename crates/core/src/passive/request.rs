//! Requests for connections: the handle that an FI_CONNREQ event brings, fi_cm(3).
//!
//! An endpoint that is opened from a request takes its connection; the handle itself lives until the request is accepted or
//! rejected, or its event is dropped unread.

use core::ffi::c_int;
use core::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use oxifabric_abi::{FI_CLASS_CONNREQ, FI_CLASS_PEP, fi_info, fi_ops, fid};
use oxifabric_provider::connection::{DomainOf, Listener, MsgProvider};
use oxifabric_types::{Errno, Info, Instant};

use super::PassiveEndpoint;
use crate::absent;
use crate::eq::UnreadInfo;
use crate::handle::{Fid, table};
use crate::lock::lock;

type Pending<P> = <<P as MsgProvider>::Listener as Listener>::Request;

/// A request that waits for its answer.
#[repr(C)]
pub(crate) struct Request<P: MsgProvider> {
    fid: Fid<fid>,
    /// The connection, until an endpoint takes it.
    pending: Mutex<Option<Pending<P>>>,
    _counted: Counted,
}

/// How many requests of one passive endpoint wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// One request among those that wait.
struct Counted(Waiting);

impl Counted {
    fn new(waiting: Waiting) -> Self {
        waiting.0.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<P: MsgProvider> Request<P> {
    const BASE: fi_ops = fi_ops {
        close: Some(Self::close),
        ..absent::BASE
    };

    /// Boxes a request and returns its handle.
    pub(super) fn publish(pending: Pending<P>, waiting: Waiting) -> *mut fid {
        let fid = fid {
            fclass: FI_CLASS_CONNREQ,
            context: null_mut(),
            ops: table(const { &Self::BASE }),
        };
        let request = Box::new(Self {
            fid: Fid::new(fid),
            pending: Mutex::new(Some(pending)),
            _counted: Counted::new(waiting),
        });
        Box::into_raw(request).cast()
    }

    /// Owns a description that the application has not read, with its request.
    ///
    /// # Safety
    /// The entry is our own, and its handle was made by [`Request::publish`] of this very type.
    pub(super) unsafe fn unread(info: *mut fi_info, since: Instant) -> UnreadInfo {
        // SAFETY: the caller's contract; `refuse` takes such handles.
        unsafe { UnreadInfo::new(info, Self::refuse, since) }
    }

    /// Rejects a request that the application has not read.
    ///
    /// # Safety
    /// As [`Request::free`].
    unsafe fn refuse(handle: *mut fid) {
        // SAFETY: the caller's contract.
        unsafe { Self::reject(handle, &[]) };
    }

    /// Frees a request; its connection ends if no endpoint has taken it.
    ///
    /// # Safety
    /// The handle was made by [`Request::publish`] of this very type; no thread uses it now or later.
    unsafe fn free(handle: *mut fid) {
        // SAFETY: the caller's contract: it was boxed there.
        drop(unsafe { Box::from_raw(handle.cast::<Self>()) });
    }

    unsafe extern "C" fn close(handle: *mut fid) -> c_int {
        // SAFETY: the table is only in the handles of this type, and the application gives this one up.
        unsafe { Self::free(handle) };
        0
    }

    /// Rejects a request and frees its handle.
    ///
    /// # Safety
    /// As [`Request::free`].
    pub(super) unsafe fn reject(handle: *mut fid, data: &[u8]) {
        // SAFETY: the caller's contract.
        let pending = unsafe { lock(&(*handle.cast::<Self>()).pending).take() };
        if let Some(pending) = pending {
            P::Listener::reject(pending, data);
        }
        // SAFETY: the caller's contract.
        unsafe { Self::free(handle) };
    }
}

/// The handle of a request whose connection an endpoint has taken.
pub(crate) struct Taken {
    handle: *mut fid,
    free: unsafe fn(*mut fid),
}

// SAFETY: the handle may be freed on any thread.
unsafe impl Send for Taken {}

impl Taken {
    /// Frees the handle: the request was accepted.
    pub(crate) fn free(self) {
        // SAFETY: the application accepts or rejects a request once, and leaves its handle alone then (fi_cm(3)).
        unsafe { (self.free)(self.handle) };
    }
}

/// Makes the device of an endpoint that is opened from a handle: a request, or a passive endpoint whose address it takes over.
///
/// # Errors
/// `INVAL` for a handle of another kind or one that was used before; what the provider says.
///
/// # Safety
/// `handle` is an open object of this provider, or null.
pub(crate) unsafe fn device_of<P: MsgProvider>(
    info: &Info,
    domain: &Arc<DomainOf<P>>,
    handle: *mut fid,
) -> Result<(P::Connected, Option<Taken>), Errno> {
    // SAFETY: the caller's contract; the class says of which type it is.
    unsafe {
        match handle.as_ref().map_or(0, |fid| fid.fclass) {
            FI_CLASS_CONNREQ => {
                let request = &*handle.cast::<Request<P>>();
                let pending = lock(&request.pending).take().ok_or(Errno::INVAL)?;
                let taken = Taken {
                    handle,
                    free: Request::<P>::free,
                };
                Ok((P::answer(info, domain, pending)?, Some(taken)))
            }
            FI_CLASS_PEP => {
                let listener = PassiveEndpoint::<P>::of(handle.cast()).release()?;
                Ok((P::take_over(info, domain, listener)?, None))
            }
            _ => Err(Errno::INVAL),
        }
    }
}
