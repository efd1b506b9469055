//! Threads of the library's own, which never run a signal handler of the application. Set-up path.

use std::thread::{Builder, JoinHandle};
use std::{io, mem, process, thread};

/// Starts a thread that has all signals blocked.
///
/// A panic on it ends the process, as in a call of the C interface (docs/adr/0036), also where the library is a part of a
/// Rust program whose panics unwind: operations that nothing carries out any more would never complete.
///
/// # Errors
/// When the system has no room for a thread.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let guarded = || {
        let _guard = Guard;
        run();
    };
    without_signals(|| Builder::new().name(name.into()).spawn(guarded))
}

/// Ends the process if its thread panics.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}

/// Calls `start` with all signals blocked: a thread inherits that.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialised before they are read, and the old one is put back.
    unsafe {
        let mut all = mem::MaybeUninit::uninit();
        let mut old = mem::MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
        let result = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, old.as_ptr(), std::ptr::null_mut());
        result
    }
}
