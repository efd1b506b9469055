//! How arguments go down to the provider, and what comes up.

use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use libc::iovec;
use oxifabric_abi::*;

use super::Hooks;
use super::call::Code;
use super::wrapper::{Class, down, up, wrap};

/// An argument of an operation.
pub(super) trait Pass: Copy {
    /// Returns what the provider gets.
    ///
    /// # Safety
    /// It is an argument that the application passed, valid as the operation asks.
    unsafe fn down(self) -> Self {
        self
    }

    /// Puts what the application sees back, or in the place of what the provider stored.
    ///
    /// # Safety
    /// As for [`Pass::down`], after the call.
    unsafe fn up(self, _world: &Arc<Hooks>, _succeeded: bool) {}

    /// Replaces the counter if this is the context of a triggered operation.
    ///
    /// # Safety
    /// It is the last argument of a triggered transfer.
    unsafe fn lower_context(self) {}
}

/// Arguments in which there is no handle.
macro_rules! plain {
    ($($ty:ty),* $(,)?) => { $( impl Pass for $ty {} )* };
}

plain! {
    c_int, u32, u64, usize,
    *const c_void, *mut *mut c_void, *mut c_char, *const c_char, *mut u32, *mut u64, *mut usize,
    *const iovec, *const fi_ioc, *mut fi_ioc,
    *mut fi_tx_attr, *mut fi_rx_attr, *mut fi_av_attr, *mut fi_av_set_attr, *mut fi_wait_attr, *mut fi_poll_attr,
    *mut fi_atomic_attr, *mut fi_collective_attr, *mut fi_xpu_attr, *mut fi_xpu_ctx_attr,
    *mut fid_xpu_ep, *mut fid_xpu_cq, *mut fid_xpu_cntr, *mut fi_cq_err_entry, *mut fi_eq_err_entry,
    *const fi_msg, *const fi_msg_tagged, *const fi_msg_rma, *const fi_msg_atomic, *const fi_msg_collective,
    *const fi_msg_compare,
    // `trywait` looks into it by itself.
    *mut *mut fid,
}

/// Contexts of operations, and whatever else has no type.
impl Pass for *mut c_void {
    unsafe fn lower_context(self) {
        // SAFETY: the caller's contract.
        unsafe { lower(self.cast()) }
    }
}

impl Pass for *mut fid {
    unsafe fn down(self) -> Self {
        down(self)
    }
}

impl Pass for *mut fid_xpu_ctx {
    unsafe fn down(self) -> Self {
        down(self)
    }
}

impl Pass for *const fid_av_set {
    unsafe fn down(self) -> Self {
        down(self.cast_mut())
    }
}

/// Objects that an operation opens.
macro_rules! opened {
    ($($class:ident),*) => { $(
        impl Pass for *mut *mut $class {
            unsafe fn up(self, hooks: &Arc<Hooks>, succeeded: bool) {
                // SAFETY: the provider stored a new handle where the application said.
                unsafe { opened(self, hooks, succeeded) }
            }
        }
    )* };
}

opened!(
    fid_domain,
    fid_pep,
    fid_eq,
    fid_wait,
    fid_av,
    fid_av_set,
    fid_cq,
    fid_cntr,
    fid_ep,
    fid_stx,
    fid_poll,
    fid_mr,
    fid_mc,
    fid_xpu_ctx
);

/// Puts a wrapper in the place of a handle that the provider has opened.
///
/// # Safety
/// If the call succeeded, the provider stored a new handle in `place`.
unsafe fn opened<T: Class>(place: *mut *mut T, hooks: &Arc<Hooks>, succeeded: bool) {
    if succeeded && !place.is_null() {
        // SAFETY: the caller's contract.
        unsafe { *place = wrap(*place, hooks) };
    }
}

/// Structures with a handle in one field, or in another under a flag of theirs, which is replaced for the call.
macro_rules! holding {
    ($($ty:ty => $field:ident $(, $other:ident under $flag:ident)?;)*) => { $(
        impl Pass for $ty {
            unsafe fn down(self) -> Self {
                // SAFETY: the application passes null or a valid structure, whose flags say which fields it has.
                unsafe {
                    replace(self.is_null(), || &raw mut (*self.cast_mut()).$field, |handle| down(handle));
                    $( replace(
                        self.is_null() || (*self).flags & $flag == 0,
                        || &raw mut (*self.cast_mut()).$other,
                        |handle| down(handle),
                    ); )?
                }
                self
            }

            unsafe fn up(self, _world: &Arc<Hooks>, _succeeded: bool) {
                // SAFETY: as above.
                unsafe {
                    replace(self.is_null(), || &raw mut (*self.cast_mut()).$field, |handle| up(handle));
                    $( replace(
                        self.is_null() || (*self).flags & $flag == 0,
                        || &raw mut (*self.cast_mut()).$other,
                        |handle| up(handle),
                    ); )?
                }
            }
        }
    )* };
}

/// Replaces a handle if it is another then: the structure may be constant.
///
/// # Safety
/// The place may be read, and written if the handle is one of a wrapper.
unsafe fn replace<T>(absent: bool, place: impl FnOnce() -> *mut T, by: impl FnOnce(T) -> T)
where
    T: Copy + PartialEq,
{
    if absent {
        return;
    }
    let place = place();
    // SAFETY: the caller's contract.
    unsafe {
        let now = by(*place);
        if now != *place {
            *place = now;
        }
    }
}

/// Makes pointers of both kinds alike for `holding`.
trait CastMut<T> {
    fn cast_mut(self) -> *mut T;
}

impl<T> CastMut<T> for *mut T {
    fn cast_mut(self) -> *mut T {
        self
    }
}

holding! {
    *mut fi_info => handle;
    *mut fi_eq_attr => wait_set;
    *mut fi_cq_attr => wait_set, xpu_ctx under FI_XPU;
    *mut fi_cntr_attr => wait_set, xpu_ctx under FI_XPU;
}

impl Pass for *const fi_mr_attr {
    unsafe fn down(self) -> Self {
        // SAFETY: the application passes a valid structure.
        unsafe {
            replace(
                self.is_null(),
                || &raw mut (*self.cast_mut()).base_mr,
                |mr| down(mr.cast_mut()).cast_const(),
            )
        };
        self
    }

    unsafe fn up(self, _world: &Arc<Hooks>, _succeeded: bool) {
        // SAFETY: as above.
        unsafe {
            replace(
                self.is_null(),
                || &raw mut (*self.cast_mut()).base_mr,
                |mr| up(mr.cast_mut()).cast_const(),
            )
        };
    }
}

/// Returns whether a call that opens something did.
pub(super) fn succeeded(result: impl Code) -> bool {
    result.code() == 0
}

/// A piece of a buffer.
pub(super) trait Piece {
    /// Returns its length in bytes; elements whose size another argument tells count nothing.
    fn length(&self) -> usize;
}

impl Piece for iovec {
    fn length(&self) -> usize {
        self.iov_len
    }
}

impl Piece for fi_ioc {
    fn length(&self) -> usize {
        0
    }
}

/// Adds up the lengths of the pieces of a buffer.
///
/// # Safety
/// `pieces` has `count` entries.
pub(super) unsafe fn length<T: Piece>(pieces: *const T, count: usize) -> usize {
    if pieces.is_null() {
        return 0;
    }
    // SAFETY: the caller's contract.
    let pieces = unsafe { core::slice::from_raw_parts(pieces, count) };
    pieces
        .iter()
        .fold(0, |sum, piece| sum.wrapping_add(piece.length()))
}

/// A structure that describes an operation.
pub(super) trait Described {
    /// Returns how many bytes the operation moves.
    ///
    /// # Safety
    /// The structure is valid.
    unsafe fn length(self) -> usize;

    /// Returns the context of the operation.
    ///
    /// # Safety
    /// The structure is valid.
    unsafe fn context(self) -> *mut c_void;
}

macro_rules! described {
    ($($ty:ty: |$this:ident| $length:expr;)*) => { $(
        impl Described for *const $ty {
            unsafe fn length(self) -> usize {
                // SAFETY: the caller's contract.
                unsafe { self.as_ref().map_or(0, |$this| $length) }
            }

            unsafe fn context(self) -> *mut c_void {
                // SAFETY: the caller's contract.
                unsafe { self.as_ref().map_or(core::ptr::null_mut(), |this| this.context) }
            }
        }
    )* };
}

described! {
    fi_msg: |msg| length(msg.msg_iov, msg.iov_count);
    fi_msg_tagged: |msg| length(msg.msg_iov, msg.iov_count);
    fi_msg_rma: |msg| length(msg.msg_iov, msg.iov_count);
    fi_msg_atomic: |msg| length(msg.msg_iov, msg.iov_count);
    fi_mr_attr: |attr| length(attr.mr_iov, attr.iov_count);
}

/// Replaces the counter in the context of a triggered operation. Source: fi_trigger(3).
///
/// The context belongs to the provider until the operation is complete, so the counter is not put back.
///
/// # Safety
/// With FI_TRIGGER in `flags` the context is a `fi_triggered_context`.
pub(super) unsafe fn trigger(msg: impl Described, flags: u64) {
    if flags & FI_TRIGGER == 0 {
        return;
    }
    // SAFETY: the caller's contract.
    unsafe { lower(msg.context().cast()) }
}

/// Returns whether an operation without flags of its own is triggered, given the flags of its endpoint by direction.
pub(super) fn is_triggered(table: &str, op: &str, default_flags: u64) -> bool {
    const TRANSFERS: [&str; 4] = ["fi_ops_msg", "fi_ops_tagged", "fi_ops_rma", "fi_ops_atomic"];
    let direction = if op.starts_with("recv") {
        FI_RECV
    } else {
        FI_TRANSMIT
    };
    default_flags & direction != 0 && TRANSFERS.contains(&table)
}

/// Replaces the counter in a context.
///
/// # Safety
/// The context is null or that of a triggered operation.
unsafe fn lower(context: *mut fi_triggered_context) {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(context) = context.as_mut()
            && context.event_type == FI_TRIGGER_THRESHOLD
        {
            context.trigger.threshold.cntr = down(context.trigger.threshold.cntr);
        }
    }
}

/// As [`trigger`], with the flags behind other arguments.
macro_rules! trigger_last {
    ($msg:ident, $a:ident, $b:ident, $c:ident, $flags:ident) => {
        pass::trigger($msg, $flags)
    };
    ($msg:ident, $a:ident, $b:ident, $c:ident, $d:ident, $e:ident, $f:ident, $flags:ident) => {
        pass::trigger($msg, $flags)
    };
}
pub(super) use trigger_last;
