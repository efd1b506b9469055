//! The handles that consumers hold, and the only place where they become objects again.
//!
//! A handle points to the `fid` at the start of an object that is counted. Objects refer to each other by [`Ref`]: closing an object
//! that is referred to is refused with `-FI_EBUSY`, so that what a handle of an open object needs is open, too.

use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};

use oxifabric_abi::{fi_ops, fid};
use oxifabric_types::Errno;

/// An object that consumers hold by a pointer to its `fid`.
///
/// # Safety
/// `Self` is `repr(C)` and begins with a [`Fid`] of `Self::Handle`, which begins with a `fid`. Tables with functions that cast a handle to
/// `Self` are only in handles that [`publish`] made of a `Self`.
pub(crate) unsafe trait Object: Sized + Send + Sync {
    /// The structure of the C header.
    type Handle;
    /// `FI_CLASS_*`.
    const CLASS: usize;

    /// Returns the count of objects that refer to this one.
    fn uses(&self) -> &Uses;
}

/// The C header's part of an object. Consumers read and write it.
#[repr(transparent)]
pub(crate) struct Fid<T>(UnsafeCell<T>);

// SAFETY: it is read through raw pointers only; what consumers do with it is theirs to order.
unsafe impl<T> Send for Fid<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for Fid<T> {}

impl<T> Fid<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}

/// How many objects refer to an object.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicUsize);

impl Uses {
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }
}

/// A counted reference to an object, which keeps it from being closed.
pub(crate) struct Ref<T: Object>(Arc<T>);

impl<T: Object> Ref<T> {
    /// Refers to a published object.
    ///
    /// # Safety
    /// `handle` is that of an open object of this kind.
    pub(crate) unsafe fn of(handle: *mut T::Handle) -> Self {
        // SAFETY: the caller's contract; the count of the handle itself stays.
        let object = unsafe {
            Arc::increment_strong_count(handle.cast::<T>());
            Arc::from_raw(handle.cast_const().cast::<T>())
        };
        Self::to(object)
    }

    /// Refers to an object.
    pub(crate) fn to(object: Arc<T>) -> Self {
        object.uses().0.fetch_add(1, Ordering::Relaxed);
        Self(object)
    }
}

impl<T: Object> Clone for Ref<T> {
    fn clone(&self) -> Self {
        Self::to(Arc::clone(&self.0))
    }
}

impl<T: Object> Deref for Ref<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Object> Drop for Ref<T> {
    fn drop(&mut self) {
        self.uses().0.fetch_sub(1, Ordering::Release);
    }
}

/// Makes the `fid` of a new object.
pub(crate) fn new_fid<T: Object>(context: *mut c_void, ops: &'static fi_ops) -> fid {
    fid {
        fclass: T::CLASS,
        context,
        ops: table(ops),
    }
}

/// Casts a table for the C header, whose pointers are not const. Nothing writes through them.
pub(crate) const fn table<T>(table: &'static T) -> *mut T {
    core::ptr::from_ref(table).cast_mut()
}

/// Hands an object out.
///
/// # Safety
/// `place` may be written.
pub(crate) unsafe fn publish<T: Object>(object: Arc<T>, place: *mut *mut T::Handle) {
    // SAFETY: the caller's contract.
    unsafe { place.write(Arc::into_raw(object).cast_mut().cast()) }
}

/// Returns the object of a handle.
///
/// # Safety
/// `handle` is that of an open object of this kind, which stays open for `'a`.
pub(crate) unsafe fn object<'a, T: Object>(handle: *mut T::Handle) -> &'a T {
    // SAFETY: the caller's contract.
    unsafe { &*handle.cast::<T>() }
}

/// Closes an object that nothing refers to; `end` lets go of what it has, before it is dropped with its last user.
///
/// # Safety
/// `handle` is that of an open object of this kind, and no other call uses it.
pub(crate) unsafe fn close<T: Object>(
    handle: *mut fid,
    end: impl FnOnce(&T) -> Result<(), Errno>,
) -> c_int {
    // SAFETY: the caller's contract.
    let object = unsafe { &*handle.cast::<T>() };
    if object.uses().any() {
        return -Errno::BUSY.raw();
    }
    match end(object) {
        Ok(()) => {
            // SAFETY: it came from `publish`, and the handle is not used any more.
            drop(unsafe { Arc::from_raw(handle.cast_const().cast::<T>()) });
            0
        }
        Err(errno) => -errno.raw(),
    }
}

/// Returns what a call returns.
pub(crate) fn status(result: Result<(), Errno>) -> c_int {
    result.map_or_else(|errno| -errno.raw(), |()| 0)
}

/// Returns what a call returns that counts.
pub(crate) fn count(result: Result<usize, Errno>) -> isize {
    result.map_or_else(failed, |count| count as isize)
}

/// Returns an error of a transfer call.
pub(crate) const fn failed(errno: Errno) -> isize {
    -(errno.raw() as isize)
}
