//! Mutexes of set-up paths.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock whose holder may have panicked: the tables are valid between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
