//! The kernel's side: functions of `krt_shim.h`.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::time::Duration;

use crate::signal::{Ended, Timeout};
use crate::work::Job;

unsafe extern "C" {
    fn krt_mutex_new(level: u32) -> *mut c_void;
    fn krt_mutex_free(mutex: *mut c_void);
    fn krt_mutex_lock(mutex: *mut c_void);
    fn krt_mutex_unlock(mutex: *mut c_void);
    fn krt_signal_new() -> *mut c_void;
    fn krt_signal_free(signal: *mut c_void);
    fn krt_signal_number(signal: *mut c_void) -> u64;
    fn krt_signal_raise(signal: *mut c_void);
    fn krt_signal_wait(signal: *mut c_void, number: u64, ms: i64) -> i64;
    fn krt_clock_ns() -> u64;
    fn krt_pause();
    fn krt_work_new(run: unsafe extern "C" fn(*mut c_void), of: *mut c_void) -> *mut c_void;
    fn krt_work_free(work: *mut c_void);
    fn krt_work_queue(work: *mut c_void);
    fn krt_work_queue_later(work: *mut c_void);
    fn krt_work_hold(work: *mut c_void);
    fn krt_work_release(work: *mut c_void) -> bool;
    fn krt_work_is_current(work: *mut c_void) -> bool;
    fn krt_work_cancel(work: *mut c_void);
    fn krt_work_attend(work: *mut c_void, signal: *mut c_void) -> bool;
    fn krt_work_asked(work: *mut c_void) -> bool;
    fn krt_work_leave(work: *mut c_void);
    fn krt_work_pass(work: *mut c_void, to: *mut c_void);
    fn krt_work_set_busy(work: *mut c_void, is_busy: bool);
}

/// An object of the kernel, which has locks of its own.
#[derive(Debug)]
struct Handle(NonNull<c_void>);

// SAFETY: the kernel's functions take it from any thread.
unsafe impl Send for Handle {}
// SAFETY: as for `Send`.
unsafe impl Sync for Handle {}

impl Handle {
    fn get(&self) -> *mut c_void {
        self.0.as_ptr()
    }
}

pub(crate) struct RawMutex(Handle);

impl RawMutex {
    pub(crate) fn new(level: u32) -> Option<Self> {
        // SAFETY: it only makes one, or returns null.
        NonNull::new(unsafe { krt_mutex_new(level) }).map(|mutex| Self(Handle(mutex)))
    }

    pub(crate) fn lock(&self) {
        // SAFETY: it is a mutex that was not freed.
        unsafe { krt_mutex_lock(self.0.get()) }
    }

    pub(crate) fn unlock(&self) {
        // SAFETY: as above, and this thread holds it.
        unsafe { krt_mutex_unlock(self.0.get()) }
    }
}

impl Drop for RawMutex {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        unsafe { krt_mutex_free(self.0.get()) }
    }
}

#[derive(Debug)]
pub(crate) struct RawSignal(Handle);

/// What the shim returns when a signal of the process interrupted the sleep.
const INTERRUPTED: i64 = -1;

impl RawSignal {
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: it only makes one, or returns null.
        NonNull::new(unsafe { krt_signal_new() }).map(|signal| Self(Handle(signal)))
    }

    pub(crate) fn number(&self) -> u64 {
        // SAFETY: it is a signal that was not freed.
        unsafe { krt_signal_number(self.0.get()) }
    }

    pub(crate) fn raise(&self) {
        // SAFETY: as above.
        unsafe { krt_signal_raise(self.0.get()) }
    }

    pub(crate) fn wait(&self, number: u64, timeout: Timeout) -> (Ended, Timeout) {
        let ms = match timeout {
            Timeout::Never => -1,
            Timeout::After(time) => i64::try_from(time.as_millis()).unwrap_or(i64::MAX),
        };
        // SAFETY: as above.
        let left = unsafe { krt_signal_wait(self.0.get(), number, ms) };
        let rest = match timeout {
            Timeout::Never => Timeout::Never,
            Timeout::After(_) => Timeout::After(Duration::from_millis(left.max(0) as u64)),
        };
        match left {
            INTERRUPTED => (Ended::Interrupted, rest),
            0 if timeout != Timeout::Never => (Ended::TimedOut, rest),
            _ => (Ended::Raised, rest),
        }
    }
}

impl Drop for RawSignal {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        unsafe { krt_signal_free(self.0.get()) }
    }
}

pub(crate) struct RawWork(Handle);

impl RawWork {
    /// Makes the work that runs a job.
    ///
    /// # Safety
    /// The job stays where it is until this is dropped.
    pub(crate) unsafe fn new(job: *const Job) -> Option<Self> {
        // SAFETY: it only makes one, or returns null.
        let work = unsafe { krt_work_new(run, job.cast_mut().cast()) };
        NonNull::new(work).map(|work| Self(Handle(work)))
    }

    pub(crate) fn queue(&self) {
        // SAFETY: it is a work that was not freed.
        unsafe { krt_work_queue(self.0.get()) }
    }

    pub(crate) fn queue_later(&self) {
        // SAFETY: as above.
        unsafe { krt_work_queue_later(self.0.get()) }
    }

    pub(crate) fn hold(&self) {
        // SAFETY: as above.
        unsafe { krt_work_hold(self.0.get()) }
    }

    pub(crate) fn release(&self) -> bool {
        // SAFETY: as above.
        unsafe { krt_work_release(self.0.get()) }
    }

    pub(crate) fn is_current(&self) -> bool {
        // SAFETY: as above.
        unsafe { krt_work_is_current(self.0.get()) }
    }

    pub(crate) fn cancel(&self) {
        // SAFETY: as above.
        unsafe { krt_work_cancel(self.0.get()) }
    }

    /// Has the calling thread attend the work; returns whether it has no other attendant.
    ///
    /// # Safety
    /// The signal lives until [`RawWork::leave`].
    pub(crate) unsafe fn attend(&self, signal: &RawSignal) -> bool {
        // SAFETY: as above; the rest is the caller's contract.
        unsafe { krt_work_attend(self.0.get(), signal.0.get()) }
    }

    pub(crate) fn asked(&self) -> bool {
        // SAFETY: as above.
        unsafe { krt_work_asked(self.0.get()) }
    }

    pub(crate) fn leave(&self) {
        // SAFETY: as above.
        unsafe { krt_work_leave(self.0.get()) }
    }

    /// Passes the work through another one, or through none.
    ///
    /// # Safety
    /// The other one lives until it passes to none, or is dropped.
    pub(crate) unsafe fn pass(&self, to: Option<&Self>) {
        let to = to.map_or(core::ptr::null_mut(), |to| to.0.get());
        // SAFETY: as above; the rest is the caller's contract.
        unsafe { krt_work_pass(self.0.get(), to) }
    }

    pub(crate) fn set_busy(&self, is_busy: bool) {
        // SAFETY: as above.
        unsafe { krt_work_set_busy(self.0.get(), is_busy) }
    }
}

impl Drop for RawWork {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more; the shim waits until it does not run.
        unsafe { krt_work_free(self.0.get()) }
    }
}

/// Runs the job of a work, as the kernel calls it.
///
/// # Safety
/// `job` is what the work was made with.
unsafe extern "C" fn run(job: *mut c_void) {
    // SAFETY: the caller's contract; the job lives longer than the work.
    unsafe { (*job.cast::<Job>()).run() }
}

/// Returns the nanoseconds of the monotonic clock.
pub(crate) fn clock_ns() -> u64 {
    // SAFETY: it only reads a clock.
    unsafe { krt_clock_ns() }
}

/// Sleeps for a millisecond or two.
pub(crate) fn pause() {
    // SAFETY: it only sleeps, and is called in process context.
    unsafe { krt_pause() }
}
