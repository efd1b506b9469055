//! A lock that lets other threads run while it waits.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::system::RawMutex;

/// A value that one thread at a time uses.
pub struct Mutex<T> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the lock lets one thread at a time to the value, which may go from one to the other.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Makes a lock; `None` when there is not enough memory.
    ///
    /// `level` says for the kernel's checker which locks are of one kind: one of a lower level is taken first. It is below 8.
    pub fn new(level: u32, value: T) -> Option<Self> {
        Some(Self {
            raw: RawMutex::new(level)?,
            value: UnsafeCell::new(value),
        })
    }

    /// Waits for the lock.
    pub fn lock(&self) -> Guard<'_, T> {
        self.raw.lock();
        Guard { mutex: self }
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

/// The use of a locked value.
#[derive(Debug)]
pub struct Guard<'a, T> {
    mutex: &'a Mutex<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held as long as the guard lives.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this is the only guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.mutex.raw.unlock();
    }
}
