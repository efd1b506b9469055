//! An open object of the library.

use core::ptr::NonNull;

use oxifabric_abi::{
    fi_close, fid, fid_av, fid_cntr, fid_cq, fid_domain, fid_ep, fid_eq, fid_fabric, fid_mr,
    fid_pep,
};
use oxifabric_types::Errno;

use super::check;

/// A structure of the ABI that begins with its `fid`.
///
/// # Safety
///
/// The first member must be the `fid`.
pub(crate) unsafe trait Object {}

// SAFETY: the mirrors of these structures begin with `fid`.
unsafe impl Object for fid_fabric {}
// SAFETY: as above.
unsafe impl Object for fid_domain {}
// SAFETY: as above.
unsafe impl Object for fid_cq {}
// SAFETY: as above.
unsafe impl Object for fid_av {}
// SAFETY: as above.
unsafe impl Object for fid_ep {}
// SAFETY: as above.
unsafe impl Object for fid_pep {}
// SAFETY: as above.
unsafe impl Object for fid_eq {}
// SAFETY: as above.
unsafe impl Object for fid_cntr {}
// SAFETY: as above.
unsafe impl Object for fid_mr {}

/// An open object, closed when dropped.
#[derive(Debug)]
pub(crate) struct Handle<T: Object>(NonNull<T>);

// SAFETY: objects of threading level FI_THREAD_SAFE may be used by any thread at any time. Those of a domain with another level are
// behind public types with the marker `Local`, which stay on one thread.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// Opens an object with a call that writes it to its argument.
    ///
    /// # Safety
    ///
    /// When `open` returns 0 it must have written an open object, which nothing else closes.
    pub(super) unsafe fn open(open: impl FnOnce(*mut *mut T) -> i32) -> Result<Self, Errno> {
        let mut object = core::ptr::null_mut();
        check(open(&mut object))?;
        NonNull::new(object).map(Self).ok_or(Errno::IO)
    }

    /// Returns the object, open as long as `self` lives.
    pub(super) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Returns the base of the object.
    pub(super) fn fid(&self) -> *mut fid {
        self.0.as_ptr().cast()
    }

    /// Closes the object now; after an error it stays open for ever.
    pub(crate) fn close(self) -> Result<(), Errno> {
        let fid = self.fid();
        core::mem::forget(self);
        // SAFETY: the object is open, and `self`, the only owner, is gone.
        check(unsafe { fi_close(fid) })
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the object is open, and nothing can use it after this.
        unsafe { fi_close(self.fid()) };
    }
}
