//! Handles that applications hold in place of others.

use core::mem::offset_of;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxifabric_abi::*;

use super::Hooks;

/// A handle of ours before the handle of a provider. The application sees the first field only.
#[repr(C)]
pub(super) struct Wrapper<T> {
    handle: T,
    inner: *mut T,
    hooks: Arc<Hooks>,
    /// FI_CQ_FORMAT_* of a completion queue.
    format: u32,
    /// FI_TRANSMIT and FI_RECV, if an endpoint's operations of that direction are triggered unless they have own flags.
    triggered: AtomicU64,
}

/// A structure of the C headers that applications hold a pointer to.
///
/// # Safety
/// It is `repr(C)` and begins with a `fid`.
pub(super) unsafe trait Class: Copy {
    /// Puts our tables in the place of the provider's; one that is missing stays so.
    fn dress(&mut self);

    /// Copies what the provider writes into its handle after it was opened.
    ///
    /// # Safety
    /// Both are open.
    unsafe fn refresh(_handle: *mut Self, _inner: *const Self) {}
}

/// A class with a table of this type.
///
/// # Safety
/// The offset is that of a pointer to the table.
pub(super) unsafe trait Has<O>: Class {
    /// Where the pointer to the table is.
    const AT: usize;
}

// SAFETY: every class begins with a `fid`.
unsafe impl<T: Class> Has<fi_ops> for T {
    const AT: usize = offset_of!(fid, ops);
}

/// Returns the table of a handle, or null.
///
/// # Safety
/// The handle is open.
pub(super) unsafe fn table<O, T: Has<O>>(handle: *mut T) -> *mut O {
    // SAFETY: the contract of `Has`.
    unsafe { handle.byte_add(T::AT).cast::<*mut O>().read() }
}

/// Wrappers by the provider's handles, and the other way round. Used on set-up paths only.
#[derive(Default)]
struct Map {
    ups: HashMap<usize, usize>,
    downs: HashMap<usize, usize>,
}

static MAP: Mutex<Option<Map>> = Mutex::new(None);

fn map() -> MutexGuard<'static, Option<Map>> {
    MAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the provider's handle of a wrapper, or the handle itself if it is none.
pub(super) fn down<T>(handle: *mut T) -> *mut T {
    let known = map()
        .as_ref()
        .and_then(|map| map.downs.get(&handle.addr()).copied());
    known.map_or(handle, core::ptr::with_exposed_provenance_mut)
}

/// Returns the wrapper of a provider's handle, or the handle itself if it has none.
pub(super) fn up<T>(handle: *mut T) -> *mut T {
    let known = map()
        .as_ref()
        .and_then(|map| map.ups.get(&handle.addr()).copied());
    known.map_or(handle, core::ptr::with_exposed_provenance_mut)
}

/// Wraps a handle and returns the wrapper's.
///
/// # Safety
/// The handle was just opened, and only the wrapper uses it from here on.
pub(super) unsafe fn wrap<T: Class>(inner: *mut T, hooks: &Arc<Hooks>) -> *mut T {
    if inner.is_null() {
        return inner;
    }
    // SAFETY: the caller vouches for the handle.
    let mut handle = unsafe { *inner };
    handle.dress();
    let wrapper = Box::into_raw(Box::new(Wrapper {
        handle,
        inner,
        hooks: Arc::clone(hooks),
        format: FI_CQ_FORMAT_UNSPEC,
        triggered: AtomicU64::new(0),
    }));
    let (above, below) = (wrapper.expose_provenance(), inner.expose_provenance());
    let mut map = map();
    let map = map.get_or_insert_default();
    map.ups.insert(below, above);
    map.downs.insert(above, below);
    wrapper.cast()
}

/// Forgets a wrapper whose object was closed, and returns what it belonged to and how many wrappers are left.
///
/// # Safety
/// No thread uses it from here on.
pub(super) unsafe fn unwrap<T>(handle: *mut T) -> (Arc<Hooks>, usize) {
    // SAFETY: `wrap` boxed it.
    let wrapper = unsafe { Box::from_raw(handle.cast::<Wrapper<T>>()) };
    let mut map = map();
    let map = map.get_or_insert_default();
    map.downs.remove(&handle.addr());
    map.ups.remove(&wrapper.inner.addr());
    let open = Arc::strong_count(&wrapper.hooks) - 1;
    (wrapper.hooks, open)
}

impl<T: Class> Wrapper<T> {
    /// Returns the wrapper of a handle in whose tables our functions are.
    ///
    /// # Safety
    /// It is open, and of this class.
    pub(super) unsafe fn of<'a>(handle: *mut T) -> &'a Self {
        // SAFETY: only `wrap` puts our functions into tables.
        unsafe { &*handle.cast::<Self>() }
    }

    pub(super) fn inner(&self) -> *mut T {
        self.inner
    }

    pub(super) fn hooks(&self) -> &Arc<Hooks> {
        &self.hooks
    }

    pub(super) fn format(&self) -> u32 {
        self.format
    }

    pub(super) fn triggered(&self) -> u64 {
        self.triggered.load(Ordering::Relaxed)
    }

    /// Notes the default flags of one direction, or of both, which is named among them.
    pub(super) fn set_default_flags(&self, flags: u64) {
        let ways = flags & (FI_TRANSMIT | FI_RECV);
        if flags & FI_TRIGGER != 0 {
            self.triggered.fetch_or(ways, Ordering::Relaxed);
        } else {
            self.triggered.fetch_and(!ways, Ordering::Relaxed);
        }
    }
}

/// Remembers the format of a completion queue that was just opened.
///
/// # Safety
/// The handle is one of [`wrap`] that is not in use yet.
pub(super) unsafe fn set_format(cq: *mut fid_cq, format: u32) {
    // SAFETY: the caller's contract.
    unsafe { (*cq.cast::<Wrapper<fid_cq>>()).format = format };
}

/// Copies what the provider writes into its handle later, such as the key of a memory region.
///
/// # Safety
/// The handle is open, and one of [`wrap`].
pub(super) unsafe fn refresh<T: Class>(handle: *mut T) {
    // SAFETY: the caller's contract; both are open.
    unsafe { T::refresh(handle, Wrapper::of(handle).inner) };
}
