//! Event queues: fi_eq(3). Path class: setup; nothing here is on the way of data.

mod queue;

use core::ffi::{c_char, c_int, c_void};
use core::ptr::NonNull;
use core::slice;
use std::sync::{Mutex, OnceLock};

use oxifabric_abi::{
    FI_AFFINITY, FI_CLASS_EQ, FI_PEEK, FI_VERSION, FI_WAIT_NONE, FI_WRITE, fi_eq_attr, fi_eq_entry,
    fi_eq_err_entry, fi_ops, fi_ops_eq, fid, fid_eq,
};
use oxifabric_provider::clock;
use oxifabric_types::{Errno, Instant, strerror_c};

use crate::absent;
use crate::drive::Drive;
use crate::fabric::Fabric;
use crate::handle::{self, Fid, Object, Ref, Uses, count, failed, object, publish, status, table};
use crate::lock::lock;
use crate::queue_endpoints::QueueEndpoints;
use crate::wait::{Deadline, Doorbell, SLICE};
use crate::wait_set::{Attached, WaitSet, Waitable};
use queue::Events;

/// An event queue.
#[repr(C)]
pub(crate) struct Eq {
    fid: Fid<fid_eq>,
    /// The place in a wait set. Before the rest, so that the object leaves the set before it is taken apart.
    set: OnceLock<Attached>,
    uses: Uses,
    fabric: Ref<Fabric>,
    events: Mutex<Events>,
    /// The application may write events of its own.
    writable: bool,
    endpoints: QueueEndpoints,
    bell: Doorbell,
    /// What the error read last points to.
    last_detail: Mutex<Box<[u8]>>,
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Eq {
    type Handle = fid_eq;
    const CLASS: usize = FI_CLASS_EQ;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Eq {
    /// Opens a queue of a fabric; without attributes, one that cannot be waited for.
    ///
    /// # Errors
    /// `INVAL`, `MFILE`.
    ///
    /// # Safety
    /// The attributes of `FI_WAIT_SET` name an open wait set.
    pub(crate) unsafe fn open(
        fabric: &Fabric,
        attr: Option<&fi_eq_attr>,
        context: *mut c_void,
    ) -> Result<*mut fid_eq, Errno> {
        let (size, flags, wait_obj, set) = match attr {
            Some(attr) => (attr.size, attr.flags, attr.wait_obj, attr.wait_set),
            None => (0, 0, FI_WAIT_NONE, core::ptr::null_mut()),
        };
        if flags & !(FI_WRITE | FI_AFFINITY) != 0 {
            return Err(Errno::INVAL);
        }
        let fid = fid_eq {
            fid: handle::new_fid::<Self>(context),
            ops: table(&OPS),
        };
        // SAFETY: the caller's contract.
        let set = unsafe { WaitSet::of(wait_obj, set) }?;
        let bell = WaitSet::member_bell(set, wait_obj)?;
        bell.arm();
        let eq = publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            fabric: Ref::to(fabric),
            events: Mutex::new(Events::new(size)),
            writable: flags & FI_WRITE != 0,
            // Not part of any domain: threads that a domain keeps apart may meet here.
            endpoints: QueueEndpoints::none(true, None),
            bell,
            last_detail: Mutex::default(),
            set: OnceLock::new(),
        });
        // SAFETY: the queue was just published and no other thread has it; it leaves the set before it goes.
        unsafe { WaitSet::admit(set, eq, |eq: &Self| &eq.set) }
    }

    /// Returns whether a thread may sleep here.
    pub(crate) const fn waits(&self) -> bool {
        self.bell.has_fd()
    }

    /// Wakes the threads that sleep here: they look by themselves.
    pub(crate) fn wake_sleepers(&self) {
        self.bell.ring();
    }

    /// Lets an endpoint report here and be driven from here.
    ///
    /// # Errors
    /// As [`QueueEndpoints::add`].
    ///
    /// # Safety
    /// As [`QueueEndpoints::add`]; the endpoint excludes threads.
    pub(crate) unsafe fn join(&self, endpoint: NonNull<dyn Drive>) -> Result<(), Errno> {
        // SAFETY: the caller's contract, passed on.
        unsafe { self.endpoints.add(endpoint, &self.bell) }
    }

    /// Ends what [`Eq::join`] began, and forgets the events of the endpoint whose handle is `fid`.
    pub(crate) fn leave(&self, endpoint: NonNull<dyn Drive>, fid: usize) {
        self.endpoints.remove(endpoint, &self.bell);
        lock(&self.events).forget(fid);
    }

    /// Drops the requests for connections of an endpoint that have not been read for long.
    pub(crate) fn forget_unread(&self, fid: usize, now: Instant) {
        lock(&self.events).forget_unread(fid, now);
    }

    /// Reports what became of a connection.
    pub(crate) fn post_cm(&self, cm: Cm) {
        // A queue that has overrun says so when it is read.
        let _ = lock(&self.events).push_cm(cm);
        self.bell.wake();
    }

    /// Reports that a control operation ended.
    pub(crate) fn post(&self, event: u32, entry: &fi_eq_entry) {
        // SAFETY: an entry is plain data without padding.
        let bytes = unsafe {
            slice::from_raw_parts(
                core::ptr::from_ref(entry).cast::<u8>(),
                size_of::<fi_eq_entry>(),
            )
        };
        // A queue that has overrun says so when it is read.
        let _ = lock(&self.events).push(event, bytes);
        self.bell.wake();
    }

    /// Reports that a control operation failed.
    pub(crate) fn post_failure(&self, failed: EqFailure) {
        let _ = lock(&self.events).push_failure(failed);
        self.bell.wake();
    }

    /// Gets ready for sleep (fi_trywait(3)).
    ///
    /// # Errors
    /// `INVAL` without a file descriptor.
    pub(crate) fn try_sleep(&self) -> Result<bool, Errno> {
        if !self.bell.has_fd() {
            return Err(Errno::INVAL);
        }
        // The descriptor does not tell what deferred work waits for.
        Ok(!self.fabric.has_deferred_work() && self.ready_to_sleep())
    }

    fn ready_to_sleep(&self) -> bool {
        self.endpoints
            .try_sleep(&self.bell, || lock(&self.events).is_empty())
    }

    /// Reads one event; returns its length.
    fn read(&self, event: Option<&mut u32>, into: &mut [u8], flags: u64) -> Result<usize, Errno> {
        if lock(&self.events).asks_for_progress(clock::now) {
            self.endpoints.progress();
            self.fabric.drive_for_deferred_work();
        }
        let mut events = lock(&self.events);
        let length = events.read(event, into, flags & FI_PEEK != 0)?;
        if events.is_empty() {
            // The descriptor says whether something is there, so that it may be polled without fi_trywait.
            self.bell.arm();
        }
        Ok(length)
    }

    fn read_wait(
        &self,
        mut event: Option<&mut u32>,
        into: &mut [u8],
        flags: u64,
        timeout_ms: c_int,
    ) -> Result<usize, Errno> {
        if !self.bell.blocks() {
            return Err(Errno::NOSYS);
        }
        let deadline = Deadline::after_ms(timeout_ms);
        loop {
            match self.read(event.as_deref_mut(), into, flags) {
                Err(Errno::AGAIN) if !deadline.passed() => {}
                read => return read,
            }
            if self.ready_to_sleep() && !self.bell.sleep(deadline.slice(SLICE)) {
                return Err(Errno::AGAIN);
            }
        }
    }

    fn write(&self, event: u32, bytes: &[u8], flags: u64) -> Result<usize, Errno> {
        if !self.writable {
            return Err(Errno::INVAL);
        }
        if flags != 0 {
            return Err(Errno::BADFLAGS);
        }
        lock(&self.events).push(event, bytes)?;
        self.bell.wake();
        Ok(bytes.len())
    }

    /// Takes the error at the front.
    ///
    /// # Safety
    /// `buf` is an error entry.
    unsafe fn read_error(&self, buf: *mut fi_eq_err_entry, flags: u64) -> Result<usize, Errno> {
        let mut events = lock(&self.events);
        let failed = events.read_failure(flags & FI_PEEK != 0)?;
        // SAFETY: the caller's contract.
        unsafe {
            let (err_data, err_data_size) = self.detail(&*buf, &failed.detail);
            *buf = fi_eq_err_entry {
                fid: core::ptr::with_exposed_provenance_mut(failed.fid),
                context: core::ptr::with_exposed_provenance_mut(failed.context),
                data: failed.data,
                err: failed.errno.raw(),
                prov_errno: failed.errno.raw(),
                err_data,
                err_data_size,
            };
        }
        if events.is_empty() {
            self.bell.arm();
        }
        Ok(size_of::<fi_eq_err_entry>())
    }
}

impl Eq {
    /// Hands out the details of an error: in the buffer that the application brought (API 1.5), or in the queue's own,
    /// where they stay until the next error is read, fi_eq(3).
    ///
    /// # Safety
    /// The `err_data` of `buf` has `err_data_size` bytes, if the application's API version has that field.
    unsafe fn detail(&self, buf: &fi_eq_err_entry, detail: &[u8]) -> (*mut c_void, usize) {
        let (data, room) = (buf.err_data, buf.err_data_size);
        if self.fabric.api_version() >= FI_VERSION(1, 5) && room != 0 && !data.is_null() {
            let length = detail.len().min(room);
            // SAFETY: the caller's contract.
            unsafe { core::ptr::copy_nonoverlapping(detail.as_ptr(), data.cast(), length) };
            return (data, length);
        }
        let mut last = lock(&self.last_detail);
        *last = detail.into();
        match last.len() {
            0 => (core::ptr::null_mut(), 0),
            length => (last.as_mut_ptr().cast(), length),
        }
    }
}

pub(crate) use queue::{Cm, Failed as EqFailure, UnreadInfo};

impl Waitable for Eq {
    fn is_quiet(&self) -> bool {
        self.ready_to_sleep()
    }

    fn bell(&self) -> &Doorbell {
        &self.bell
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    control: Some(control),
    ..absent::BASE
};

static OPS: fi_ops_eq = fi_ops_eq {
    read: Some(read),
    readerr: Some(readerr),
    write: Some(write),
    sread: Some(sread),
    strerror: Some(strerror),
    ..fi_ops_eq::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of queues, and the application gives this one up.
    status(unsafe { handle::close::<Eq>(fid) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the table is only in the handles of queues.
    let eq: &Eq = unsafe { object(fid.cast()) };
    // SAFETY: the application passes what the command takes.
    status(unsafe {
        match eq.set.get() {
            Some(set) => set.control(command, arg),
            None => eq.bell.control(command, arg),
        }
    })
}

/// Makes a slice of the application's buffer; a null one has no room.
///
/// # Safety
/// `buf` is null or has `len` bytes that nothing else uses during the call.
unsafe fn bytes_mut<'a>(buf: *mut c_void, len: usize) -> &'a mut [u8] {
    if buf.is_null() || len > isize::MAX as usize {
        return &mut [];
    }
    // SAFETY: the caller's contract.
    unsafe { slice::from_raw_parts_mut(buf.cast(), len) }
}

unsafe extern "C" fn read(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: the table is only in the handles of queues; the buffers are the application's.
    count(unsafe { object::<Eq>(eq).read(event.as_mut(), bytes_mut(buf, len), flags) })
}

unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    // SAFETY: the table is only in the handles of queues; the buffers are the application's.
    count(unsafe {
        object::<Eq>(eq).read_wait(event.as_mut(), bytes_mut(buf, len), flags, timeout)
    })
}

unsafe extern "C" fn readerr(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> isize {
    if buf.is_null() {
        return failed(Errno::INVAL);
    }
    // SAFETY: the table is only in the handles of queues; the entry is the application's.
    count(unsafe { object::<Eq>(eq).read_error(buf, flags) })
}

/// How long an event may be that an application writes: longer than any that it may read with what goes with it.
const LONGEST: usize = 1 << 16;

unsafe extern "C" fn write(
    eq: *mut fid_eq,
    event: u32,
    buf: *const c_void,
    len: usize,
    flags: u64,
) -> isize {
    if buf.is_null() || len > LONGEST {
        return failed(Errno::INVAL);
    }
    // SAFETY: the application passes `len` bytes.
    let bytes = unsafe { slice::from_raw_parts(buf.cast::<u8>(), len) };
    // SAFETY: the table is only in the handles of queues.
    count(unsafe { object::<Eq>(eq) }.write(event, bytes, flags))
}

unsafe extern "C" fn strerror(
    _eq: *mut fid_eq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = strerror_c(prov_errno);
    // SAFETY: the buffer is the application's.
    unsafe { crate::text::hand_out(text, buf, len) }
}
