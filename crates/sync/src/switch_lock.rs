//! A lock that the application's threading promise switches off, fi_domain(3) "Threading Models".
//!
//! One lock guards one group of objects. Under FI_THREAD_SAFE it excludes threads; under FI_THREAD_DOMAIN and its
//! like the application does that, and taking the lock is one predictable branch.

use core::cell::UnsafeCell;
use core::fmt;
use core::hint;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

/// A value and the lock that guards it; not re-entrant.
pub struct SwitchLock<T> {
    state: AtomicU32,
    /// Threads that sleep until the lock is free, or are about to.
    sleepers: AtomicU32,
    enabled: bool,
    value: UnsafeCell<T>,
}

// SAFETY: a guard, or a call of `with`, is the only way to the value through a shared reference, and at most one of them
// exists at a time: the state word ensures that, or the caller of `unlocked` or `new` has promised it.
unsafe impl<T: Send> Sync for SwitchLock<T> {}

/// The lock is free.
const FREE: u32 = 0;
/// The lock is held.
const HELD: u32 = 1;
/// Number of looks at the lock before sleeping: about the time that a short critical section takes.
const SPINS: u32 = 200;
/// Longest sleep without a wake-up, in nanoseconds. A thread unlocks by a plain store, and its load of `sleepers` may come
/// too early to see a thread that has just found the lock held: that thread wakes and looks again by itself.
const NAP: libc::c_long = 1_000_000;

impl<T> SwitchLock<T> {
    /// Guards `value` by a lock that excludes threads.
    pub const fn locked(value: T) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            sleepers: AtomicU32::new(0),
            enabled: true,
            value: UnsafeCell::new(value),
        }
    }

    /// Holds `value` behind a lock that does nothing.
    ///
    /// # Safety
    /// While a guard exists, or a call of [`SwitchLock::with`] runs, no caller asks for another one: no second thread (the application
    /// promised so by its threading level) and not its holder. Threads that take turns are ordered by the application's own means.
    pub const unsafe fn unlocked(value: T) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            sleepers: AtomicU32::new(0),
            enabled: false,
            value: UnsafeCell::new(value),
        }
    }

    /// Guards `value` by a lock that is on or off.
    ///
    /// # Safety
    /// With `enabled` false, as for [`SwitchLock::unlocked`]; otherwise none is needed.
    pub const unsafe fn new(value: T, enabled: bool) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            sleepers: AtomicU32::new(0),
            enabled,
            value: UnsafeCell::new(value),
        }
    }

    /// Returns whether the lock excludes threads.
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Takes the lock, waiting for it if need be. A thread that holds it already waits for ever.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        if !self.enabled {
            self.note_unlocked_use();
        } else if self
            .state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.lock_contended();
        }
        Guard {
            lock: self,
            here: PhantomData,
        }
    }

    /// Calls a function with the value while the lock is held. Where the lock is off, nothing follows the call.
    #[inline(always)]
    pub fn with<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        if !self.enabled && !cfg!(debug_assertions) {
            // SAFETY: the lock is off, so the application promised that nothing else uses the value meanwhile ([`SwitchLock::unlocked`]).
            return call(unsafe { &mut *self.value.get() });
        }
        self.with_lock(call)
    }

    /// Calls a function with the value while the lock is held, apart from a caller that has nothing to keep where it is off.
    #[inline(never)]
    fn with_lock<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        call(&mut self.lock())
    }

    /// Takes the lock if it is free; always, when it is off.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        if !self.enabled {
            self.note_unlocked_use();
        } else if self
            .state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return None;
        }
        Some(Guard {
            lock: self,
            here: PhantomData,
        })
    }

    /// Returns the value; the borrow is exclusive, so no lock is taken.
    pub const fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns the value itself.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    #[cold]
    fn lock_contended(&self) {
        for _ in 0..SPINS {
            hint::spin_loop();
            if self.state.load(Ordering::Relaxed) == FREE
                && self
                    .state
                    .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self
            .state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            futex_wait(&self.state, HELD);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    #[inline]
    fn unlock(&self) {
        if !self.enabled {
            if cfg!(debug_assertions) {
                self.state.store(FREE, Ordering::Relaxed);
            }
        } else {
            self.state.store(FREE, Ordering::Release);
            if self.sleepers.load(Ordering::Relaxed) != 0 {
                futex_wake_one(&self.state);
            }
        }
    }

    /// Writes a message to standard error, in debug builds, when a thread asks for a second guard although the application promised that
    /// none would.
    #[inline]
    fn note_unlocked_use(&self) {
        if cfg!(debug_assertions) {
            if self.state.load(Ordering::Relaxed) != FREE {
                report_broken_promise();
            }
            self.state.store(HELD, Ordering::Relaxed);
        }
    }
}

impl<T> fmt::Debug for SwitchLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SwitchLock")
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

/// Access to the value while the lock is held; dropping the guard unlocks.
#[must_use = "the lock is given back at once when the guard is dropped"]
pub struct Guard<'a, T> {
    lock: &'a SwitchLock<T>,
    /// Ties the guard to its thread.
    here: PhantomData<*const ()>,
}

// SAFETY: sharing a guard shares the value, no more.
unsafe impl<T: Sync> Sync for Guard<'_, T> {}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this is the only guard (see `Sync for SwitchLock`), so nothing else writes the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only guard, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock();
    }
}

#[cold]
fn report_broken_promise() {
    eprintln!(
        "oxifabric: objects are used by two threads at once, or from within their own callback, although the \
         threading level forbids it"
    );
}

fn futex_wait(word: &AtomicU32, seen: u32) {
    let nap = libc::timespec {
        tv_sec: 0,
        tv_nsec: NAP,
    };
    // SAFETY: the words outlive the call; FUTEX_WAIT reads them and returns at once when the first one changed. Early
    // returns are harmless because the caller looks again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            seen,
            &raw const nap,
        );
    }
}

#[cold]
fn futex_wake_one(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE only uses the address as a key.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn excludes_threads_when_on() {
        let lock = SwitchLock::locked((0u64, 0u64));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut pair = lock.lock();
                        pair.0 += 1;
                        pair.1 += 1;
                        assert_eq!(pair.0, pair.1);
                    }
                });
            }
        });
        assert_eq!(lock.into_inner(), (80_000, 80_000));
    }

    #[test]
    fn a_call_has_the_value_to_itself_whether_on_or_off() {
        // SAFETY: one thread uses it, and takes no second guard.
        let off = unsafe { SwitchLock::unlocked(1) };
        for lock in [off, SwitchLock::locked(1)] {
            let was = lock.with(|value| std::mem::replace(value, 2));
            assert_eq!((was, lock.with(|value| *value)), (1, 2));
            assert!(lock.try_lock().is_some());
        }
        let on = SwitchLock::locked(());
        on.with(|()| assert!(on.try_lock().is_none()));
    }

    #[test]
    fn try_lock_fails_while_held_and_works_after() {
        let lock = SwitchLock::locked(1);
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert_eq!(lock.try_lock().map(|g| *g), Some(1));
    }

    #[test]
    fn costs_nothing_but_works_when_off() {
        // SAFETY: one thread, one guard at a time.
        let mut lock = unsafe { SwitchLock::new(1, false) };
        *lock.lock() += 1;
        *lock.get_mut() += 1;
        assert!(!lock.is_enabled());
        assert_eq!(lock.try_lock().map(|g| *g), Some(3));
    }
}
