//! Locks whose holder cannot leave what they guard half done.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock, also after a panic of its holder.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
