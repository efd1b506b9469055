//! What a module makes when it is loaded and drops when it is unloaded.

use alloc::boxed::Box;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A value that lives from [`Global::set`] to [`Global::clear`].
#[derive(Debug)]
pub struct Global<T>(AtomicPtr<T>);

impl<T: Send + Sync> Global<T> {
    /// Makes an empty place.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Sets the value; returns false if there is one.
    pub fn set(&self, value: T) -> bool {
        let new = Box::into_raw(Box::new(value));
        let empty = ptr::null_mut();
        match self
            .0
            .compare_exchange(empty, new, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => true,
            Err(_) => {
                // SAFETY: it was not handed out.
                drop(unsafe { Box::from_raw(new) });
                false
            }
        }
    }

    /// Returns the value, if there is one.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: null, or a value that stays until `clear`, whose caller promises that no reference is in use.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Drops the value.
    ///
    /// # Safety
    /// No reference to it is in use, nor taken meanwhile: the module is being unloaded.
    pub unsafe fn clear(&self) {
        let old = self.0.swap(ptr::null_mut(), Ordering::AcqRel);
        if !old.is_null() {
            // SAFETY: it came from a box, and the caller says that nothing refers to it.
            drop(unsafe { Box::from_raw(old) });
        }
    }
}

impl<T: Send + Sync> Default for Global<T> {
    fn default() -> Self {
        Self::new()
    }
}
