//! The mutex and the condition variable of `FI_WAIT_MUTEX_COND`: fi_poll(3).
//!
//! The application holds the mutex between its last look at a queue and its sleep, and it may look with it held. So a
//! thread that signals never waits for the mutex while it holds a lock of the library: it defers the signal, and the
//! thread of automatic progress, without which no thread may sleep on these, gives it.

use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{pthread_cond_t, pthread_mutex_t};
use oxifabric_abi::fi_mutex_cond;

/// A mutex with its condition variable, which stay where they are.
pub(crate) struct Cond {
    mutex: Box<UnsafeCell<pthread_mutex_t>>,
    cond: Box<UnsafeCell<pthread_cond_t>>,
    /// A signal was given that a sleeper with the mutex may have missed.
    deferred: AtomicBool,
}

// SAFETY: both are made to be used by many threads.
unsafe impl Send for Cond {}
// SAFETY: as for `Send`.
unsafe impl Sync for Cond {}

impl Cond {
    /// Makes a mutex that tells its own holder from others, and a condition variable.
    pub(crate) fn new() -> Self {
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let mut kind = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised, used and destroyed in turn; the mutex is not in use yet.
        unsafe {
            libc::pthread_mutexattr_init(kind.as_mut_ptr());
            libc::pthread_mutexattr_settype(kind.as_mut_ptr(), libc::PTHREAD_MUTEX_ERRORCHECK);
            libc::pthread_mutex_init(mutex.get(), kind.as_ptr());
            libc::pthread_mutexattr_destroy(kind.as_mut_ptr());
        }
        Self {
            mutex,
            cond: Box::new(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER)),
            deferred: AtomicBool::new(false),
        }
    }

    /// Returns what the application waits on.
    pub(crate) const fn handles(&self) -> fi_mutex_cond {
        fi_mutex_cond {
            mutex: self.mutex.get(),
            cond: self.cond.get(),
        }
    }

    /// Wakes the sleepers, those with the mutex perhaps only when [`Cond::signal_deferred`] is called.
    pub(crate) fn signal(&self) {
        self.deferred.store(true, Ordering::Release);
        // SAFETY: both are initialised, and the mutex is given back only if it was taken.
        unsafe {
            if libc::pthread_mutex_trylock(self.mutex.get()) == 0 {
                self.broadcast();
                libc::pthread_mutex_unlock(self.mutex.get());
            } else {
                libc::pthread_cond_broadcast(self.cond.get());
            }
        }
    }

    /// Wakes those that [`Cond::signal`] may have missed. Call it without locks.
    pub(crate) fn signal_deferred(&self) {
        if !self.deferred.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: both are initialised, and the mutex is given back only if it was taken.
        unsafe {
            if libc::pthread_mutex_lock(self.mutex.get()) == 0 {
                self.broadcast();
                libc::pthread_mutex_unlock(self.mutex.get());
            }
        }
    }

    /// Wakes all threads that wait.
    ///
    /// # Safety
    /// The caller holds the mutex.
    unsafe fn broadcast(&self) {
        self.deferred.store(false, Ordering::Relaxed);
        // SAFETY: it is initialised.
        unsafe { libc::pthread_cond_broadcast(self.cond.get()) };
    }
}

impl fmt::Debug for Cond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cond").finish_non_exhaustive()
    }
}

impl Drop for Cond {
    fn drop(&mut self) {
        // SAFETY: the application closed the object, so that no thread uses them any more.
        unsafe {
            libc::pthread_cond_destroy(self.cond.get());
            libc::pthread_mutex_destroy(self.mutex.get());
        }
    }
}
