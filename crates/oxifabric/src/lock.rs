//! Locks over data that stays consistent when the holding thread panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even one that a panic has poisoned.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
