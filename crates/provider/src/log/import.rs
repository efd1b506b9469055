//! A log of the application in place of the library's own: fi_import_log in rdma/fi_ext.h.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What an application does with messages.
pub trait Imported: Send + Sync {
    /// Returns whether it wants messages of this kind; `None` leaves that to FI_LOG_LEVEL and its like.
    fn enabled(&self, prov: &str, level: u32, subsys: u32) -> Option<bool>;

    /// As [`super::ready`]; `None` leaves that to the library.
    fn ready(&self, prov: &str, level: u32, subsys: u32, next_ms: &mut u64) -> Option<bool>;

    /// Takes a message, which ends its line itself; false leaves it to FI_LOG_LOCATION.
    fn log(&self, prov: &str, level: u32, subsys: u32, place: (&str, u32), text: &str) -> bool;
}

static IS_IMPORTED: AtomicBool = AtomicBool::new(false);
static IMPORTED: RwLock<Option<Arc<dyn Imported>>> = RwLock::new(None);

/// Sends messages to the application from now on. Returns false if they go to one already.
pub fn import(log: Arc<dyn Imported>) -> bool {
    let mut imported = IMPORTED.write().unwrap_or_else(PoisonError::into_inner);
    if imported.is_some() {
        return false;
    }
    *imported = Some(log);
    IS_IMPORTED.store(true, Ordering::Release);
    true
}

/// Ends what [`import`] began.
pub fn end_import() {
    let mut imported = IMPORTED.write().unwrap_or_else(PoisonError::into_inner);
    IS_IMPORTED.store(false, Ordering::Release);
    *imported = None;
}

/// Returns whether messages go to the application.
pub fn is_imported() -> bool {
    IS_IMPORTED.load(Ordering::Acquire)
}

/// Asks the application, without a lock in hand: it may do anything, logging included.
pub(super) fn ask<T>(question: impl FnOnce(&dyn Imported) -> Option<T>) -> Option<T> {
    if !is_imported() {
        return None;
    }
    let imported = IMPORTED.read().unwrap_or_else(PoisonError::into_inner);
    let imported = imported.clone()?;
    question(&*imported)
}
