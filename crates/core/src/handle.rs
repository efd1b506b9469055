//! The handles that C programs hold, and the only place where they are cast to objects and back.
//!
//! A handle is a pointer to a boxed object whose first field is the `fid` of the C header. Objects refer to each
//! other by [`Ref`], which counts: closing an object that is referred to gives `-FI_EBUSY`, as the man pages ask,
//! and so a `Ref` never dangles. Counts change on set-up paths only.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ops::Deref;
use core::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxifabric_abi::{fi_ops, fid};
use oxifabric_types::Errno;

use crate::misuse::{self, Named};

/// An object that C programs hold by a pointer to its `fid`.
///
/// # Safety
/// `Self` is `repr(C)` and begins with a [`Fid`] of `Self::Handle`, which is `repr(C)` and begins with a `fid`. A `fid`
/// of this class whose `ops` are [`Object::ops`] belongs to a `Self` that [`publish`] boxed.
pub(crate) unsafe trait Object: Sized {
    /// The structure of the C header.
    type Handle;
    /// `FI_CLASS_*`.
    const CLASS: usize;

    /// Returns the base operations. Their address tells our objects from those of other providers.
    fn ops() -> &'static fi_ops;

    /// Returns the count of objects that refer to this one.
    fn uses(&self) -> &Uses;
}

/// The C header's part of an object: C programs read and write it while we hold references to the object.
#[repr(transparent)]
pub(crate) struct Fid<T>(UnsafeCell<T>);

// SAFETY: Rust code reads it through raw pointers only, field by field; what C programs do with it is theirs to order.
unsafe impl<T> Send for Fid<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for Fid<T> {}

impl<T> Fid<T> {
    /// Wraps the structure of the C header.
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Returns where it is.
    pub(crate) const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}

/// How many objects refer to an object.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicUsize);

impl Uses {
    /// Nothing refers to a new object.
    pub(crate) const fn none() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Returns whether something refers to the object.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }
}

/// A counted reference to an object.
pub(crate) struct Ref<T: Object>(NonNull<T>);

// SAFETY: a reference gives shared access, which `Sync` allows from any thread.
unsafe impl<T: Object + Sync> Send for Ref<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Object + Sync> Sync for Ref<T> {}

impl<T: Object> Ref<T> {
    /// Refers to a published object.
    pub(crate) fn to(object: &T) -> Self {
        object.uses().0.fetch_add(1, Ordering::Relaxed);
        Self(NonNull::from(object))
    }
}

impl<T: Object> Clone for Ref<T> {
    fn clone(&self) -> Self {
        Self::to(self)
    }
}

impl<T: Object> Deref for Ref<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the object stays boxed while it is counted: `close` refuses otherwise.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Object> Drop for Ref<T> {
    fn drop(&mut self) {
        self.uses().0.fetch_sub(1, Ordering::Release);
    }
}

/// Makes the `fid` of a new object.
pub(crate) fn new_fid<T: Object>(context: *mut c_void) -> fid {
    fid {
        fclass: T::CLASS,
        context,
        ops: table(T::ops()),
    }
}

/// Casts a table for the C header, whose pointers are not const. Nothing writes through them.
pub(crate) const fn table<T>(ops: &'static T) -> *mut T {
    core::ptr::from_ref(ops).cast_mut()
}

/// Boxes an object and returns its handle.
pub(crate) fn publish<T: Object>(object: T) -> *mut T::Handle {
    Box::into_raw(Box::new(object)).cast()
}

/// Returns the object of a handle.
///
/// # Safety
/// The handle was made by [`publish`] for this type, and its object is open for as long as the reference is used.
#[inline]
pub(crate) unsafe fn object<'a, T: Object>(handle: *mut T::Handle) -> &'a T {
    // SAFETY: the caller vouches for the handle, which points to a boxed `T`.
    unsafe { &*handle.cast::<T>() }
}

/// Returns the object of a `fid` that the application chose, after checking that it is one of this type.
///
/// # Errors
/// `INVAL` when it is null, of another class, or of another provider.
///
/// # Safety
/// A `fid` that is not null belongs to an open object of some provider.
pub(crate) unsafe fn checked<'a, T: Object>(fid: *mut fid) -> Result<&'a T, Errno> {
    if fid.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: every open object begins with a `fid`.
    let (class, ops) = unsafe { ((*fid).fclass, (*fid).ops) };
    if class != T::CLASS || !core::ptr::eq(ops, T::ops()) {
        return Err(Errno::INVAL);
    }
    // SAFETY: class and operations say that it is one of ours (contract of `Object`).
    Ok(unsafe { &*fid.cast::<T>() })
}

/// Closes an object unless something refers to it.
///
/// # Errors
/// `BUSY` when it is in use.
///
/// # Safety
/// As for [`object`]; no other call uses the object now or later.
pub(crate) unsafe fn close<T: Object>(fid: *mut fid) -> Result<(), Errno> {
    let boxed = fid.cast::<T>();
    // SAFETY: the caller vouches for the handle.
    let (is_used, named) = unsafe { ((*boxed).uses().any(), Named::of(fid)) };
    if is_used {
        misuse::in_use(named);
        return Err(Errno::BUSY);
    }
    // SAFETY: `publish` boxed it, and neither objects nor callers refer to it any more.
    drop(unsafe { Box::from_raw(boxed) });
    Ok(())
}

/// Returns 0 or the negative error number, as C calls do.
pub(crate) fn status(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => -errno.raw(),
    }
}

/// Returns a count or the negative error number, as C calls do.
pub(crate) fn count(result: Result<usize, Errno>) -> isize {
    match result {
        Ok(count) => count as isize,
        Err(errno) => failed(errno),
    }
}

/// Returns the negative error number.
#[inline]
pub(crate) const fn failed(errno: Errno) -> isize {
    -(errno.raw() as isize)
}

/// Stores the handle of a new object, or gives the error number.
///
/// # Safety
/// `place` is null or may be written.
pub(crate) unsafe fn hand_out<T>(
    place: *mut *mut T,
    open: impl FnOnce() -> Result<*mut T, Errno>,
) -> c_int {
    if place.is_null() {
        return -Errno::INVAL.raw();
    }
    match open() {
        Ok(handle) => {
            // SAFETY: the caller vouches for the place.
            unsafe { *place = handle };
            0
        }
        Err(errno) => -errno.raw(),
    }
}
