//! What a thread sleeps on while a queue or counter is empty: fi_eq(3) and fi_cq(3) "wait_obj".
//!
//! A [`Doorbell`] is an epoll file descriptor that watches an eventfd, written when something is queued, and the file
//! descriptors of the devices underneath. It is armed only while a thread may sleep, so that queueing costs one branch
//! otherwise.

mod cond;
mod deadline;

use core::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxifabric_abi::{
    FI_GETWAIT, FI_GETWAITOBJ, FI_WAIT_FD, FI_WAIT_MUTEX_COND, FI_WAIT_NONE, FI_WAIT_POLLFD,
    FI_WAIT_SET, FI_WAIT_UNSPEC, FI_WAIT_YIELD, fi_mutex_cond, fi_wait_obj, fi_wait_pollfd,
};
use oxifabric_types::Errno;

pub(crate) use cond::Cond;
pub(crate) use deadline::Deadline;

/// How long a thread sleeps at a time: timeouts of connecting and other deadlines of devices need progress now and then.
pub(crate) const SLICE: Duration = Duration::from_millis(100);

/// The wait object of a queue or counter, by which it wakes the threads that sleep on it.
#[derive(Debug)]
pub(crate) struct Doorbell {
    kind: fi_wait_obj,
    fds: Option<Fds>,
    /// What the application waits on instead of a descriptor (`FI_WAIT_MUTEX_COND`).
    cond: Option<Arc<Cond>>,
    /// A thread sleeps, or is about to.
    armed: AtomicBool,
    /// The application asked sleepers to return (fi_cq_signal).
    signaled: AtomicBool,
}

#[derive(Debug)]
struct Fds {
    epoll: OwnedFd,
    event: OwnedFd,
}

impl Doorbell {
    /// Makes the wait object that was asked for. `FI_WAIT_UNSPEC` gives a file descriptor, as in the C library; a member of
    /// a wait set (`FI_WAIT_SET`) has one that the set watches.
    ///
    /// # Errors
    /// `INVAL` for values that do not exist, `MFILE`.
    pub(crate) fn open(kind: fi_wait_obj) -> Result<Self, Errno> {
        let (kind, fds) = match kind {
            FI_WAIT_NONE | FI_WAIT_YIELD => (kind, None),
            FI_WAIT_UNSPEC => (FI_WAIT_FD, Some(Fds::open()?)),
            FI_WAIT_FD | FI_WAIT_POLLFD | FI_WAIT_SET | FI_WAIT_MUTEX_COND => {
                (kind, Some(Fds::open()?))
            }
            _ => return Err(Errno::INVAL),
        };
        let cond = (kind == FI_WAIT_MUTEX_COND).then(|| Arc::new(Cond::new()));
        Ok(Self {
            kind,
            fds,
            cond,
            armed: AtomicBool::new(false),
            signaled: AtomicBool::new(false),
        })
    }

    /// Shares the condition variable of a wait set, if it has one.
    pub(crate) fn share_cond(&mut self, set: &Self) {
        self.cond = set.cond.clone();
    }

    /// Returns the condition variable that is signalled, too.
    pub(crate) const fn cond(&self) -> Option<&Arc<Cond>> {
        self.cond.as_ref()
    }

    /// Returns whether threads may block here: members of a wait set are waited for by the set (fi_cq(3), fi_cntr(3)).
    pub(crate) const fn blocks(&self) -> bool {
        !matches!(self.kind, FI_WAIT_NONE | FI_WAIT_SET)
    }

    /// Returns whether there is a file descriptor to sleep on.
    pub(crate) const fn has_fd(&self) -> bool {
        self.fds.is_some()
    }

    /// Wakes sleepers because something was queued. Call it after queueing; sleepers look at the queue after
    /// [`Doorbell::arm`]. The queue is behind a lock, or its
    /// atomics are sequentially consistent, so that the thread that queues sees `armed`, or the one that arms sees the entry.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.armed.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Makes the file descriptor readable.
    #[cold]
    pub(crate) fn wake(&self) {
        self.armed.store(false, Ordering::Relaxed);
        if let Some(fds) = &self.fds {
            fds.set();
        }
        if let Some(cond) = &self.cond {
            cond.signal();
        }
    }

    /// Makes the file descriptor unreadable until the next ring. Look at the queue again before sleeping.
    pub(crate) fn arm(&self) {
        if let Some(fds) = &self.fds {
            fds.clear();
        }
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Makes one blocking call return without anything read (fi_cq_signal).
    ///
    /// # Errors
    /// `NOSYS` when no thread can block.
    pub(crate) fn signal(&self) -> Result<(), Errno> {
        if !self.blocks() {
            return Err(Errno::NOSYS);
        }
        self.signaled.store(true, Ordering::Release);
        self.wake();
        Ok(())
    }

    /// Returns whether [`Doorbell::signal`] was called since the last call of this.
    pub(crate) fn take_signal(&self) -> bool {
        self.signaled.load(Ordering::Relaxed) && self.signaled.swap(false, Ordering::Acquire)
    }

    /// Sleeps until the doorbell rings, a device has events, or the time is over; without a file descriptor, lets
    /// another thread run (`FI_WAIT_YIELD`). Returns false when a signal of the operating system interrupted.
    pub(crate) fn sleep(&self, at_most: Duration) -> bool {
        match &self.fds {
            Some(fds) => fds.wait(at_most),
            None => {
                std::thread::yield_now();
                true
            }
        }
    }

    /// Watches the file descriptor of a device.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn watch(&self, fd: RawFd) -> Result<(), Errno> {
        match &self.fds {
            Some(fds) => fds.watch(fd),
            None => Ok(()),
        }
    }

    /// Returns the file descriptor that is readable when the doorbell has rung or a device has events, if there is one.
    pub(crate) fn fd(&self) -> Option<RawFd> {
        self.fds.as_ref().map(|fds| fds.epoll.as_raw_fd())
    }

    /// Stops watching the file descriptor of a device.
    pub(crate) fn unwatch(&self, fd: RawFd) {
        if let Some(fds) = &self.fds {
            fds.unwatch(fd);
        }
    }

    /// Answers `FI_GETWAIT` and `FI_GETWAITOBJ` of fi_control(3).
    ///
    /// # Errors
    /// `NODATA` without a wait object, `NOSYS` for other commands, `INVAL`, `TOOSMALL`.
    ///
    /// # Safety
    /// `arg` is null or points to what the command takes.
    pub(crate) unsafe fn control(&self, command: c_int, arg: *mut c_void) -> Result<(), Errno> {
        if arg.is_null() {
            return Err(Errno::INVAL);
        }
        match command {
            FI_GETWAITOBJ => {
                // SAFETY: the caller's contract: the argument is an `enum fi_wait_obj`.
                unsafe { *arg.cast::<fi_wait_obj>() = self.kind };
                Ok(())
            }
            FI_GETWAIT => {
                let fd = self.fds.as_ref().ok_or(Errno::NODATA)?.epoll.as_raw_fd();
                // SAFETY: the caller's contract, passed on.
                unsafe { self.hand_out(fd, arg) }
            }
            _ => Err(Errno::NOSYS),
        }
    }

    /// Writes the wait object in the form of its kind.
    ///
    /// # Safety
    /// `arg` points to what `FI_GETWAIT` takes for this kind.
    unsafe fn hand_out(&self, fd: RawFd, arg: *mut c_void) -> Result<(), Errno> {
        if let Some(cond) = &self.cond {
            // SAFETY: the caller's contract: the argument is a `struct fi_mutex_cond`.
            unsafe { *arg.cast::<fi_mutex_cond>() = cond.handles() };
            return Ok(());
        }
        if self.kind != FI_WAIT_POLLFD {
            // SAFETY: the caller's contract: the argument is an `int`.
            unsafe { *arg.cast::<c_int>() = fd };
            return Ok(());
        }
        // SAFETY: the caller's contract: the argument is a `struct fi_wait_pollfd`.
        let list = unsafe { &mut *arg.cast::<fi_wait_pollfd>() };
        let room = list.nfds;
        list.nfds = 1;
        list.change_index = 1;
        if room < 1 || list.fd.is_null() {
            return Err(Errno::TOOSMALL);
        }
        // SAFETY: the caller's contract: the list has room for `nfds` entries, one at least.
        unsafe {
            *list.fd = libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
        }
        Ok(())
    }
}

impl Fds {
    fn open() -> Result<Self, Errno> {
        // SAFETY: both calls only make a file descriptor.
        let (epoll, event) = unsafe {
            (
                owned(libc::epoll_create1(libc::EPOLL_CLOEXEC))?,
                owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?,
            )
        };
        let fds = Self { epoll, event };
        fds.watch(fds.event.as_raw_fd())?;
        Ok(fds)
    }

    fn set(&self) {
        let one = 1u64;
        // SAFETY: writes eight bytes. It fails only when the counter is full, and then it is readable already.
        unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: reads eight bytes. It fails when the counter is zero, which is what is wanted.
        unsafe { libc::read(self.event.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    fn wait(&self, at_most: Duration) -> bool {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let timeout_ms = at_most.as_micros().div_ceil(1000).min(i32::MAX as u128) as c_int;
        // SAFETY: there is room for one event.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), &mut event, 1, timeout_ms) };
        count >= 0
    }

    fn watch(&self, fd: RawFd) -> Result<(), Errno> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: fd as u64,
        };
        // SAFETY: the event is read during the call.
        let failed =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if failed == 0 { Ok(()) } else { Err(os_error()) }
    }

    fn unwatch(&self, fd: RawFd) {
        // SAFETY: deleting takes no event. A descriptor that is not watched is left alone.
        unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                fd,
                core::ptr::null_mut(),
            )
        };
    }
}

/// Owns a file descriptor that a call has just made.
///
/// # Safety
/// `fd` is negative or a new file descriptor.
unsafe fn owned(fd: RawFd) -> Result<OwnedFd, Errno> {
    if fd < 0 {
        return Err(os_error());
    }
    // SAFETY: the caller's contract: it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn os_error() -> Errno {
    Errno::from_raw(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Duration = Duration::ZERO;

    fn readable(bell: &Doorbell) -> bool {
        let mut fd: c_int = -1;
        // SAFETY: the bell hands out an `int`.
        unsafe { bell.control(FI_GETWAIT, (&raw mut fd).cast()) }.expect("it has a descriptor");
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    #[test]
    fn rings_are_seen_when_armed_and_free_otherwise() {
        let bell = Doorbell::open(FI_WAIT_UNSPEC).expect("descriptors are available");
        bell.ring();
        assert!(!readable(&bell), "no thread sleeps");
        bell.arm();
        bell.ring();
        assert!(readable(&bell));
        bell.arm();
        assert!(!readable(&bell));
    }

    #[test]
    fn a_signal_is_taken_once() {
        let bell = Doorbell::open(FI_WAIT_FD).expect("descriptors are available");
        assert_eq!(bell.signal(), Ok(()));
        assert!(bell.take_signal() && !bell.take_signal());
        let none = Doorbell::open(FI_WAIT_NONE).expect("nothing to open");
        assert_eq!(none.signal(), Err(Errno::NOSYS));
    }

    #[test]
    fn kinds_that_do_not_exist_are_refused() {
        assert_eq!(Doorbell::open(99).err(), Some(Errno::INVAL));
    }

    #[test]
    fn pollfd_says_how_much_room_it_needs() {
        let bell = Doorbell::open(FI_WAIT_POLLFD).expect("descriptors are available");
        let mut list = fi_wait_pollfd::ZERO;
        // SAFETY: the argument is a `fi_wait_pollfd`.
        let short = unsafe { bell.control(FI_GETWAIT, (&raw mut list).cast()) };
        assert_eq!((short, list.nfds), (Err(Errno::TOOSMALL), 1));
        let mut fds = [libc::pollfd {
            fd: -1,
            events: 0,
            revents: 0,
        }];
        list.fd = fds.as_mut_ptr();
        // SAFETY: as before, with room for one entry.
        let whole = unsafe { bell.control(FI_GETWAIT, (&raw mut list).cast()) };
        assert_eq!(whole, Ok(()));
        assert!(fds[0].fd >= 0);
        assert!(bell.sleep(NO_TIME));
    }
}
