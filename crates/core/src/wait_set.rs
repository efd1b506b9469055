//! Wait sets: fi_poll(3) "fi_wait_open". Path class: setup and sleeping.
//!
//! The descriptor of a set watches those of its members, so that one sleep waits for all of them.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::os::fd::RawFd;
use std::sync::{Mutex, OnceLock};

use oxifabric_abi::{
    FI_CLASS_WAIT, FI_WAIT_NONE, FI_WAIT_SET, FI_WAIT_UNSPEC, fi_ops, fi_ops_wait, fi_wait_attr,
    fid, fid_wait,
};
use oxifabric_types::Errno;

use crate::absent;
use crate::fabric::Fabric;
use crate::handle::{self, Fid, Object, Ref, Uses, checked, object, publish, status, table};
use crate::lock::lock;
use crate::wait::{Deadline, Doorbell, SLICE};

/// What a wait set asks of a queue or counter.
pub(crate) trait Waitable: Sync {
    /// Returns whether nothing is there and the bell will ring when something is.
    fn is_quiet(&self) -> bool;

    /// Returns its bell.
    fn bell(&self) -> &Doorbell;
}

/// A wait set.
#[repr(C)]
pub(crate) struct WaitSet {
    fid: Fid<fid_wait>,
    uses: Uses,
    _fabric: Ref<Fabric>,
    bell: Doorbell,
    members: Mutex<Vec<Member>>,
}

#[derive(Clone, Copy)]
struct Member(NonNull<dyn Waitable>);

// SAFETY: `Waitable` is `Sync`, and the pointer stands for a shared reference.
unsafe impl Send for Member {}

/// The place of an object in a set; it leaves the set when this is dropped.
pub(crate) struct Attached {
    set: Ref<WaitSet>,
    member: Member,
    fd: RawFd,
}

// SAFETY: the member is only compared, never followed, from here.
unsafe impl Sync for Attached {}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for WaitSet {
    type Handle = fid_wait;
    const CLASS: usize = FI_CLASS_WAIT;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl WaitSet {
    /// Opens a set of a fabric; without attributes, one that only fi_wait sleeps on.
    ///
    /// # Errors
    /// `INVAL`, `MFILE`.
    pub(crate) fn open(
        fabric: &Fabric,
        attr: Option<&fi_wait_attr>,
    ) -> Result<*mut fid_wait, Errno> {
        let (kind, flags) = attr.map_or((FI_WAIT_UNSPEC, 0), |attr| (attr.wait_obj, attr.flags));
        if flags != 0 || matches!(kind, FI_WAIT_NONE | FI_WAIT_SET) {
            return Err(Errno::INVAL);
        }
        let fid = fid_wait {
            fid: handle::new_fid::<Self>(core::ptr::null_mut()),
            ops: table(&OPS),
        };
        Ok(publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            _fabric: Ref::to(fabric),
            bell: Doorbell::open(kind)?,
            members: Mutex::default(),
        }))
    }

    /// Returns the set that the attributes of a queue or counter name, if it is to belong to one.
    ///
    /// # Errors
    /// `INVAL` without a set of ours.
    ///
    /// # Safety
    /// With `FI_WAIT_SET`, `set` is null or an open wait set.
    pub(crate) unsafe fn of<'a>(kind: u32, set: *mut fid_wait) -> Result<Option<&'a Self>, Errno> {
        if kind != FI_WAIT_SET {
            return Ok(None);
        }
        // SAFETY: the caller's contract.
        unsafe { checked::<Self>(set.cast()) }.map(Some)
    }

    /// Makes the bell of a member of `set`, or of an object that is in none.
    ///
    /// # Errors
    /// As [`Doorbell::open`].
    pub(crate) fn member_bell(set: Option<&Self>, kind: u32) -> Result<Doorbell, Errno> {
        let mut bell = Doorbell::open(kind)?;
        if let Some(set) = set {
            bell.share_cond(&set.bell);
        }
        Ok(bell)
    }

    /// Adds a new object to `set`, if it is to belong to one, and stores its place there in `place`.
    ///
    /// # Errors
    /// When its descriptor cannot be watched; the object is closed then.
    ///
    /// # Safety
    /// The handle was just published, and no other thread has it.
    pub(crate) unsafe fn admit<T: Object + Waitable + 'static>(
        set: Option<&Self>,
        handle: *mut T::Handle,
        place: impl FnOnce(&T) -> &OnceLock<Attached>,
    ) -> Result<*mut T::Handle, Errno> {
        if let Some(set) = set {
            // SAFETY: the caller's contract.
            let member: &T = unsafe { object(handle) };
            // SAFETY: the object is boxed, and its place goes with it.
            match unsafe { set.attach(NonNull::from(member)) } {
                Ok(attached) => drop(place(member).set(attached)),
                Err(errno) => {
                    // SAFETY: the caller's contract: nothing else refers to it.
                    let _ = unsafe { handle::close::<T>(handle.cast()) };
                    return Err(errno);
                }
            }
        }
        Ok(handle)
    }

    /// Adds a member.
    ///
    /// # Errors
    /// When its descriptor cannot be watched.
    ///
    /// # Safety
    /// The member stays where it is until the result is dropped.
    unsafe fn attach(&self, member: NonNull<dyn Waitable>) -> Result<Attached, Errno> {
        // SAFETY: the caller's contract.
        let fd = unsafe { member.as_ref() }.bell().fd().ok_or(Errno::INVAL)?;
        self.bell.watch(fd)?;
        let member = Member(member);
        lock(&self.members).push(member);
        Ok(Attached {
            set: Ref::to(self),
            member,
            fd,
        })
    }

    /// Gets all members ready for sleep (fi_trywait(3)); false when one has something.
    pub(crate) fn is_quiet(&self) -> bool {
        let members = lock(&self.members);
        members.iter().all(|member| {
            // SAFETY: members leave before they go (contract of `attach`).
            unsafe { member.0.as_ref() }.is_quiet()
        })
    }

    /// As [`WaitSet::is_quiet`], for a sleep on the application's own.
    ///
    /// # Errors
    /// `INVAL` without something to sleep on.
    pub(crate) fn try_sleep(&self) -> Result<bool, Errno> {
        if self.bell.fd().is_none() {
            return Err(Errno::INVAL);
        }
        Ok(self.is_quiet())
    }

    fn wait(&self, timeout_ms: c_int) -> Result<(), Errno> {
        let deadline = Deadline::after_ms(timeout_ms);
        while self.is_quiet() {
            if deadline.passed() {
                return Err(Errno::TIMEDOUT);
            }
            if !self.bell.sleep(deadline.slice(SLICE)) {
                return Err(Errno::INTR);
            }
        }
        Ok(())
    }
}

impl Attached {
    /// Answers `FI_GETWAIT` and `FI_GETWAITOBJ`: the wait object is that of the set.
    ///
    /// # Safety
    /// As [`Doorbell::control`].
    pub(crate) unsafe fn control(&self, command: c_int, arg: *mut c_void) -> Result<(), Errno> {
        // SAFETY: the caller's contract, passed on.
        unsafe { self.set.bell.control(command, arg) }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.set.bell.unwatch(self.fd);
        let mine = self.member.0.cast::<()>();
        lock(&self.set.members).retain(|member| member.0.cast::<()>() != mine);
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    control: Some(control),
    ..absent::BASE
};

static OPS: fi_ops_wait = fi_ops_wait {
    wait: Some(wait),
    ..fi_ops_wait::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of wait sets, and the application gives this one up.
    status(unsafe { handle::close::<WaitSet>(fid) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the table is only in the handles of wait sets.
    let set: &WaitSet = unsafe { object(fid.cast()) };
    // SAFETY: the application passes what the command takes.
    status(unsafe { set.bell.control(command, arg) })
}

unsafe extern "C" fn wait(set: *mut fid_wait, timeout: c_int) -> c_int {
    // SAFETY: the table is only in the handles of wait sets.
    status(unsafe { object::<WaitSet>(set) }.wait(timeout))
}
